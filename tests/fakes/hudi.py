"""A Hudi table's timeline in memory, and an engine that writes as Hudi does."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import fastavro

from secor.adapters.hudi.fence import require_unmoved
from secor.adapters.hudi.timeline import TimelineReader
from secor.core.errors import Refused, Unavailable
from secor.core.small_objects import put_bytes
from secor.tables.hudi import HudiWrite
from secor.tables.merging import Merged
from tests.fakes.store import FakeStore

STEPS = ("begins", "requested", "checked", "written", "completed")
"""Of a write, in order: a hook is called at each."""

SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieCommitMetadata",
        "fields": [
            {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}]},
        ],
    }
)


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

    def create(self, location: str) -> None:
        """Make the table, if it does not exist."""
        put_bytes(self.store, f"{location}/.hoodie/hoodie.properties", b"hoodie.table.version=9\n")

    def timeline(self, location: str) -> list[str]:
        """Return the names on a timeline."""
        folder = f"{location}/.hoodie/timeline/"
        return [it.key.removeprefix(folder) for it in self.store.list(folder)]

    def begin(self, location: str) -> str:
        """Put an instant, after all others that are not completed were rolled back."""
        self.create(location)
        names = self.timeline(location)
        done = {name.partition("_")[0] for name in names if "_" in name}
        for name in names:
            if name.partition(".")[0] not in done and "_" not in name:
                self._roll_back(location, name)
        instant = str(next(self.times))
        for state in ("commit.requested", "inflight"):
            put_bytes(self.store, f"{location}/.hoodie/timeline/{instant}.{state}", b"")
        return instant

    def _roll_back(self, location: str, name: str) -> None:
        """Delete a name of an instant, and what it has written until now."""
        instant = name.partition(".")[0]
        for stored in [it for it in self.files(location) if instant in it]:
            self.store.delete(stored)
        at = next(self.times)
        put_bytes(self.store, f"{location}/.hoodie/timeline/{at}_{next(self.times)}.rollback", b"")
        self.store.delete(f"{location}/.hoodie/timeline/{name}")

    def files(self, location: str) -> list[str]:
        """Return the data files that there are."""
        inner = f"{location}/.hoodie/"
        return [it.key for it in self.store.list(f"{location}/") if not it.key.startswith(inner)]

    def leftovers(self, location: str) -> list[str]:
        """Return data files of no instant that is on the timeline."""
        known = {name[:17] for name in self.timeline(location)}
        return [it for it in self.files(location) if it[-25:-8] not in known]

    def complete(self, location: str, instant: str, extra: Mapping[str, str]) -> str:
        """Complete an instant.  Raises ``Unavailable`` where somebody has rolled it back."""
        if f"{instant}.inflight" not in self.timeline(location):
            raise Unavailable(f"{instant} has no inflight file")
        body = io.BytesIO()
        fastavro.writer(body, SCHEMA, [{"extraMetadata": {"schema": "{}", **extra}}])
        key = f"{location}/.hoodie/timeline/{instant}_{next(self.times)}.commit"
        put_bytes(self.store, key, body.getvalue())
        return key

    def commit_of_others(self, location: str) -> None:
        """Commit what somebody else has written."""
        self.complete(location, self.begin(location), {})

    def restore(self, location: str, commits: int) -> None:
        """Take the newest commits back."""
        completed = sorted(name for name in self.timeline(location) if name.endswith(".commit"))
        for name in completed[-commits:]:
            self._remove(location, name)

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
        """Return the staged files that readers see the rows of."""
        return sorted(path for paths in self.written.values() for path in paths)


@dataclass
class FakeEngine:
    """A ``HudiEngine``."""

    hudi: FakeHudi
    at: Callable[[str], None]

    def write(self, write: HudiWrite) -> Merged:
        self.at("begins")
        location = write.table.location
        instant = self.hudi.begin(location)
        self.at("requested")
        try:
            require_unmoved(self.hudi.store, location, write.group, write.expected)
        except Refused as error:
            raise Refused(f"{write.table.identifier}: {error}") from error
        self.at("checked")
        paths = tuple(file.path for of_table in write.files for file in of_table.files)
        put_bytes(self.hudi.store, f"{location}/a_0-1-2_{instant}.parquet", b"rows")
        self.at("written")
        key = self.hudi.complete(location, instant, write.metadata)
        self.hudi.written[key] = paths
        self.at("completed")
        return Merged()


def reader_of(hudi: FakeHudi) -> TimelineReader:
    """Return what another process sees."""
    return TimelineReader(hudi.store)
