"""The timeline of a Hudi table: its instants, and the metadata of its commits.

Read from the store alone, for processes that have no Spark.  Known are the two layouts that Hudi
1.x writes: ``.hoodie/timeline`` with Avro (table version 8 and later), and ``.hoodie`` with JSON.
Sources: hudi.apache.org/tech-specs-1point0 and hudi.apache.org/docs/timeline.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro

from secor.core.errors import CorruptFile, NotFound
from secor.core.foreign_avro import UNREADABLE
from secor.core.ports import ObjectStore
from secor.core.small_objects import read_bytes
from secor.core.text import error_text, load_json

ROLLBACK = "rollback"

MAX_PLAN = 64 * 1024 * 1024
"""Bytes: a plan names each file of a started write, some 200 bytes each."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """One rollback: when it was planned (Hudi's time), and the file that names its instant."""

    planned: str
    key: str
    size: int


def instants_of_rollback(body: bytes, key: str) -> tuple[str, ...]:
    """Return the times of the instants that a plan, or a completed rollback, names.

    An empty plan names none: Hudi deletes a plan that it cannot read, and nothing is rolled back.
    Raises ``CorruptFile`` naming ``key``.
    """
    if not body:
        return ()
    try:
        data: Any = next(fastavro.reader(io.BytesIO(body)))
        if "instantToRollback" not in data:
            return tuple(map(str, data["commitsRollback"]))
        planned = data["instantToRollback"]
        return () if planned is None else (str(planned["commitTime"]),)
    except UNREADABLE as error:
        raise CorruptFile(
            f"{key}: no rollback of Hudi's ({error_text(error)}); if it is a plan that nobody can"
            " read, delete it: Hudi would do the same"
        ) from error


COMMITS = frozenset({"commit", "deltacommit", "replacecommit"})
"""Actions whose metadata writers may add to."""

WRITES = frozenset({"commit", "deltacommit"})
"""Actions under which rows are written; services of the table have others while they run."""

FIRST_WITH_TIMELINE = 8
"""The version of a table whose timeline has a directory of its own."""

_COMPLETED = re.compile(r"(\d{14,17})_(\d{14,17})\.([a-z]+)")
_OLDER = re.compile(r"(\d{14,17})\.([a-z]+)")
_PENDING = re.compile(r"(\d{14,17})\.(?:([a-z]+)\.)?(requested|inflight)")


@dataclass(frozen=True, slots=True)
class Instant:
    """One action; ``requested`` and ``completed`` are Hudi's times (``yyyyMMddHHmmssSSS``)."""

    requested: str
    action: str
    completed: str
    key: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """``completed`` instants in the order in which they were completed.

    ``writing`` are the times at which writes were requested that are neither completed nor
    rolled back, ``pending`` those of all actions.  ``bare`` are those of completed actions that
    have nothing else on the timeline, see ``fence``.  ``rollbacks`` are planned or done.
    """

    completed: tuple[Instant, ...] = ()
    writing: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    rollbacks: tuple[Rollback, ...] = ()

    @property
    def commits(self) -> list[Instant]:
        """The completed commits, the newest first."""
        return [instant for instant in reversed(self.completed) if instant.action in COMMITS]


@dataclass
class TimelineReader:
    """Reads timelines; commits and plans never change, so each is read once."""

    store: ObjectStore
    _known: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _rolled_back: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def read(self, location: str) -> Timeline | None:
        """Return the timeline of the table at a base path, None where there is no table.

        Raises ``Unavailable``, ``AccessDenied``.
        """
        properties = read_bytes(self.store, f"{location}/.hoodie/hoodie.properties")
        if properties is None:
            return None
        own = _version(properties) >= FIRST_WITH_TIMELINE
        folder = f"{location}/.hoodie/timeline/" if own else f"{location}/.hoodie/"
        return _timeline(self._names(folder), folder, own=own)

    def _names(self, folder: str) -> Iterator[tuple[str, int]]:
        for stored in self.store.list(folder):
            name = stored.key[len(folder) :]
            if "/" not in name:
                yield name, stored.size

    def planned_rollbacks(self, timeline: Timeline) -> Mapping[str, str]:
        """Return when the rollback of each instant that the timeline's rollbacks name was planned.

        Of several plans for an instant the first counts.  Raises ``CorruptFile``.
        """
        planned: dict[str, str] = {}
        for rollback in sorted(timeline.rollbacks, key=lambda rollback: rollback.planned):
            for instant in self._instants_of(rollback):
                planned.setdefault(instant, rollback.planned)
        return planned

    def _instants_of(self, rollback: Rollback) -> tuple[str, ...]:
        if rollback.key not in self._rolled_back:
            if rollback.size > MAX_PLAN:
                raise CorruptFile(f"{rollback.key}: no rollback of Hudi's: {rollback.size:,} bytes")
            body = read_bytes(self.store, rollback.key)
            if not body:
                return ()  # it has gone meanwhile, or names nothing until now
            self._rolled_back[rollback.key] = instants_of_rollback(body, rollback.key)
        return self._rolled_back[rollback.key]

    def added(self, instant: Instant) -> Mapping[str, str]:
        """Return what the writer of a commit has added to it.

        Empty where the commit has gone meanwhile.  Raises ``CorruptFile``.
        """
        if instant.key not in self._known:
            try:
                body = read_bytes(self.store, instant.key)
            except NotFound:
                body = None
            if body is None:
                return {}
            self._known[instant.key] = extra_metadata(body, instant.key)
        return self._known[instant.key]

    def forget(self, timeline: Timeline, location: str) -> None:
        """Forget commits and rollbacks of a table that its timeline has no more."""
        commits = {instant.key for instant in timeline.completed}
        rollbacks = {rollback.key for rollback in timeline.rollbacks}
        for key in [
            path for path in self._known if path.startswith(location) and path not in commits
        ]:
            del self._known[key]
        gone = [
            path
            for path in self._rolled_back
            if path.startswith(location) and path not in rollbacks
        ]
        for key in gone:
            del self._rolled_back[key]


def _timeline(names: Iterator[tuple[str, int]], folder: str, *, own: bool) -> Timeline:
    completed: list[Instant] = []
    pending: dict[str, str] = {}
    rollbacks: dict[str, Rollback] = {}
    for name, size in names:
        matched = _PENDING.fullmatch(name)
        if matched is not None:
            pending[matched[1]] = matched[2] or "commit"
            if matched[2] == ROLLBACK and matched[3] == "requested":
                rollbacks[matched[1]] = Rollback(matched[1], folder + name, size)
            continue
        matched = (_COMPLETED if own else _OLDER).fullmatch(name)
        if matched is not None:
            *times, action = matched.groups()
            completed.append(Instant(times[0], action, times[-1], folder + name))
            if action == ROLLBACK:  # its plan may be archived before itself
                rollbacks.setdefault(times[0], Rollback(times[0], folder + name, size))
    # An instant leaves its requested and inflight files behind: only without a completed one it is
    # still pending.
    done = {instant.requested for instant in completed}
    going_on = frozenset(requested for requested in pending if requested not in done)
    writing = frozenset(requested for requested in going_on if pending[requested] in WRITES)
    # By completion: what was requested first may be completed last, and readers count by that.
    by_completion = tuple(sorted(completed, key=lambda instant: instant.completed))
    bare = frozenset(done - pending.keys())
    return Timeline(by_completion, writing, going_on, bare, tuple(rollbacks.values()))


def _version(properties: bytes) -> int:
    matched = re.search(rb"^hoodie\.table\.version=(\d+)\s*$", properties, re.MULTILINE)
    return int(matched[1]) if matched is not None else FIRST_WITH_TIMELINE


def extra_metadata(body: bytes, key: str) -> Mapping[str, str]:
    """Return the ``extraMetadata`` of a commit's bytes.  Raises ``CorruptFile`` naming ``key``."""
    if not body:
        return {}  # an action without metadata
    try:
        if body.startswith(b"Obj\x01"):
            data = next(fastavro.reader(io.BytesIO(body)))
        else:
            data = load_json(body)
        extra = data.get("extraMetadata") or {}  # type: ignore[union-attr]
        return {str(name): str(value) for name, value in extra.items() if value is not None}
    except UNREADABLE as error:
        raise CorruptFile(f"{key}: no commit of Hudi's ({error_text(error)})") from error
