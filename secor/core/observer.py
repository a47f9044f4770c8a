"""Reports of the core to the outside: counters and events, not decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from secor.core.errors import SecorError
from secor.core.model import OffsetRange, TopicPartition


class Observer(Protocol):
    """Called from the loop and from the upload pool; must not block or raise."""

    def consumed(self, topic_partition: TopicPartition, messages: int, size: int) -> None:
        """``messages`` with ``size`` bytes of keys and values were written to local files."""

    def quarantined(self, topic_partition: TopicPartition, stage: str, messages: int) -> None:
        """``messages`` go into quarantine: the ``stage`` of parsing could not take them."""

    def filtered(self, topic_partition: TopicPartition, messages: int) -> None:
        """``messages`` are left out because the configuration says so."""

    def erased(self, topic_partition: TopicPartition, messages: int) -> None:
        """``messages`` are left out because lists of erased keys name them."""

    def other_events(self, topic_partition: TopicPartition, kind: str, messages: int) -> None:
        """``messages`` of a source's connector change no row and are left out."""

    def undeclared(self, topic_partition: TopicPartition, field: str, values: int) -> None:
        """``values`` of a field are in no column of the table that ``field`` names, too."""

    def infinite_values(self, topic_partition: TopicPartition, values: int) -> None:
        """``values`` of messages are infinite: no column holds them, and they become null."""

    def from_future(self, topic_partition: TopicPartition, messages: int, timestamp: int) -> None:
        """``messages`` have times that are yet to come, ``timestamp`` (ms) is the greatest."""

    def put(self, topic_partition: TopicPartition, size: int, seconds: float) -> None:
        """An object of ``size`` bytes was put."""

    def uploaded(self, topic_partition: TopicPartition, outcome: str, seconds: float) -> None:
        """An upload ended: ``committed``, ``restart``, ``stop`` or ``later``."""

    def committed(
        self,
        topic_partition: TopicPartition,
        batch: OffsetRange,
        objects: int,
        size: int,
        losses: Mapping[str, int],
        seconds: float,
    ) -> None:
        """A batch was committed: ``objects`` of ``size`` bytes, ``seconds`` after its start.

        ``losses`` counts messages as ``FileWriter.losses`` does.
        """

    def ready(self, topic_partition: TopicPartition, seconds: float) -> None:
        """A batch was committed ``seconds`` after the timestamp of its first message."""

    def retried(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """An upload or a positioning is tried again after ``error``."""

    def adopted(self, topic_partition: TopicPartition, objects: int) -> None:
        """Recovery found ``objects`` of the open intent in place."""

    def superseded(self, topic_partition: TopicPartition) -> None:
        """An intent of another configuration was replaced by ours."""

    def waits(self, topic_partition: TopicPartition, seconds: float) -> None:
        """A batch waits, for requests of a superseded configuration to be over."""

    def lost(self, topic_partition: TopicPartition, start: int, end: int) -> None:
        """Retention deleted ``[start, end)`` before it was stored."""

    def schema_grew(
        self, topic: str, version: int, fields: Sequence[str], outvoted: Sequence[str]
    ) -> None:
        """A new version of a topic's kept schema is in the store; ``fields`` are new or wider.

        ``outvoted`` are values of new fields that are in quarantine.
        """

    def died(self, topic_partition: TopicPartition, suspected: OffsetRange) -> None:
        """A process died, or was killed because it stalled, while it parsed these messages."""

    def left_out(self, topic_partition: TopicPartition, offset: int, reason: str) -> None:
        """A message goes to quarantine unparsed: processes died over it, or nobody can write it."""

    def restarted(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Local files were dropped; reading begins again at the ledger's entry."""

    def stopped(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """A topic partition goes no further until the cause is gone."""

    def running(self, topic_partition: TopicPartition) -> None:
        """It was positioned and reads (again)."""

    def left(self, topic_partition: TopicPartition) -> None:
        """It was revoked."""
