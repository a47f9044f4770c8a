"""The job's own record: the state that a person requests, for every daemon to see.

It is the last record of key ``["<job>"]`` in the last partition of the offsets topic:
``{"archive": …, "generation": …, "partitions": …, "spec": …, "state": "running" | "paused" |
"stopped", "targets": {<topic>: <topic id>}}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from secor.core.errors import (
    ConfigurationError,
    LedgerCorrupt,
    OffsetsTopicGone,
    SpecChanged,
    TransactionBroken,
    Unavailable,
    WriterFenced,
)
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.core.text import how_many, load_json
from secor.restore.model import canonical
from secor.restore.offsets import job_key, offsets_topic, record, rows_of
from secor.restore.ports import TargetLog
from secor.restore.writer.writer import TransactionalWriter

ATTEMPTS = 5
"""How often a change is tried before it is given up."""


class RequestedState(Enum):
    """The state of the job that a person has requested."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The record; ``generation`` counts what persons changed, ``partitions`` the offsets topic's.

    ``targets`` are the ids of the target topics as they were when they were first seen, where
    known.  ``archive`` is where the job reads, such as ``s3://logs``; None where it reads no
    store, and in records of versions that did not keep it.
    """

    requested: RequestedState
    generation: int
    spec: str
    partitions: int
    targets: Mapping[str, str] = field(default_factory=dict)
    archive: str | None = None

    def encode(self) -> bytes:
        """Return the record's value."""
        return canonical(
            {
                **({"archive": self.archive} if self.archive is not None else {}),
                "generation": self.generation,
                "partitions": self.partitions,
                "spec": self.spec,
                "state": self.requested.value,
                "targets": dict(self.targets),
            }
        ).encode()


def check_record(
    job: str, known: JobRecord, spec: str, partitions: int, archive: str | None
) -> None:
    """Compare a record with the file's spec and store, and with the offsets topic's partitions.

    Raises ``SpecChanged``, ``ConfigurationError`` when the offsets topic was changed.
    """
    if known.partitions != partitions:
        raise ConfigurationError(
            f"the offsets topic {offsets_topic(job)} has {how_many(partitions, 'partition')},"
            f" and had {known.partitions} when the job began: its offsets would not be found; make"
            " it anew with as many as it had, or give the job another name"
        )
    if known.spec != spec:
        raise SpecChanged(
            f"job {job} was begun under spec {known.spec}, and the configuration is spec"
            f" {spec} now; take back what was changed, give the job another name, or stop it"
            " and see 'secor restore offsets reset'"
        )
    if archive is not None and known.archive not in (None, archive):
        raise SpecChanged(
            f"job {job} began to read {known.archive}, and [store] is {archive} now; take it back,"
            " give the job another name, or, if all objects were moved or copied there as they"
            " were, see 'secor restore resume --moved'"
        )


def next_generation(before: JobRecord) -> int:
    """Return the generation of a record that follows."""
    return before.generation + 1


class JobControl:
    """Reads and changes the job's record.

    ``make_writer`` gives a writer for a transactional id: a change is a transaction under the
    job's own id, so of two persons who change it at the same time one is refused.
    """

    def __init__(
        self,
        job: str,
        offsets: TopicPartition,
        log: TargetLog,
        make_writer: Callable[[str], TransactionalWriter],
        clock: Clock,
    ) -> None:
        self._job = job
        self._at = offsets
        self._log = log
        self._make_writer = make_writer
        self._clock = clock

    def read(self) -> JobRecord | None:
        """Return the record as it is now; None before the job's first start.

        Raises ``LedgerCorrupt``, ``Unavailable``, ``OffsetsTopicGone``.
        """
        try:
            end = self._log.end(self._at, committed=False)
        except Unavailable as error:
            if self._log.partitions(self._at.topic):
                raise
            raise OffsetsTopicGone(f"the offsets topic {self._at.topic} is gone") from error
        newest: bytes | None = None
        for chunk in self._log.read(self._at, 0, end):
            for key, value in rows_of(chunk.records):
                if key == job_key(self._job):
                    newest = value
        return None if newest is None else _decode(self._at, newest)

    def start(
        self,
        spec: str,
        partitions: int,
        requested: RequestedState = RequestedState.RUNNING,
        targets: Mapping[str, str] = MappingProxyType({}),
        archive: str | None = None,
    ) -> JobRecord:
        """Return the record for a daemon that starts; write the first, with ``requested``.

        ``targets`` are the ids of the target topics now, ``archive`` is where the job reads;
        those that the record has stay.
        Raises ``SpecChanged``, ``ConfigurationError`` when the offsets topic was changed.
        """

        def started(before: JobRecord | None) -> JobRecord:
            if before is None:
                return JobRecord(requested, 1, spec, partitions, targets, archive)
            # Another daemon may have started since the look: with another file, perhaps.
            check_record(self._job, before, spec, partitions, archive)
            return replace(
                before,
                # The ids that were kept win: those of now may be of topics that were made anew.
                targets={**targets, **before.targets},
                archive=archive if before.archive is None else before.archive,
            )

        known = self.read()
        if known is not None and started(known) == known:
            return known
        return self._change(started)

    def adopt(self, spec: str, archive: str | None = None) -> JobRecord:
        """Let the job go on under another spec, to other targets: its offsets were forgotten."""

        def changed(before: JobRecord | None) -> JobRecord:
            assert before is not None
            generation = next_generation(before)
            return replace(before, spec=spec, targets={}, archive=archive, generation=generation)

        return self._change(changed)

    def request(self, requested: RequestedState, moved_to: str | None = None) -> JobRecord:
        """Change what is wanted; with ``moved_to``, where all objects of the archive are now.

        Raises ``ConfigurationError`` for a job that never began.
        """

        def changed(before: JobRecord | None) -> JobRecord:
            if before is None:
                raise ConfigurationError(
                    f"job {self._job} was not started: see 'secor restore run'"
                )
            archive = before.archive if moved_to is None else moved_to
            generation = next_generation(before)
            return replace(before, requested=requested, archive=archive, generation=generation)

        return self._change(changed)

    def _change(self, change: Callable[[JobRecord | None], JobRecord]) -> JobRecord:
        """Change the record; begins anew when somebody else changes it at the same time."""
        attempt = 0
        while True:
            try:
                return self._try_change(change)
            except (TransactionBroken, WriterFenced):
                attempt += 1
                if attempt == ATTEMPTS:
                    raise

    def _try_change(self, change: Callable[[JobRecord | None], JobRecord]) -> JobRecord:
        writer = self._make_writer(f"secor:{self._job}::")
        # Before the record is read: somebody else who is changing it is fenced, and what is read is
        # final.
        writer.initialise()
        after = change(self.read())
        writer.begin()
        now = int(self._clock.now() * 1000)
        writer.write(self._at, record(job_key(self._job), after.encode(), now))
        writer.commit()
        return after


def _decode(where: TopicPartition, value: bytes) -> JobRecord:
    try:
        decoded = load_json(value)
        return JobRecord(
            RequestedState(decoded["state"]),
            int(decoded["generation"]),
            str(decoded["spec"]),
            int(decoded["partitions"]),
            {str(topic): str(topic_id) for topic, topic_id in decoded.get("targets", {}).items()},
            None if decoded.get("archive") is None else str(decoded["archive"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise LedgerCorrupt(
            f"{where}: the job's record cannot be read ({error}); write it anew with 'secor"
            " restore stop'"
        ) from error
