"""The ledger in Kafka alone: the group's committed offset, with the intent in its metadata.

The broker gives a fenced register, not a compare-and-set.  The lease is the membership
pinned when the partition was assigned; within a pin there is one writer, so reading,
comparing and writing is a compare-and-set (DESIGN: "Ledger in Kafka alone").
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from secor.adapters.kafka.client import Abandoned, Client
from secor.adapters.kafka.commits import (
    Fenced,
    Raw,
    check_metadata,
    commit_one,
    decoded,
    fetch_all,
    fetch_members,
    fetch_one,
    relocation_of,
)
from secor.adapters.kafka.insides import member_id
from secor.adapters.kafka.membership import Pin
from secor.adapters.kafka.source import KafkaSource
from secor.adapters.ledger_codec import encode_metadata
from secor.core.errors import LeaseLost, OutcomeUnknown, Refused, Unavailable
from secor.core.model import Entry, Intent, TopicPartition
from secor.core.relocation import refusal

NAME = "Kafka"
"""This ledger, for people."""

_STEP = 0.02
_SETTLE = 1.0
"""Seconds that a read waits after a lost answer: a request of a closed connection may still
be in the broker's queue."""


class GroupEntries:
    """Reads and writes of one group's entries through one client."""

    def __init__(self, client: Client, group: str, timeout: float) -> None:
        self.client = client
        self.group = group
        self.timeout = timeout
        self.answers = True

    def read(self, topic_partition: TopicPartition, pin: Pin | None = None) -> Entry:
        """Read an entry, perhaps under a pin.  Raises ``LedgerMoved`` for a closed one."""
        kept = decoded(topic_partition, self.raw(topic_partition, pin))
        if kept.relocation is not None:
            raise refusal(self.group, NAME, kept.relocation)
        return kept.entry

    def refuse_relocated(self) -> None:
        """Raise ``LedgerMoved`` if an entry says that the ledger was moved, or is being moved."""
        relocation = relocation_of(self.entries())
        if relocation is not None:
            raise refusal(self.group, NAME, relocation)

    def raw(self, topic_partition: TopicPartition, pin: Pin | None = None) -> Raw | None:
        """Read an entry as the broker keeps it."""
        what = f"the entry of {topic_partition}"
        raw_entry: Raw | None = self._call(self._read, topic_partition, pin, what=what)
        return raw_entry

    def entries(self) -> dict[TopicPartition, Raw]:
        """Read all entries as the broker keeps them."""
        raw_entries: dict[TopicPartition, Raw] = self._call(
            fetch_all, self.client, self.group, self.timeout, what=f"the group {self.group}"
        )
        return raw_entries

    def members(self) -> list[str]:
        """Return the client ids and addresses of the group's members."""
        member_ids: list[str] = self._call(
            fetch_members, self.client, self.group, self.timeout, what=f"the group {self.group}"
        )
        return member_ids

    def write(self, topic_partition: TopicPartition, before: Entry, raw: Raw, pin: Pin) -> None:
        """Compare and set.  ``OutcomeUnknown`` also when the thread itself does not answer."""
        deadline = time.monotonic() + self.timeout
        what = f"committing {topic_partition}"
        try:
            self._call(self._write, topic_partition, before, raw, pin, deadline, what=what)
        except (OutcomeUnknown, Abandoned) as error:
            # A request without an answer may still be carried out: the next read waits until it
            # must have been, or it would return an entry that changes behind it.
            pin.settles_at = time.monotonic() + _SETTLE
            raise OutcomeUnknown(str(error)) from error

    def _call(self, coroutine: Any, *args: Any, what: str) -> Any:
        # The coroutines bound themselves, by less than this.
        limit = 4 * self.timeout + _SETTLE + 5
        try:
            value = self.client.call(coroutine, *args, timeout=limit, what=what)
        except Unavailable:
            self.answers = False
            raise
        self.answers = True
        return value

    async def _read(self, topic_partition: TopicPartition, pin: Pin | None) -> Raw | None:
        if pin is not None:
            await self.client.net.sleep(max(0.0, pin.settles_at - time.monotonic()))
            if not pin.alive:
                raise LeaseLost(f"{topic_partition} was revoked")
        return await fetch_one(self.client, self.group, topic_partition, self.timeout)

    async def _write(
        self, topic_partition: TopicPartition, before: Entry, raw: Raw, pin: Pin, deadline: float
    ) -> None:
        while True:
            raw_entry = await self._read(topic_partition, pin)
            # Within one pin there is one writer, so to read, compare and write is a
            # compare-and-set: Kafka itself has none, it takes the last write of a member.
            if raw_entry != before.version:
                raise Refused(
                    f"{topic_partition}: the entry is {raw_entry}, not {before.version} as it was"
                    " read"
                )
            if time.monotonic() >= deadline:
                raise Unavailable(f"{topic_partition}: Kafka was too slow; nothing was written")
            # Noted before the request: a rebalance that ends while it is under way has renewed the
            # pin by the time it is refused.
            generation = pin.generation
            try:
                await commit_one(self.client, self.group, topic_partition, raw, pin, self.timeout)
            except Fenced:
                # A rebalance that leaves us the partition renews the pin.
                await self._renewed(topic_partition, pin, generation, deadline)
            else:
                return

    async def _renewed(
        self, topic_partition: TopicPartition, pin: Pin, generation: int, deadline: float
    ) -> None:
        if generation < 0:
            raise LeaseLost(
                f"{topic_partition}: the group {self.group} has running members; stop them first"
            )
        while pin.alive and pin.generation == generation:
            if member_id(self.client.coordinator) != pin.member:
                raise LeaseLost(f"{topic_partition}: this member was expelled from the group")
            if time.monotonic() >= deadline:
                raise Unavailable(f"{topic_partition}: the group is rebalancing; nothing written")
            await self.client.net.sleep(_STEP)
        if not pin.alive:
            raise LeaseLost(f"{topic_partition} was revoked")


