"""A Hudi table's timeline in memory, and an engine that writes as Hudi does."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro

from secor.adapters.hudi.fence import require_unmoved
from secor.adapters.hudi.timeline import TimelineReader
from secor.core.errors import Refused, Unavailable
from secor.core.small_objects import put_bytes
from secor.tables.commit.merging import MergeResult
from secor.tables.hudi import BACKUPS, HudiWrite
from tests.fakes.store import FakeStore

STEPS = ("begins", "requested", "checked", "written", "completing", "completed")
"""Of a write, in order: a hook is called at each; ``completing`` is after Hudi's last look."""

PLANNED = "rollback.requested"
"""How the name of a plan ends."""

MAKES = "makes"
"""A step too, where there is no table: it has directories, and no properties."""

ROLLBACK_STEPS = ("rolls back", "plans", "planned", "deletes")
"""Steps too, where there is something to roll back: it has been seen, and nothing was done; the
plan has its time; the plan is there; what there is to delete is known.
"""

_EXTRA = {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}]}
_INSTANT = {
    "type": "record",
    "name": "HoodieInstantInfo",
    "fields": [{"name": "commitTime", "type": "string"}, {"name": "action", "type": "string"}],
}
_TIMES = {"name": "commitsRollback", "type": {"type": "array", "items": "string"}}


def _schema(name: str, field: object) -> Any:
    return fastavro.parse_schema({"type": "record", "name": name, "fields": [field]})


COMMIT = _schema("HoodieCommitMetadata", _EXTRA)
PLAN = _schema("HoodieRollbackPlan", {"name": "instantToRollback", "type": ["null", _INSTANT]})
ROLLBACK = _schema("HoodieRollbackMetadata", _TIMES)


def avro(schema: Any, record: Mapping[str, object]) -> bytes:
    """Return a file of one record."""
    body = io.BytesIO()
    fastavro.writer(body, schema, [record])
    return body.getvalue()


def nothing(step: str) -> None:
    """Let the write go on."""


