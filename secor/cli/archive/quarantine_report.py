"""The output of ``secor quarantine``: objects, reasons and replays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from secor.archive.quarantine.listing import QuarantinedObject
from secor.archive.quarantine.replay import ReplayResult
from secor.cli.open_archive import human_size, table
from secor.cli.topic_type import print_json
from secor.core.text import how_many

REASONS = 15
"""Kinds of reasons printed for people."""

_VALUE = re.compile(r"'(?:[^'\\]|\\.)*'|(?<![\w.])-?\d[\w.:+-]*")
"""What a reason quotes of its message, and numbers."""


def object_as_json(row: QuarantinedObject) -> dict[str, object]:
    """Return an object in quarantine for a script."""
    archived, info = row.archived, row.archived.info
    return {
        "topic": archived.topic,
        "partition": archived.name.partition,
        "key": archived.key,
        "messages": row.messages,
        "size": archived.size,
        "modified": datetime.fromtimestamp(archived.modified, UTC).isoformat(),
        "batch": None if info is None else [info.batch.start, info.batch.end],
        "reasons": dict(row.reasons.most_common()),
    }


def show_objects(rows: Sequence[QuarantinedObject]) -> None:
    """Print a line for each object, then its messages by reason."""
    if not rows:
        click.echo("nothing is in quarantine")
        return
    lines: list[tuple[str, ...]] = [
        ("topic", "partition", "first offset", "messages", "size", "modified (UTC)", "key")
    ]
    for row in rows:
        archived = row.archived
        modified = datetime.fromtimestamp(archived.modified, UTC).strftime("%Y-%m-%d %H:%M:%S")
        numbers = (archived.name.partition, archived.first_offset, row.messages)
        cells = (*map(str, numbers), human_size(archived.size), modified, archived.key)
        lines.append((archived.topic, *cells))
    for text in table(lines, left=frozenset({0, 6})):
        click.echo(text)
    total: Counter[str] = sum((row.reasons for row in rows), Counter[str]())
    click.echo(
        f"{how_many(total.total(), 'message')} in {how_many(len(rows), 'object')}, by reason:"
    )
    _show_reasons(total)


def _show_reasons(total: Counter[str]) -> None:
    kinds = reason_kinds(total)
    shown = [(f"{number:,}", reason) for number, reason in kinds[:REASONS]]
    for text in table(shown, frozenset({1})):
        click.echo("  " + text)
    if len(kinds) > REASONS:
        more = how_many(len(kinds) - REASONS, "other reason")
        click.echo(f"  … and {more}; --json shows all")


def reason_kinds(reasons: Counter[str]) -> list[tuple[int, str]]:
    """Return numbers and reasons, the most frequent first; those that differ in values as one."""
    alike: dict[str, Counter[str]] = {}
    for reason, number in reasons.items():
        alike.setdefault(_VALUE.sub("…", reason), Counter())[reason] += number
    kinds = []
    for kind, same in alike.items():
        [(example, _)] = same.most_common(1)
        values = " and ".join(_VALUE.findall(example))
        kinds.append((same.total(), example if len(same) == 1 else f"{kind}, such as {values}"))
    return sorted(kinds, key=lambda count_and_kind: -count_and_kind[0])


def print_growth(
    topic: str, version: int, fields: list[str], outvoted: list[str], *, dry_run: bool
) -> None:
    """Say which fields a replay adds to a topic, and which values do not fit."""
    what = "would grow" if dry_run else "grew"
    click.echo(f"{topic}: the schema {what} to version {version}: {', '.join(fields)}", err=True)
    for values in outvoted:
        click.echo(f"{topic}: does not fit: {values}", err=True)


def print_replayed(replayed: ReplayResult, *, dry_run: bool) -> None:
    """Say what became of the messages of one object."""
    if replayed.gone:
        click.echo(f"{replayed.archived.key}: is gone: another replay was faster")
    elif replayed.skipped is not None:
        click.echo(f"{replayed.archived.key}: left as it is: {replayed.skipped}")
    else:
        would = "would be " if dry_run else ""
        click.echo(
            f"{replayed.archived.key}: {replayed.placed:,} {would}placed,"
            f" {replayed.filtered:,} {would}filtered, {replayed.bad:,} still bad"
        )
    for number, reason in reason_kinds(replayed.reasons)[:3]:
        click.echo(f"  {number:,} × {reason}")


def schema_remedy(reasons: Counter[str], *, into_tables: bool = False) -> str | None:
    """Return what to do about messages that are in conflict with the schema, None without any."""
    conflicts = sum(number for why, number in reasons.items() if why.startswith("schema:"))
    if not conflicts:
        return None
    if into_tables:
        return (
            f"{conflicts:,} do not fit the columns of their tables, and will not at any replay:"
            " change the columns with an engine (ALTER TABLE), or send the messages to another"
            " table ([[tables]]), then replay"
        )
    return (
        f"{conflicts:,} are in conflict with the schema, and will be at every replay: declare types"
        " that hold them (secor schema show, output.schema_file), then replay; for what is stored"
        " already, parse the backup again (secor backfill)"
    )


def summarize(
    done: Sequence[ReplayResult], *, into_tables: bool, dry_run: bool, as_json: bool
) -> None:
    """Print what became of all messages, and what to do about those that are still bad."""
    totals = {
        "objects": len(done),
        "placed": sum(replayed.placed for replayed in done),
        "filtered": sum(replayed.filtered for replayed in done),
        "bad": sum(replayed.bad for replayed in done),
    }
    if as_json:
        listed = [
            {
                "key": replayed.archived.key,
                "placed": replayed.placed,
                "filtered": replayed.filtered,
                "bad": replayed.bad,
                "objects": list(replayed.keys),
                "reasons": dict(replayed.reasons.most_common()),
                "skipped": replayed.skipped,
                "gone": replayed.gone,
            }
            for replayed in done
        ]
        print_json({**totals, "dry_run": dry_run, "replayed": listed})
    elif done:
        would = "would be " if dry_run else ""
        click.echo(
            f"{how_many(totals['objects'], 'object')}:"
            f" {how_many(totals['placed'], 'message')} {would}placed,"
            f" {totals['filtered']:,} {would}filtered, {totals['bad']:,} still bad"
        )
        reasons = sum((replayed.reasons for replayed in done), Counter[str]())
        _show_reasons(reasons)
        remedy = schema_remedy(reasons, into_tables=into_tables)
        if remedy is not None:
            click.echo(remedy)
    else:
        click.echo("nothing is in quarantine")
