"""``[catalog]``, ``[rows]``, ``[commit]``, ``[[tables]]``: the settings of the table group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from string import Formatter
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from secor.config.hudi import ONLY_HUDI, WRITER_KEYS, check_hudi, check_partitions
from secor.config.output import Output
from secor.config.parser import Parser
from secor.config.transforms import Scalar, check_path, check_topic
from secor.config.values import Duration, Expression, LinearExpression, Maybe, Names, Section, fault
from secor.core.text import MASK, is_secret_name, safe_name

RESERVED = frozenset({"_partition", "_file", "_pos", "_spec_id", "_deleted"})
"""Names of columns that engines for Iceberg keep for themselves: Spark can neither compact nor
change a table that has one.
"""

METADATA_COLUMNS = ("_topic", "_kafka_partition", "_offset", "_timestamp")

_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


def _text(value: object) -> object:
    """Libraries want text: 5 and true are written without quotes all the same."""
    if not isinstance(value, dict):
        return value
    shown = {True: "true", False: "false"}
    return {
        name: shown[it] if isinstance(it, bool) else str(it) if isinstance(it, int | float) else it
        for name, it in value.items()
    }


def _mask(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: MASK if is_secret_name(name) else it for name, it in properties.items()}


Properties = Annotated[dict[str, str], BeforeValidator(_text)]
"""Names and values, given to a library as they are."""


class Catalog(Section):
    """``[catalog]``: where tables are found, by the Iceberg library's own properties."""

    name: str = Field(default="secor", min_length=1)
    properties: Annotated[Properties, PlainSerializer(_mask, when_used="json")] = Field(
        default_factory=dict
    )


class Rows(Section):
    """``[rows]``: from messages to rows."""

    unrouted: Literal["quarantine", "skip"] = "quarantine"
    extra_fields: Literal["drop", "quarantine"] = "drop"
    case_sensitive: bool = True
    metadata_columns: Names = ()
    row_group_rows: int = Field(default=50_000, ge=1)
    stripe_rows: int = Field(default=50_000, ge=1)
    block_rows: int = Field(default=5_000, ge=1)

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

    interval: Duration = 60.0
    timeout: Duration = 30.0
    on_timeout: Literal["commit", "discard"] = "commit"
    branch: str = Field(default="main", min_length=1)
    control: Literal["kafka", "none"] = "kafka"
    control_topic: Maybe[str] = None
    coordinator: Literal["daemon", "alone"] = "daemon"
    threads: int = Field(default=8, ge=1, le=256)
    keep_manifests: Duration = 3600.0

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
    """``[spark]``: the application that merges rows, by Spark's own settings."""

    settings: Annotated[Properties, PlainSerializer(_mask, when_used="json")] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.settings:
            if not name.startswith("spark."):
                raise fault(f"{name!r}: Spark's settings begin with spark.", "settings")
        return self


