"""The result of a command under a timer, for node_exporter's textfile collector.

A process that ends cannot be scraped.  The file is written when a run has succeeded, and
only then, so its age shows failures and missing runs alike; a drill, which is rare, also writes
that it failed.  The first run of all writes when it started, so that a job that never succeeds is
seen, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from secor.core.errors import ConfigurationError
from secor.core.ports import Clock
from secor.service.metrics_registry import Definition

_GROUP = ("group",)
_STEP = ("group", "topic", "step")

FINALIZE = (
    Definition(
        "secor_finalize_last_success_timestamp_seconds",
        "gauge",
        _GROUP,
        "When secor finalize last succeeded, in seconds since 1970.",
    ),
    Definition("secor_finalize_duration_seconds", "gauge", _GROUP, "Seconds that this run took."),
    Definition(
        "secor_finalize_partitions",
        "gauge",
        (*_GROUP, "state"),
        "Hours or days that it marked, that wait, and that got objects after their mark: "
        "marked, waiting, late.",
    ),
    Definition(
        "secor_finalize_begun_timestamp_seconds",
        "gauge",
        _GROUP,
        "Until secor finalize succeeds for the first time: when it was first begun, in seconds "
        "since 1970.",
    ),
)
BACKFILL = (
    Definition(
        "secor_backfill_last_success_timestamp_seconds",
        "gauge",
        _STEP,
        "When the last step of a backfill succeeded, in seconds since 1970: "
        "plan, run, verify, publish, rollback.",
    ),
    Definition("secor_backfill_duration_seconds", "gauge", _STEP, "Seconds that this run took."),
    Definition("secor_backfill_batches", "gauge", _STEP, "Batches of the plan."),
    Definition(
        "secor_backfill_replaced_objects", "gauge", _STEP, "Objects that the plan replaces."
    ),
)
COMPACT = (
    Definition(
        "secor_compact_last_success_timestamp_seconds",
        "gauge",
        _GROUP,
        "When secor archive compact last succeeded, in seconds since 1970.",
    ),
    Definition("secor_compact_duration_seconds", "gauge", _GROUP, "Seconds that this run took."),
    Definition(
        "secor_compact_objects",
        "gauge",
        (*_GROUP, "state"),
        "Objects that it joined, and objects that it made of them: replaced, made.",
    ),
    Definition("secor_compact_bytes", "gauge", _GROUP, "Bytes of the objects that it joined."),
    Definition(
        "secor_compact_begun_timestamp_seconds",
        "gauge",
        _GROUP,
        "Until secor archive compact succeeds for the first time: when it was first begun, in "
        "seconds since 1970.",
    ),
)
EXPIRE = (
    Definition(
        "secor_expire_last_success_timestamp_seconds",
        "gauge",
        _GROUP,
        "When secor archive expire last succeeded, in seconds since 1970.",
    ),
    Definition("secor_expire_duration_seconds", "gauge", _GROUP, "Seconds that this run took."),
    Definition("secor_expire_objects", "gauge", _GROUP, "Objects that this run removed."),
    Definition("secor_expire_bytes", "gauge", _GROUP, "Bytes that this run removed."),
    Definition(
        "secor_expire_begun_timestamp_seconds",
        "gauge",
        _GROUP,
        "Until secor archive expire succeeds for the first time: when it was first begun, in "
        "seconds since 1970.",
    ),
)
DRILL = (
    Definition(
        "secor_drill_timestamp_seconds",
        "gauge",
        _GROUP,
        "When the last drill ended, however it did, in seconds since 1970.",
    ),
    Definition(
        "secor_drill_succeeded",
        "gauge",
        _GROUP,
        "1 where everything came back in the last drill, and equal; else 0.",
    ),
    Definition(
        "secor_drill_recovery_seconds",
        "gauge",
        _GROUP,
        "Seconds that the recovery took, without the comparison and the start of its broker.",
    ),
    Definition(
        "secor_drill_recovery_point_seconds",
        "gauge",
        _GROUP,
        "How old the newest archived message was when the drill began, in seconds.",
    ),
    Definition(
        "secor_drill_messages", "gauge", _GROUP, "Messages that were recovered and compared."
    ),
    Definition(
        "secor_drill_begun_timestamp_seconds",
        "gauge",
        _GROUP,
        "Until a drill ends for the first time: when one was first begun, in seconds since 1970.",
    ),
)

Values = Mapping[str, float]


class LastRun:
    """The file of one command; without a path, nothing is written."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        """Begin the run.  Raises ``ConfigurationError`` where the file could not be written."""
        self._path = path
        self._clock = clock
        self._began = clock.monotonic()
        if path is None:
            return
        if path.suffix != ".prom":
            raise ConfigurationError(
                f"--metrics-file {path}: node_exporter only reads files named *.prom"
            )
        # Before the work: a run of hours must not end with an error about this file.
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise ConfigurationError(
                f"--metrics-file {path}: its folder is missing, or this user may not write there"
            )

    def finalizing(self, group: str) -> None:
        """Write that ``secor finalize`` has started, if no run has left anything yet."""
        if self._path is not None and not self._path.exists():
            self._write([(FINALIZE[-1], {"group": group}, self._clock.now())])

    def finalized(self, group: str, partitions: Values) -> None:
        """Write that ``secor finalize`` succeeded; ``partitions`` are counts by state."""
        last_success, duration, counted, _ = FINALIZE
        labels = {"group": group}
        rows = [(last_success, labels, self._clock.now()), (duration, labels, self._seconds())]
        rows += [(counted, labels | {"state": key}, value) for key, value in partitions.items()]
        self._write(rows)

    def expiring(self, group: str) -> None:
        """Write that ``secor archive expire`` has started, if no run has left anything yet."""
        if self._path is not None and not self._path.exists():
            self._write([(EXPIRE[-1], {"group": group}, self._clock.now())])

    def expired(self, group: str, removed: Values) -> None:
        """Write that it succeeded; ``removed`` are counts of objects and bytes."""
        values = (self._clock.now(), self._seconds(), removed["objects"], removed["bytes"])
        self._write(
            [
                (definition, {"group": group}, value)
                for definition, value in zip(EXPIRE, values, strict=False)
            ]
        )

    def backfilled(self, group: str, topic: str, step: str, *, batches: int, replaced: int) -> None:
        """Write that a step of a backfill succeeded."""
        values = (self._clock.now(), self._seconds(), batches, replaced)
        labels = {"group": group, "topic": topic, "step": step}
        self._write(
            [
                (definition, labels, value)
                for definition, value in zip(BACKFILL, values, strict=True)
            ]
        )

    def compacting(self, group: str) -> None:
        """Write that ``secor archive compact`` has started, if no run has left anything yet."""
        if self._path is not None and not self._path.exists():
            self._write([(COMPACT[-1], {"group": group}, self._clock.now())])

    def compacted(self, group: str, *, replaced: int, made: int, size: int) -> None:
        """Write that ``secor archive compact`` succeeded; ``size`` in bytes."""
        last_success, duration, objects, joined, _ = COMPACT
        labels = {"group": group}
        self._write(
            [
                (last_success, labels, self._clock.now()),
                (duration, labels, self._seconds()),
                (objects, labels | {"state": "replaced"}, replaced),
                (objects, labels | {"state": "made"}, made),
                (joined, labels, size),
            ]
        )

    def drilling(self, job: str) -> None:
        """Write that ``secor drill`` has started, if no run has left anything yet."""
        if self._path is not None and not self._path.exists():
            self._write([(DRILL[-1], {"group": job}, self._clock.now())])

    def drilled(
        self, job: str, *, succeeded: bool, recovery: float, age: float | None, messages: int
    ) -> None:
        """Write how a drill ended; ``recovery`` and ``age`` of the newest message in seconds."""
        ended, outcome, seconds, point, compared, _ = DRILL
        labels = {"group": job}
        rows = [
            (ended, labels, self._clock.now()),
            (outcome, labels, float(succeeded)),
            (seconds, labels, recovery),
            (compared, labels, messages),
        ]
        self._write(rows if age is None else [*rows, (point, labels, age)])

    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def _write(self, rows: list[tuple[Definition, dict[str, str], float]]) -> None:
        if self._path is None:
            return
        registry = CollectorRegistry()
        gauges: dict[str, Gauge] = {}
        for definition, labels, value in rows:
            if definition.name not in gauges:
                gauges[definition.name] = Gauge(
                    definition.name, definition.help, definition.labels, registry=registry
                )
            gauges[definition.name].labels(**labels).set(value)
        try:
            # It writes another file and renames it: the collector never sees half of one.
            write_to_textfile(str(self._path), registry)
            self._path.chmod(0o644)  # another user reads it, whatever our mask is
        except OSError as error:
            raise ConfigurationError(
                f"--metrics-file {self._path}: {error.strerror}; the work itself is done"
            ) from error
