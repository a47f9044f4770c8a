"""``secor tables ls``, ``show`` and ``status``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.doctor.stop_reasons import StopReasons, sentence
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import absent_topics, human_size, table
from secor.cli.progress import duration, withheld_lines
from secor.cli.tables.options import TABLE, load_tables
from secor.cli.topic_type import json_option, print_json
from secor.config.model import Config
from secor.core.model import OpenTransaction, TopicPartition
from secor.core.text import how_many
from secor.tables.commit.backlog import backlog
from secor.tables.commit.commit_history import CommitObject
from secor.tables.observer import Backlog
from secor.tables.overview import TableOverview
from secor.tables.staging.staged_manifests import Staged

if TYPE_CHECKING:
    from secor.wiring.table_group import TableGroup

Lag = Mapping[TopicPartition, int]
"""Offsets of each topic partition that a table does not have."""

NO_TABLES = "the group has no tables yet"

COMMITS = 10
"""Commits that ``show`` lists."""

config_argument = click.argument("config", type=click.Path(path_type=Path))


@click.command(epilog="Example: secor tables ls table.toml")
@config_argument
@json_option
def ls(config: Path, as_json: bool) -> int:
    """List the tables of a group: state, last commit, and what waits for the next.

    Exit code 5 when a table is stopped.
    """
    settings = load_tables(config)
    with _open(settings) as group:
        staged = group.staged()
        seen = _look(group, staged)
        lags = {overview.table: group.lag(overview, staged) for overview in seen}
        waiting = _Waiting.of(group)
    if as_json:
        listed = [_as_json(overview, lags[overview.table]) for overview in seen]
        print_json({"tables": listed, "withheld": waiting.as_json()})
    else:
        for line in (*_lines(seen, lags), *waiting.lines()):
            click.echo(line)
    return _exit(seen)


@click.command(epilog="Example: secor tables show table.toml logs.clicks")
@config_argument
@click.argument("name", metavar="TABLE", type=TABLE)
@json_option
def show(config: Path, name: str, as_json: bool) -> int:
    """Show which offsets a table has, its last commits, and what waits for the next."""
    settings = load_tables(config)
    with _open(settings) as group:
        staged = group.staged()
        group.require(name, staged)
        [overview] = group.look_at([name], staged)
        lag = group.lag(overview, staged)
        waiting = _Waiting.of(group, name)
        last = overview.record.commit
        commits = list(
            islice(group.history.back_from(overview.uuid or "", last.id if last else None), COMMITS)
        )
    if as_json:
        listed = [
            {"id": earlier.id, "at": earlier.time / 1000, "files": _files(earlier)}
            for earlier in commits
        ]
        data = {**_as_json(overview, lag), "withheld": waiting.as_json(), "commits": listed}
        print_json(data)
        return _exit([overview])
    for line in _lines([overview], {name: lag}):
        click.echo(line)
    rows: list[tuple[str, ...]] = [("cluster", "topic", "partition", "next offset", "lag")]
    for cluster, key, offset in overview.record.vector.offsets():
        behind = str(lag[key]) if key in lag else "-"
        rows.append((cluster, key.topic, str(key.partition), str(offset), behind))
    for line in (*table(rows, left=frozenset({0, 1})), *waiting.lines()):
        click.echo(line)
    for commit in commits:
        click.echo(f"{_time(commit.time)}  commit {commit.id}: {how_many(_files(commit), 'file')}")
    return _exit([overview])


@click.command(epilog="Example: secor tables status table.toml")
@config_argument
@json_option
def status(config: Path, as_json: bool) -> int:
    """Show what is not staged yet, what is staged and not committed, and each table's state.

    "Valid through" is a timestamp of messages: the table has every message up to it.

    Exit code 5 when a table or a topic partition is stopped, or a topic does not exist.
    """
    settings = load_tables(config)
    with _open(settings) as group, ExitStack() as opened:
        absent = absent_topics(settings, group.topics.partitions())
        unstaged = group.unstaged()
        reasons = StopReasons(settings, group.brokers, opened)
        stopped = _stopped(group, reasons, list(unstaged))
        staged = group.staged()
        seen = _look(group, staged)
        lags = {overview.table: group.lag(overview, staged) for overview in seen}
        withheld = _Waiting.of(group)
    waiting = [
        item
        for item in staged
        if any(overview.waits_for(item) or overview.passed_over(item) for overview in seen)
    ]
    summary, now = backlog(waiting), time.time()
    if as_json:
        data = {
            "unstaged": {str(key): offsets for key, offsets in unstaged.items()},
            "withheld": withheld.as_json(),
            "stopped": {str(key): why for key, why in stopped.items()},
            "absent": absent,
            "staged": _backlog(summary, now),
            "tables": [_as_json(overview, lags[overview.table]) for overview in seen],
        }
        print_json(data)
        return Exit.DIFFERENT if stopped or absent else _exit(seen)
    for line in absent:
        click.echo(line)
    if unstaged:
        where = how_many(len(unstaged), "topic partition")
        click.echo(f"not staged yet: {how_many(sum(unstaged.values()), 'offset')} of {where}")
    for line in withheld.lines():
        click.echo(line)
    for key, why in stopped.items():
        click.echo(f"{key}: {why}")
    if not seen:
        click.echo(NO_TABLES)
    click.echo(_waiting(summary, now))
    for overview in seen:
        valid = overview.record.valid_through
        rows = f", {how_many(overview.staged_rows, 'row')} staged" if overview.staged_rows else ""
        behind = f", {how_many(sum(lags[overview.table].values()), 'offset')} behind"
        click.echo(f"{overview.table}: {overview.state}{behind}{rows}, {_through(valid, now)}")
        if overview.why:
            click.echo(f"  {overview.why}")
    return Exit.DIFFERENT if stopped or absent else _exit(seen)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Offsets behind open transactions, and these transactions, by topic partition."""

    offsets: Mapping[TopicPartition, int]
    transactions: Mapping[TopicPartition, OpenTransaction]

    @classmethod
    def of(cls, group: TableGroup, name: str | None = None) -> _Waiting:
        """Ask for those of the group, or of the topics of one table."""
        withheld = {
            key: offsets
            for key, offsets in group.withheld().items()
            if name is None or group.feeds(name, key.topic)
        }
        opened = group.brokers.open_transactions(list(withheld)) if withheld else {}
        return cls(withheld, opened)

    def lines(self) -> Iterator[str]:
        """Give a line for each topic partition."""
        return withheld_lines(self.offsets, self.transactions)

    def as_json(self) -> dict[str, object]:
        """Return the same for ``--json``."""
        return {
            str(key): {
                "offsets": offsets,
                "transaction": asdict(self.transactions[key]) if key in self.transactions else None,
            }
            for key, offsets in self.offsets.items()
        }


