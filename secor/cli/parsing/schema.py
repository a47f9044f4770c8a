"""``secor schema``: the fields of a topic, as they are kept, or to be written down."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
import pyarrow as pa

from secor.cli.open_archive import of_topic
from secor.cli.topic_type import TOPIC
from secor.config.decoders import KeyDecoding
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError, RestartPartition
from secor.core.model import QUARANTINE, Chunk, TopicPartition
from secor.core.ports import MessageParser
from secor.core.text import how_many, withheld_text
from secor.parsing.parts import ROW

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader

_output = click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this new file instead of printing; an existing file is not overwritten.",
)


@click.group(epilog="Example: secor schema show partition.toml clicks")
def command() -> None:
    """Show the fields of a topic, or write a schema for output.schema_file.

    Without a schema file, the schema of Parquet, ORC and Avro is kept with the topic's objects
    and grows with the messages.  A schema in a file does not change.
    """


@command.command(epilog="Example: secor schema show partition.toml clicks > clicks.json")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("topic", type=TOPIC)
@click.option(
    "--version", type=click.IntRange(1), metavar="N", help="Version; default: the current one."
)
@_output
def show(config: Path, topic: str, version: int | None, output: Path | None) -> None:
    """Print the schema of TOPIC: the one in output.schema_file, or that kept with its objects.

    You can use a kept one in output.schema_file: then the fields are declared, and no longer
    grow.
    """
    from secor.wiring.clients import open_store
    from secor.wiring.plans import keeps_schema, read_schema_file, schemas_of

    settings = _loaded(config)
    declared = settings.for_topic(topic).output
    if declared.schema_file is not None:
        if version is not None:
            raise ConfigurationError(
                f"{config}: output.schema_file declares the schema of {topic!r}: it has no versions"
            )
        _give(read_schema_file(declared.schema_file).rstrip("\n"), output)
        click.echo(f"declared in {declared.schema_file}", err=True)
        return
    if not keeps_schema(settings, topic):
        raise ConfigurationError(
            f"{config}: {topic!r} has no schema: parquet, orc and avro have one"
        )
    with open_store(settings) as store:
        kept = schemas_of(settings, topic, store)
        versions = kept.versions()
        if not versions:
            raise ConfigurationError(f"{kept.key(1)} is not there: nothing was stored yet")
        if version is not None and version not in versions:
            raise ConfigurationError(
                f"{kept.key(version)} is not there: versions are {versions[0]} to {versions[-1]}"
            )
        kept_schema = kept.read(version or versions[-1])
    assert kept_schema.text is not None
    _give(kept_schema.text, output)
    click.echo(f"version {kept_schema.version} of {versions[-1]}", err=True)


@command.command(epilog="Example: secor schema infer partition.toml clicks -o clicks.json")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("topic", type=TOPIC)
@click.option(
    "--limit",
    default=10_000,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Messages to read: the latest of each Kafka partition.",
)
@_output
def infer(config: Path, topic: str, limit: int, output: Path | None) -> None:
    """Propose a schema that the latest messages of TOPIC fit, as decoded and transformed.

    A field gets the type of 99 of 100 of its values; text becomes a timestamp if its first 1,000
    values are ISO 8601 times, as in a kept schema.  Check the schema before you use it: you know
    which types later messages need, such as double where only whole numbers have come so far.
    The keys of messages give fields where [parser.key] reads them, as they do in the objects; the
    last line says so.  Nothing is committed.
    """
    from secor.schema.schema import RowSchema
    from secor.wiring.clients import open_reader
    from secor.wiring.parsers import pipeline_for

    settings = _loaded(config)
    parser = settings.for_topic(topic).parser.model_copy(
        # A sample with many bad messages is what this command is asked about: it must not stop
        # there.
        update={"max_bad_ratio": None, "max_bad_messages": None}
    )
    with open_reader(settings) as reader:
        sample = Sample(reader, pipeline_for(parser, typed=True), topic, limit)
        rows = list(sample.rows())
        if not rows and sample.withheld:
            raise ConfigurationError(
                f"{topic}: no message can be read yet{withheld_text(sample.withheld)}"
            )
        schema, outvoted = RowSchema.infer(rows)
    _give(schema.describe(), output)
    summary = f"looked at {how_many(sample.good, 'message')}"
    if sample.bad:
        summary += f"; {sample.bad:,} more cannot be parsed and would be in quarantine"
    click.echo(summary + withheld_text(sample.withheld) + _about_keys(parser.key), err=True)
    for field in outvoted:
        click.echo(f"would be in quarantine: {field}", err=True)


@command.command(epilog="Example: secor schema fetch partition.toml clicks 17 -o clicks.avsc")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("topic", type=TOPIC)
@click.argument("schema_id", type=click.IntRange(0))
@_output
def fetch(config: Path, topic: str, schema_id: int, output: Path | None) -> None:
    """Fetch the Avro schema SCHEMA_ID from the registry that TOPIC's decoder asks.

    You can use it in output.schema_file.  Then the service starts without the registry, and a
    schema that is registered later changes nothing by itself.
    """
    from secor.parsing.registry import ANY_KIND, ApicurioId, SchemaRegistry
    from secor.parsing.registry_server import Credentials, source_of
    from secor.schema.schema import RowSchema

    access = _loaded(config).for_topic(topic).parser.settings_of_decoder()
    if "registry" not in access:
        raise ConfigurationError(f"{config}: parser.registry_url is not given for {topic!r}")
    names = [field.name for field in fields(Credentials) if field.name in access]
    credentials = Credentials(**{name: access[name] for name in names})
    registry = SchemaRegistry(source_of(access.get("framing"), access["registry"], credentials))
    apicurio = access.get("framing") == "apicurio"
    use_id = access.get("use_id", "contentId")
    registered = registry.schema(ApicurioId(use_id, schema_id) if apicurio else schema_id)
    if registered.kind not in ("AVRO", ANY_KIND) or registered.references:
        why = (
            "refers to other schemas" if registered.references else f"is of kind {registered.kind}"
        )
        raise ConfigurationError(
            f"schema {schema_id} {why}: only whole Avro schemas are taken; use secor schema infer"
        )
    text = json.dumps(json.loads(registered.text), ensure_ascii=False, indent=1)
    RowSchema.parse(text, f"schema {schema_id}")
    _give(text, output)


@command.command(epilog="Example: secor schema stored clicks.toml clicks -o clicks.avsc")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("topic", type=TOPIC)
@_output
def stored(config: Path, topic: str, output: Path | None) -> None:
    """Print the Avro schema in the newest object of TOPIC that a connector has stored.

    Confluent's and Aiven's S3 sinks write it into files of Avro and of Parquet.  In
    output.schema_file it gives columns of the very same types, so that readers which take one
    file's types for all, as Spark does, find them.
    """
    from secor.schema.schema import RowSchema
    from secor.wiring.archives import archive_of
    from secor.wiring.clients import open_store

    settings = _loaded(config)
    with open_store(settings) as store:
        archive = archive_of(settings, topic, store)
        objects = [stored for stored in archive.objects(topic) if stored.name.of_connect]
        foreign = [stored for stored in archive.described(objects) if stored.info is None]
        if not foreign:
            raise ConfigurationError(f"{archive.root(topic)}/ has no object of a connector")
        # The newest, for a connector's schemas grow: it has the columns of those before.
        newest = max(foreign, key=lambda archived: archived.name.start_offset)
        with store.open(newest.key) as file:
            text = _schema_in(file, newest.key)
    RowSchema.parse(text, newest.key)
    _give(json.dumps(json.loads(text), ensure_ascii=False, indent=1), output)
    click.echo(f"of {newest.key}", err=True)


def _schema_in(file: BinaryIO, key: str) -> str:
    """Return the Avro schema that a file of Avro, or of Parquet by Avro's writer, has."""
    import fastavro
    from pyarrow import parquet

    begin = file.read(4)
    file.seek(0)
    try:
        if begin == b"PAR1":
            metadata = parquet.read_schema(file).metadata or {}
            if b"parquet.avro.schema" in metadata:
                return metadata[b"parquet.avro.schema"].decode()
        elif begin == b"Obj\x01":
            return str(fastavro.reader(file).metadata["avro.schema"])
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise ConfigurationError(f"{key}: cannot be read: {error}") from error
    raise ConfigurationError(f"{key}: has no schema in it: use secor schema infer")


