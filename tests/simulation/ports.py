"""The fakes as a simulated process sees them: every call gives way, and may fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from secor.batch.local_file import LocalFile
from secor.batch.workspace import Workspace
from secor.core.errors import (
    AlreadyExists,
    DiskFull,
    LeaseLost,
    OutcomeUnknown,
    SecorError,
    Unavailable,
)
from secor.core.model import Entry, OffsetRange, TopicPartition
from secor.core.ports import Lease
from tests.fakes.ledger import FakeLedger
from tests.fakes.observer import SilentObserver
from tests.fakes.store import FakeStore, Hook
from tests.simulation.scheduler import Host, Hub


class Late(BaseException):
    """Raised before a put or a deletion: it lands ``seconds`` later, with nobody waiting."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class SimulatedStore(FakeStore):
    """A view of the shared store; a put or a deletion may land after its sender has given up."""

    def __init__(self, hub: Hub, shared: FakeStore, wire: Path, before: Hook, after: Hook) -> None:
        """``wire`` is a directory that keeps the bodies of requests in flight."""
        super().__init__(
            before=before,
            after=after,
            now=shared.now,
            audit=shared.audit,
            objects=shared.objects,
        )
        self._hub = hub
        self._shared = shared
        self._wire = wire

    def put(
        self, key: str, content: Path | bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        try:
            super().put(key, content, crc32c, metadata)
        except Late as late:
            body = self._in_flight(content)
            what = dict(metadata)
            self._hub.at(self._hub.now + late.seconds, lambda: self._land(key, body, crc32c, what))
            raise OutcomeUnknown(f"{key}: no answer") from late

    def delete(self, key: str) -> None:
        try:
            super().delete(key)
        except Late as late:
            self._hub.at(self._hub.now + late.seconds, lambda: self._take_away(key))
            raise Unavailable(f"{key}: no answer") from late

    def _take_away(self, key: str) -> None:
        """A deletion arrives that nobody waits for any more."""
        self._hub.tell(f"late deletion of {key}")
        self._shared.delete(key)

    def _in_flight(self, content: Path | bytes) -> Path | bytes:
        """Keep what is on its way, whatever becomes of the sender's file."""
        if isinstance(content, bytes):
            return content
        body = self._wire / f"{content.parent.name}-{content.name}-{self._hub.steps}"
        os.link(content, body)
        return body

    def _land(self, key: str, body: Path | bytes, crc32c: int, metadata: Mapping[str, str]) -> None:
        """A put arrives that nobody waits for any more."""
        self._hub.tell(f"late put {key}")
        with suppress(AlreadyExists):
            self._shared.put(key, body, crc32c, metadata)
        if isinstance(body, Path):
            body.unlink()


class PatientLedger:
    """A ``FakeLedger`` whose locks are waited for."""

    def __init__(self, inner: FakeLedger, hub: Hub) -> None:
        self._inner = inner
        self._hub = hub

    def read(self, topic_partition: TopicPartition) -> Entry:
        """Read an entry."""
        return self._inner.read(topic_partition)

    def lease(self, topic_partition: TopicPartition, timeout: float) -> Lease:
        """Take the lock, or the pin's own lock; wait for it."""
        deadline = self._hub.now + timeout
        while True:
            try:
                return self._inner.lease(topic_partition, 0.0)
            except LeaseLost:
                if self._hub.now >= deadline or not self._may_come(topic_partition):
                    raise
            left = deadline - self._hub.now
            self._hub.wait(lambda: self._free(topic_partition), left)

    def _may_come(self, key: TopicPartition) -> bool:
        return self._inner.server.kind == "zookeeper" or key in self._inner.pins

    def _free(self, key: TopicPartition) -> bool:
        if self._inner.server.kind == "zookeeper":
            return key not in self._inner.server.rights
        pin = self._inner.pins.get(key)
        return pin is None or not pin.busy

    def healthy(self) -> bool:
        """Tell whether it answers."""
        return self._inner.healthy()

    def close(self) -> None:
        """End the session."""
        self._inner.close()


class SimulatedClock:
    """The hub's time; the wall clock of a machine may be off by ``skew``."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.skew = 0.0

    def now(self) -> float:
        """Wall clock."""
        return self._hub.now + self.skew

    def monotonic(self) -> float:
        """Never back."""
        return self._hub.now

    def sleep(self, seconds: float) -> None:
        """Let others run."""
        self._hub.sleep(seconds)


class SimulatedExecutor:
    """Each task is a greenlet of the process."""

    def __init__(self, hub: Hub, host: Host) -> None:
        self._hub = hub
        self._host = host
        self._results: list[object] = []

    def submit(self, task: Callable[[], object]) -> None:
        """Begin it."""

        def run() -> None:
            result = task()
            self._results.append(result)

        self._hub.spawn(self._host, "work", run)

    def finished(self) -> Sequence[object]:
        """Return what has ended since the last call."""
        results, self._results = self._results, []
        return results


class SimulatedWorkspace(Workspace):
    """A disk that may be full, and a process whose descriptors the system closes."""

    full = False

    def descriptor(self, file: LocalFile) -> int:
        """Fail as ``os.open`` would."""
        if self.full:
            raise DiskFull(f"{file.path}: {os.strerror(errno.ENOSPC)}; free some room")
        return super().descriptor(file)

    def abandon(self) -> None:
        """What the system does for a process that was killed: the files stay."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        os.close(self._lock)

    @property
    def files(self) -> list[Path]:
        """What stands in the directory."""
        return [path for path in self.directory.iterdir() if path.name != ".lock"]


class TracingObserver(SilentObserver):
    """Writes what the core tells into the trace."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.lost_ranges: list[tuple[TopicPartition, int, int]] = []
        self.counts: dict[str, int] = {}

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def adopted(self, topic_partition: TopicPartition, objects: int) -> None:
        """Into the trace."""
        self._count("adopted")
        self._tell(f"adopted {objects} of {topic_partition}")

    def died(self, topic_partition: TopicPartition, suspected: OffsetRange) -> None:
        """Into the trace."""
        self._tell(f"died over {suspected} of {topic_partition}")

    def left_out(self, topic_partition: TopicPartition, offset: int, reason: str) -> None:
        """Into the trace."""
        self._tell(f"leaves out {offset} of {topic_partition}")

    def schema_grew(
        self, topic: str, version: int, fields: Sequence[str], outvoted: Sequence[str]
    ) -> None:
        """Into the trace."""
        self._count("schema_grew")
        self._tell(f"schema of {topic}, version {version}: {', '.join(fields)}")

    def superseded(self, topic_partition: TopicPartition) -> None:
        """Into the trace."""
        self._count("superseded")
        self._tell(f"superseded {topic_partition}")

    def waits(self, topic_partition: TopicPartition, seconds: float) -> None:
        """Into the trace."""
        self._count("waits")
        self._tell(f"{topic_partition} waits {seconds:g} s for superseded requests")

    def uploaded(self, topic_partition: TopicPartition, outcome: str, seconds: float) -> None:
        """Count."""
        self._count(outcome)

    def lost(self, topic_partition: TopicPartition, start: int, end: int) -> None:
        """Into the trace."""
        self._count("lost")
        self.lost_ranges.append((topic_partition, start, end))
        self._tell(f"lost {topic_partition} [{start}, {end})")

    def restarted(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Into the trace."""
        self._count("restarted")
        self._tell(f"restart {topic_partition}: {error}")

    def stopped(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Into the trace."""
        self._count("stopped")
        self._tell(f"STOP {topic_partition}: {error}")
