"""From the settings of a topic, and the schema kept with its objects, to its plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from secor.batch.plan import OutputStream, Plans, TopicPlan
from secor.batch.policy import Age
from secor.batch.policy import Policy as SealingPolicy
from secor.config.model import Config, Output, Policy, TopicSettings
from secor.config.output import TYPED_FORMATS
from secor.core.errors import ConfigurationError
from secor.core.model import QUARANTINE, SCHEMA
from secor.core.naming import quarantine_root, routed_root, topic_root
from secor.core.observer import Observer
from secor.core.ports import LogFormat, MessageParser, ObjectStore
from secor.formats import make_format
from secor.parsing.offset_layout import OffsetBuckets

# A backup group needs nothing of schemas and parsers, and is to start quickly.
if TYPE_CHECKING:
    from secor.archive.applied_erasures import AppliedErasures
    from secor.archive.kept_schemas import GrowingPlans, KeptSchema, KeptSchemas
    from secor.archive.quarantine.replay import Adapt, PlansFor
    from secor.parsing.pipeline import Count
    from secor.schema.growth import GrowthFinder, Propose
    from secor.schema.schema import RowSchema

PAYLOADS = ("offset", "timestamp", "value")
"""The columns of messages that text is made from."""

GROUP_ROWS = {"parquet": "row_group_rows", "orc": "stripe_rows", "avro": "block_rows"}
"""The setting of each format that holds rows back: how many."""


PARQUET_CODECS = {"snappy": ".snappy", "gzip": ".gz", "zstd": ".zstd"}
"""What Confluent's sink puts before ``.parquet``."""


def plan_for(
    config: Config,
    topic: str,
    count: Count | None = None,
    *,
    limited: bool = True,
    kept: KeptSchema | None = None,
    propose: Propose | None = None,
) -> TopicPlan:
    """Return how the messages of ``topic`` are stored.

    ``count`` gets what parsing leaves out and puts into quarantine; unless ``limited``,
    any number of messages may go there.  Where the schema is kept with the objects, ``kept``
    is its version, and ``propose`` gets what it has to become; without it, nothing grows.
    Raises ``ConfigurationError``.
    """
    if config.group.kind == "table":
        raise ConfigurationError(
            'not for group.kind "table": its catalog says how messages are stored'
        )
    settings = config.for_topic(topic)
    output = settings.output
    root = topic_root(output.prefix, topic, hashed=output.hash_prefix)
    parser: MessageParser
    if config.group.kind == "partition":
        from secor.schema.growth import GrowthFinder

        schema = row_schema(output, kept)
        growth = GrowthFinder(schema, propose, output.numbers) if propose is not None else None
        parser = _parser(settings, schema, growth, count, limited=limited)
        # A partition group may also store messages as they came, sorted by their fields.
        log_format = _fields_format(output, schema, settings.parser.decoder) or _message_format(
            output
        )
        streams = _streams(settings, topic, root, log_format)
    else:
        parser = OffsetBuckets(output.offsets_per_partition)
        log_format, streams = _message_format(output), {}
    names_of_connect, extension = output.names_of_connect
    return TopicPlan(
        group=config.group.name,
        root=root,
        generation=output.generation,
        parser=parser,
        log_format=log_format,
        streams=streams,
        policy=policy_of(settings.policy),
        upload_on_shutdown=settings.policy.upload_on_shutdown,
        upload_on_revoke=settings.policy.upload_on_revoke,
        names_of_connect=names_of_connect,
        codec_extension=PARQUET_CODECS.get(output.codec, "") if output.format == "parquet" else "",
        extension=extension,
    )


def schemas_of(
    config: Config,
    topic: str,
    store: ObjectStore,
    generation: int | None = None,
    *,
    imagined: bool = False,
) -> KeptSchemas:
    """Return the schemas kept with a topic's objects; without ``generation``, the present one's.

    Further ones that are ``imagined`` are put nowhere.
    """
    from secor.archive.kept_schemas import ImaginedSchemas, KeptSchemas

    output = config.for_topic(topic).output
    root = topic_root(output.prefix, topic, hashed=output.hash_prefix)
    kept = output.generation if generation is None else generation
    made = ImaginedSchemas if imagined else KeptSchemas
    return made(store, root, kept)


