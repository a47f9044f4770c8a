"""The overview of a table: its vector, its last commit, and what waits for the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from secor.core.errors import (
    ConfigurationError,
    NotFound,
    SecorError,
    TableStopped,
)
from secor.core.model import TopicPartition
from secor.tables.catalog import Catalog
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.refused_files import RefusedFile, describe, waiting_manifests
from secor.tables.commit.selection import select
from secor.tables.commit.table_commit import GONE, TableCommitter
from secor.tables.rows.table_rows import missing_origin, without_origin
from secor.tables.staging.staged_manifests import Staged


@dataclass(frozen=True, slots=True)
class TableOverview:
    """``state`` is ``ok``, ``new`` (no commit yet), ``absent`` (made with its first messages),
    ``stopped`` or ``failed``, ``why`` the reason.

    ``staged_…`` is what the next commit takes; ``stopped`` says why topic partitions go no
    further.
    """

    table: str
    uuid: str | None
    state: str
    why: str
    record: GroupRecord
    staged_files: int = 0
    staged_rows: int = 0
    staged_bytes: int = 0
    stopped: dict[TopicPartition, str] = field(default_factory=dict)

    @property
    def refused(self) -> tuple[RefusedFile, ...]:
        """Files that wait because the catalog refuses them."""
        return tuple(note for note in self.record.refused if note.waits)

    def waits_for(self, item: Staged) -> bool:
        """Return whether the table still needs a batch."""
        if item.manifest is None:
            return True
        if not any(table.table == self.table and table.files for table in item.manifest.tables):
            return False
        reached = self.record.vector.next_offset(item.manifest.cluster, item.topic_partition)
        return reached is None or item.range.end > reached

    def passed_over(self, item: Staged) -> bool:
        """Return whether files of a batch wait because the catalog refuses them."""
        return item.listed.key in waiting_manifests(self.record.refused)


def has_files(staged: Iterable[Staged], table: str) -> bool:
    """Return whether files for a table are staged, or may be: a manifest cannot be read."""
    return any(
        item.manifest is None or any(files.table == table for files in item.manifest.tables)
        for item in staged
    )


def tables_of_group(
    catalog: Catalog,
    group: str,
    named: Iterable[str],
    namespaces: Iterable[str],
    staged: Sequence[Staged],
) -> list[str]:
    """Return the tables that a group has, or is about to have, rows in.

    ``named`` are those of the configuration; in ``namespaces`` those that know the group are
    looked for.
    """
    tables = {
        files.table
        for item in staged
        if item.manifest is not None
        for files in item.manifest.tables
    }
    tables |= set(named)
    for namespace in namespaces:
        for identifier in set(catalog.list_tables(namespace)) - tables:
            try:
                known = GroupRecord.of(catalog.load_table(identifier), group).commit is not None
            except NotFound:
                continue  # dropped meanwhile
            if known:
                tables.add(identifier)
    return sorted(tables)


def require_table(name: str, group: str, tables: Sequence[str], catalog: Catalog) -> None:
    """Raise ``ConfigurationError`` for a table that neither ``tables`` nor the catalog has.

    ``tables`` are those of the group: one of them may have been dropped.
    """
    if name in tables:
        return
    has = f"the tables of {group}: {', '.join(tables)}" if tables else f"{group} has no tables yet"
    if not all(name.partition(".")):
        raise ConfigurationError(f"{name}: write namespace.table; {has}")
    try:
        catalog.load_table(name)
    except NotFound as error:
        raise ConfigurationError(f"{name}: the catalog has no such table; {has}") from error


CREATED_BY_MESSAGES = "does not exist: it is made with its first messages"
MUST_BE_CREATED = "does not exist: create it, or set auto_create = true in [[tables]]"


def look_at(
    committer: TableCommitter,
    table: str,
    staged: Sequence[Staged],
    *,
    auto_create: bool = False,
    metadata_columns: Sequence[str] = (),
) -> TableOverview:
    """Look at one table; what is wrong with it is in the answer.

    With ``auto_create``, messages make the table: one without files need not exist.  It is
    stopped without ``metadata_columns``, which nobody adds.
    """
    record, uuid = GroupRecord(), None
    try:
        loaded, record = committer.look(table, settles=True)
        uuid = loaded.uuid
        # Twice: with ``settles`` the record is read even of a table that is stopped, the second
        # look says why it is.
        committer.look(table)
        chosen = select(table, loaded.uuid, record, staged)
        why = committer.why_no_commit(loaded) if chosen.files else ""
    except TableStopped as error:
        if error.reason == GONE and not has_files(staged, table):
            state, why = (
                ("absent", CREATED_BY_MESSAGES) if auto_create else ("stopped", MUST_BE_CREATED)
            )
            return TableOverview(table, uuid, state, why, record)
        return TableOverview(table, uuid, "stopped", f"{error.reason}: {error}", record)
    except SecorError as error:
        return TableOverview(table, uuid, "failed", str(error), record)
    stops = [f"{key}: {why}" for key, why in sorted(chosen.stopped.items())]
    stops += describe(table, record.refused)
    stops += [
        without_origin("it", name) for name in missing_origin(loaded.schema, metadata_columns)
    ]
    files = [file for of_table in chosen.files for file in of_table.files]
    state = "stopped" if stops else "new" if record.commit is None else "ok"
    return TableOverview(
        table,
        uuid,
        "failed" if why else state,
        "; ".join([*([why] if why else []), *stops]),
        record,
        staged_files=len(files),
        staged_rows=sum(file.records for file in files),
        staged_bytes=sum(file.size for file in files),
        stopped=dict(chosen.stopped),
    )