@dataclass
class FakeHudi:
    """Tables in a store: the timeline is as Hudi writes it, rows are the paths of staged files."""

    store: FakeStore = field(default_factory=FakeStore)
    times: Iterator[int] = field(default_factory=lambda: itertools.count(20261122000000001))
    written: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By the key of a completed commit, what it wrote."""

    def engine(self, at: Callable[[str], None] = nothing) -> FakeEngine:
        """Return an engine of another process."""
        return FakeEngine(self, at)

    def create(self, location: str, at: Callable[[str], None] = nothing) -> None:
        """Make the table, if it does not exist.  Raises ``Unavailable`` where half of it does."""
        properties = f"{location}/.hoodie/hoodie.properties"
        if properties not in self.store.objects:
            if any(True for _ in self.store.list(f"{location}/.hoodie/")):
                raise Unavailable("Could not load Hoodie properties")
            for directory in ("", "timeline/", "timeline/history/"):
                put_bytes(self.store, f"{location}/.hoodie/{directory}", b"")
            at(MAKES)
            put_bytes(self.store, properties, b"hoodie.table.version=9\n")

    def timeline(self, location: str) -> list[str]:
        """Return the names on a timeline."""
        folder = f"{location}/.hoodie/timeline/"
        names = (it.key.removeprefix(folder) for it in self.store.list(folder))
        return [name for name in names if name and "/" not in name]

    def begin(
        self, location: str, at: Callable[[str], None] = nothing, *, backs_up: bool = False
    ) -> str:
        """Put an instant, after all others that are not completed were rolled back.

        Also rollbacks that others have only planned are carried out.
        """
        self.create(location, at)
        names = self.timeline(location)
        done = {name.partition("_")[0] for name in names if "_" in name}
        pending = {it.partition(".")[0] for it in names if "_" not in it} - done
        plans = {it: self._planned(location, it) for it in pending if f"{it}.{PLANNED}" in names}
        failed = dict.fromkeys(pending - plans.keys(), "") | {it: at for at, it in plans.items()}
        if failed:
            at(ROLLBACK_STEPS[0])
        for instant, planned in sorted(failed.items(), reverse=True):
            self._roll_back(location, instant, planned, at, backs_up=backs_up)
        instant = str(next(self.times))
        for state in ("commit.requested", "inflight"):
            put_bytes(self.store, f"{location}/.hoodie/timeline/{instant}.{state}", b"")
        return instant

    def _planned(self, location: str, plan: str) -> str:
        body = self.store.content(f"{location}/.hoodie/timeline/{plan}.{PLANNED}")
        record: Any = next(fastavro.reader(io.BytesIO(body)))
        return str(record["instantToRollback"]["commitTime"])

    def plan_rollback(
        self, location: str, instant: str, at: Callable[[str], None] = nothing
    ) -> str:
        """Plan to roll an instant back; return the time of the plan."""
        planned = str(next(self.times))
        at("plans")
        plan = {"instantToRollback": {"commitTime": instant, "action": "commit"}}
        key = f"{location}/.hoodie/timeline/{planned}.{PLANNED}"
        put_bytes(self.store, key, avro(PLAN, plan))
        at("planned")
        return planned

    def _roll_back(
        self,
        location: str,
        instant: str,
        planned: str,
        at: Callable[[str], None] = nothing,
        *,
        backs_up: bool = False,
    ) -> None:
        """Delete an instant as it was, and what it has written until now."""
        folder = f"{location}/.hoodie/timeline/"
        names = [it for it in self.timeline(location) if it.startswith(instant)]
        planned = planned or self.plan_rollback(location, instant, at)
        later = [it for it in self.timeline(location) if it.endswith(".commit") and it > instant]
        heartbeat = f"{location}/.hoodie/.heartbeat/{instant}"
        if any(it[:17] > instant for it in later) and heartbeat not in self.store.objects:
            raise Unavailable(f"Found commits after time :{instant}, please rollback greater first")
        completed = [it for it in names if it.endswith(".commit")]
        for name in names if backs_up else ():
            if folder + name in self.store.objects:
                copy = f"{location}/.hoodie/{BACKUPS}/{name}"
                put_bytes(self.store, copy, self.store.content(folder + name))
        at("deletes")
        for name in completed:
            self._remove(location, name)
        for stored in [it for it in self.files(location) if instant in it]:
            self.store.delete(stored)
        for name in names:
            self.store.delete(folder + name)
        done = avro(ROLLBACK, {"commitsRollback": [instant]})
        put_bytes(self.store, f"{folder}{planned}_{next(self.times)}.rollback", done)

    def files(self, location: str) -> list[str]:
        """Return the data files that there are."""
        inner = f"{location}/.hoodie/"
        return [it.key for it in self.store.list(f"{location}/") if not it.key.startswith(inner)]

    def leftovers(self, location: str) -> list[str]:
        """Return data files of no instant that is on the timeline."""
        known = {name[:17] for name in self.timeline(location)}
        return [it for it in self.files(location) if it[-25:-8] not in known]

    def complete(
        self,
        location: str,
        instant: str,
        extra: Mapping[str, str],
        at: Callable[[str], None] = nothing,
    ) -> str:
        """Complete an instant.  Raises ``Unavailable`` where somebody has rolled it back."""
        if f"{instant}.inflight" not in self.timeline(location):
            raise Unavailable(f"{instant} has no inflight file")
        at("completing")
        key = f"{location}/.hoodie/timeline/{instant}_{next(self.times)}.commit"
        put_bytes(self.store, key, avro(COMMIT, {"extraMetadata": {"schema": "{}", **extra}}))
        return key

    def commit_of_others(self, location: str) -> None:
        """Commit what somebody else has written."""
        self.complete(location, self.begin(location), {})

    def restore(self, location: str, commits: int) -> None:
        """Take the newest commits back, as a person does."""
        completed = sorted(name for name in self.timeline(location) if name.endswith(".commit"))
        for name in reversed(completed[-commits:]):
            self._roll_back(location, name[:17], "")

    def archive(self, location: str, keep: int) -> None:
        """Take all commits but the newest off the timeline; their rows stay."""
        timeline = self.timeline(location)
        completed = sorted(name for name in timeline if name.endswith(".commit"))
        archived = {name[:17] for name in completed[:-keep]}
        for name in timeline:
            if name[:17] in archived:
                self.store.delete(f"{location}/.hoodie/timeline/{name}")

    def _remove(self, location: str, name: str) -> None:
        key = f"{location}/.hoodie/timeline/{name}"
        self.store.delete(key)
        self.written.pop(key, None)

    def rows(self) -> list[str]:
        """Return the staged files that readers see the rows of: a rollback deletes them."""
        there = {it[-25:-8] for it in self.store.objects if it.endswith(".parquet")}
        done = {key.rpartition("/")[2][:17]: paths for key, paths in self.written.items()}
        return sorted(path for at, paths in done.items() if at in there for path in paths)


@dataclass
class FakeEngine:
    """A ``HudiEngine``."""

    hudi: FakeHudi
    at: Callable[[str], None]

    def write(self, write: HudiWrite) -> MergeResult:
        self.at("begins")
        location = write.table.location
        instant = self.hudi.begin(location, self.at, backs_up=write.backs_up)
        self.at("requested")
        try:
            require_unmoved(
                self.hudi.store, location, write.group, write.expected, write.taken_back
            )
        except Refused as error:
            raise Refused(f"{write.table.identifier}: {error}") from error
        self.at("checked")
        paths = tuple(file.path for of_table in write.files for file in of_table.files)
        put_bytes(self.hudi.store, f"{location}/a_0-1-2_{instant}.parquet", b"rows")
        self.at("written")
        key = self.hudi.complete(location, instant, write.metadata, self.at)
        self.hudi.written[key] = paths
        self.at("completed")
        return MergeResult()


def reader_of(hudi: FakeHudi) -> TimelineReader:
    """Return what another process sees."""
    return TimelineReader(hudi.store)
