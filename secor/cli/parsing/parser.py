"""``secor parser``: try the parser of a configuration on messages at hand, or of a topic."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import click
import pyarrow as pa

from secor.cli.exit_codes import Exit
from secor.cli.parsing.try_tables import QUARANTINED, MessagesToTry, line_label, try_tables
from secor.cli.topic_type import TOPIC, partitions_option
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.core.model import DATA, QUARANTINE, SCHEMA, Chunk, Part, TopicPartition
from secor.core.text import how_many
from secor.parsing.parts import ROW, release_part

LAST = 1000
"""Messages of a topic that are tried."""


@click.group(epilog="Example: secor parser try partition.toml messages.json")
def command() -> None:
    """Try the parser of a configuration."""


@command.command(
    "try", epilog="Example: secor parser try table.toml --from-topic clicks --last 200"
)
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("messages", type=click.File("rb"), required=False, metavar="[FILE|-]")
@click.option(
    "--topic", help="Use the settings of this topic.  Default: the first of kafka.topics."
)
@click.option("--whole", is_flag=True, help="The file is one message; default: each line is one.")
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="Each line is a key, TEXT and a value; without a value it is a tombstone.",
)
@click.option("--from-topic", type=TOPIC, help="Take the messages of this topic, by [kafka].")
@click.option(
    "--last",
    type=click.IntRange(1),
    default=LAST,
    show_default=True,
    metavar="N",
    help="With --from-topic: the last N messages, as many of each partition.",
)
@click.option(
    "--from",
    "start",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="With --from-topic: N messages from this offset on.  Default: the last ones.",
)
@partitions_option
@click.option(
    "--without-catalog",
    is_flag=True,
    help="In a table group: ask no catalog; each table is made anew.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def try_parser(
    config: Path,
    messages: BinaryIO | None,
    topic: str | None,
    whole: bool,
    key_separator: str | None,
    from_topic: str | None,
    last: int,
    start: int | None,
    partitions: tuple[int, ...],
    without_catalog: bool,
    as_json: bool,
) -> int:
    """Show where each message would go and with which columns, or why it is refused.

    In a table group it shows the rows of each message, and the tables: which would be made and
    which columns they would get, after a look into the catalog (--without-catalog: as if there
    were no table).  It changes nothing: no table, object, offset or ledger entry.

    Servers that it asks: a schema registry that CONFIG names, the catalog, and the brokers with
    --from-topic.  It does not read a schema that is kept with the objects.  The time of Kafka's
    record of messages from a file is now.  Exit code 5 when a message would go into quarantine,
    and when there is no message.
    """
    settings = load(config, os.environ)
    if settings.group.kind == "backup":
        raise ConfigurationError(
            f'{config}: group.kind is "backup"; only "partition" and "table" have a parser to try'
        )
    if from_topic is None and (start is not None or partitions):
        raise ConfigurationError("--from and --partition are for --from-topic")
    if from_topic is not None and (messages is not None or topic or whole or key_separator):
        raise ConfigurationError(
            "--from-topic takes messages and settings of that topic: leave out FILE, --topic,"
            " --whole and --key-separator"
        )
    if from_topic is None:
        file = sys.stdin.buffer if messages is None else messages
        lines = _Lines(whole, None if key_separator is None else key_separator.encode())
        name = topic or _first_topic(settings)
        source = MessagesToTry(name, lines.chunks(name, file), f"{file.name} has no message")
    else:
        chunks = _messages_of(settings, from_topic, last, start, partitions)
        source = MessagesToTry(from_topic, chunks, f"topic {from_topic} has none", numbered=False)
    if settings.group.kind == "table":
        tried = try_tables(settings, source, without_catalog=without_catalog, as_json=as_json)
    else:
        tried = _try_places(settings, source, as_json=as_json)
    if not tried.total():
        click.echo(f"nothing was tried: {source.absence}", err=True)
    return Exit.OK if tried.total() and not tried[QUARANTINED] else Exit.DIFFERENT


@dataclass(frozen=True, slots=True)
class _Lines:
    """A file as messages: one in all if it is ``whole``, else each line."""

    whole: bool
    separator: bytes | None

    def chunks(self, topic: str, file: BinaryIO) -> Iterator[Chunk]:
        """Give the messages as they come from Kafka, with their numbers as offsets."""
        values = [file.read()] if self.whole else file.read().splitlines()
        pairs = [self._pair(value) for value in values]
        count, now = len(pairs), int(time.time() * 1000)
        columns: dict[str, list[Any]] = {
            "offset": list(range(count)),
            "timestamp": [now] * count,
            "timestamp_type": [0] * count,
            "key": [key for key, _ in pairs],
            "value": [value for _, value in pairs],
            "headers": [[]] * count,
        }
        records = pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
        if count:
            yield Chunk(TopicPartition(topic, 0), records, count)

    def _pair(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        if self.separator is None:
            return None, line
        key, _, value = line.partition(self.separator)
        return key, value or None


def _messages_of(
    config: Config, topic: str, last: int, first: int | None, partitions: Sequence[int]
) -> Iterator[Chunk]:
    """Give the last messages of a topic, or those from an offset on, as many of each partition."""
    from secor.wiring.clients import open_reader

    with open_reader(config) as reader:
        known = reader.partitions(topic)
        if not known:
            raise ConfigurationError(f"there is no topic {topic}")
        chosen = [
            candidate for candidate in known if not partitions or candidate.partition in partitions
        ]
        if not chosen:
            raise ConfigurationError(f"topic {topic} has partitions 0 to {len(known) - 1}")
        # Rounded up: rather some more than none of a partition.
        share = -(-last // len(chosen))
        for topic_partition in chosen:
            log = reader.log_range(topic_partition)
            start = max(log.start, log.end - share if first is None else first)
            for chunk in reader.read(topic_partition, start, min(log.end, start + share)):
                if chunk.records.num_rows:
                    yield chunk


def _first_topic(config: Config) -> str:
    if not config.kafka.topics and config.group.kind == "table":
        raise ConfigurationError("the group's topics are a pattern: name one by --topic")
    return config.kafka.topics[0] if config.kafka.topics else "topic"


def _try_places(config: Config, source: MessagesToTry, *, as_json: bool) -> Counter[str]:
    """Show the place of each message; return how many there are of each fate."""
    from secor.wiring.plans import plan_for

    plan = plan_for(_without_kept_schema(config, source.topic), source.topic, limited=False)
    tried: Counter[str] = Counter()
    columns: dict[str, dict[str, None]] = {}
    for chunk in source.chunks:
        parts = plan.parser.split(chunk)
        # Parts are by directory; a person compares with the file, line by line.
        for offset, row in sorted(_rows(parts, chunk), key=lambda pair: pair[0]):
            tried[_fate(row)] += 1
            named = {**source.label(chunk.topic_partition, offset), **row}
            click.echo(json.dumps(named) if as_json else _line(named))
        _add_columns(columns, parts)
    if as_json or not tried:
        return tried
    if columns:
        texts = (f"{name} {' or '.join(kinds)}" for name, kinds in columns.items())
        click.echo(f"columns: {', '.join(texts)}")
    order = ("placed", "filtered", QUARANTINED)
    counts = ", ".join(f"{tried[fate]:,} {fate}" for fate in order)
    click.echo(f"{how_many(tried.total(), 'message')}: {counts}")
    return tried


def _without_kept_schema(config: Config, topic: str) -> Config:
    """Return it with a format that needs no schema, where one would be kept in the store.

    The columns are then as the messages at hand have them.
    """
    from secor.wiring.plans import keeps_schema

    if not keeps_schema(config, topic):
        return config
    chosen = config.for_topic(topic)
    output = chosen.output.model_copy(update={"format": "jsonlines", "codec": "none"})
    return config.model_copy(update={"output": output, "parser": chosen.parser, "topics": ()})


def _rows(parts: Sequence[Part], chunk: Chunk) -> Iterator[tuple[int, dict[str, object]]]:
    """Give the fate of each message with its offset."""
    placed: set[int] = set()
    for part in parts:
        offsets = part.records.column("offset").to_pylist()
        placed.update(offsets)
        if part.stream == QUARANTINE:
            _, reasons = release_part(part.records)
            for offset, reason in zip(offsets, reasons, strict=True):
                yield offset, {"quarantine": reason}
            continue
        where = part.output_partition
        for offset in offsets:
            row: dict[str, object] = {"directory": where}
            yield offset, row if part.stream == DATA else {**row, "route": part.stream}
    for offset in chunk.records.column("offset").to_pylist():
        if offset not in placed:
            yield offset, {"filtered": True}


def _fate(row: dict[str, object]) -> str:
    return QUARANTINED if "quarantine" in row else "filtered" if "filtered" in row else "placed"


def _line(row: dict[str, object]) -> str:
    number = line_label(row)
    if "quarantine" in row:
        return f"{number}: quarantine: {row['quarantine']}"
    if "filtered" in row:
        return f"{number}: left out by a filter"
    route = f" of {row['route']}" if "route" in row else ""
    return f"{number}: {row['directory']}{route}"


def _add_columns(columns: dict[str, dict[str, None]], parts: Sequence[Part]) -> None:
    """Add the columns of parts, each once with all the types that were seen."""
    for part in parts:
        if part.stream == QUARANTINE or ROW not in part.records.schema.names:
            continue
        for field in part.records.schema.field(ROW).type:
            columns.setdefault(field.name, {})[str(field.type)] = None
