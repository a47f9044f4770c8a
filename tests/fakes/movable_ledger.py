"""A ledger in memory that can be moved; each call that crosses the network can crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from secor.core.errors import LedgerMoved, Refused
from secor.core.model import Entry, TopicPartition
from secor.core.relocation import Direction, KeptEntry, LedgerPlace, Relocation, refusal


class Crash(BaseException):
    """The end of the process that moves."""


@dataclass
class FakeMovableLedger:
    """``kind`` as the real ones: ZooKeeper has a record of its own, in Kafka the entries are it.

    ``before`` is called with the name of each call that writes, ``after`` when it took effect.
    """

    kind: Literal["zookeeper", "kafka"]
    id: str
    entries: dict[TopicPartition, KeptEntry] = field(default_factory=dict)
    own_record: Relocation | None = None
    before: Callable[[str], None] = lambda _: None
    after: Callable[[str], None] = lambda _: None
    running: list[str] = field(default_factory=list)
    versions: int = 0

    @property
    def needs_topics(self) -> bool:
        return self.kind == "kafka"

    def place(self) -> LedgerPlace:
        return LedgerPlace(f"{self.kind} {self.id}", self.id)

    identify = place

    def users(self) -> list[str]:
        return self.running

    def record(self) -> Relocation | None:
        if self.kind == "zookeeper":
            return self.own_record
        records = [kept.relocation for kept in self.entries.values() if kept.relocation]
        receiving = [it for it in records if it.direction is Direction.RECEIVING_FROM]
        return next(iter(receiving or records), None)

    def write_record(self, relocation: Relocation | None) -> None:
        if self.kind == "zookeeper":
            self.before("record")
            self.own_record = relocation
            self.after("record")

    def kept(self) -> dict[TopicPartition, KeptEntry]:
        return dict(sorted(self.entries.items()))

    def check(
        self, topic_partition: TopicPartition, entry: Entry, relocation: Relocation | None
    ) -> None:
        """Accept it."""

    def keep(
        self,
        topic_partition: TopicPartition,
        before: KeptEntry | None,
        entry: Entry,
        relocation: Relocation | None,
    ) -> None:
        self.before("entry")
        standing = self.entries.get(topic_partition)
        if (standing and standing.version) != (before and before.version):
            raise Refused(f"{topic_partition}: not as it was read")
        self.put(topic_partition, entry, relocation)
        self.after("entry")

    def put(
        self, topic_partition: TopicPartition, entry: Entry, relocation: Relocation | None = None
    ) -> None:
        """Write past everything."""
        self.versions += 1
        self.entries[topic_partition] = KeptEntry(entry, relocation, self.versions)

    def close(self) -> None:
        """End the connection."""

    def daemon_reads(self, topic_partition: TopicPartition) -> Entry:
        """Read as a process does that is started with this ledger.  Raises ``LedgerMoved``."""
        record = self.record()
        if record is not None:
            raise refusal("g", self.kind, record)
        kept = self.entries.get(topic_partition)
        if kept is None:
            return Entry(None)
        assert kept.relocation is None, "closed although the ledger is open"
        return kept.entry

    def is_open(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a process of this version is let in."""
        try:
            self.daemon_reads(topic_partition)
        except LedgerMoved:
            return False
        return True

    def earlier_version_reads(self, topic_partition: TopicPartition) -> int | None:
        """Return what Java Secor or an earlier version begins at; None where it refuses."""
        kept = self.entries.get(topic_partition)
        return None if kept is None or kept.relocation is not None else kept.entry.committed
