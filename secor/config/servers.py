"""``[kafka]``, ``[ledger]``: the settings of servers, their security and timeouts."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

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

    bootstrap_servers: BrokerServers = Field(examples=[["kafka-1:9092", "kafka-2:9092"]])
    client_id: str = "secor"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_check_hostname: bool = True
    ssl_cafile: Maybe[str] = None
    ssl_certfile: Maybe[str] = None
    ssl_keyfile: Maybe[str] = None
    ssl_password: Maybe[Secret] = None
    ssl_crlfile: Maybe[str] = None
    sasl_mechanism: Maybe[
        Literal["PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    ] = None
    sasl_plain_username: Maybe[str] = None
    sasl_plain_password: Maybe[Secret] = None
    sasl_kerberos_name: Maybe[str] = None
    sasl_kerberos_service_name: str = "kafka"
    sasl_kerberos_domain_name: Maybe[str] = None
    sasl_oauth_token_provider: Maybe[str] = None

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


class Kafka(Brokers):
    """``[kafka]``: the brokers and what is read from them."""

    topics: Names = ()
    topics_pattern: Maybe[Expression] = Field(default=None, examples=[".*"])
    topics_exclude: Maybe[Expression] = None
    assignment: Literal["cooperative-sticky", "sticky", "range", "roundrobin"] = (
        "cooperative-sticky"
    )
    reset: Literal["earliest", "latest", "none"] = "earliest"
    on_data_loss: Literal["continue", "stop"] = "continue"
    session_timeout: Duration = 45.0
    heartbeat_interval: Duration = 3.0
    max_poll_interval: Duration = 300.0
    max_partition_fetch_bytes: Size = MIB
    fetch_max_bytes: Size = 4 * MIB
    queue_bytes: Size = 8 * MIB
    max_messages_per_second: Maybe[int] = Field(default=None, ge=1)
    max_bytes_per_second: Maybe[Size] = None
    metadata_max_age: Duration = 20.0
    client_rack: str = ""
    group_instance_id: Maybe[str] = Field(default=None, examples=["${HOSTNAME}"])

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.topics and self.topics_pattern is not None:
            raise fault("topics are named in kafka.topics already: keep one", "topics_pattern")
        if not self.topics and self.topics_pattern is None:
            raise fault("no topics: name them here, or give kafka.topics_pattern", "topics")
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

    hosts: ZooKeeperServers = ("127.0.0.1:2181",)
    chroot: str = ""
    root: str = ""
    session_timeout: Duration = 10.0
    username: Maybe[str] = None
    password: Maybe[Secret] = None
    sasl_mechanism: Maybe[Literal["DIGEST-MD5", "GSSAPI"]] = None
    acl: Literal["open", "creator"] = "open"
    use_tls: bool = False
    tls_ca: Maybe[str] = None
    tls_certfile: Maybe[str] = None
    tls_keyfile: Maybe[str] = None
    tls_keyfile_password: Maybe[Secret] = None
    tls_verify: bool = True

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

    kind: Literal["zookeeper", "kafka"] = "zookeeper"
    zookeeper: ZooKeeper = Field(default_factory=ZooKeeper)
