"""``secor archive expire``: the oldest objects go, after the new beginning is agreed."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from pydantic_core import PydanticCustomError

from secor import __version__
from secor.archive.expire import (
    Expiry,
    LogExpiry,
    choose_by_age,
    choose_by_size,
    note_removed,
)
from secor.cli.backfill.publish import progress
from secor.cli.doctor.store_checks import clock
from secor.cli.open_archive import (
    archive_of,
    archived_topics,
    earlier_routes,
    human_size,
    refuse_tables,
    require_stored,
    table,
)
from secor.cli.topic_type import TOPIC, json_option, metrics_file_option, print_json
from secor.config.load import load
from secor.config.model import Config
from secor.config.values import parse_duration, parse_size
from secor.core.clock import SystemClock
from secor.core.ports import ObjectStore
from secor.core.text import how_many, iso_time
from secor.service.monitoring.last_run import LastRun


def _parsed(parse: Callable[[object], object]) -> Callable[..., float | None]:
    def of_option(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            number = parse(text)
        except PydanticCustomError as error:
            raise click.BadParameter(str(error.message()), param=parameter) from error
        if not isinstance(number, int | float) or isinstance(number, bool):
            raise click.BadParameter(f"{text!r} is no number", param=parameter)
        return number

    return of_option


@click.command("expire", epilog="Example: secor archive expire backup.toml --older-than 400d")
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--older-than",
    metavar="AGE",
    callback=_parsed(parse_duration),
    help="Remove what is wholly older, by the times of messages, such as 400d.",
)
@click.option(
    "--keep-bytes",
    metavar="SIZE",
    callback=_parsed(parse_size),
    help="Of each topic, remove the oldest objects until this much is left, such as 2TiB.",
)
@click.option(
    "--topic",
    "topics",
    type=TOPIC,
    multiple=True,
    metavar="TOPIC",
    help="Only this topic; may be repeated.  Default: all topics that are stored.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would go, by topic and day.")
@click.option(
    "--note",
    is_flag=True,
    help="Remove nothing: agree that the archive begins with the first objects that are there,"
    " as the store's own lifecycle rules have removed those before.",
)
@json_option
@metrics_file_option
def expire_command(
    config: Path,
    older_than: float | None,
    keep_bytes: float | None,
    topics: tuple[str, ...],
    dry_run: bool,
    note: bool,
    as_json: bool,
    metrics_file: Path | None,
) -> None:
    """Remove the oldest objects of a group's topics for good.

    First the new beginning of the archive is agreed, by a record next to the objects of each topic
    partition; then the objects go.  verify, recover, restore, cat, ls and Spark know the
    beginning: nothing below it is missing.  The newest object of a topic partition always stays.
    A run that was interrupted is finished by the next one.  The service may run meanwhile.
    """
    from secor.wiring.clients import open_store

    if note and (older_than is not None or keep_bytes is not None):
        raise click.UsageError("--note removes nothing: take --older-than and --keep-bytes away")
    if not note and older_than is None and keep_bytes is None:
        raise click.UsageError("say what goes: --older-than AGE, --keep-bytes SIZE, or --note")
    settings = load(config, os.environ)
    refuse_tables(settings, config)
    last_run = LastRun(metrics_file, SystemClock())
    if not dry_run:
        last_run.expiring(settings.group.name)
    with open_store(settings) as store:
        if older_than is not None:
            clock(store, time.time)  # a clock that jumped would let everything go
        # All names before anything is chosen: a wrong one must not come to light when other topics
        # have lost their objects.
        for topic in topics:
            require_stored(settings, store, topic)
        before = None if older_than is None else time.time() - older_than
        keep = None if keep_bytes is None else int(keep_bytes)
        # Of all topics first: a store that fails in the middle of looking has removed nothing.
        done = [
            (expiry, _chosen(expiry, before, keep, note=note))
            for expiry in _expiries(settings, store, topics, _why(older_than, keep_bytes))
        ]
        if not dry_run:
            _carry_out(done, note=note)
    logs = [log for _, of_topic in done for log in of_topic]
    if not dry_run:
        last_run.expired(settings.group.name, _counts(logs))
    _print(logs, dry_run=dry_run, note=note, as_json=as_json)


def _why(older_than: float | None, keep_bytes: float | None) -> str:
    parts = []
    if older_than is not None:
        parts.append(f"older than {older_than / 86400:g} days")
    if keep_bytes is not None:
        parts.append(f"above {human_size(int(keep_bytes))} of the topic")
    return " or ".join(parts) or "noted: removed by the store's own rules"


def _expiries(config: Config, store: ObjectStore, topics: Sequence[str], why: str) -> list[Expiry]:
    routes = earlier_routes(config, store)
    return [
        Expiry(
            archive_of(config, topic, store, routes),
            topic,
            f"secor {__version__}",
            why,
            lambda: iso_time(time.time()),
        )
        for topic in topics or archived_topics(config, store)
    ]


def _chosen(
    expiry: Expiry, before: float | None, keep: int | None, *, note: bool
) -> list[LogExpiry]:
    logs = expiry.logs()
    if note:
        return note_removed(logs)
    if before is not None:
        choose_by_age(logs, before)
    if keep is not None:
        # After the age: what goes for that counts no more against the size.
        choose_by_size(logs, keep)
    return logs


def _carry_out(chosen: Sequence[tuple[Expiry, list[LogExpiry]]], *, note: bool) -> None:
    if note:
        for expiry, logs in chosen:
            for log in logs:
                expiry.agree(log)
        return
    total = sum(_counts(logs)["objects"] for _, logs in chosen)
    with progress("removing") as show:
        removed = 0
        for expiry, logs in chosen:

            def count(more: int) -> None:
                nonlocal removed
                removed += more
                if show is not None:
                    show(removed, int(total))

            expiry.run(logs, count)


def _counts(logs: Sequence[LogExpiry]) -> dict[str, float]:
    units = [unit for log in logs for unit in log.removed]
    leftovers = [archived for log in logs for archived in log.leftovers]
    return {
        "objects": sum(len(unit.objects) for unit in units) + len(leftovers),
        "bytes": sum(unit.size for unit in units) + sum(leftover.size for leftover in leftovers),
    }


def _print(logs: Sequence[LogExpiry], *, dry_run: bool, note: bool, as_json: bool) -> None:
    days = _by_day(logs)
    counts = _counts(logs)
    moved = [log for log in logs if log.count or note]
    if as_json:
        document = {
            "dry_run": dry_run,
            **counts,
            "beginnings": [
                {
                    "topic": log.topic_partition.topic,
                    "partition": log.topic_partition.partition,
                    "before": log.before,
                    "beginning": log.beginning,
                    "leftovers": len(log.leftovers),
                }
                for log in moved
            ],
            "days": [
                {"topic": topic, "day": day, **dict(sums)} for (topic, day), sums in days.items()
            ],
        }
        print_json(document)
        return
    if days:
        rows = [("topic", "day", "objects", "messages", "size")]
        rows += [
            (
                topic,
                day,
                f"{of_day['objects']:,}",
                f"{of_day['messages']:,}",
                human_size(of_day["bytes"]),
            )
            for (topic, day), of_day in days.items()
        ]
        for line in table(rows, left=frozenset({0, 1})):
            click.echo(line)
    would = "would begin" if dry_run else "begins"
    for log in moved:
        old = "" if note else f" (before: {log.before})"
        click.echo(f"{log.topic_partition}: the archive {would} at offset {log.beginning}{old}")
    leftovers = sum(len(log.leftovers) for log in logs)
    if leftovers:
        click.echo(f"{how_many(leftovers, 'object')} left by an interrupted run")
    if note:
        click.echo("" if moved else "every archive begins where it did", nl=not moved)
        return
    done = "would be removed" if dry_run else "removed"
    shown = how_many(int(counts["objects"]), "object")
    click.echo(
        f"{shown}, {human_size(int(counts['bytes']))}: {done}"
        if counts["objects"]
        else "nothing has expired"
    )


def _by_day(logs: Sequence[LogExpiry]) -> dict[tuple[str, str], Counter[str]]:
    days: dict[tuple[str, str], Counter[str]] = {}
    for log in logs:
        for unit in log.removed:
            sums = days.setdefault((log.topic_partition.topic, unit.day), Counter())
            sums.update(
                {"objects": len(unit.objects), "messages": unit.messages, "bytes": unit.size}
            )
    return dict(sorted(days.items()))
