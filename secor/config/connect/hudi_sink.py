"""Hudi's own sink as a table group.

Source: ``KafkaConnectConfigs`` of hudi-kafka-connect 1.2, and Hudi's settings of writers.
"""

from __future__ import annotations

import re
from typing import Protocol

from secor.config.connect.converters import (
    STRING,
    convert_errors,
    convert_keys,
    convert_values,
    rest_of_converter,
)
from secor.config.connect.kafka import convert_kafka
from secor.config.connect.settings import (
    CONNECT_SETTINGS,
    NOT_NEEDED,
    NOT_SUPPORTED,
    STRAY,
    SinkSetting,
    default_outcome,
    finish_connector,
)
from secor.config.hudi import OWN
from secor.config.translation.draft import Draft, Line, PropertyOutcome
from secor.config.translation.properties import Properties

CLASSES = frozenset(
    {"org.apache.hudi.connect.HoodieSinkConnector", "HoodieSinkConnector", "HoodieSink"}
)

SETTINGS = (
    SinkSetting("hoodie.kafka.control.topic", "none: Secor makes one of its own", NOT_NEEDED),
    SinkSetting("hoodie.kafka.coordinator.*", "none: `commit.timeout`", NOT_NEEDED),
    SinkSetting(
        "hoodie.kafka.allow.commit.on.errors", "none: bad messages are in quarantine", NOT_NEEDED
    ),
    SinkSetting("hoodie.kafka.compaction.*", "none: `secor tables run` compacts", NOT_NEEDED),
    SinkSetting(
        "hoodie.meta.sync.*",
        "none: a catalog of one's own is updated by one's own job",
        NOT_SUPPORTED,
    ),
    SinkSetting("hoodie.datasource.hive_sync.*", "none: see hoodie.meta.sync", NOT_SUPPORTED),
    SinkSetting(
        "hoodie.schemaprovider.class",
        "none: write the columns to a file, `secor schema fetch`, and name it in"
        " `schema_file` of `[[tables]]`",
        NOT_SUPPORTED,
    ),
    SinkSetting("hoodie.deltastreamer.*", "none: as hoodie.schemaprovider.class", NOT_SUPPORTED),
    SinkSetting("hoodie.streamer.*", "none: as hoodie.schemaprovider.class", NOT_SUPPORTED),
    SinkSetting("hive.*", "none: there is no Hive", NOT_SUPPORTED),
    SinkSetting("hadoop.*", "none: there is no Hadoop in the workers", NOT_SUPPORTED),
    SinkSetting("dfs.*", "none: there is no Hadoop in the workers", NOT_SUPPORTED),
    SinkSetting("fs.*", "none: `[store.s3]`", NOT_SUPPORTED),
)


class Put(Protocol):
    """Adds a line of ``[[tables]]``."""

    def __call__(self, key: str, value: object, *names: str, note: str = "") -> None:
        """Set ``key`` because of the settings ``names``."""


_WRITE = "hoodie.datasource.write."
_KEY = f"{_WRITE}recordkey.field"
_PATH = f"{_WRITE}partitionpath.field"
_PRECOMBINE = (f"{_WRITE}precombine.field", "hoodie.table.ordering.fields")
_KEY_GENERATORS = ("SimpleKeyGenerator", "ComplexKeyGenerator", "NonpartitionedKeyGenerator")
_TYPES = {"COPY_ON_WRITE": "copy-on-write", "MERGE_ON_READ": "merge-on-read"}


def convert(properties: Properties, source: str) -> tuple[str, Draft]:
    """Return the TOML file, and what became of each setting.  Raises ``ConfigurationError``."""
    draft = Draft(properties)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", draft.value("name") or "hudi")
    draft.set("group.name", name, "name")
    draft.set("group.kind", "table", "connector.class")
    draft.set("output.prefix", f"secor/{name.replace('.', '_')}", "name")
    convert_kafka(draft, "")
    if draft.value("value.converter") == STRING:
        draft.set("parser.decoder", "json", "value.converter", note="The sink parses the text.")
        rest_of_converter(draft)
    else:
        convert_values(draft)
    convert_keys(draft, changes_rows=bool(draft.value(_KEY)))
    convert_errors(draft)
    seconds = "hoodie.kafka.commit.interval.secs"
    interval = draft.value(seconds) or "60"
    draft.set(
        "commit.interval",
        f"{interval}s",
        seconds,
        note=""
        if draft.value(seconds)
        else "the sink's default; one commit of Spark takes seconds",
    )
    draft.set("commit.coordinator", "alone", note="Spark writes these tables: secor tables run.")
    _table(draft)
    draft.todo(
        "stop the connector, wait for its last commit, and set where the new group begins:"
        " secor offsets set (docs/hudi.md has the rest)"
    )
    rows = (*SETTINGS, *CONNECT_SETTINGS, *STRAY)
    return finish_connector(
        draft, "Hudi's sink", source, lambda key: default_outcome(draft, key, rows)
    )


