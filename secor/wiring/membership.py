"""The daemon's place in the group: the source, and the ledger that belongs to it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from secor.adapters.kafka import KafkaLedger, KafkaSource
from secor.adapters.kafka.agreement import Uses
from secor.config.model import Config
from secor.config.stores import LocalStore
from secor.core.model import TopicPartition
from secor.core.ports import OffsetLedger
from secor.service.monitoring.servers import BROKERS, ZOOKEEPER
from secor.service.startup import Doing
from secor.wire import PARSED_PASS_BYTES, PASS_BYTES
from secor.wiring.clients import kafka_options, zookeeper_ledger

Stalled = Callable[[TopicPartition, int, int, float, str], None]
"""Called when a fetch restarts: partition, from and to offset, seconds, and reason."""

_OWN_SERVERS = (*(".amazonaws.com", ".amazonaws.com.cn", ".googleapis.com", ".core.windows.net"),)
"""Endings of hosts at which a bucket's name is the only one of its kind."""

RELEASE_WAIT = 30.0
"""Most seconds that a revocation waits for uploads in work."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Both sides of it; closed together, the source first, so that leases end in order."""

    source: KafkaSource
    ledger: OffsetLedger


@contextmanager
def join(config: Config, ask: Doing, stalled: Stalled | None = None) -> Iterator[Membership]:
    """Connect ledger and broker and join the group; ``ask`` gets each server's name first.

    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
    """
    if config.ledger.kind == "kafka":
        ask(BROKERS)
        with closing(_source(config, stalled)) as source:
            # It looks for a record of a move when it reads first: only members are safe from one.
            yield Membership(source, KafkaLedger(source, group=config.group.name))
        return
    ask(ZOOKEEPER)
    with closing(zookeeper_ledger(config.group.name, config.ledger.zookeeper)) as ledger:
        # What is refused from the start is a mistake: report it before anything is read.
        ledger.check()
        ask(BROKERS)
        # The source inside, so closed first: it leaves the group and releases the leases while the
        # ledger's session is still there.
        with closing(_source(config, stalled, ledger.id)) as source:
            yield Membership(source, ledger)


def _source(config: Config, stalled: Stalled | None, ledger_id: str | None = None) -> KafkaSource:
    kafka = config.kafka
    return KafkaSource(
        kafka_options(config),
        group=config.group.name,
        topics=kafka.topics,
        pattern=kafka.topics_pattern,
        exclude=kafka.topics_exclude,
        assignment=kafka.assignment,
        session_timeout=kafka.session_timeout,
        heartbeat_interval=kafka.heartbeat_interval,
        max_poll_interval=kafka.max_poll_interval,
        max_partition_fetch_bytes=kafka.max_partition_fetch_bytes,
        fetch_max_bytes=kafka.fetch_max_bytes,
        queue_bytes=kafka.queue_bytes,
        max_uncompressed=config.limits.largest_record_batch,
        pass_bytes=PASS_BYTES if config.group.kind == "backup" else PARSED_PASS_BYTES,
        metadata_max_age=kafka.metadata_max_age,
        client_rack=kafka.client_rack,
        group_instance_id=kafka.group_instance_id,
        release_wait=RELEASE_WAIT if _waits_for_release(config) else 0.0,
        stalled=stalled,
        uses=uses_of(config, ledger_id),
    )


def uses_of(config: Config, ledger_id: str | None = None) -> Uses:
    """Return what the members of a group must not differ in, and what is only worth a warning.

    ``ledger_id`` is the id that a ledger in ZooKeeper keeps.  Rights do not count, and the way to
    a store is worth a warning: an endpoint may be another name of the same servers.
    """
    ledger, servers = "kafka", tuple[str, ...]()
    if config.ledger.kind == "zookeeper":
        zookeeper = config.ledger.zookeeper
        path = "/".join(part for part in f"{zookeeper.chroot}/{zookeeper.root}".split("/") if part)
        ledger, servers = f"zookeeper at /{path}", tuple(zookeeper.hosts)
    output = config.output
    objects = f"{output.format} ({output.codec}) below {output.prefix}"
    if config.group.kind == "table":
        objects = f"tables below {output.prefix}"
    return Uses(
        process=f"{socket.gethostname()}-{os.getpid()}",
        ledger=ledger,
        servers=servers,
        store=store_of(config),
        objects=objects,
        ledger_id=ledger_id,
        address=address_of(config),
    )


def store_of(config: Config) -> str:
    """Return the kind of the store, and its bucket or directory."""
    store = config.store
    local = store.local.directory if store.kind == "local" else None
    return f"{store.kind}://{store.place if local is None else local.absolute()}"


def address_of(config: Config) -> str:
    """Return where the store is reached, in one form; empty for a cloud's own servers.

    There the name of a bucket is enough, whatever the region and the kind of endpoint.
    """
    section = config.store.chosen
    url = None if isinstance(section, LocalStore) else section.endpoint_url
    if url is None:
        return ""
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port
    if host.endswith(_OWN_SERVERS):
        return ""
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{host}:{port}" if port not in (None, usual) else host


def _waits_for_release(config: Config) -> bool:
    """In a Kafka ledger always: a pin is no lock that a commit in work could keep.

    A put or a deletion that is in flight when the next owner begins does no harm unless
    that one makes other objects of the range (another configuration, a compacted log).
    """
    if config.ledger.kind == "kafka":
        return True
    # Elsewhere the lock in ZooKeeper is kept until a commit in work has ended, so there is nothing
    # to wait for unless open batches are uploaded.
    rules = [config.policy, *(rule.policy for rule in config.topics)]
    return any(policy.upload_on_revoke for policy in rules)
