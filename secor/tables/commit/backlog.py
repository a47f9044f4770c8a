"""The backlog of a group and of each table: files that are staged and not committed yet; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.observer import Backlog
from secor.tables.staging.manifest import TableFiles
from secor.tables.staging.staged_manifests import Staged

FINISHED = (Result.COMMITTED, Result.NOTHING)


def backlog(waiting: Sequence[Staged]) -> Backlog:
    """Sum up what is staged."""
    return _sum_up(waiting, [of_table for item in waiting for of_table in files_by_table(item)])


def backlog_by_table(
    staged: Sequence[Staged], results: Mapping[str, TableResult]
) -> dict[str, Backlog]:
    """Return what each table still lacks after a cycle; a table that lacks nothing is left out."""
    waiting: dict[str, list[Staged]] = {}
    files: dict[str, list[TableFiles]] = {}
    for item in staged:
        for of_table in files_by_table(item):
            table = of_table.table
            if not lacks(item, table, results):
                continue
            items = waiting.setdefault(table, [])
            # A manifest may have files of a table under several operations: it counts once.
            if not items or items[-1] is not item:
                items.append(item)
            files.setdefault(table, []).append(of_table)
    return {table: _sum_up(items, files[table]) for table, items in waiting.items()}


def _sum_up(waiting: Sequence[Staged], of_tables: Sequence[TableFiles]) -> Backlog:
    files = [file for of_table in of_tables for file in of_table.files]
    return Backlog(
        manifests=len(waiting),
        files=len(files),
        size=sum(file.size for file in files),
        oldest=min((item.listed.modified for item in waiting), default=None),
        rows=sum(file.records for file in files),
    )


def is_done(item: Staged, results: Mapping[str, TableResult]) -> bool:
    """Return whether every table that a manifest has files for had them before this cycle."""
    if item.manifest is None:
        return False
    tables = {of_table.table for of_table in files_by_table(item)}
    return all(table in results and item.listed.key in results[table].done for table in tables)


def is_committed(item: Staged, results: Mapping[str, TableResult]) -> bool:
    """Return whether this cycle brought a manifest into all of its tables."""
    if item.manifest is None:
        return False
    tables = {of_table.table for of_table in files_by_table(item)}
    return all(table in results and _is_in(item, results[table]) for table in tables)


def is_of_earlier_topic(item: Staged, topic_ids: Mapping[str, str | None]) -> bool:
    """Return whether the batch's topic was recreated since."""
    present = topic_ids.get(item.topic_partition.topic)
    was = item.manifest.topic_id if item.manifest is not None else None
    return not item.listed.replay and None not in (was, present) and was != present


def files_by_table(item: Staged) -> Iterator[TableFiles]:
    """Give a manifest's files by table, without tables that it has no files for."""
    if item.manifest is not None:
        yield from (of_table for of_table in item.manifest.tables if of_table.files)


def lacks(item: Staged, table: str, results: Mapping[str, TableResult]) -> bool:
    """Return whether a table does not have a manifest's files after a cycle."""
    return table not in results or not _has(item, results[table])


def _has(item: Staged, result: TableResult) -> bool:
    return item.listed.key in result.done or _is_in(item, result)


def _is_in(item: Staged, result: TableResult) -> bool:
    return (
        result.result in FINISHED
        and item.topic_partition not in result.stopped
        and not has_refused(item, result)
    )


def has_refused(item: Staged, result: TableResult) -> bool:
    """Return whether files of a manifest wait because the table's catalog refuses them."""
    return any(note.manifest == item.listed.key for note in result.refused)