def kept_schema(config: Config, topic: str, store: ObjectStore) -> KeptSchema | None:
    """Return the present schema that is kept with a topic's objects; None if none is to be."""
    if not keeps_schema(config, topic):
        return None
    return schemas_of(config, topic, store).newest()


def growing_plans(
    config: Config,
    store: ObjectStore,
    observer: Observer,
    count: Count,
    erasures: AppliedErasures | None = None,
) -> Plans:
    """Return the plans of a process that consumes: kept schemas grow with the messages.

    What ``erasures`` name is left out.
    """

    def without_erased(plan: TopicPlan) -> TopicPlan:
        if erasures is None:
            return plan
        # Messages that were erased from the archive may still be in the topic: read again, they
        # would come back.
        return replace(plan, parser=erasures.parser(plan.root, plan.generation, plan.parser))

    @cache
    def growing(topic: str) -> GrowingPlans:
        from secor.archive.kept_schemas import GrowingPlans

        return GrowingPlans(
            schemas_of(config, topic, store),
            lambda kept, propose: without_erased(
                plan_for(config, topic, count, kept=kept, propose=propose)
            ),
            lambda *grown: observer.schema_grew(topic, *grown),
        )

    @cache
    def fixed(topic: str) -> TopicPlan:
        return without_erased(plan_for(config, topic, count))

    lock = threading.Lock()

    def plan(topic: str, fingerprint: str | None) -> TopicPlan:
        if not keeps_schema(config, topic):
            return fixed(topic)
        with lock:  # two of one topic would not know each other's proposals
            plans = growing(topic)
        return plans.plan(fingerprint)

    return plan


def replaying_plans(
    config: Config,
    topic: str,
    store: ObjectStore,
    report: Callable[[int, list[str], list[str]], None],
    *,
    dry_run: bool,
) -> PlansFor:
    """Return the plans by which quarantine is parsed again.

    Kept schemas, of the generation of what is parsed, grow as they do in a process that
    consumes; ``report`` is given the version and what is new in it.  In a dry run nothing is put.
    """
    from secor.archive.kept_schemas import GrowingPlans
    from secor.archive.quarantine.replay import fixed_plan

    def make(kept: KeptSchema | None, propose: Propose | None) -> TopicPlan:
        return plan_for(config, topic, limited=False, kept=kept, propose=propose)

    if not keeps_schema(config, topic):
        return fixed_plan(make(None, None))

    @cache
    def kept(generation: int) -> KeptSchemas:
        return schemas_of(config, topic, store, generation=generation, imagined=dry_run)

    def plans(adapt: Adapt, generation: int) -> Callable[[str | None], TopicPlan]:
        return GrowingPlans(kept(generation), lambda *given: adapt(make(*given)), report).plan

    return plans


def keeps_schema(config: Config, topic: str) -> bool:
    """Return whether the schema of a topic is inferred and kept with its objects."""
    output = config.for_topic(topic).output
    columnar = output.stores_fields and output.format != "jsonlines"
    return config.group.kind == "partition" and columnar and output.schema_file is None


def row_schema(output: Output, kept: KeptSchema | None = None) -> RowSchema:
    """Return which fields are stored: those of the file, or those that were found."""
    from secor.archive.kept_schemas import KeptSchema
    from secor.schema.schema import RowSchema

    if output.schema_file is None:
        return RowSchema() if output.format == "jsonlines" else (kept or KeptSchema()).rows
    text = read_schema_file(output.schema_file)
    return RowSchema.parse(text, f"output.schema_file {output.schema_file}", output.extra_fields)


