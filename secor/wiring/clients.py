"""Connections to store, ledger and broker, as the configuration describes them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from secor.config.servers import Brokers
from secor.config.stores import Cloud
from secor.core.errors import Unavailable
from secor.core.installing import require_package
from secor.core.ports import ObjectStore
from secor.core.retry import retry
from secor.wiring.first_contact import (
    ask_once,
    kafka_server,
    report_while_slow,
    store_server,
    zookeeper_server,
)

FIRST_ATTEMPTS = 5

# Adapters are imported where they are needed: each costs a tenth of a second or more.
if TYPE_CHECKING:
    from secor.adapters.clouds import CloudStore
    from secor.adapters.kafka import KafkaMovableLedger, KafkaOperatorLedger, KafkaReader
    from secor.adapters.kafka.group_admin import GroupAdmin
    from secor.adapters.local import DirectoryStore
    from secor.adapters.s3 import S3Store
    from secor.adapters.zookeeper import ZooKeeperLedger, ZooKeeperMovableLedger
    from secor.archive.repair.relocation import MovableLedger
    from secor.config.model import S3, Azure, Config, Gcs, Store, ZooKeeper


def clear(secret: SecretStr | None) -> str | None:
    """Return a secret's text."""
    return None if secret is None else secret.get_secret_value()


def kafka_options(config: Config) -> dict[str, Any]:
    """Return the options of every Kafka client: servers, name, security.

    Raises ``ConfigurationError`` for a token provider that cannot be made.
    """
    return brokers_options(config.kafka)


def brokers_options(brokers: Brokers) -> dict[str, Any]:
    """Return the options of every client of a cluster, as ``kafka_options`` does."""
    options: dict[str, Any] = {
        "bootstrap_servers": list(brokers.bootstrap_servers),
        "client_id": brokers.client_id,
        **brokers.security(),
    }
    provider = brokers.sasl_oauth_token_provider
    if provider is not None:
        from secor.adapters.kafka import token_provider
        from secor.parsing.plugins import load_plugin

        source = load_plugin(provider, "token", {})
        options["sasl_oauth_token_provider"] = token_provider(source)
    return options


def connect_store(config: Config) -> ObjectStore:
    """Return the store, after a look at it.  Raises ``AccessDenied``, ``Unavailable``."""
    return store_of(config.store, connections=_connections(config))


def _connections(config: Config) -> int:
    return 2 * config.limits.upload_threads + 2


def store_of(described: Store, *, connections: int) -> ObjectStore:
    """Return a store, after a look at it, as ``connect_store`` does."""
    store = make_store(described, connections=connections)
    # A look before the first use: a wrong bucket or a missing right is to be reported now, not
    # after the first batch.
    store.check()
    return store


def reach_store(described: Store, *, connections: int) -> ObjectStore:
    """Return a store for a person's command: one that does not answer is reported soon.

    Raises ``AccessDenied``, ``Unavailable``.
    """
    store = make_store(described, connections=connections)
    ask_once(store_server(described), store.check)
    return store


def make_store(described: Store, *, connections: int) -> S3Store | CloudStore | DirectoryStore:
    """Return a store, which is not looked at yet.  Raises ``ConfigurationError``."""
    if described.kind == "local":
        assert described.local.directory is not None
        from secor.adapters.local import DirectoryStore

        return DirectoryStore(described.local.directory, sha256=described.sha256)
    if described.kind == "gcs":
        return _gcs_store(described.gcs, described.sha256)
    if described.kind == "azure":
        return _azure_store(described.azure, described.sha256)
    return s3_store(described.s3, connections=connections, sha256=described.sha256)


def request_lifetime(config: Config) -> float:
    """Return how many seconds after its sender last proved its lease a request may still land.

    A proof is good for at most a session.  Then the client may try as often and wait as long as
    its options say; only a process that is stopped inside of that takes longer.
    """
    session = (
        config.kafka.session_timeout
        if config.ledger.kind == "kafka"
        else config.ledger.zookeeper.session_timeout
    )
    return session + config.store.chosen.request_lifetime


def s3_store(s3: S3, connections: int, *, sha256: bool = False) -> S3Store:
    """Return a bucket, which is not looked at yet."""
    from secor.adapters.s3 import S3Store

    return S3Store(
        s3.bucket,
        endpoint_url=s3.endpoint_url,
        region=s3.region,
        path_style=s3.path_style,
        access_key=s3.access_key,
        secret_key=clear(s3.secret_key),
        session_token=clear(s3.session_token),
        profile=s3.profile,
        role_arn=s3.role_arn,
        external_id=s3.external_id,
        sse=s3.sse,
        kms_key=s3.kms_key,
        storage_class=s3.storage_class,
        tags=s3.tags,
        acl=s3.acl,
        conditional_puts=s3.conditional_puts,
        part_size=s3.part_size,
        multipart_threshold=s3.multipart_threshold,
        max_attempts=s3.max_attempts,
        connect_timeout=s3.connect_timeout,
        read_timeout=s3.read_timeout,
        proxies=s3.proxies or None,
        verify_tls=s3.verify_tls,
        ca_bundle=s3.ca_bundle,
        pool_size=connections,
        sha256=sha256,
    )


def _gcs_store(gcs: Gcs, sha256: bool) -> CloudStore:
    require_package("obstore", "clouds", 'store.kind = "gcs"')
    from secor.adapters.clouds import gcs_store

    return gcs_store(
        gcs.bucket,
        service_account=gcs.service_account,
        service_account_key=clear(gcs.service_account_key),
        token=clear(gcs.token),
        sha256=sha256,
        **_cloud_options(gcs),
    )


