"""``secor parser``: try the parser of a configuration on messages at hand."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import click
import pyarrow as pa

from secor.cli.exit_codes import Exit
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.core.model import DATA, QUARANTINE, SCHEMA, Chunk, Part, TopicPartition, next_offset
from secor.core.text import how_many
from secor.parsing.parts import ROW, release_part


@click.group(epilog="Example: secor parser try partition.toml messages.json")
def command() -> None:
    """Try the parser of a configuration."""


@command.command("try", epilog="Example: head -100 clicks.json | secor parser try partition.toml -")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("messages", type=click.File("rb"), default="-", metavar="[FILE|-]")
@click.option(
    "--topic", help="Use the settings of this topic.  Default: the first of kafka.topics."
)
@click.option("--whole", is_flag=True, help="The file is one message; default: each line is one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def try_parser(
    config: Path, messages: BinaryIO, topic: str | None, whole: bool, as_json: bool
) -> int:
    """Show where each message would go and with which columns, or why it is refused.

    It asks no server except a schema registry that CONFIG names, and does not read a schema that
    is kept with the objects.  The time of Kafka's record is now.  Exit code 5 when a message would
    go into quarantine, and when there is no message.
    """
    from secor.wiring.plans import plan_for

    settings = load(config, os.environ)
    if settings.group.kind != "partition":
        raise ConfigurationError(
            f'{config}: group.kind is "{settings.group.kind}"; only "partition" has a parser to try'
        )
    values = [messages.read()] if whole else messages.read().splitlines()
    name = topic or _first_topic(settings)
    plan = plan_for(_without_kept_schema(settings, name), name, limited=False)
    parts = plan.parser.split(_chunk(name, values)) if values else ()
    rows = sorted(_rows(parts, len(values)), key=lambda row: int(str(row["message"])))
    for row in rows:
        click.echo(json.dumps(row) if as_json else _line(row))
    if not as_json:
        for line in _columns(parts):
            click.echo(line)
    if not rows:
        click.echo(f"nothing was tried: {messages.name} has no message", err=True)
        return Exit.DIFFERENT
    if not as_json:
        click.echo(_summary(rows))
    return Exit.DIFFERENT if any("quarantine" in row for row in rows) else Exit.OK


def _first_topic(config: Config) -> str:
    return config.kafka.topics[0] if config.kafka.topics else "topic"


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


def _chunk(topic: str, values: Sequence[bytes]) -> Chunk:
    """Return the messages as they come from Kafka, with their numbers as offsets."""
    count, now = len(values), int(time.time() * 1000)
    columns = {
        "offset": list(range(count)),
        "timestamp": [now] * count,
        "timestamp_type": [0] * count,
        "key": [None] * count,
        "value": list(values),
        "headers": [[]] * count,
    }
    records = pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
    return Chunk(TopicPartition(topic, 0), records, count)


def _rows(parts: Sequence[Part], count: int) -> Iterator[dict[str, object]]:
    """Give what becomes of each message, which is numbered from 1 as lines are."""
    placed: set[int] = set()
    for part in parts:
        offsets = part.records.column("offset").to_pylist()
        placed.update(offsets)
        if part.stream == QUARANTINE:
            _, reasons = release_part(part.records)
            for offset, reason in zip(offsets, reasons, strict=True):
                yield {"message": _number(offset), "quarantine": reason}
            continue
        where = part.output_partition
        for offset in offsets:
            row: dict[str, object] = {"message": _number(offset), "directory": where}
            yield row if part.stream == DATA else {**row, "route": part.stream}
    for offset in sorted(set(range(count)) - placed):
        yield {"message": _number(offset), "filtered": True}


def _number(offset: int) -> int:
    return next_offset(offset)


def _line(row: dict[str, object]) -> str:
    number = row["message"]
    if "quarantine" in row:
        return f"{number}: quarantine: {row['quarantine']}"
    if "filtered" in row:
        return f"{number}: left out by a filter"
    route = f" of {row['route']}" if "route" in row else ""
    return f"{number}: {row['directory']}{route}"


def _columns(parts: Sequence[Part]) -> Iterator[str]:
    """Give the columns of what has some, each once with all the types that were seen."""
    seen: dict[str, dict[str, None]] = {}
    for part in parts:
        if part.stream == QUARANTINE or ROW not in part.records.schema.names:
            continue
        for field in part.records.schema.field(ROW).type:
            seen.setdefault(field.name, {})[str(field.type)] = None
    if seen:
        columns = (f"{name} {' or '.join(kinds)}" for name, kinds in seen.items())
        yield f"columns: {', '.join(columns)}"


def _summary(rows: Sequence[dict[str, object]]) -> str:
    kinds = Counter(
        "in quarantine" if "quarantine" in row else "filtered" if "filtered" in row else "placed"
        for row in rows
    )
    order = ("placed", "filtered", "in quarantine")
    counts = ", ".join(f"{kinds[kind]:,} {kind}" for kind in order)
    return f"{how_many(len(rows), 'message')}: {counts}"