class TableRoute(Section):
    """One of ``[[tables]]``: which messages go to which table, and how that one is made."""

    table: str = Field(min_length=1)
    format: Literal["iceberg", "hudi"] = "iceberg"
    topics: Expression = ".*"
    field: Maybe[str] = None
    equals: Scalar | None = None
    one_of: tuple[Scalar, ...] | None = None
    matches: Maybe[LinearExpression] = None
    negated: bool = False
    auto_create: bool = False
    evolve: bool = False
    optional_columns: bool = False
    partition_by: Names = ()
    schema_file: Maybe[str] = None
    location: Maybe[str] = None
    properties: Properties = Field(default_factory=dict)
    mode: Literal["append", "upsert", "cdc"] = "append"
    key: Names = ()
    operation_field: Maybe[str] = None
    upserts: Names = ()
    deletes: Names = ()
    type: Literal["copy-on-write", "merge-on-read"] = "copy-on-write"
    precombine: Maybe[str] = None

    @model_validator(mode="before")
    @classmethod
    def _terms(cls, data: object) -> object:
        """A text of partition terms is cut at the commas between them, not inside of one."""
        if isinstance(data, dict) and isinstance(data.get("partition_by"), str):
            terms = re.split(r",(?![^(]*\))", data["partition_by"])
            data = {**data, "partition_by": [term.strip() for term in terms if term.strip()]}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_table()
        given = [self.equals is not None, self.one_of is not None, self.matches is not None]
        if self.field is None:
            if any(given) or self.negated:
                raise fault("name the field that this is about", "field")
        else:
            check_path(self.field, "field")
            if sum(given) > 1:
                raise fault("give one of equals, one_of, matches; none: the field exists", "field")
        self._check_format()
        for key, value in ONLY_NEW.items():
            if self.format == "hudi" and key in WRITER_KEYS:
                continue
            if not self.auto_create and getattr(self, key) != value:
                raise fault("is for tables that are made here: set auto_create = true", key)
        self._check_changes()
        return self

    def _check_format(self) -> None:
        if self.format == "iceberg":
            for key, value in ONLY_HUDI.items():
                if getattr(self, key) != value:
                    raise fault('is for format = "hudi"', key)
            return
        check_hudi(self.location, self.properties)
        if self.precombine is not None and self.mode == "append":
            why = 'is for mode = "upsert" or "cdc": rows that are added are not compared'
            raise fault(why, "precombine")
        check_partitions(self.partition_by, self.properties, self.key, self.mode)

    def _check_changes(self) -> None:
        for key, value in ONLY_CHANGES.items():
            if self.mode == "append" and getattr(self, key) != value:
                raise fault('is for mode = "upsert" or "cdc"', key)
        if self.mode != "append" and self.auto_create and not self.key:
            raise fault("name the columns that tell the rows of the new table apart", "key")
        if self.operation_field is None:
            for key in ("upserts", "deletes"):
                if getattr(self, key):
                    raise fault("name the operation_field that has these values", key)
            return
        check_path(self.operation_field, "operation_field")
        if not self.deletes:
            raise fault("say which values of operation_field delete a row", "deletes")
        if self.mode == "upsert" and self.upserts:
            raise fault('mode = "upsert" takes every other value: take this away', "upserts")
        if self.mode == "cdc" and not self.upserts:
            raise fault("say which values of operation_field put a row", "upserts")
        both = set(self.upserts) & set(self.deletes)
        if both:
            raise fault(f"{', '.join(sorted(both))}: a value has one meaning", "deletes")

    def _check_table(self) -> None:
        for text, path in parts_of(self.table):
            if text and not _NAME.fullmatch(text):
                raise fault(f"{text!r}: no name of a table has these characters", "table")
            if path is not None and path != "topic":
                check_path(path.removeprefix("fields."), "table")
        if "." not in self.table:
            raise fault('write "namespace.table"', "table")

    def takes(self, topic: str) -> bool:
        """Tell whether messages of a topic may go there."""
        return re.fullmatch(self.topics, topic) is not None


ONLY_NEW: Mapping[str, object] = MappingProxyType(
    {"partition_by": (), "schema_file": None, "location": None, "properties": {}}
)
"""Settings of tables that are made here, with their defaults."""

ONLY_CHANGES: Mapping[str, object] = MappingProxyType(
    {"key": (), "operation_field": None, "upserts": (), "deletes": ()}
)
"""Settings of routes whose messages change rows, with their defaults."""


def parts_of(template: str) -> list[tuple[str, str | None]]:
    """Return a table's template as pairs of text and what stands after it in braces.

    That is ``topic`` or ``fields.<path>``.  Raises a fault for anything else.
    """
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise fault(f"{template!r}: {error}", "table") from error
    for _, path, form, conversion in parsed:
        if form or conversion or (path is not None and not _is_known(path)):
            raise fault("braces may hold {topic} and {fields.name}", "table")
    return [(text, path) for text, path, _, _ in parsed]


def namesakes(routes: Sequence[TableRoute], topics: Iterable[str]) -> dict[str, list[str]]:
    """Return the tables that would get the rows of several topics by mistake, with the topics.

    Their names differ only in characters that become underscores: ``a-b`` and ``a_b``.
    """
    topics_by_table: dict[str, set[str]] = {}
    for topic in topics:
        for route in routes:
            if route.takes(topic) and "{topic}" in route.table:
                table = route.table.replace("{topic}", safe_name(topic))
                topics_by_table.setdefault(table, set()).add(topic)
    return {table: sorted(names) for table, names in topics_by_table.items() if len(names) > 1}


def describe_namesakes(table: str, topics: Sequence[str]) -> str:
    """Return what is wrong, and what to do."""
    return (
        f"topics {' and '.join(topics)} would both be rows of {table}, because names of tables"
        " have underscores for other characters: give one a [[tables]] of its own (topics = ...),"
        " or leave it out by kafka.topics_exclude"
    )


def _is_known(path: str) -> bool:
    return path == "topic" or path.startswith("fields.")


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
    if parser.decoder == "none":
        raise fault("rows are made of decoded fields", f"{before}parser.decoder")
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
    own = re.escape(str(topic))
    if exclude == "none":
        return {**kafka, "topics_exclude": own}
    return {**kafka, "topics_exclude": f"{exclude}|{own}"} if isinstance(exclude, str) else kafka