class KafkaLedger:
    """An ``OffsetLedger`` in the group of ``source``, whose membership is the lease.

    ``timeout`` is in seconds, for one request.
    """

    def __init__(self, source: KafkaSource, *, group: str, timeout: float = 10.0) -> None:
        self._source = source
        self._group = GroupEntries(source.client, group, timeout)
        self._looked_at = -1

    def read(self, topic_partition: TopicPartition) -> Entry:
        """Read an entry.  Raises ``Unavailable``, ``LedgerCorrupt``, ``LedgerMoved``."""
        # Nobody can move a ledger while this process is a member of the group.  So one look after
        # each rebalance is enough, and it sees what a single entry, or a missing one, cannot say.
        rebalances = self._source.membership.rebalances
        if self._looked_at != rebalances:
            self._group.refuse_relocated()
            self._looked_at = rebalances
        return self._group.read(topic_partition)

    def lease(self, topic_partition: TopicPartition, timeout: float) -> KafkaLease:
        """Take the lease of an assigned partition.

        Raises ``LeaseLost`` at once for one that is not assigned, and after ``timeout``
        seconds while another lease of this process is held.
        """
        pin = self._source.membership.pins.get(topic_partition)
        if pin is None:
            raise LeaseLost(f"{topic_partition} is not assigned to this member")
        return KafkaLease(
            self._group,
            topic_partition,
            pin,
            timeout=timeout,
            trust=self._source.session_timeout / 2,
            expelled=lambda: not self._source.membership.current(pin),
        )

    def healthy(self) -> bool:
        """Return whether the last request was answered."""
        return self._group.answers

    def close(self) -> None:
        """Answer no more; the connection is the source's, and stays."""
        self._group.answers = False


