"""``[kafka]``, ``[ledger]``: the settings of servers, their security and timeouts."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from secor.config.cluster import KeptCluster
from secor.config.values import (
    MIB,
    BrokerServers,
    Duration,
    Expression,
    Maybe,
    Names,
    Secret,
    Section,
    Size,
    ZooKeeperServers,
    fault,
)

_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_INSTANCE_ID = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TLS_OF_ZOOKEEPER = ("tls_ca", "tls_certfile", "tls_keyfile", "tls_keyfile_password")


class Brokers(Section):
    """A Kafka cluster and how to reach it."""

    bootstrap_servers: BrokerServers = Field(
        description="Brokers to contact first, each with its port.",
        examples=[["kafka-1:9092", "kafka-2:9092"]],
    )
    client_id: str = Field(
        default="secor", description="The name of this client in the brokers' logs and quotas."
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT",
        description="Whether connections are encrypted (SSL) and authenticated (SASL)."
        " docs/security.md has examples, and the rights that the user needs.",
    )
    ssl_check_hostname: bool = Field(
        default=True, description="TLS: whether to check the broker's name against its certificate."
    )
    ssl_cafile: Maybe[str] = Field(
        default=None,
        description='TLS: authorities to trust, in PEM format. "none": the machine\'s.',
        examples=["/etc/secor/ca.pem"],
    )
    ssl_certfile: Maybe[str] = Field(
        default=None,
        description="TLS: a client certificate in PEM format, if brokers want one.",
        examples=["/etc/secor/client.pem"],
    )
    ssl_keyfile: Maybe[str] = Field(
        default=None,
        description="TLS: the key of the client certificate, in PEM format.",
        examples=["/etc/secor/client.key"],
    )
    ssl_password: Maybe[Secret] = Field(
        default=None,
        description="TLS: the password of the client certificate's key.",
        examples=["${KEY_PASSWORD}"],
    )
    ssl_crlfile: Maybe[str] = Field(
        default=None,
        description="TLS: revoked certificates, in PEM format.",
        examples=["/etc/secor/revoked.pem"],
    )
    sasl_mechanism: Maybe[
        Literal["PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    ] = Field(
        default=None,
        description='How to authenticate with security_protocol "SASL_PLAINTEXT" or "SASL_SSL".',
    )
    sasl_plain_username: Maybe[str] = Field(
        default=None, description='SASL "PLAIN" and "SCRAM-...": the user.', examples=["secor"]
    )
    sasl_plain_password: Maybe[Secret] = Field(
        default=None,
        description='SASL "PLAIN" and "SCRAM-...": the password.',
        examples=["${KAFKA_PASSWORD}"],
    )
    sasl_kerberos_name: Maybe[str] = Field(
        default=None,
        description='SASL "GSSAPI": the full name of the broker\'s service, if it does not'
        " follow from the two keys below.",
        examples=["kafka@kafka-1.example.org"],
    )
    sasl_kerberos_service_name: str = Field(
        default="kafka",
        description='SASL "GSSAPI": the service\'s part of the name of the brokers.',
    )
    sasl_kerberos_domain_name: Maybe[str] = Field(
        default=None,
        description='SASL "GSSAPI": the host\'s part of the name of the brokers. "none": the'
        " name of the server in bootstrap_servers.",
        examples=["kafka.example.org"],
    )
    sasl_oauth_token_provider: Maybe[str] = Field(
        default=None,
        description='SASL "OAUTHBEARER": a class of yours, "package.module:Class", whose token()'
        " returns a valid token.",
        examples=["acme.tokens:Provider"],
    )

    def security(self) -> dict[str, object]:
        """Return the ``security_*``, ``ssl_*`` and ``sasl_*`` settings as the client names them.

        Absent ones are left out; secrets are in clear text.
        """
        names = (name for name in type(self).model_fields if name.startswith(("ssl_", "sasl_")))
        values = {name: getattr(self, name) for name in ("security_protocol", *names)}
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in values.items()
            if value is not None
        }

    @model_validator(mode="after")
    def _check_security(self) -> Self:
        if not self.bootstrap_servers:
            raise fault('name one server at least, such as ["kafka-1:9092"]', "bootstrap_servers")
        if self.security_protocol.startswith("SASL_") and self.sasl_mechanism is None:
            raise fault(f"needed with security_protocol {self.security_protocol}", "sasl_mechanism")
        if self.sasl_mechanism is not None and not self.security_protocol.startswith("SASL_"):
            raise fault(
                "needs kafka.security_protocol SASL_PLAINTEXT or SASL_SSL", "sasl_mechanism"
            )
        self._check_credentials()
        if self.security_protocol not in ("SSL", "SASL_SSL"):
            for key in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_crlfile"):
                if getattr(self, key) is not None:
                    raise fault("needs kafka.security_protocol SSL or SASL_SSL", key)
        if self.ssl_keyfile is not None and self.ssl_certfile is None:
            raise fault("the key needs its certificate", "ssl_certfile")
        return self

    def _check_credentials(self) -> None:
        if self.sasl_mechanism in _BY_PASSWORD and self.sasl_plain_username is None:
            raise fault(f"needed with sasl_mechanism {self.sasl_mechanism}", "sasl_plain_username")
        scram = (self.sasl_mechanism or "").startswith("SCRAM")
        if scram and re.search("[,=]", self.sasl_plain_username or ""):
            raise fault("the client cannot send a comma or = in it by SCRAM", "sasl_plain_username")
        key = "sasl_oauth_token_provider"
        if self.sasl_mechanism == "OAUTHBEARER" and self.sasl_oauth_token_provider is None:
            raise fault('OAUTHBEARER needs one: "package.module:Class"', key)
        if self.sasl_mechanism != "OAUTHBEARER" and self.sasl_oauth_token_provider is not None:
            raise fault("needs kafka.sasl_mechanism OAUTHBEARER", key)

    @property
    def losses(self) -> list[str]:
        """Sentences about a password that others may read."""
        exposed = self.security_protocol == "SASL_PLAINTEXT" and self.sasl_mechanism != "GSSAPI"
        return ["kafka: SASL_PLAINTEXT sends credentials and messages unencrypted"] * exposed


class Kafka(KeptCluster, Brokers):
    """``[kafka]``: the brokers and what is read from them."""

    topics: Names = Field(
        default=(),
        description="Topics by name. Give this or kafka.topics_pattern.",
        examples=[["clicks", "orders"]],
    )
    topics_pattern: Maybe[Expression] = Field(
        default=None,
        description="Instead of kafka.topics: all topics whose whole name matches this regular"
        " expression, new ones too.",
        examples=[".*"],
    )
    topics_exclude: Maybe[Expression] = Field(
        default=None,
        description="Topics that kafka.topics_pattern leaves out: those whose whole name matches"
        " this regular expression. A table group leaves out its control topic by itself.",
        examples=["_.*"],
    )
    assignment: Literal["cooperative-sticky", "sticky", "range", "roundrobin"] = Field(
        default="cooperative-sticky",
        description="How the group assigns partitions. All members must use the same.",
    )
    reset: Literal["earliest", "latest", "none"] = Field(
        default="earliest",
        description='Where to begin a partition that has no ledger entry: "earliest", "latest",'
        ' or "none" to stop it.',
    )
    on_data_loss: Literal["continue", "stop"] = Field(
        default="continue",
        description='If retention has removed messages before they were stored: "continue"'
        ' behind the gap (with a metric and an alert), or "stop" the partition.',
    )
    session_timeout: Duration = Field(
        default=45.0, description="The group expels a member that is silent for so long."
    )
    heartbeat_interval: Duration = Field(
        default=3.0,
        description="How often a member reports to the group; at most a third of"
        " kafka.session_timeout.",
    )
    max_poll_interval: Duration = Field(
        default=300.0,
        description="The group expels a member that has not asked for messages for so long.",
    )
    max_partition_fetch_bytes: Size = Field(
        default=MIB,
        description="Bytes of one partition in one answer of a broker. A partition group has a"
        " larger default: a chunk is divided among many files, and larger chunks make fewer"
        " pieces.",
    )
    fetch_max_bytes: Size = Field(
        default=4 * MIB, description="Bytes of all partitions in one answer of a broker."
    )
    queue_bytes: Size = Field(
        default=8 * MIB, description="Most fetched bytes that wait to be decoded."
    )
    max_messages_per_second: Maybe[int] = Field(
        default=None,
        ge=1,
        description="Limit of one process: messages per second on average.",
        examples=[10000],
    )
    max_bytes_per_second: Maybe[Size] = Field(
        default=None,
        description="Limit of one process: bytes of keys and values per second on average.",
        examples=["20MiB"],
    )
    metadata_max_age: Duration = Field(
        default=20.0,
        description="How soon Secor notices new partitions, new topics and recreated topics.",
    )
    client_rack: str = Field(
        default="",
        description="The rack or availability zone of this host. Where brokers have broker.rack"
        " and a replica.selector.class, messages are read from a replica in this rack. Empty:"
        " from the leader.",
        examples=["eu-west-1a"],
    )
    group_instance_id: Maybe[str] = Field(
        default=None,
        description="Static membership: a process that comes back within kafka.session_timeout"
        " keeps its partitions, without a rebalance. Each process needs a name of its own.",
        examples=["${HOSTNAME}"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.topics and self.topics_pattern is not None:
            raise fault("topics are named in kafka.topics already: keep one", "topics_pattern")
        if not self.topics and self.topics_pattern is None:
            raise fault("no topics: name them here, or give kafka.topics_pattern", "topics")
        # As Kafka advises: two lost heartbeats must not expel a member.
        if self.heartbeat_interval * 3 > self.session_timeout:
            raise fault(
                f"must be at most a third of kafka.session_timeout ({self.session_timeout:g} s)",
                "heartbeat_interval",
            )
        instance = self.group_instance_id
        if instance is not None and (
            instance in (".", "..") or not _INSTANCE_ID.fullmatch(instance)
        ):
            raise fault(
                "must be letters, digits, '.', '_' and '-', at most 249 of them",
                "group_instance_id",
            )
        return self


class ZooKeeper(Section):
    """``[ledger.zookeeper]``: the ensemble; ``root`` is the path below ``chroot``."""

    hosts: ZooKeeperServers = Field(
        default=("127.0.0.1:2181",),
        description="Servers of the ensemble. The default port is 2181.",
        examples=[["zk-1:2181", "zk-2:2181", "zk-3:2181"]],
    )
    chroot: str = Field(default="", description='A path to use as "/".', examples=["/secor"])
    root: str = Field(
        default="",
        description="A path below ledger.zookeeper.chroot for the group's nodes.",
        examples=["/production"],
    )
    session_timeout: Duration = Field(
        default=10.0,
        description="A process that is silent for so long loses its session and its locks.",
    )
    username: Maybe[str] = Field(
        default=None,
        description="User for digest authentication, or for SASL if"
        " ledger.zookeeper.sasl_mechanism is set.",
        examples=["secor"],
    )
    password: Maybe[Secret] = Field(
        default=None, description="Password of this user.", examples=["${ZOOKEEPER_PASSWORD}"]
    )
    sasl_mechanism: Maybe[Literal["DIGEST-MD5", "GSSAPI"]] = Field(
        default=None,
        description='"DIGEST-MD5" (with the username and password) or "GSSAPI". Needs pip'
        " install '.[zookeeper-sasl]'.",
    )
    acl: Literal["open", "creator"] = Field(
        default="open",
        description='Who may read and write new nodes: everybody ("open"), or only this user'
        ' ("creator").',
    )
    use_tls: bool = Field(default=False, description="Encrypt connections by TLS.")
    tls_ca: Maybe[str] = Field(
        default=None,
        description='TLS: authorities to trust, in PEM format. "none": the machine\'s.',
        examples=["/etc/secor/ca.pem"],
    )
    tls_certfile: Maybe[str] = Field(
        default=None,
        description="TLS: a client certificate in PEM format.",
        examples=["/etc/secor/client.pem"],
    )
    tls_keyfile: Maybe[str] = Field(
        default=None,
        description="TLS: the key of the client certificate, in PEM format.",
        examples=["/etc/secor/client.key"],
    )
    tls_keyfile_password: Maybe[Secret] = Field(
        default=None, description="TLS: the password of this key.", examples=["${KEY_PASSWORD}"]
    )
    tls_verify: bool = Field(
        default=True, description="TLS: whether to check the server's certificate."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.hosts:
            raise fault('name one server at least, such as ["zk-1:2181"]', "hosts")
        for key in ("chroot", "root"):
            path = getattr(self, key)
            if path and (not path.startswith("/") or path.endswith("/")):
                raise fault('must be empty or a path such as "/secor"', key)
        if (self.username is None) != (self.password is None):
            key = "password" if self.password is None else "username"
            raise fault("username and password belong together: give both or none", key)
        if self.acl == "creator" and self.username is None and self.sasl_mechanism is None:
            raise fault('"creator" needs a username and password, or sasl_mechanism', "acl")
        if self.sasl_mechanism == "DIGEST-MD5" and self.username is None:
            raise fault("DIGEST-MD5 needs a username and password", "sasl_mechanism")
        for key in _TLS_OF_ZOOKEEPER:
            if not self.use_tls and getattr(self, key) is not None:
                raise fault("needs ledger.zookeeper.use_tls = true", key)
        if self.tls_keyfile is not None and self.tls_certfile is None:
            raise fault("the key needs its certificate", "tls_certfile")
        return self

    @property
    def losses(self) -> list[str]:
        """Sentences about a password that others may read, or that protects nothing."""
        if self.username is None:
            return []
        warnings = []
        if not self.use_tls and self.sasl_mechanism is None:
            warnings.append("ledger.zookeeper: the password is sent unencrypted without use_tls")
        if self.acl == "open":
            warnings.append(
                'ledger.zookeeper: acl = "open" lets everybody write the nodes all the same'
            )
        return warnings


class Ledger(Section):
    """``[ledger]``: where committed offsets and intents live."""

    kind: Literal["zookeeper", "kafka"] = Field(
        default="zookeeper",
        description='Where committed offsets and intents are stored: "zookeeper", or "kafka"'
        " (the group's own commits).",
    )
    zookeeper: ZooKeeper = Field(
        default_factory=ZooKeeper,
        description='The ZooKeeper ensemble, where ledger.kind is "zookeeper".',
    )
