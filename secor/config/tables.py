"""``[catalog]``, ``[rows]``, ``[commit]``, ``[spark]``: the settings of the table group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainSerializer, model_validator

from secor.config.output import Output
from secor.config.parser import Parser
from secor.config.transforms import check_topic
from secor.config.values import Duration, Maybe, Names, Properties, Section, fault
from secor.core.text import MASK, is_secret_name

PROPERTY = "format-version"
_APPENDED = 2
_WRITTEN_BY_PYTHON = ("sql", "glue", "dynamodb", "hive", "in-memory")
"""Catalogs for which the library for Python writes a table's metadata."""


def check_format_version(
    route: str, mode: str, properties: Mapping[str, str], catalog: Mapping[str, str]
) -> None:
    """Raise a fault for tables of a version that cannot be made, or not be written to.

    ``route`` is the key of the route, ``properties`` are those of its new tables, and ``catalog``
    those of the catalog.
    """
    text = properties.get(PROPERTY, "2")
    key = f"{route}.properties"
    if text not in ("1", "2", "3"):
        raise fault(f"{PROPERTY} = {text!r}: use 2, or 3 for rows that are changed", key)
    if int(text) <= _APPENDED:
        return
    if mode == "append":
        why = f"{PROPERTY} = {text}: rows are appended to version 2 at most; take this away"
        raise fault(why, key)
    if catalog.get("type") in _WRITTEN_BY_PYTHON:
        why = f"{PROPERTY} = {text}: {_metadata_writer(catalog)}"
        raise fault(f"{why} Make the table in Spark and set auto_create = false", key)


def why_no_growth(table: str, format_version: int, catalog: Mapping[str, str]) -> str | None:
    """Return why no columns are added to a table that exists, None where they can be."""
    if format_version <= _APPENDED or catalog.get("type") not in _WRITTEN_BY_PYTHON:
        return None
    return (
        f"{table} has format version {format_version}, and evolve = true:"
        f" {_metadata_writer(catalog)} Set evolve = false and add columns in Spark"
        " (ALTER TABLE ... ADD COLUMN): batches that begin afterwards have them"
    )


def _metadata_writer(catalog: Mapping[str, str]) -> str:
    """Return the writer of the metadata of a catalog's tables."""
    return (
        "the Iceberg library for Python, which writes metadata for a catalog of type"
        f" {catalog.get('type')!r}, writes version 2 at most; a REST catalog writes its own."
    )


RESERVED = frozenset({"_partition", "_file", "_pos", "_spec_id", "_deleted"})
"""Names of columns that engines for Iceberg keep for themselves: Spark can neither compact nor
change a table that has one.
"""

METADATA_COLUMNS = ("_topic", "_kafka_partition", "_offset", "_timestamp", "_key", "_headers")


def _mask(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: MASK if is_secret_name(name) else value for name, value in properties.items()}


TYPES = ("rest", "sql", "glue", "hive")
"""Types of catalogs that can be used."""

_KNOWN = '"rest", "sql", "glue" or "hive"'

CANNOT_COMMIT = frozenset({"dynamodb", "bigquery"})
"""Types of catalogs without ``commit_table`` in the Iceberg library 0.12."""


