"""All settings of the Iceberg sink, and what replaces each here.

This is the table of ``docs/tables.md``, which a test compares, and the importer's table.
Source: the Apache Iceberg documentation, "Kafka Connect", version 1.12, and the settings that
every sink connector of Kafka Connect has.
"""

from __future__ import annotations

from dataclasses import dataclass

from secor.config.connect.settings import (
    CONNECT_SETTINGS,
    NOT_NEEDED,
    NOT_SUPPORTED,
    SinkSetting,
    markdown_rows,
)

SINK_SETTINGS = (
    SinkSetting("iceberg.tables", "one `[[tables]]` for each, with `table`"),
    SinkSetting(
        "iceberg.tables.dynamic-enabled",
        'a template: `table = "{fields.name_of_the_field}"`; values stay as they are, the sink'
        " makes them lower case",
    ),
    SinkSetting("iceberg.tables.route-field", "that template, or `field` of each `[[tables]]`"),
    SinkSetting(
        "iceberg.table.<table>.route-regex",
        "`matches` of that `[[tables]]`, in RE2: without look-around and back-references;"
        " messages that no table takes are in quarantine,"
        ' with `rows.unrouted = "skip"` left out as by the sink',
    ),
    SinkSetting("iceberg.tables.default-commit-branch", "`commit.branch`"),
    SinkSetting(
        "iceberg.table.<table>.commit-branch",
        "`commit.branch`, one for all tables of a group: give other branches a group of their own",
    ),
    SinkSetting(
        "iceberg.tables.default-id-columns",
        "`key` of each `[[tables]]` with changed rows; of others nothing",
    ),
    SinkSetting(
        "iceberg.table.<table>.id-columns",
        "`key` of that `[[tables]]`, if its rows are changed",
    ),
    SinkSetting(
        "iceberg.tables.cdc-field",
        '`operation_field` and `deletes` with `mode = "upsert"`: values that begin with D delete,'
        " all others put a row",
    ),
    SinkSetting(
        "iceberg.tables.upsert-mode-enabled",
        '`mode = "upsert"`, and `commit.coordinator = "alone"`: `secor tables run` merges, with'
        " Spark",
    ),
    SinkSetting(
        "iceberg.tables.default-partition-by",
        "`partition_by` of `[[tables]]`; the number comes first: `bucket(16, id)`",
    ),
    SinkSetting("iceberg.table.<table>.partition-by", "`partition_by` of that `[[tables]]`"),
    SinkSetting("iceberg.tables.auto-create-enabled", "`auto_create`"),
    SinkSetting("iceberg.tables.auto-create-props.*", "`properties` of `[[tables]]`"),
    SinkSetting("iceberg.tables.evolve-schema-enabled", "`evolve`"),
    SinkSetting("iceberg.tables.schema-force-optional", "`optional_columns`"),
    SinkSetting("iceberg.tables.schema-case-insensitive", "`rows.case_sensitive = false`"),
    SinkSetting("iceberg.tables.replace-null-with-default", "none: a null stays null", NOT_NEEDED),
    SinkSetting(
        "iceberg.tables.write-props.*",
        "`properties` of `[[tables]]`; of a table that exists, its own properties",
    ),
    SinkSetting(
        "iceberg.control.topic",
        "none needed: a topic of our own, `secor-control-<group>`, is made; or"
        " `commit.control_topic`",
        NOT_NEEDED,
    ),
    SinkSetting(
        "iceberg.control.group-id-prefix",
        "none: the control topic is read without a group",
        NOT_NEEDED,
    ),
    SinkSetting("iceberg.control.commit.interval-ms", "`commit.interval`"),
    SinkSetting("iceberg.control.commit.timeout-ms", "`commit.timeout`"),
    SinkSetting("iceberg.control.commit.threads", "`commit.threads`"),
    SinkSetting(
        "iceberg.control.commit.max-consecutive-failures",
        "none: the next cycle tries again, and the alert SecorTableCommitsFailing fires",
        NOT_NEEDED,
    ),
    SinkSetting(
        "iceberg.coordinator.transactional.prefix",
        "none: nothing depends on transactions",
        NOT_NEEDED,
    ),
    SinkSetting(
        "iceberg.coordinator.transactional.suffix",
        "none: Kafka Connect's own, set by the connector for its tasks",
        NOT_NEEDED,
    ),
    SinkSetting("iceberg.connect.group-id", "none: the group has a name of its own", NOT_NEEDED),
    SinkSetting("iceberg.catalog", "`catalog.name`"),
    SinkSetting(
        "iceberg.catalog.*",
        "`catalog.properties`, in the words of the Iceberg library for Python; `s3.*` and"
        " `client.*` are `[store.s3]`",
    ),
    SinkSetting("iceberg.hadoop-conf-dir", "none: there is no Hadoop", NOT_SUPPORTED),
    SinkSetting("iceberg.hadoop.*", "none: there is no Hadoop", NOT_SUPPORTED),
    SinkSetting("iceberg.kafka.*", "`[kafka]`: one connection for all"),
)
"""In the order of the documentation."""


@dataclass(frozen=True, slots=True)
class SinkTransform:
    """A transform (SMT) that comes with the sink: its class's ``name``, and its ``settings``."""

    name: str
    settings: tuple[str, ...]
    here: str


SINK_TRANSFORMS = (
    SinkTransform(
        "CopyValue",
        ("source.field", "target.field"),
        'none: `kind = "rename"` moves a field; a plug-in of `parser.transforms` copies it',
    ),
    SinkTransform(
        "DebeziumTransform",
        ("cdc.target.pattern",),
        'none needed: `mode = "cdc"` reads the envelopes; for the pattern a template,'
        ' `table = "lake.{fields.source.db}_{fields.source.table}"`',
    ),
    SinkTransform("MongoDebeziumTransform", ("array_handling_mode",), "none: write a plug-in"),
    SinkTransform("DmsTransform", (), "none: write a plug-in"),
    SinkTransform(
        "JsonToMapTransform",
        ("json.root",),
        "none: a column of type map in `schema_file`, or in the table, takes an object whose"
        " values fit; of others write a plug-in",
    ),
    SinkTransform(
        "KafkaMetadataTransform",
        ("field_name", "nested", "external_field"),
        "`rows.metadata_columns`: `_topic`, `_kafka_partition`, `_offset`, `_timestamp`, under"
        " these names",
    ),
)
"""Source: the same page, "SMTs for the Apache Iceberg Sink Connector"."""


def transform_of(class_name: str) -> SinkTransform | None:
    """Return the sink's transform of a Java class, None for others'."""
    name = class_name.rpartition(".")[2]
    return next(
        (transform for transform in SINK_TRANSFORMS if transform.name == name.partition("$")[0]),
        None,
    )


def page_rows() -> list[str]:
    """Return the table of ``docs/tables.md``, with its head."""
    return markdown_rows((*SINK_SETTINGS, *CONNECT_SETTINGS))


def transform_rows() -> list[str]:
    """Return the table of transforms of ``docs/tables.md``, with its head."""
    return [
        "| its transform | with | here |",
        "|---|---|---|",
        *(
            f"| `{row.name}` | {', '.join(f'`{name}`' for name in row.settings)} | {row.here} |"
            for row in SINK_TRANSFORMS
        ),
    ]
