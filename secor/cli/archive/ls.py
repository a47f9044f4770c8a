"""``secor ls``: the stored objects."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from secor.archive.beginning import Beginnings
from secor.archive.objects import ArchivedObject
from secor.cli.archive.cat_cluster import kept_rows
from secor.cli.open_archive import (
    archive_of,
    archived_topics,
    human_size,
    refuse_tables,
    require_stored,
    table,
)
from secor.cli.topic_type import TOPIC, json_option, partitions_option, print_json
from secor.config.load import load
from secor.config.model import Config
from secor.core.ports import ObjectStore
from secor.core.text import how_many


@click.command(epilog="Example: secor ls backup.toml clicks --partition 0")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("topic", type=TOPIC, required=False)
@partitions_option
@click.option("--long", "long", is_flag=True, help="Also show generation, fingerprint, times, key.")
@json_option
def command(
    config: Path, topic: str | None, partitions: tuple[int, ...], long: bool, as_json: bool
) -> None:
    """List the objects of TOPIC: offsets, messages, size, time of writing.

    Without TOPIC, list the topics that have objects.  The objects' metadata give the numbers of
    messages; Java Secor's objects have none.
    """
    from secor.wiring.clients import open_store

    settings = load(config, os.environ)
    refuse_tables(settings, config)
    with open_store(settings) as store:
        if topic is None:
            _topics(settings, store, as_json=as_json)
            return
        archive = archive_of(settings, topic, store)
        objects = sorted(
            archive.objects(topic, partitions=partitions or None, with_info=True),
            key=lambda archived: (
                archived.name.partition,
                archived.name.generation,
                archived.batch_start,
                archived.key,
            ),
        )
        if not objects:
            require_stored(settings, store, topic)
        _objects(topic, objects, long=long, as_json=as_json)
        if not as_json:
            for line in _beginnings(topic, objects, archive.beginnings(topic)):
                click.echo(line)


def _beginnings(
    topic: str, objects: Sequence[ArchivedObject], beginnings: Beginnings
) -> Iterator[str]:
    """Give a line for each partition with expired first offsets."""
    logs = {(stored.name.partition, stored.name.generation) for stored in objects}
    agreed: dict[int, int] = {}
    for partition, generation in logs:
        offset = beginnings.of(partition, generation)
        # Each generation has a beginning; the greatest is what a reader meets first.
        agreed[partition] = max(offset, agreed.get(partition, 0))
    for partition, offset in sorted(agreed.items()):
        if offset:
            yield f"{topic}/{partition}: begins at offset {offset}: what was below has expired"


def _topics(config: Config, store: ObjectStore, *, as_json: bool) -> None:
    listed = []
    for topic in archived_topics(config, store):
        objects = list(archive_of(config, topic, store).objects(topic))
        if not objects:
            continue  # all of it has expired
        listed.append(
            {
                "topic": topic,
                "partitions": len({entry.name.partition for entry in objects}),
                "objects": len(objects),
                "bytes": sum(entry.size for entry in objects),
                "modified": _time(max(entry.modified for entry in objects)),
            }
        )
    kept = kept_rows(config, store)
    if as_json:
        print_json({"topics": listed, "cluster": kept})
        return
    if not listed:
        click.echo("no objects yet", err=True)
    else:
        _show_topics(listed)
    if kept:
        click.echo("\nkept of the cluster (secor cat --groups):")
        shown = [("kind", "cluster", "last change")]
        shown += [
            (str(kept_kind["kind"]), str(kept_kind["cluster"]), str(kept_kind["changed"]))
            for kept_kind in kept
        ]
        for line in table(shown, left=frozenset({0, 1, 2})):
            click.echo(line)


def _show_topics(listed: Sequence[Mapping[str, object]]) -> None:
    rows = [("topic", "partitions", "objects", "size", "last written")]
    rows += [
        (
            str(entry["topic"]),
            f"{entry['partitions']:,}",
            f"{entry['objects']:,}",
            human_size(int(str(entry["bytes"]))),
            str(entry["modified"]),
        )
        for entry in listed
    ]
    for line in table(rows, left=frozenset({0})):
        click.echo(line)


def _objects(topic: str, listed: Sequence[ArchivedObject], *, long: bool, as_json: bool) -> None:
    records = sum(archived.info.records for archived in listed if archived.info)
    size = sum(archived.size for archived in listed)
    if as_json:
        totals = {"objects": len(listed), "records": records, "bytes": size}
        objects = [_as_json(archived) for archived in listed]
        print_json({"topic": topic, "objects": objects, "totals": totals})
        return
    if not listed:
        click.echo(f"no objects of {topic} in these partitions", err=True)
        return
    heading = ("partition", "offsets", "messages", "size", "written", "object")
    more = ("generation", "fingerprint", "first time", "last time") if long else ()
    rows = [(*heading[:-1], *more, heading[-1])]
    rows += [_row(archived, long=long) for archived in listed]
    for line in table(rows, left=frozenset({len(rows[0]) - 1})):
        click.echo(line)
    untold = sum(archived.info is None for archived in listed)
    but = f" (and those in {untold:,} without a number)" if untold else ""
    in_all = f"{how_many(len(listed), 'object')}, {how_many(records, 'message')}"
    click.echo(f"{in_all}{but}, {human_size(size)}")


def _row(archived: ArchivedObject, *, long: bool) -> tuple[str, ...]:
    info = archived.info
    offsets = str(info.batch) if info else f"[{archived.name.start_offset}, ?)"
    shown = (
        str(archived.name.partition),
        offsets,
        f"{info.records:,}" if info else "?",
        human_size(archived.size),
        _time(archived.modified),
    )
    if not long:
        return (*shown, archived.key.removeprefix(archived.name.root + "/"))
    least, greatest = (info.least_timestamp, info.greatest_timestamp) if info else (None, None)
    return (
        *shown,
        str(archived.name.generation),
        info.fingerprint if info else "?",
        _milliseconds(least),
        _milliseconds(greatest),
        archived.key,
    )


def _as_json(archived: ArchivedObject) -> dict[str, object]:
    info = archived.info
    return {
        "key": archived.key,
        "partition": archived.name.partition,
        "output_partition": archived.name.output_partition,
        "generation": archived.name.generation,
        "first_offset": archived.first_offset,
        "start": info.batch.start if info else None,
        "end": info.batch.end if info else None,
        "records": info.records if info else None,
        "bytes": archived.size,
        "modified": _time(archived.modified),
        "fingerprint": info.fingerprint if info else None,
        "topic_id": info.topic_id if info else None,
        "least_timestamp": info.least_timestamp if info else None,
        "greatest_timestamp": info.greatest_timestamp if info else None,
        "fault": archived.fault,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _milliseconds(timestamp: int | None) -> str:
    """Return a message's time; one that no calendar has as its number."""
    if timestamp is None:
        return "-"
    try:
        return _time(timestamp / 1000)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp} ms"
