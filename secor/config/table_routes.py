"""``[[tables]]``: which messages go to which table, and how that one is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
from secor.core.text import safe_name

_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


class TableRoute(Section):
    """One of ``[[tables]]``: which messages go to which table, and how that one is made."""

    table: str = Field(min_length=1, examples=["shop.orders"])
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

OF_CREATION = ("mode", "key", "optional_columns")
"""What else changes how a table is made."""

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


def conflicting_creation(
    routes: Sequence[TableRoute], topics: Sequence[str]
) -> tuple[int, str, str] | None:
    """Return number, key and table of a route that creates another's table in another way.

    Whichever message came first would decide how the table is.  ``topics`` are those that are
    known by name.  None if all routes agree.
    """
    first: dict[str, TableRoute] = {}
    for number, route in enumerate(routes):
        for table in _created_tables(route, topics):
            before = first.setdefault(table, route)
            for key in (*ONLY_NEW, *OF_CREATION):
                if getattr(before, key) != getattr(route, key):
                    return number, key, table
    return None


def _created_tables(route: TableRoute, topics: Sequence[str]) -> set[str]:
    """Return the tables that a route creates, as far as they can be told; templates as they are."""
    if not route.auto_create:
        return set()
    named = {route.table.replace("{topic}", safe_name(it)) for it in topics if route.takes(it)}
    return named | {route.table}


def describe_namesakes(table: str, topics: Sequence[str]) -> str:
    """Return what is wrong, and what to do."""
    return (
        f"topics {' and '.join(topics)} would both be rows of {table}, because names of tables"
        " have underscores for other characters: give one a [[tables]] of its own (topics = ...),"
        " or leave it out by kafka.topics_exclude"
    )


def _is_known(path: str) -> bool:
    return path == "topic" or path.startswith("fields.")