def _azure_store(azure: Azure, sha256: bool) -> CloudStore:
    require_package("obstore", "clouds", 'store.kind = "azure"')
    from secor.adapters.clouds import azure_store

    return azure_store(
        azure.account,
        azure.container,
        account_key=clear(azure.account_key),
        sas_token=clear(azure.sas_token),
        tenant_id=azure.tenant_id,
        client_id=azure.client_id,
        client_secret=clear(azure.client_secret),
        federated_token_file=azure.federated_token_file,
        sha256=sha256,
        **_cloud_options(azure),
    )


def _cloud_options(cloud: Cloud) -> dict[str, Any]:
    return {
        "endpoint_url": cloud.endpoint_url,
        "storage_class": cloud.storage_class,
        "max_attempts": cloud.max_attempts,
        "connect_timeout": cloud.connect_timeout,
        "request_timeout": cloud.request_timeout,
        "proxy": cloud.proxy,
        "verify_tls": cloud.verify_tls,
        "ca_bundle": cloud.ca_bundle,
    }


def zookeeper_ledger(group: str, zookeeper: ZooKeeper) -> ZooKeeperLedger:
    """Connect.  Raises ``Unavailable``, ``AccessDenied``."""
    from secor.adapters.zookeeper import ZooKeeperLedger

    return ZooKeeperLedger(**_zookeeper_options(zookeeper), root=zookeeper.root, group=group)


def _zookeeper_options(zookeeper: ZooKeeper) -> dict[str, Any]:
    return {
        "hosts": ",".join(zookeeper.hosts) + zookeeper.chroot,
        "session_timeout": zookeeper.session_timeout,
        "username": zookeeper.username,
        "password": clear(zookeeper.password),
        "sasl_mechanism": zookeeper.sasl_mechanism,
        "acl": zookeeper.acl,
        "use_tls": zookeeper.use_tls,
        "tls_ca": zookeeper.tls_ca,
        "tls_certfile": zookeeper.tls_certfile,
        "tls_keyfile": zookeeper.tls_keyfile,
        "tls_keyfile_password": clear(zookeeper.tls_keyfile_password),
        "tls_verify": zookeeper.tls_verify,
    }


@contextmanager
def open_store(config: Config) -> Iterator[ObjectStore]:
    """Give the store of a configuration to a person's command."""
    yield reach_store(config.store, connections=_connections(config))


@contextmanager
def open_ledger_for_operator(
    config: Config,
) -> Iterator[ZooKeeperLedger | KafkaOperatorLedger]:
    """Give the ledger for a person's command, which is no member of the group.

    Raises ``LedgerMoved`` where the group's ledger is another one.
    """
    ledger: ZooKeeperLedger | KafkaOperatorLedger
    if config.ledger.kind == "zookeeper":
        zookeeper = config.ledger.zookeeper
        import_module("secor.adapters.zookeeper")  # its time is not the server's
        with report_while_slow(zookeeper_server(zookeeper)):
            ledger = zookeeper_ledger(config.group.name, zookeeper)
    else:
        ledger = _operator_ledger(config)
    with closing(ledger):
        # A command must not write to a ledger that the group has left: what it sets would have no
        # effect, and what it reads would be old.
        _first_answer(ledger.refuse_relocated)
        yield ledger


def _first_answer(ask: Callable[[], object]) -> None:
    """Ask; again for some seconds if a group's coordinator was only just chosen, and says so."""
    retry(ask, (Unavailable,), attempts=FIRST_ATTEMPTS, sleep=time.sleep, rng=random.Random())


@contextmanager
def open_movable_ledger(config: Config) -> Iterator[MovableLedger]:
    """Give the ledger of a configuration for moving it whole, open or closed."""
    movable: ZooKeeperMovableLedger | KafkaMovableLedger
    group = config.group.name
    if config.ledger.kind == "zookeeper":
        zookeeper = config.ledger.zookeeper
        from secor.adapters.zookeeper import Options, ZooKeeperMovableLedger

        with report_while_slow(zookeeper_server(zookeeper)):
            options = Options(**_zookeeper_options(zookeeper))
            movable = ZooKeeperMovableLedger(options, root=zookeeper.root, group=group)
    else:
        from secor.adapters.kafka import KafkaMovableLedger

        with report_while_slow(kafka_server(config.kafka)):
            movable = KafkaMovableLedger(kafka_options(config), group=group)
    with closing(movable):
        _first_answer(movable.record)
        yield movable


@contextmanager
def open_group(config: Config) -> Iterator[KafkaOperatorLedger]:
    """Give what the brokers hold of the group, whatever the ledger is."""
    with closing(_operator_ledger(config)) as group:
        yield group


@contextmanager
def open_groups(config: Config) -> Iterator[GroupAdmin]:
    """Give the consumer groups of the cluster, for a person's command."""
    from secor.adapters.kafka import group_admin

    with report_while_slow(kafka_server(config.kafka)):
        groups = group_admin.GroupAdmin(kafka_options(config))
    with closing(groups):
        yield groups


def _operator_ledger(config: Config) -> KafkaOperatorLedger:
    from secor.adapters.kafka import KafkaOperatorLedger

    with report_while_slow(kafka_server(config.kafka)):
        return KafkaOperatorLedger(kafka_options(config), group=config.group.name)


@contextmanager
def open_reader(config: Config, timeout: float = 30.0) -> Iterator[KafkaReader]:
    """Give a reader of topics, outside of any group; ``timeout`` (seconds) bounds an answer."""
    from secor.adapters.kafka import KafkaReader

    with report_while_slow(kafka_server(config.kafka, timeout)):
        reader = KafkaReader(
            kafka_options(config),
            max_partition_fetch_bytes=config.kafka.max_partition_fetch_bytes,
            timeout=timeout,
        )
    with closing(reader):
        yield reader
