"""A board where the loop leaves its state, for others to read without a lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from secor.consume.partition_status import Status
from secor.core.errors import SecorError, StopPartition
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.service.monitoring.servers import Servers
from secor.service.monitoring.telemetry import snake
from secor.service.startup import Hindrance
from secor.service.status.remedies import remedy

if TYPE_CHECKING:
    from secor.service.monitoring.kept_cluster import KeptClusterBoard
    from secor.service.status.table_board import TableBoard


@dataclass(frozen=True, slots=True)
class About:
    """The constant part of a process; ``settings`` are key, value and source.

    ``decoder`` says what decodes record batches.
    """

    version: str
    group: str
    instance: str
    settings: tuple[tuple[str, str, str], ...]
    decoder: str


@dataclass(frozen=True, slots=True)
class Mishap:
    """The last error: ``time`` in seconds since the epoch, and what to do.

    ``since`` is when errors of its kind began to come, without an upload in between.
    """

    time: float
    since: float
    kind: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Upload:
    """The last commit: ``time`` in seconds since the epoch, the batch's age in seconds."""

    time: float
    age: float


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """The loop's report, all of one moment (``monotonic_time`` in seconds).

    ``ledger_up`` is None until the ledger was asked for the first time.
    """

    monotonic_time: float
    statuses: tuple[Status, ...]
    ledger_up: bool | None


class Board:
    """The last snapshot, and the last upload and error of each topic partition.

    The loop only stores references here, and threads of the pool set single entries; both
    are whole by themselves, so that readers need no lock and nobody waits for them.
    """

    def __init__(
        self,
        clock: Clock,
        about: About,
        tables: TableBoard | None = None,
        servers: Servers | None = None,
        cluster: KeptClusterBoard | None = None,
    ) -> None:
        """Begin with nothing assigned.

        ``tables`` are those of a table group, ``cluster`` what a backup group keeps of its own.
        """
        self._clock = clock
        self._snapshot = StatusSnapshot(clock.monotonic(), (), ledger_up=None)
        self._hindrance: Hindrance | None = None
        self._mishaps: dict[TopicPartition, Mishap] = {}
        self._uploads: dict[TopicPartition, Upload] = {}
        self.about = about
        self.tables = tables
        self.cluster = cluster
        self.servers = Servers(clock) if servers is None else servers
        self.started = clock.now()

    # ---------------------------------------------------------------- the loop

    def show(self, statuses: Sequence[Status], *, ledger_up: bool) -> None:
        """Take a new snapshot; forget what went away."""
        self._hindrance = None
        self._snapshot = StatusSnapshot(self._clock.monotonic(), tuple(statuses), ledger_up)
        assigned = {status.topic_partition for status in statuses}
        for gone in [
            topic_partition
            for topic_partition in list(self._mishaps)
            if topic_partition not in assigned
        ]:
            self._mishaps.pop(gone, None)
        for gone in [
            topic_partition
            for topic_partition in list(self._uploads)
            if topic_partition not in assigned
        ]:
            self._uploads.pop(gone, None)

    def hinder(self, hindrance: Hindrance) -> None:
        """Remember what the start waits for, until there is a snapshot."""
        self._snapshot = StatusSnapshot(self._clock.monotonic(), (), ledger_up=None)
        self._hindrance = hindrance
        self.servers.start_waits_for(hindrance.server, hindrance.error)

    # -------------------------------------------------------------- any thread

    def failed(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Remember an error."""
        kind = error.reason if isinstance(error, StopPartition) else snake(type(error))
        now, known = self._clock.now(), self._mishaps.get(topic_partition)
        upload = self._uploads.get(topic_partition)
        since = now
        if (
            known is not None
            and known.kind == kind
            and (upload is None or upload.time < known.time)
        ):
            since = known.since
        self._mishaps[topic_partition] = Mishap(now, since, kind, str(error), remedy(error))

    def committed(self, topic_partition: TopicPartition, seconds: float) -> None:
        """Remember an upload."""
        self._uploads[topic_partition] = Upload(self._clock.now(), seconds)

    def assigned(self) -> frozenset[TopicPartition]:
        """Return the topic partitions of the last snapshot."""
        return frozenset(status.topic_partition for status in self._snapshot.statuses)

    @property
    def snapshot(self) -> StatusSnapshot:
        """The last one."""
        return self._snapshot

    @property
    def hindrance(self) -> Hindrance | None:
        """The server that the start waits for; None once it has all."""
        return self._hindrance

    def mishap(self, topic_partition: TopicPartition) -> Mishap | None:
        """Return the last error."""
        return self._mishaps.get(topic_partition)

    def upload(self, topic_partition: TopicPartition) -> Upload | None:
        """Return the last upload."""
        return self._uploads.get(topic_partition)

    def now(self) -> tuple[float, float]:
        """Return the wall clock and the monotonic one, in seconds."""
        return self._clock.now(), self._clock.monotonic()
