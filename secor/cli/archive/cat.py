"""``secor cat``: stored messages as JSON lines, or their payloads."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import click
import pyarrow as pa
import pyarrow.compute as pc

from secor.archive.objects import ArchivedObject
from secor.cli.archive.cat_cluster import print_kept
from secor.cli.open_archive import archive_of, refuse_tables, require_stored
from secor.cli.topic_type import partitions_option
from secor.config.load import load
from secor.core.errors import ConfigurationError, NotFound
from secor.core.model import OffsetRange
from secor.core.ports import ObjectStore
from secor.formats import format_of_key
from secor.wiring.archives import erasures_of

BEYOND_ALL = 1 << 62


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """A selection of messages to print, and the way to print them."""

    offsets: OffsetRange
    limit: int | None
    raw: bool
    delimiter: bytes


Batches = Iterator[tuple[dict[str, object], pa.RecordBatch]]


@click.command(epilog="Example: secor cat backup.toml clicks --partition 0 --from 100 --limit 10")
@click.argument("what", nargs=-1, required=True, metavar="CONFIG TOPIC | CONFIG KEY... | FILE...")
@partitions_option
@click.option(
    "--from",
    "start",
    type=click.IntRange(0),
    default=0,
    metavar="OFFSET",
    help="First offset.  Default: the first that is stored.",
)
@click.option(
    "--to",
    "end",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="The offset to end before.  Default: print all.",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    help="Print at most this many messages.  Default: all.",
)
@click.option("--raw", is_flag=True, help="Print only payloads, each with the delimiter.")
@click.option("--delimiter", default="\\n", show_default=True, help="For --raw, and to read text.")
@click.option("--groups", "kept", flag_value="groups", help="Print consumer groups' kept offsets.")
@click.option("--acls", "kept", flag_value="acls", help="Print the kept ACLs.")
@click.option("--quotas", "kept", flag_value="quotas", help="Print the kept client quotas.")
@click.option("--schemas", "kept", flag_value="schemas", help="Print the kept schemas.")
@click.option("--at", "time", metavar="TIME", help="Of these: as they were (ISO 8601 with a zone).")
@click.option("--cluster", metavar="ID", help="Of these: the cluster's id.  Default: the newest.")
def command(
    what: tuple[str, ...],
    partitions: tuple[int, ...],
    start: int,
    end: int | None,
    limit: int | None,
    raw: bool,
    delimiter: str,
    kept: str | None,
    time: str | None,
    cluster: str | None,
) -> None:
    """Print stored messages as JSON lines.

    \b
    secor cat CONFIG TOPIC     the messages of a topic, partition by partition
    secor cat CONFIG KEY...    the messages of objects in the store
    secor cat FILE...          the messages of local files, Java Secor's as well
    secor cat --groups CONFIG  what consumer groups had committed (docs/recovery.md)

    CONFIG must end with .toml.  A key or payload that is not UTF-8 is printed in base64, and
    key_encoding or value_encoding says so.
    """  # noqa: D301 - click looks for the character, to leave the lines as they are
    if kept is not None:
        print_kept(what, kept, time, cluster)
        return
    if time is not None or cluster is not None:
        raise click.UsageError("--at and --cluster are for --groups, --acls, --quotas, --schemas")
    if end is not None and end < start:
        raise ConfigurationError(f"--to {end} is below --from {start}")
    separator = _unescaped(delimiter)
    shown = PrintOptions(
        OffsetRange(start, BEYOND_ALL if end is None else end), limit, raw, separator
    )
    with ExitStack() as opened:
        if what[0].endswith(".toml"):
            batches = _stored(opened, what, partitions, shown)
        else:
            batches = _local(opened, what, separator)
        _print(batches, shown)


def _unescaped(delimiter: str) -> bytes:
    r"""Return the bytes of ``\t``, ``\x1e`` and plain text.  Raises ``ConfigurationError``."""
    try:
        return delimiter.encode().decode("unicode_escape").encode("latin-1")
    except UnicodeError as error:
        raise ConfigurationError(
            rf"--delimiter {delimiter}: write bytes as \n, \t or \xNN, and other text as it is"
        ) from error


def _stored(
    opened: ExitStack, what: tuple[str, ...], partitions: tuple[int, ...], shown: PrintOptions
) -> Batches:
    from secor.wiring.clients import open_store

    config = load(Path(what[0]), os.environ)
    # Objects of a table group can be looked at by key, if not as messages of a topic.
    if not any("/" in key for key in what[1:]):
        refuse_tables(config, what[0])
    if len(what) == 1:
        raise ConfigurationError("say which TOPIC or KEY to print; secor ls lists them")
    store = opened.enter_context(open_store(config))
    # A topic's name has no slash, and every object's key has one.
    if len(what) == 2 and "/" not in what[1]:
        topic = what[1]
        archive = archive_of(config, topic, store)
        objects = sorted(
            archive.objects(topic, partitions=partitions or None, offsets=shown.offsets),
            key=lambda archived: (
                archived.name.partition,
                archived.name.generation,
                archived.first_offset,
                archived.key,
            ),
        )
        if not objects:
            require_stored(config, store, topic)
            click.echo(
                f"no objects of {topic} in this range; secor ls lists what there is", err=True
            )
        # Applied here, too: an object that somebody brings back from a copy has erased messages
        # again.
        erasures = erasures_of(config, archive, topic)
        for archived in _may_hold(objects, shown.offsets.start):
            erased = erasures.of_object(archived.name, None)
            for batch in archive.read(archived):
                about = {"topic": topic, "partition": archived.name.partition}
                yield about, erased.without(batch)
        return
    for key in what[1:]:
        with _object(store, key) as file:
            for batch in format_of_key(key, file, delimiter=shown.delimiter).read(file, key):
                yield {"object": key}, batch


def _object(store: ObjectStore, key: str) -> BinaryIO:
    try:
        return store.open(key)
    except NotFound as error:
        raise ConfigurationError(
            f"{key}: the store has no such object; secor ls CONFIG TOPIC --long lists the keys"
        ) from error


def _may_hold(objects: list[ArchivedObject], start: int) -> list[ArchivedObject]:
    """Leave out objects that end before ``start``: another of the same place begins up to it."""
    floors: dict[tuple[int, int, str], int] = {}
    for archived in objects:
        if archived.name.start_offset <= start:
            place = _place(archived)
            floors[place] = max(archived.name.start_offset, floors.get(place, 0))
    return [
        archived
        for archived in objects
        if archived.name.start_offset >= floors.get(_place(archived), 0)
    ]


def _place(archived: ArchivedObject) -> tuple[int, int, str]:
    return archived.name.partition, archived.name.generation, archived.name.output_partition


def _local(opened: ExitStack, names: tuple[str, ...], delimiter: bytes) -> Batches:
    for name in names:
        file = opened.enter_context(_opened(name))
        about: dict[str, object] = {"object": name} if len(names) > 1 else {}
        for batch in format_of_key(name, file, delimiter=delimiter).read(file, name):
            yield about, batch


def _opened(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise ConfigurationError(
            f"{name}: there is no such file (a CONFIG ends with .toml)"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"{name}: cannot be read ({error.strerror})") from error


def _print(batches: Batches, shown: PrintOptions) -> None:
    left = shown.limit
    for about, batch in batches:
        batch = _within(batch, shown.offsets)
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        if shown.raw:
            values = batch.column("value").to_pylist()
            # A message without a value has no payload: an empty line would be one that nobody sent.
            lines = [value + shown.delimiter for value in values if value is not None]
        else:
            lines = [line(about, row) for row in batch.to_pylist()]
        click.echo(b"".join(lines), nl=False)
        if left == 0:
            break


def _within(batch: pa.RecordBatch, offsets: OffsetRange) -> pa.RecordBatch:
    column = batch.column("offset")
    everything = offsets.start == 0 and offsets.end == BEYOND_ALL
    # Files of others, such as text, have no offsets: there the range says nothing, and all is
    # shown.
    if everything or column.null_count == batch.num_rows:
        return batch
    wanted = pc.and_(pc.greater_equal(column, offsets.start), pc.less(column, offsets.end))
    return batch.filter(wanted)


def line(about: dict[str, object], row: dict[str, Any]) -> bytes:
    """Return a message as a line of JSON, after what is said ``about`` it."""
    shown = {**about, "offset": row["offset"], "timestamp": row["timestamp"]}
    if row["timestamp_type"]:
        shown["timestamp_type"] = row["timestamp_type"]
    for name in ("key", "value"):
        shown[name], encoding = _text(row[name])
        if encoding:
            shown[f"{name}_encoding"] = encoding
    if row["headers"]:
        shown["headers"] = [_header(header) for header in row["headers"]]
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _header(header: dict[str, Any]) -> dict[str, str | None]:
    text, encoding = _text(header["value"])
    shown = {"key": header["key"], "value": text}
    return {**shown, "value_encoding": encoding} if encoding else shown


def _text(data: bytes | None) -> tuple[str | None, str | None]:
    """Return text and, where it is not the bytes themselves, its encoding."""
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"