def read_schema_file(path: str) -> str:
    """Return the text of ``output.schema_file``.  Raises ``ConfigurationError``."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"output.schema_file {path}: cannot be read: {error}; secor schema writes such files"
        ) from error


def _parser(
    settings: TopicSettings,
    schema: RowSchema,
    growth: GrowthFinder | None,
    count: Count | None,
    *,
    limited: bool,
) -> MessageParser:
    from secor.arrow.time_limits import timestamp_limits
    from secor.formats.typed.orc import refused_times
    from secor.wiring.parsers import pipeline_for

    parser, columns = settings.parser, settings.output.metadata_columns
    typed = settings.output.stores_fields
    limits = timestamp_limits(settings.output.format)
    return pipeline_for(
        parser,
        typed=typed,
        schema=schema if typed else None,
        growth=growth,
        origin="_topic" in columns or "_partition" in columns,
        columns=_stored_columns(settings.output),
        timestamp_faults=limits.faults if typed and "_timestamp" in columns else None,
        row_faults=refused_times if settings.output.format == "orc" else None,
        count=count,
        limited=limited,
    )


def _stored_columns(output: Output) -> Sequence[str]:
    """Return the columns of messages that files are made from."""
    if output.stores_fields:
        from secor.formats.typed.metadata import source_columns

        return source_columns(output.metadata_columns)
    return PAYLOADS if output.format == "text" else SCHEMA.names


def _streams(
    settings: TopicSettings, topic: str, root: str, log_format: LogFormat
) -> dict[str, OutputStream]:
    """Return where else the parser sends messages; quarantine is lossless in any format."""
    from secor.wiring.parsers import routed_streams

    output = settings.output
    # Never in the group's own format: what is here could not be decoded, and must be kept as it
    # came.
    streams = {QUARANTINE: OutputStream(quarantine_root(root), make_format("sequencefile"))}
    for name, target in routed_streams(settings.parser, topic).items():
        directory = topic_root(output.prefix, target, hashed=output.hash_prefix)
        streams[name] = OutputStream(routed_root(directory, topic), log_format)
    return streams


def policy_of(policy: Policy) -> SealingPolicy:
    """Return when batches are sealed."""
    return SealingPolicy(
        max_bytes=policy.max_bytes,
        max_messages=policy.max_messages,
        max_age=policy.max_age,
        age=Age(policy.age),
        minute_mark=policy.minute_mark,
        max_files=policy.max_files,
    )


def _message_format(output: Output) -> LogFormat:
    """Return a format of messages as they came."""
    match output.format:
        case "sequencefile":
            return make_format("sequencefile", keys=output.keys, codec=output.codec)
        case "text":
            return make_format(
                "text",
                codec=output.codec,
                delimiter=output.delimiter.encode(),
                on_delimiter=output.on_delimiter,
                null_values=output.null_values,
            )
        case "parquet":
            return make_format("parquet", codec=output.codec, row_group_rows=output.row_group_rows)
        case other:
            raise ConfigurationError(f"output.format {other} does not store messages as they came")


def _fields_format(output: Output, schema: RowSchema, decoder: str) -> LogFormat | None:
    """Return a format of decoded fields; None where the configured one is none."""
    if not output.stores_fields:
        return None
    if output.format not in TYPED_FORMATS:
        from secor.formats.plugin import PluginFormat

        return PluginFormat(
            output.format,
            output.format_settings,
            schema=schema,
            metadata_columns=output.metadata_columns,
        )
    settings: dict[str, object] = {
        "codec": output.codec,
        "schema": schema,
        "metadata_columns": output.metadata_columns,
    }
    if output.format == "jsonlines":
        settings["types"] = output.json_types
        # Connect's converter of Protobuf has no finer times, that of Avro takes them for numbers.
        settings["milliseconds"] = output.json_types != "text" and decoder == "protobuf"
    # Lines are written as they come, so jsonlines has no such setting.
    rows = GROUP_ROWS.get(output.format)
    if rows is not None:
        settings[rows] = getattr(output, rows)
    name = "typed-parquet" if output.format == "parquet" else output.format
    return make_format(name, **settings)
