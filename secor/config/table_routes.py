"""``[[tables]]``: which messages go to which table, and how that one is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from string import Formatter
from types import MappingProxyType
from typing import Literal, Self

from pydantic import Field, model_validator

from secor.config.hudi import ONLY_HUDI, WRITER_KEYS, check_hudi, check_partitions
from secor.config.transforms import Scalar, check_path
from secor.config.values import (
    Expression,
    LinearExpression,
    Maybe,
    Names,
    Properties,
    Section,
    fault,
)
from secor.core.errors import ConfigurationError
from secor.core.partition_terms import parse_term

_NAME = re.compile(r"[A-Za-z0-9_.\-]+")
_OF_VALUES = re.compile(r"\w*", re.ASCII)


class TableRoute(Section):
    """One of ``[[tables]]``: which messages go to which table, and how that one is made."""

    table: str = Field(
        min_length=1,
        description='The table, as a name or a template: "logs.{topic}", "logs.{fields.kind}".',
        examples=["shop.orders"],
    )
    format: Literal["iceberg", "hudi"] = Field(
        default="iceberg",
        description='Format of the table. "hudi" tables (docs/hudi.md) need a group of their own.',
    )
    topics: Expression = Field(
        default=".*",
        description="Only topics with a whole name that matches this regular expression.",
        examples=["orders|returns"],
    )
    field: Maybe[str] = Field(
        default=None,
        description="Only messages with a field (dotted path) that meets the condition: equals,"
        " one_of or matches. With none of these: the field has a value.",
        examples=["kind"],
    )
    equals: Scalar | None = Field(
        default=None, description="The value of tables.field, compared as text.", examples=["click"]
    )
    one_of: tuple[Scalar, ...] | None = Field(
        default=None,
        description="The values of tables.field, compared as text.",
        examples=[["click", "view"]],
    )
    matches: Maybe[LinearExpression] = Field(
        default=None,
        description="An expression for the whole value of tables.field.",
        examples=["c.*"],
    )
    negated: bool = Field(
        default=False, description="true takes the messages that do not meet the condition."
    )
    auto_create: bool = Field(
        default=False,
        description="Create the table if it does not exist, with the columns of"
        " tables.schema_file, else of the first messages.",
    )
    evolve: bool = Field(
        default=False,
        description="Add columns for new fields, and widen int to long, float to double, decimals.",
    )
    optional_columns: bool = Field(
        default=False, description="Make the required columns of tables.schema_file optional."
    )
    partition_by: Names = Field(
        default=(),
        description="Partition terms of a new table: a column, or year, month, day, hour,"
        " bucket, truncate of one. Hudi has no bucket, and these are the path of a row; with mode"
        ' "upsert" or "cdc" they must be columns of the key, unless the index is global.',
        examples=[["day(ts)", "bucket(16, id)", "truncate(4, name)", "country"]],
    )
    schema_file: Maybe[str] = Field(
        default=None,
        description="Columns of a new table: an Avro schema, or a file of 'secor schema infer'.",
        examples=["/etc/secor/click.avsc"],
    )
    location: Maybe[str] = Field(
        default=None,
        description="Location of a new table, if it is not in the warehouse.",
        examples=["s3://other-bucket/clicks"],
    )
    properties: Properties = Field(
        default_factory=dict,
        description="Properties of a new Iceberg table; of a Hudi table Hudi's own settings, for"
        " every commit.",
        examples=[{"write.parquet.compression-codec": "zstd"}],
    )
    mode: Literal["append", "upsert", "cdc"] = Field(
        default="append",
        description='"append": every message is a new row. "upsert": a message is the newest'
        ' state of its key. "cdc": a message is a change by Debezium, or by a program that has'
        " its own operations (docs/tables.md).",
    )
    key: Names = Field(
        default=(),
        description="The columns that identify a row. An existing table may name them itself"
        " (identifier fields). Hudi: the record key.",
        examples=[["id"]],
    )
    operation_field: Maybe[str] = Field(
        default=None,
        description="The field that says what a message does to its row, as a dotted path. cdc"
        " without it: Debezium's envelopes.",
        examples=["op"],
    )
    upserts: Names = Field(
        default=(),
        description="cdc: values of tables.operation_field that put a row.",
        examples=[["I", "U"]],
    )
    deletes: Names = Field(
        default=(),
        description="Values of tables.operation_field that delete a row.",
        examples=[["D"]],
    )
    unavailable_value: str | None = Field(
        default=None,
        description="The connector's unavailable.value.placeholder: a column with this value keeps"
        ' that of its row. Debezium\'s own for its envelopes, no value for flat messages; "" takes'
        " it as any other value.",
        examples=["__debezium_unavailable_value"],
    )
    encodings: Maybe[Literal["debezium"]] = Field(
        default=None,
        description="How messages without a schema write values of columns that the table has"
        ' already: "debezium" reads integers as dates and times, text as decimals and bytes.',
        examples=["debezium"],
    )
    decimal_handling_mode: Literal["precise", "string", "double"] = Field(
        default="precise",
        description="encodings: the connector's setting of this name. precise: text is the"
        " unscaled number in base64, and the column has the scale of the source's column.",
    )
    time_precision_mode: Literal[
        "adaptive",
        "adaptive_time_microseconds",
        "microseconds",
        "connect",
        "isostring",
        "nanoseconds",
    ] = Field(
        default="adaptive",
        description="encodings: the connector's setting of this name. adaptive: microseconds,"
        " unless tables.time_units says otherwise.",
    )
    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] = Field(
        default="bytes", description="encodings: the connector's setting of this name."
    )
    time_units: Properties = Field(
        default_factory=dict,
        description='encodings: the unit ("ms", "us", "ns") of the times of single columns, "*"'
        " of all others. Adaptive modes write ms for timestamp(3) and less.",
        examples=[{"created_at": "ms"}],
    )
    units: dict[str, Literal["seconds", "milliseconds", "microseconds", "nanoseconds"]] = Field(
        default_factory=dict,
        description="Columns (dotted paths) of numbers that are times, and in which unit; such a"
        ' new column is a timestamp. "*": all others of times and timestamps. Without a unit'
        " numbers are days in dates, and else microseconds.",
        examples=[{"created": "milliseconds"}],
    )
    truncate: Literal["quarantine", "ignore", "stop"] = Field(
        default="quarantine",
        description="What becomes of Debezium's message that the source truncated its table:"
        ' "quarantine" it; "ignore" (count it and leave it out), as sinks do; or "stop" the topic'
        " partition until a person has deleted the rows (docs/cdc.md).",
        examples=["stop"],
    )
    keep_deletes: bool = Field(
        default=False,
        description="A deletion sets the column __deleted of its row to true instead of removing"
        " it; the other columns keep their values.",
        examples=[True],
    )
    type: Literal["copy-on-write", "merge-on-read"] = Field(
        default="copy-on-write",
        description='hudi: "copy-on-write" is quick to read, "merge-on-read" quick to write, and'
        " compacted after some commits. A table that exists keeps its type.",
    )
    precombine: Maybe[str] = Field(
        default=None,
        description="hudi: of each key the greatest value of this column wins, whatever the"
        " order in Kafka. So a late message does not undo a newer one.",
        examples=["updated_at"],
    )

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
        for column in self.units:
            if column != "*":
                check_path(column, "units")
        for term in self.partition_by:
            try:
                parse_term(term)
            except ConfigurationError as error:
                raise fault(str(error), "partition_by") from error
        self._check_format()
        for key, value in ONLY_NEW.items():
            if self.format == "hudi" and key in WRITER_KEYS:
                continue
            if not self.auto_create and getattr(self, key) != value:
                raise fault("is for tables that are made here: set auto_create = true", key)
        self._check_encodings()
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
        self._check_unavailable_value()
        envelopes = self.mode == "cdc" and self.operation_field is None
        if self.truncate != "quarantine" and not envelopes:
            raise fault("is for Debezium's envelopes (cdc without operation_field)", "truncate")
        self._check_operations()

    def _check_operations(self) -> None:
        if self.mode != "append" and self.auto_create and not self.key:
            raise fault("name the columns that identify the rows of the new table", "key")
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

    def _check_encodings(self) -> None:
        if self.encodings is not None and self.units:
            raise fault("encodings has time_units: take one of them away", "units")
        for key, value in ONLY_ENCODINGS.items():
            if self.encodings is None and getattr(self, key) != value:
                raise fault('is for encodings = "debezium"', key)
        for column, unit in self.time_units.items():
            if unit not in TIME_UNITS:
                raise fault(f"{column}: {unit!r}: give ms, us or ns", "time_units")

    def _check_unavailable_value(self) -> None:
        text = self.unavailable_value or ""
        try:
            bytes.fromhex(text.removeprefix("hex:") if text.startswith("hex:") else "")
        except ValueError as error:
            raise fault(f"{text!r}: no bytes in hexadecimal", "unavailable_value") from error

    def _check_table(self) -> None:
        for text, path in parts_of(self.table):
            if text and not _NAME.fullmatch(text):
                raise fault(f"{text!r}: no name of a table has these characters", "table")
            if path is not None and path != "topic":
                check_path(path.removeprefix("fields."), "table")
        if "." not in self.table:
            raise fault('write "namespace.table"', "table")

    def joined_fields(self) -> list[str]:
        """Return the texts between fields of one part of the name, if values may have it, too."""
        return [
            between
            for (_, path), (between, following) in pairwise(parts_of(self.table))
            if path is not None
            and following is not None
            and "topic" not in (path, following)
            and _OF_VALUES.fullmatch(between)
        ]

    def takes(self, topic: str) -> bool:
        """Return whether messages of a topic may go there."""
        return re.fullmatch(self.topics, topic) is not None


ONLY_NEW: Mapping[str, object] = MappingProxyType(
    {"partition_by": (), "schema_file": None, "location": None, "properties": {}}
)
"""Settings of tables that are made here, with their defaults."""

OF_CREATION = ("mode", "key", "optional_columns", "units")
"""What else changes how a table is made."""

ONLY_CHANGES: Mapping[str, object] = MappingProxyType(
    {
        "key": (),
        "operation_field": None,
        "upserts": (),
        "deletes": (),
        "unavailable_value": None,
        "truncate": "quarantine",
        "keep_deletes": False,
    }
)
"""Settings of routes with messages that change rows, with their defaults."""

ONLY_ENCODINGS: Mapping[str, object] = MappingProxyType(
    {
        "decimal_handling_mode": "precise",
        "time_precision_mode": "adaptive",
        "binary_handling_mode": "bytes",
        "time_units": {},
    }
)
"""Settings that say more of ``encodings``, with their defaults."""

TIME_UNITS = ("ms", "us", "ns")


def parts_of(template: str) -> list[tuple[str, str | None]]:
    """Return a table's template as pairs of text and the field after it in braces.

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


def _is_known(path: str) -> bool:
    return path == "topic" or path.startswith("fields.")
