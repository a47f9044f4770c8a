"""A ledger in memory, in two kinds, shared by several clients (processes).

``zookeeper``: a lock for each entry, held by a client's session, and versions.
``kafka``: a pin for each assigned partition; the last writer wins within it.
Entries stand as the texts that the real ledgers hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Literal, TypeVar

from secor.adapters.ledger_codec import (
    decode_metadata,
    decode_offset,
    encode_metadata,
    encode_offset,
)
from secor.core.errors import LeaseLost, OutcomeUnknown, Refused, Unavailable
from secor.core.model import Entry, Intent, TopicPartition

_decode_metadata = lru_cache(maxsize=1024)(decode_metadata)
"""Simulations look at each entry after every step; most have not changed."""

Kind = Literal["zookeeper", "kafka"]
_T = TypeVar("_T")

Hook = Callable[[str, TopicPartition], None]
"""Called with the name of the call (``read``, ``lease``, ``lease.read``, ``record``,
``commit``, ``release``) and its topic partition; it may raise."""


def nothing(call: str, topic_partition: TopicPartition) -> None:
    """Do nothing: the hook of a ledger without faults."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What stands in the ledger for one topic partition."""

    offset: bytes
    metadata: str
    version: int
    leader_epoch: int | None = None


@dataclass(eq=False, slots=True)
class Right:
    """A lock's node or a pin: the server compares it by identity."""

    client: FakeLedger
    topic_partition: TopicPartition
    busy: bool = False