def _stopped(
    group: TableGroup, reasons: StopReasons, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, str]:
    """Return why topic partitions are stopped that have something to stage."""
    errors = {key: reasons.look(group.ledger, group.brokers, key)[2] for key in partitions}
    return {key: sentence(key, error) for key, error in errors.items() if error is not None}


def _waiting(summary: Backlog, now: float) -> str:
    if not summary.manifests:
        return "nothing that is staged waits for a commit"
    batches = how_many(summary.manifests, "batch", "batches")
    files = f"{how_many(summary.files, 'file')}, {human_size(summary.size)}"
    age = f", the oldest for {duration(now - summary.oldest)}" if summary.oldest else ""
    return f"staged and not committed: {batches} with {files}{age}"


def _through(valid: int | None, now: float) -> str:
    if valid is None:
        return "valid through: not known yet"
    behind = duration(max(0.0, now - valid / 1000))
    return f"valid through {_time(valid)} (UTC), {behind} ago"


def _open(config: Config) -> AbstractContextManager[TableGroup]:
    from secor.wiring.table_group import open_table_group

    return open_table_group(config)


def _look(group: TableGroup, staged: list[Staged]) -> list[TableOverview]:
    return group.look_at(group.tables(staged), staged)


def _exit(seen: Sequence[TableOverview]) -> int:
    return (
        Exit.DIFFERENT
        if any(overview.state in ("stopped", "failed") for overview in seen)
        else Exit.OK
    )


def _lines(seen: Sequence[TableOverview], lags: Mapping[str, Lag]) -> Iterator[str]:
    if not seen:
        yield NO_TABLES
        return
    rows: list[tuple[str, ...]] = [
        (
            "table",
            "state",
            "last commit (UTC)",
            "valid through (UTC)",
            "lag",
            "staged rows",
            "files",
        )
    ]
    for overview in seen:
        commit, valid = overview.record.commit, overview.record.valid_through
        committed_time = _time(commit.time) if commit is not None else "-"
        through = _time(valid) if valid is not None else "-"
        behind = str(sum(lags[overview.table].values()))
        numbers = (behind, str(overview.staged_rows), str(overview.staged_files))
        rows.append((overview.table, overview.state, committed_time, through, *numbers))
    yield from table(rows, left=frozenset({0, 1, 2, 3}))
    for overview in seen:
        if overview.why:
            yield f"{overview.table}: {overview.why}"


def _as_json(overview: TableOverview, lag: Lag) -> dict[str, object]:
    commit = overview.record.commit
    return {
        "table": overview.table,
        "uuid": overview.uuid,
        "state": overview.state,
        "why": overview.why or None,
        "commit": None if commit is None else {"id": commit.id, "at": commit.time / 1000},
        "epoch": None if commit is None else commit.epoch,
        "valid_through": overview.record.valid_through,
        "staged": {
            "files": overview.staged_files,
            "rows": overview.staged_rows,
            "bytes": overview.staged_bytes,
        },
        "lag": {str(key): offsets for key, offsets in sorted(lag.items())},
        "vector": json.loads(overview.record.vector.dump()),
        "stopped": {str(key): why for key, why in overview.stopped.items()},
        "refused": [{**note.data(), "since": note.since / 1000} for note in overview.refused],
    }


def _backlog(summary: Backlog, now: float) -> dict[str, object]:
    return {
        "batches": summary.manifests,
        "files": summary.files,
        "bytes": summary.size,
        "oldest_seconds": None if summary.oldest is None else now - summary.oldest,
    }


def _files(commit: CommitObject) -> int:
    return sum(len(of_table.files) for of_table in commit.files)


def _time(milliseconds: int) -> str:
    """Return a time as text; one that no calendar has, as messages may say, as it is."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