def _about_keys(key: KeyDecoding) -> str:
    """Return the end of a sentence about the fields of keys."""
    if key.decoder == "none":
        return "; keys are not read (parser.key.decoder)"
    return f"; keys are read as {key.decoder}" + (", for no field" if key.field is None else "")


class Sample:
    """The latest messages of a topic, parsed; ``good`` and ``bad`` are counted on the way.

    ``withheld`` counts offsets behind open transactions, which nothing looks at.
    """

    def __init__(self, reader: KafkaReader, parser: MessageParser, topic: str, limit: int) -> None:
        self._reader = reader
        self._parser = parser
        self._partitions = of_topic(reader.partitions(topic), topic)
        self._limit = limit
        self.good = 0
        self.bad = 0
        self.withheld = 0

    def rows(self) -> Iterator[pa.StructArray]:
        """Give the decoded rows, at most ``limit``, evenly from the partitions."""
        share = -(-self._limit // len(self._partitions))
        for partition in self._partitions:
            yield from self._latest(partition, min(share, self._limit - self.good - self.bad))

    def _latest(self, partition: TopicPartition, count: int) -> Iterator[pa.StructArray]:
        log_range = self._reader.log_range(partition)
        self.withheld += log_range.withheld
        start = max(log_range.start, log_range.end - count)
        if start >= log_range.end:
            return
        try:
            for chunk in self._reader.read(partition, start, log_range.end):
                yield from self._parsed(chunk.since(start))
        except RestartPartition:
            # Retention was quicker than we: the others suffice.
            click.echo(f"{partition}: its messages went away meanwhile", err=True)

    def _parsed(self, chunk: Chunk) -> Iterator[pa.StructArray]:
        for part in self._parser.split(chunk):
            if part.stream == QUARANTINE:
                self.bad += part.records.num_rows
            else:
                self.good += part.records.num_rows
                yield part.records.column(ROW)


def _loaded(config: Path) -> Config:
    settings = load(config, os.environ)
    if settings.group.kind != "partition":
        raise ConfigurationError(
            f'{config}: group.kind is "{settings.group.kind}"; only "partition" keeps schemas'
        )
    return settings


def _give(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text)
        return
    try:
        # Never over a file: a schema that is declared somewhere decides what is stored.
        with output.open("x") as file:
            file.write(text + "\n")
    except OSError as error:
        raise ConfigurationError(f"{output}: cannot be written: {error.strerror}") from error