@dataclass(slots=True)
class LedgerServer:
    """The state behind all clients; ``trust`` is what its leases promise, in seconds."""

    kind: Kind = "zookeeper"
    trust: float = 5.0
    stored: dict[TopicPartition, Stored] = field(default_factory=dict)
    rights: dict[TopicPartition, Right] = field(default_factory=dict)
    history: list[tuple[TopicPartition, Entry]] = field(default_factory=list)
    _versions: count[int] = field(default_factory=count)

    def client(self, name: str, *, before: Hook = nothing, after: Hook = nothing) -> FakeLedger:
        """Connect one process."""
        return FakeLedger(self, name, before, after)

    def assign(self, topic_partitions: Iterable[TopicPartition], client: FakeLedger) -> None:
        """Kafka: pin partitions to a member; whoever had them is fenced from now on."""
        for key in topic_partitions:
            self.rights[key] = client.pins[key] = Right(client, key)

    def revoke(self, topic_partitions: Iterable[TopicPartition], client: FakeLedger) -> None:
        """Kafka: take the client's own pins; it gives them up before its callback returns."""
        for key in topic_partitions:
            pin = client.pins.pop(key, None)
            if pin is not None and self.rights.get(key) is pin:
                del self.rights[key]

    def expire(self, client: FakeLedger, *, told: bool = True) -> None:
        """End the client's session.  ``told`` False: it sleeps, and still believes in it."""
        for key in [key for key, right in self.rights.items() if right.client is client]:
            del self.rights[key]
        if told:
            client.learn()

    def put(
        self,
        topic_partition: TopicPartition,
        offset: bytes,
        intent: Intent | None = None,
        topic_id: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        """Write past all clients, as an operator, Java Secor or an accident does."""
        text = encode_metadata(intent, topic_id)
        self.stored[topic_partition] = Stored(offset, text, next(self._versions), leader_epoch)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Lose an entry."""
        self.stored.pop(topic_partition, None)

    def entry(self, topic_partition: TopicPartition) -> Entry:
        """Return what stands there."""
        stored = self.stored.get(topic_partition)
        if stored is None:
            return Entry(None)
        where = f"the fake ledger's {topic_partition}"
        intent, topic_id = _decode_metadata(stored.metadata, where)
        return Entry(
            decode_offset(stored.offset, where),
            intent,
            topic_id,
            self._seen(stored),
            stored.leader_epoch,
        )

    def _seen(self, stored: Stored) -> object:
        # Kafka has no versions: what is read is all that can be compared.
        return stored.version if self.kind == "zookeeper" else (stored.offset, stored.metadata)

    def seen(self, topic_partition: TopicPartition) -> object:
        """Return what a write compares, readable or not."""
        stored = self.stored.get(topic_partition)
        return None if stored is None else self._seen(stored)

    def write(self, right: Right, before: Entry, after: Entry) -> Entry:
        """Write if the right stands and the entry is as it was read, else change nothing."""
        key = right.topic_partition
        if self.rights.get(key) is not right:
            raise LeaseLost(f"{key}: the lease ended, nothing was written")
        if self.seen(key) != before.version:
            raise Refused(f"{key}: the entry is not as it was read")
        assert after.committed is not None
        offset = encode_offset(after.committed)
        self.put(key, offset, after.intent, after.topic_id, after.leader_epoch)
        written = self.entry(key)
        self.history.append((key, written))
        return written


class FakeLedger:
    """One process's ``OffsetLedger``.

    ``before`` and ``after`` are called around every call that crosses the network, and
    fail it before or after its effect.  ``available`` False makes every call raise
    ``Unavailable``.  A lock held by another is refused at once, whatever the timeout.
    """

    def __init__(self, server: LedgerServer, name: str, before: Hook, after: Hook) -> None:
        self.server = server
        self.name = name
        self.before = before
        self.after = after
        self.available = True
        self.closed = False
        self.pins: dict[TopicPartition, Right] = {}
        self.leases: list[FakeLease] = []
        self.leftovers: list[Right] = []

    def read(self, topic_partition: TopicPartition) -> Entry:
        """Read an entry."""
        return self.cross("read", topic_partition, lambda: self.server.entry(topic_partition))

    def lease(self, topic_partition: TopicPartition, timeout: float) -> FakeLease:
        """Take the lock, or use the pin."""
        take = self._lock if self.server.kind == "zookeeper" else self._pin
        return self.cross("lease", topic_partition, lambda: take(topic_partition))

    def _lock(self, key: TopicPartition) -> FakeLease:
        holder = self.server.rights.get(key)
        if holder is not None:
            raise LeaseLost(f"{key} is held by {holder.client.name}")
        right = self.server.rights[key] = Right(self, key)
        return self._leased(right)

    def _pin(self, key: TopicPartition) -> FakeLease:
        pin = self.pins.get(key)
        if pin is None:
            raise LeaseLost(f"{key} is not assigned to {self.name}")
        if pin.busy:
            raise LeaseLost(f"{key}: another lease of this process is held")
        pin.busy = True
        return self._leased(pin)

    def _leased(self, right: Right) -> FakeLease:
        lease = FakeLease(self, right)
        self.leases.append(lease)
        return lease

    def _sweep(self) -> None:
        """Take away the locks whose release met a server that did not answer."""
        for right in self.leftovers:
            if self.server.rights.get(right.topic_partition) is right:
                del self.server.rights[right.topic_partition]
        self.leftovers.clear()

    def learn(self) -> None:
        """Notice which leases and pins are gone."""
        for lease in list(self.leases):
            if self.server.rights.get(lease.right.topic_partition) is not lease.right:
                lease.ended = True
        rights = self.server.rights
        self.pins = {key: pin for key, pin in self.pins.items() if rights.get(key) is pin}

    def healthy(self) -> bool:
        """Tell whether it answers."""
        return self.available and not self.closed

    def close(self) -> None:
        """End the session with its locks."""
        self.closed = True
        self.server.expire(self)

    def cross(self, call: str, key: TopicPartition, effect: Callable[[], _T]) -> _T:
        """Cross the network with ``effect``, and the faults on both sides of it."""
        self.before(call, key)
        if not self.healthy():
            raise Unavailable(f"the ledger does not answer {self.name}")
        self._sweep()
        result = effect()
        self.after(call, key)
        return result


class FakeLease:
    """One process's lease."""

    def __init__(self, client: FakeLedger, right: Right) -> None:
        self.client = client
        self.right = right
        self.ended = False

    @property
    def trust(self) -> float:
        """The server's promise, in seconds."""
        return self.client.server.trust

    def held(self) -> bool:
        """Tell what the process believes."""
        if self.client.server.kind == "kafka":
            mine = self.client.pins.get(self.right.topic_partition) is self.right
            return mine and not self.ended
        return not self.ended and self.client.healthy()

    def read(self) -> Entry:
        """Read the entry."""
        key = self.right.topic_partition
        return self.client.cross("lease.read", key, lambda: self.client.server.entry(key))

    def record(self, before: Entry, intent: Intent) -> Entry:
        """Set the intent; a first one also sets ``committed`` to its start."""
        committed = intent.start if before.committed is None else before.committed
        after = Entry(committed, intent, before.topic_id, leader_epoch=before.leader_epoch)
        return self._write("record", before, after)

    def commit(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        """Set ``committed`` and take the intent away."""
        after = Entry(next_offset, None, topic_id, leader_epoch=leader_epoch)
        return self._write("commit", before, after)

    def finish(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        """Commit; the lock goes in the same step, a pin stays."""
        after = Entry(next_offset, None, topic_id, leader_epoch=leader_epoch)
        entry = self._write("commit", before, after, last=True)
        self.release()
        return entry

    def overwrite(self, next_offset: int, topic_id: str | None) -> Entry:
        """Set ``committed`` whatever stands there."""
        standing = Entry(None, version=self.client.server.seen(self.right.topic_partition))
        return self._write("commit", standing, Entry(next_offset, None, topic_id))

    def _write(self, call: str, before: Entry, after: Entry, *, last: bool = False) -> Entry:
        key, server = self.right.topic_partition, self.client.server
        if self.ended:
            raise LeaseLost(f"{key}: the lease ended, nothing was written")

        def write() -> Entry:
            entry = server.write(self.right, before, after)
            if last and server.kind == "zookeeper":
                del server.rights[key]
            return entry

        return self.client.cross(call, key, write)

    def release(self) -> None:
        """Give the lock back; a server that does not answer keeps it until the session ends."""
        key = self.right.topic_partition
        if self.ended:
            return
        self.ended = True
        self.right.busy = False
        self.client.leases.remove(self)
        if self.client.server.kind == "zookeeper":
            self.client.leftovers.append(self.right)
        with suppress(Unavailable, OutcomeUnknown):
            self.client.cross("release", key, lambda: None)