class KafkaLease:
    """The right to write one entry while the pin lives."""

    def __init__(
        self,
        group: GroupEntries,
        topic_partition: TopicPartition,
        pin: Pin,
        *,
        timeout: float,
        trust: float,
        expelled: Any,
    ) -> None:
        if not pin.writing.acquire(timeout=max(0.0, timeout)):
            raise LeaseLost(f"{topic_partition}: another lease of this process is held")
        self._group = group
        self._topic_partition = topic_partition
        self._pin = pin
        self._trust = trust
        self._expelled = expelled
        self._given_back = False

    @property
    def trust(self) -> float:
        """Half the session: a member that wrote at ``t`` is not expelled before."""
        return self._trust

    def held(self) -> bool:
        """Return whether the partition is still ours, as far as is known here."""
        return not self._given_back and self._pin.alive and not self._expelled()

    def read(self) -> Entry:
        """Read the entry.  Raises ``LeaseLost``, ``Unavailable``, ``LedgerCorrupt``."""
        self._check()
        return self._group.read(self._topic_partition, self._pin)

    def record(self, before: Entry, intent: Intent) -> Entry:
        """Set the intent; a first one also sets ``committed`` to its start."""
        # A group's offset and its metadata are one record: there is no intent without an offset.
        committed = intent.start if before.committed is None else before.committed
        return self._write(before, committed, intent, before.topic_id, before.leader_epoch)

    def commit(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        """Set ``committed`` and take the intent away."""
        return self._write(before, next_offset, None, topic_id, leader_epoch)

    def finish(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        """Do as ``commit``, then give the lease back."""
        entry = self.commit(before, next_offset, topic_id, leader_epoch)
        self.release()
        return entry

    def overwrite(self, next_offset: int, topic_id: str | None) -> Entry:
        """Set ``committed`` over any value, readable or not."""
        self._check()
        recorded = self._group.raw(self._topic_partition, self._pin)
        return self._write(Entry(None, version=recorded), next_offset, None, topic_id, None)

    def release(self) -> None:
        """Give it back; the membership stays."""
        if not self._given_back:
            self._given_back = True
            self._pin.writing.release()

    def _check(self) -> None:
        if not self.held():
            raise LeaseLost(f"{self._topic_partition}: the lease ended")

    def _write(
        self,
        before: Entry,
        committed: int,
        intent: Intent | None,
        topic_id: str | None,
        leader_epoch: int | None,
    ) -> Entry:
        self._check()
        epoch = -1 if leader_epoch is None else leader_epoch
        raw = Raw(committed, encode_metadata(intent, topic_id), epoch)
        # Before it is sent: this error says which setting of the brokers to raise.
        check_metadata(self._topic_partition, raw.metadata)
        self._group.write(self._topic_partition, before, raw, self._pin)
        return Entry(committed, intent, topic_id, version=raw, leader_epoch=leader_epoch)


class KafkaOperatorLedger:
    """The same entries for a person's commands: writes only while the group is empty.

    ``options`` are kafka-python's.  Raises ``Unavailable``, ``AccessDenied``.
    """

    def __init__(self, options: Mapping[str, Any], *, group: str, timeout: float = 30.0) -> None:
        self._client = Client(options, timeout=timeout, group_id=group)
        self._group = GroupEntries(self._client, group, timeout)
        self._pins: dict[TopicPartition, Pin] = {}

    def read(self, topic_partition: TopicPartition) -> Entry:
        """Read an entry.  Raises ``Unavailable``, ``LedgerCorrupt``."""
        return self._group.read(topic_partition)

    def refuse_relocated(self) -> None:
        """Raise ``LedgerMoved`` if it is no longer the group's ledger, or not yet."""
        self._group.refuse_relocated()

    def members(self) -> list[str]:
        """Return the client ids and addresses of the processes that are in the group now."""
        return self._group.members()

    def entries(self) -> dict[TopicPartition, Entry]:
        """Read all entries of the group.  Raises ``Unavailable``, ``LedgerCorrupt``."""
        return {key: decoded(key, raw).entry for key, raw in sorted(self._group.entries().items())}

    def lease(self, topic_partition: TopicPartition, timeout: float) -> KafkaLease:
        """Take it; a write raises ``LeaseLost`` when the group has running members."""
        pin = self._pins.setdefault(topic_partition, Pin(-1, ""))
        return KafkaLease(
            self._group, topic_partition, pin, timeout=timeout, trust=0.0, expelled=lambda: False
        )

    def healthy(self) -> bool:
        """Return whether the last request was answered."""
        return self._group.answers

    def close(self) -> None:
        """End the connection."""
        self._group.answers = False
        self._client.close()
