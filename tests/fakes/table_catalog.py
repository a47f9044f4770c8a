"""A catalog in memory: tables with snapshots, and what others do to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa

from secor.core.errors import AlreadyExists, FilesRefused, NotFound, Unavailable
from secor.tables.catalog import (
    MAIN,
    NO_PROPERTIES,
    STAGED_WRITES,
    CommitResult,
    NewTable,
    Outcome,
    SchemaChange,
    Snapshot,
    Table,
    TableCommit,
)
from secor.tables.commit.merging import (
    STAGED_AS,
    BranchMerge,
    MergeResult,
    has_changes,
    merge_commit,
)
from secor.tables.staging.manifest import TableFiles

Hook = Callable[[str, str], None]
"""Called with the name of a call (``load_table``, ``commit``) and the table; it may raise."""


def nothing(call: str, identifier: str) -> None:
    """Let the call go on."""


@dataclass
class FakeTable:
    """One table; ``files`` are the live paths of each snapshot."""

    identifier: str
    uuid: str
    format_version: int = 2
    properties: dict[str, str] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    files: dict[int, tuple[str, ...]] = field(default_factory=dict)
    refs: dict[str, int] = field(default_factory=dict)
    sequence: int = 0

    def live(self, branch: str = MAIN) -> tuple[str, ...]:
        """Return the paths that a reader of a branch sees."""
        head = self.refs.get(branch)
        return () if head is None else self.files[head]

    def add(self, files: Iterable[str], summary: Mapping[str, str], branch: str = MAIN) -> Snapshot:
        """Put a snapshot with these live files onto a branch."""
        self.sequence += 1
        parent = self.refs.get(branch)
        snapshot_id = self.sequence * 1000 + 7
        snapshot = Snapshot(snapshot_id, parent, self.sequence, self.sequence, dict(summary))
        self.snapshots[snapshot_id] = snapshot
        self.files[snapshot_id] = tuple(files)
        self.refs[branch] = snapshot_id
        return snapshot

    def describe(self) -> Table:
        """Return it as the catalog shows it."""
        return Table(
            identifier=self.identifier,
            uuid=self.uuid,
            location=f"mem://{self.identifier}",
            format_version=self.format_version,
            schema_id=0,
            schemas={0: pa.schema([])},
            spec_id=0,
            specs={0: ()},
            properties=dict(self.properties),
            refs=dict(self.refs),
            snapshots=dict(self.snapshots),
        )

    # ------------------------------------------------------- what others do

    def foreign_append(self, paths: Iterable[str], branch: str = MAIN) -> None:
        """Another writer adds files."""
        self.add((*self.live(branch), *paths), {"by": "another writer"}, branch)

    def compact(self, path: str, branch: str = MAIN) -> None:
        """Another engine rewrites all files into one."""
        self.add((path,), {"by": "compaction"}, branch)

    def roll_back(self, snapshot_id: int | None, branch: str = MAIN) -> None:
        """A person sets a branch back; properties stay as they are."""
        if snapshot_id is None:
            del self.refs[branch]
        else:
            self.refs[branch] = snapshot_id

    def expire(self, keep: int = 1, *, unlink: bool = False, branch: str = MAIN) -> None:
        """Remove all but the newest ``keep`` snapshots of a branch, and all off it.

        With ``unlink`` the oldest that stays forgets its parent, as some libraries do.
        """
        kept: list[int] = []
        at = self.refs.get(branch)
        while at is not None and at in self.snapshots and len(kept) < keep:
            kept.append(at)
            at = self.snapshots[at].parent_id
        self.snapshots = {key: self.snapshots[key] for key in sorted(kept)}
        self.files = {key: self.files[key] for key in sorted(kept)}
        if unlink and kept:
            oldest = kept[-1]
            self.snapshots[oldest] = replace(self.snapshots[oldest], parent_id=None)


@dataclass
class TableServer:
    """The state behind all clients."""

    tables: dict[str, FakeTable] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    commits: int = 0
    unfit: set[str] = field(default_factory=set)
    """Paths of files that no commit can append."""
    _uuids: count[int] = field(default_factory=count)

    def make(self, identifier: str) -> FakeTable:
        """Make a table, or make it again."""
        self.tables[identifier] = FakeTable(identifier, f"uuid-{next(self._uuids)}")
        return self.tables[identifier]

    def apply(self, seen: Table, commit: TableCommit) -> CommitResult:
        """Commit if the requirements hold."""
        with self.lock:
            table = self.tables.get(seen.identifier)
            if table is None or table.uuid != seen.uuid:
                return CommitResult(Outcome.REFUSED, why="another table")
            if table.refs.get(commit.branch) != commit.base:
                return CommitResult(Outcome.REFUSED, why="the branch has moved")
            if any(files.operation != "append" for files in commit.files):
                return CommitResult(Outcome.REFUSED, why="changes of rows need an engine")
            paths = [file.path for files in commit.files for file in files.files]
            table.add((*table.live(commit.branch), *paths), commit.summary, commit.branch)
            table.properties |= commit.properties
            self.commits += 1
            return CommitResult(Outcome.DONE, table.describe())

    def refuse(self, files: Iterable[TableFiles]) -> None:
        """Raise ``FilesRefused`` where one of them cannot be appended."""
        if refused := self.refused_files(files):
            raise FilesRefused("; ".join(refused.values()))

    def refused_files(self, files: Iterable[TableFiles]) -> dict[str, str]:
        """Return the reasons of those that cannot be appended, by path."""
        appended = (
            it for of_table in files if of_table.operation == "append" for it in of_table.files
        )
        return {it.path: f"{it.path} does not fit" for it in appended if it.path in self.unfit}

    def allow_staging(self, identifier: str, branch: str) -> None:
        """Set the property, and begin the branch where main is."""
        with self.lock:
            table = self.tables[identifier]
            table.properties[STAGED_WRITES] = "true"
            if branch not in table.refs and branch != MAIN:
                if MAIN not in table.refs:
                    table.add((), {})
                table.refs[branch] = table.refs[MAIN]

    def stage(self, merge: BranchMerge) -> None:
        """Add a snapshot that is on no branch, as an engine does, on top of what is there now."""
        with self.lock:
            table = self.tables.get(merge.table.identifier)
            if table is None:
                raise Unavailable("the engine finds no such table")
            if merge.branch != MAIN and merge.branch not in table.refs:
                raise Unavailable("the engine finds no such branch")
            live = set(table.live(merge.branch))  # what is there already is changed to the same
            paths = [
                file.path for files in merge.files for file in files.files if file.path not in live
            ]
            summary = {**merge.summary, STAGED_AS: merge.id}
            head = table.refs.get(merge.branch)
            table.add((*table.live(merge.branch), *paths), summary, merge.branch)
            if table.properties.get(STAGED_WRITES) != "true":
                return  # who does not allow staging sees it at once
            if head is None:
                del table.refs[merge.branch]
            else:
                table.refs[merge.branch] = head

    def publish(self, seen: Table, commit: TableCommit, staged: int) -> CommitResult:
        """Move a branch to a staged snapshot if the requirements hold."""
        with self.lock:
            table = self.tables.get(seen.identifier)
            if table is None or table.uuid != seen.uuid:
                return CommitResult(Outcome.REFUSED, why="another table")
            if table.refs.get(commit.branch) != commit.base:
                return CommitResult(Outcome.REFUSED, why="the branch has moved")
            if staged not in table.snapshots:
                return CommitResult(Outcome.REFUSED, why="no such snapshot")
            table.refs[commit.branch] = staged
            appended = [
                file.path
                for files in commit.files
                if files.operation == "append"
                for file in files.files
            ]
            if appended:
                table.add((*table.live(commit.branch), *appended), commit.summary, commit.branch)
            table.properties |= commit.properties
            self.commits += 1
            return CommitResult(Outcome.DONE, table.describe())


@dataclass
class FakeCatalog:
    """A client; ``before`` and ``after`` surround each call.

    ``answers`` are given instead of the commits' own, in turn, each with whether the commit
    takes effect.
    """

    server: TableServer
    before: Hook = nothing
    after: Hook = nothing
    answers: list[tuple[CommitResult, bool]] = field(default_factory=list)

    def load_table(self, identifier: str) -> Table:
        self.before("load_table", identifier)
        with self.server.lock:
            found = self.server.tables.get(identifier)
            table = found.describe() if found is not None else None
        self.after("load_table", identifier)
        if table is None:
            raise NotFound(f"no table {identifier}")
        return table

    def list_tables(self, namespace: str) -> Sequence[str]:
        return sorted(name for name in self.server.tables if name.startswith(namespace + "."))

    def create_table(self, identifier: str, new: NewTable) -> Table:
        if identifier in self.server.tables:
            raise AlreadyExists(identifier)
        return self.server.make(identifier).describe()

    def update_schema(
        self,
        table: Table,
        changes: Sequence[SchemaChange],
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> Table:
        raise NotImplementedError("no test of the coordinator changes a schema")

    def stage(self, merge: BranchMerge) -> MergeResult:
        self.server.stage(merge)
        return MergeResult()

    def allow_staging(self, table: Table, branch: str) -> Table:
        self.server.allow_staging(table.identifier, branch)
        return self.load_table(table.identifier)

    def publish(self, table: Table, commit: TableCommit, staged: int) -> CommitResult:
        self.server.refuse(commit.files)
        return self._answer("publish", table, lambda: self.server.publish(table, commit, staged))

    def commit(self, table: Table, commit: TableCommit) -> CommitResult:
        if has_changes(commit):
            return merge_commit(self, self, table, commit)
        self.server.refuse(commit.files)
        return self._answer("commit", table, lambda: self.server.apply(table, commit))

    def refused_files(self, table: Table, files: Sequence[TableFiles]) -> Mapping[str, str]:
        return self.server.refused_files(files)

    def why_no_commit(self, table: Table, branch: str) -> str:
        return ""

    def _answer(self, call: str, table: Table, apply: Callable[[], CommitResult]) -> CommitResult:
        self.before(call, table.identifier)
        if self.answers:
            answer, effective = self.answers.pop(0)
            if effective:
                apply()
            result = answer
        else:
            result = apply()
        self.after(call, table.identifier)
        return result