def _table(draft: Draft) -> None:
    lines: list[Line] = []

    def put(key: str, value: object, *names: str, note: str = "") -> None:
        lines.append(Line(key, value, draft.mark_mapped(names, f"tables.{key}", value), note))

    database = draft.value("hoodie.datasource.hive_sync.database") or "default"
    table = re.sub(r"[^A-Za-z0-9_-]", "_", draft.value("hoodie.table.name") or "table")
    put("table", f"{database}.{table}", "hoodie.table.name", "hoodie.datasource.hive_sync.database")
    put("format", "hudi")
    place = draft.value("hoodie.base.path").replace("s3a:", "s3:", 1).replace("s3n:", "s3:", 1)
    if re.match(r"s3://[^/]+/.|file:///.", place):
        put("location", place, "hoodie.base.path")
    else:
        draft.unsupported(
            "tables are in S3 or in a directory: s3://bucket/path", "hoodie.base.path"
        )
        put("location", f"s3://change-me/{table}")
        draft.todo("set tables.location to where the table is to be, and store.s3.bucket")
    bucket = place.split("/")[2] if place.startswith("s3://") and place.count("/") > 2 else ""
    draft.set("store.s3.bucket", bucket or "change-me", note="for rows that wait for their commit")
    _rows(draft, put)
    kind = _TYPES.get(draft.value("hoodie.table.type").upper())
    if kind:
        put("type", kind, "hoodie.table.type")
    put("auto_create", True)
    put("evolve", True)
    _properties(draft, put)
    draft.tables.append(lines)


def _rows(draft: Draft, put: Put) -> None:
    key = [item.strip() for item in draft.value(_KEY).split(",") if item.strip()]
    if key:
        put("mode", "upsert", note="Of each key the newest row, as a reader of the sink's has it.")
        put("key", key, _KEY)
    else:
        put("mode", "append")
    for name in _PRECOMBINE:
        if key and draft.value(name) and "," not in draft.value(name):
            put("precombine", draft.value(name), name)
            break
    path = [
        item.strip().partition(":")[0] for item in draft.value(_PATH).split(",") if item.strip()
    ]
    if path:
        put("partition_by", path, _PATH)
    generator = f"{_WRITE}keygenerator.class"
    if draft.value(generator).endswith(_KEY_GENERATORS):
        draft.unneeded("it follows from key and partition_by", generator)
    else:
        draft.unsupported("write partition_by: year, month, day, hour of a column", generator)


def _properties(draft: Draft, put: Put) -> None:
    """Keep Hudi's other settings; rows of another writer are found by an index without buckets."""
    index = "hoodie.index.type"
    properties = {}
    if draft.value(_KEY) and not draft.value(index):
        path = {item.strip() for item in draft.value(_PATH).split(",") if item.strip()}
        within = path <= {item.strip() for item in draft.value(_KEY).split(",")}
        properties[index] = "SIMPLE" if within else "GLOBAL_SIMPLE"
    names = []
    for name in draft.properties:
        known = any(row.matches(name) or row.name == name for row in SETTINGS)
        if not name.startswith("hoodie.") or name in draft.outcomes or known:
            continue
        if name in OWN or name in ("hoodie.kafka.commit.interval.secs", "hoodie.table.type"):
            draft.outcomes[name] = (
                PropertyOutcome.UNNEEDED,
                "it follows from the keys of [[tables]]",
            )
        elif draft.value(name):
            properties[name] = draft.value(name)
            names.append(name)
    if properties:
        put("properties", properties, *names)