class Catalog(Section):
    """``[catalog]``: where tables are found, by the Iceberg library's own properties."""

    name: str = Field(
        default="secor",
        min_length=1,
        description="The name of the catalog; a SQL catalog stores its tables under this name.",
    )
    properties: Annotated[Properties, PlainSerializer(_mask, when_used="json")] = Field(
        default_factory=dict,
        description='Passed to the Iceberg library for Python (docs/tables.md): "type" is "sql"'
        ' (SQLite or PostgreSQL), "rest", "glue" or "hive"; "warehouse" is the location of new'
        " tables.",
        examples=[
            {"type": "rest", "uri": "http://catalog:8181", "warehouse": "s3://my-logs/warehouse"}
        ],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        kind = self.properties.get("type", "").lower()
        if kind in CANNOT_COMMIT:
            raise fault(
                f'the Iceberg library for Python cannot commit to a catalog of type "{kind}": use'
                f" {_KNOWN}",
                "properties",
            )
        if kind not in ("", *TYPES):
            raise fault(f'no type of catalog is called "{kind}": use {_KNOWN}', "properties")
        return self

    @property
    def losses(self) -> list[str]:
        """Sentences about a catalog that may lose commits."""
        if self.properties.get("type", "").lower() != "hive":
            return []
        why = (
            "catalog: the Iceberg library commits to Hive under a lock, without a compare-and-set:"
            " a process that sleeps in a commit for longer than hive.txn.timeout takes back what"
            " others committed; prefer a REST catalog before Hive"
        )
        return [why]


class Rows(Section):
    """``[rows]``: from messages to rows."""

    unrouted: Literal["quarantine", "skip"] = Field(
        default="quarantine",
        description='Messages that no [[tables]] takes: "quarantine", or "skip" (and count) them.',
    )
    extra_fields: Literal["drop", "quarantine"] = Field(
        default="drop",
        description='Fields that the table does not have: "drop" them, or "quarantine" the whole'
        " message.",
    )
    case_sensitive: bool = Field(
        default=True, description="false: ignore case when fields are matched to columns."
    )
    names: Literal["escape", "replace", "quarantine"] = Field(
        default="escape",
        description='Values of fields that name tables, "logs.{fields.kind}", and have other'
        ' characters than letters, digits and underscores: "escape" them ("a.b" is a_x002E_b),'
        ' "replace" each by an underscore, so that "a.b", "a-b" and "a_b" are one table, or'
        ' "quarantine" the message.',
    )
    text_columns: Literal["any", "text"] = Field(
        default="any",
        description='What columns of text take: "any" value (text as it is, of others their JSON),'
        ' or only "text"; then messages with other values go into quarantine.',
    )
    numbers: Literal["as seen", "double", "decimal"] = Field(
        default="as seen",
        description="What new columns of numbers become:"
        ' "as seen" (64 bits of integers until a fraction is seen), "double", or "decimal" (38'
        " digits, 18 of them after the point).",
    )
    metadata_columns: Names = Field(
        default=(),
        description='Columns with the origin of a row, some of "_topic", "_kafka_partition",'
        ' "_offset", "_timestamp", and its message\'s "_key" and "_headers" as they came. With the'
        " first three 'secor verify' compares offset by offset; without them it only counts.",
        examples=[["_topic", "_kafka_partition", "_offset"]],
    )
    row_group_rows: int = Field(
        default=50_000,
        ge=1,
        description="Parquet: rows in one row group. Each open file holds so many in memory.",
    )
    stripe_rows: int = Field(
        default=50_000,
        ge=1,
        description="ORC: rows in one stripe. Each open file holds so many in memory.",
    )
    block_rows: int = Field(
        default=5_000,
        ge=1,
        description="Avro: rows in one block. Each open file holds so many in memory.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.metadata_columns:
            if name not in METADATA_COLUMNS:
                known = ", ".join(METADATA_COLUMNS)
                why = f"no column {name!r}"
                if name in RESERVED:
                    why = f"{name} is a name that Iceberg keeps for itself"
                raise fault(f"{why}: use some of {known}", "metadata_columns")
        return self


class Commit(Section):
    """``[commit]``: how what is staged becomes visible; times in seconds."""

    interval: Duration = Field(
        default=60.0,
        description="How often one of the group's processes commits staged files to the tables."
        " A merge of changed rows takes seconds, whatever their number: such groups should use"
        " minutes.",
    )
    timeout: Duration = Field(
        default=30.0, description="How long a cycle waits until all partitions have answered."
    )
    on_timeout: Literal["commit", "discard"] = Field(
        default="commit",
        description='When commit.timeout is over: "commit" what is staged, or "discard": commit'
        ' nothing, and begin the next cycle. With "discard" nothing is lost, but no table gets'
        " rows as long as one process does not answer.",
    )
    branch: str = Field(
        default="main",
        min_length=1,
        description="The branch of each table to commit to. Hudi tables have none.",
        examples=["audit"],
    )
    control: Literal["kafka", "none"] = Field(
        default="kafka",
        description='How processes notify each other: by a topic ("kafka"), or not at all'
        ' ("none").',
    )
    control_topic: Maybe[str] = Field(
        default=None,
        description='The topic of commit.control. "none": secor-control-<group>. Secor creates'
        " it if it does not exist.",
        examples=["secor-control"],
    )
    coordinator: Literal["daemon", "alone"] = Field(
        default="daemon",
        description='Who coordinates: "daemon", the process with the group\'s first partition;'
        " or \"alone\", a process of its own: 'secor tables run'. Of several of these one leads,"
        ' and the others wait. Tables with changed rows, and Hudi tables, need "alone":'
        " Spark writes them.",
    )
    threads: int = Field(default=8, ge=1, le=256, description="Tables to commit in parallel.")
    keep_manifests: Duration = Field(
        default=3600.0,
        description="How long the manifest of a batch stays after all of its tables have it:"
        " longer than any request can take.",
    )

    def topic_of(self, group: str) -> str | None:
        """Return the control topic of a group, None where there is none."""
        if self.control == "none":
            return None
        return self.control_topic or f"secor-control-{group}"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.control_topic is not None:
            if self.control == "none":
                raise fault('control = "none" has no topic; take this away', "control_topic")
            check_topic(self.control_topic, "control_topic")
        return self


class Spark(Section):
    """``[spark]``: the application that merges rows, by Spark's own settings.

    ``timeout`` is in seconds: so long it may start, and be without executors while rows wait.
    """

    timeout: Duration = Field(
        default=300.0,
        description="How long Spark may take to start, and how long rows may wait without an"
        " executor. After that 'secor tables run' ends with exit code 4, and its service starts"
        " it again.",
    )
    settings: Annotated[Properties, PlainSerializer(_mask, when_used="json")] = Field(
        default_factory=dict,
        description="Spark's own settings. Default master: one thread for each core of the"
        " machine; spark.driver.memory is Java's heap. Secor sets the access to the catalog and"
        " the store.",
        examples=[{"spark.master": "yarn", "spark.executor.memory": "4g"}],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.settings:
            if not name.startswith("spark."):
                raise fault(f"{name!r}: Spark's settings begin with spark.", "settings")
        return self


OF_OUTPUT = ("prefix", "generation")
OF_PLACES = ("time_field", "time_format", "time_zone", "time_zero", "layout", "plugin")


def check_of_tables(before: str, output: Output, parser: Parser) -> None:
    """Refuse what tables say themselves; ``before`` is where the sections are."""
    for key in type(output).model_fields:
        if key not in OF_OUTPUT and output.changed(key):
            why = "the table's properties and [rows] say how its files are written"
            raise fault(why, f"{before}output.{key}")
    for key in OF_PLACES:
        if getattr(parser, key) != type(parser).model_fields[key].default:
            why = "the table's partition spec says where rows go; take this away"
            raise fault(why, f"{before}parser.{key}")
    if any(step.kind == "route" for step in parser.transforms):
        raise fault(
            "[[tables]] say where messages go; take routes away", f"{before}parser.transforms"
        )


def without_control_topic(data: Mapping[str, Any]) -> object:
    """Return the ``[kafka]`` table with the group's control topic left out of a pattern's topics.

    Its messages are announcements: as rows they would only fill the quarantine.
    """
    kafka, commit, group = (data.get(name, {}) for name in ("kafka", "commit", "group"))
    if not all(isinstance(table, dict) for table in (kafka, commit, group)):
        return kafka
    exclude = kafka.get("topics_exclude", "none")
    if commit.get("control") == "none" or kafka.get("topics_pattern", "none") == "none":
        return kafka
    named = commit.get("control_topic", "none")
    topic = named if named != "none" else f"secor-control-{group.get('name')}"
    # Names of topics have dots, which match everything in an expression.
    own = re.escape(str(topic))
    if exclude == "none":
        return {**kafka, "topics_exclude": own}
    return {**kafka, "topics_exclude": f"{exclude}|{own}"} if isinstance(exclude, str) else kafka
