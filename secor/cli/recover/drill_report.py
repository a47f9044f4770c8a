"""Report of a drill: what came back, how fast, and how old the newest of it is."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from secor import __version__
from secor.cli.recover.options import described_state, state_lines
from secor.cli.verify.evidence import store_address
from secor.core.text import how_many, iso_time

if TYPE_CHECKING:
    from secor.config.restore import RestoreConfig
    from secor.config.stores import Store
    from secor.jobs.recover.recovery import Recovery
    from secor.restore.recovery import KindState
    from secor.verify.restore import PartitionResult
    from secor.wiring.restore import Job

VERSION = 1


@dataclass
class DrillReport:
    """A drill in the making; times in seconds, ``problems`` are why it has failed."""

    job: str
    store: Store
    began: float = field(default_factory=time.time)
    directory: Path | None = None
    cluster: str | None = None
    sample: int | None = None
    looked_at: dict[str, str | None] = field(default_factory=dict)
    archived_bytes: int = 0
    last_message: float | None = None
    """When the newest archived message was, in seconds since 1970."""
    start_seconds: float = 0.0
    recovery_seconds: float = 0.0
    verify_seconds: float = 0.0
    messages: int = 0
    partitions: int = 0
    states: list[KindState] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def found(self, recovery: Recovery, sample: int | None) -> None:
        """Take what the archive has, before anything is written."""
        self.cluster, self.sample = recovery.kept.cluster, sample
        kinds = ("groups", "acls", "quotas")
        self.looked_at = {kind: recovery.kept.looked_at(kind) for kind in kinds}
        for source in recovery.job.sources():
            extent = recovery.job.source.extent(source)
            whole = extent.range.end - extent.range.start
            part = whole if sample is None else min(whole, sample)
            self.archived_bytes += extent.size * part // whole if whole else 0
        self.last_message = last_message(recovery.job)

    def compared(self, results: Sequence[PartitionResult]) -> None:
        """Take what was compared one by one."""
        self.messages = sum(result.messages for result in results)
        self.partitions = len(results)
        self.problems += [
            str(result.difference) for result in results if result.difference is not None
        ]
        if not results:
            self.problems.append("nothing was compared: the archive has no messages")

    @property
    def passed(self) -> bool:
        """Return whether everything came back, and equal."""
        return (
            bool(self.states)
            and not self.problems
            and all(state.is_complete for state in self.states)
        )

    @property
    def age_seconds(self) -> float | None:
        """How old the newest archived message was when the drill began: the recovery point."""
        return None if self.last_message is None else max(0.0, self.began - self.last_message)

    def encode(self) -> bytes:
        """Return the report in JSON."""
        last = None if self.last_message is None else iso_time(self.last_message)
        content = {
            "version": VERSION,
            "job": self.job,
            "host": socket.getfqdn(),
            "secor": __version__,
            "began": iso_time(self.began),
            "archive": store_address(self.store),
            "cluster": self.cluster,
            "sample": self.sample,
            "passed": self.passed,
            "recovery_seconds": round(self.recovery_seconds, 2),
            "verify_seconds": round(self.verify_seconds, 2),
            "start_of_broker_seconds": round(self.start_seconds, 2),
            "recovery_point": {
                "last_message": last,
                "age_seconds": None if self.age_seconds is None else round(self.age_seconds, 1),
                "kept_at": self.looked_at,
            },
            "compared": {"messages": self.messages, "partitions": self.partitions},
            "kinds": [described_state(state) for state in self.states],
            "problems": self.problems,
        }
        return json.dumps(content, indent=2).encode() + b"\n"


def sampled(job: Job, sample: int | None) -> RestoreConfig:
    """Return the job with the last ``sample`` offsets of each source partition alone."""
    if sample is None:
        return job.config
    from secor.config.restore_source import Range

    extents = [job.source.extent(source) for source in job.sources()]
    ranges = tuple(
        Range(
            topic=extent.source.topic,
            partition=extent.source.partition,
            start=max(extent.range.start, extent.range.end - sample),
            end=extent.range.end,
        )
        for extent in extents
    )
    return job.config.model_copy(
        update={"source": job.config.source.model_copy(update={"ranges": ranges})}
    )


def last_message(job: Job) -> float | None:
    """Return when the newest of the last messages of all partitions was, None without any."""
    from secor.jobs.restore.verify import read_pieces

    newest: int | None = None
    for source in job.sources():
        end = job.source.extent(source).range.end
        for piece in read_pieces(job, source, max(0, end - 1)):
            times = [
                value
                for value in piece.records.column("timestamp").to_pylist()
                if value is not None
            ]
            newest = max([*times, *([] if newest is None else [newest])], default=None)
    return None if newest is None else newest / 1000


def shown(done: DrillReport) -> Iterator[str]:
    """Give the report for people, line by line."""
    part = (
        "everything"
        if done.sample is None
        else f"the last {done.sample:,} offsets of each partition"
    )
    yield f"drill of {done.job} at {iso_time(done.began)}: {'passed' if done.passed else 'FAILED'}"
    yield f"recovered: {part}, of cluster {done.cluster or 'unknown'}"
    yield (
        f"recovery time: {done.recovery_seconds:.1f} s, and {done.verify_seconds:.1f} s to compare"
        f" {how_many(done.messages, 'message')} in {how_many(done.partitions, 'partition')}"
        f" (broker: {done.start_seconds:.1f} s)"
    )
    if done.last_message is not None and done.age_seconds is not None:
        yield (
            f"recovery point: the newest message is of {iso_time(done.last_message)},"
            f" {done.age_seconds:,.0f} s before the drill"
        )
    for kind, looked_at in done.looked_at.items():
        yield f"recovery point of {kind}: {looked_at or 'nothing kept'}"
    for state in done.states:
        yield from state_lines(state)
    yield "schemas: not part of a drill, which has no registry"
    for problem in done.problems:
        yield f"problem: {problem}"
