"""Checks of all ``[[tables]]`` together, with the topics and parsers of the group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from secor.config.parser import Parser
from secor.config.table_routes import OF_CREATION, ONLY_NEW, TableRoute, parts_of
from secor.config.tables import Rows
from secor.config.values import fault
from secor.core.text import safe_name


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


def check_joined_fields(routes: Sequence[TableRoute], rows: Rows) -> None:
    """Refuse names of several fields that would not tell which values they are made of.

    An underscore between the fields does: those of values are escaped.
    """
    for number, route in enumerate(routes if rows.names != "replace" else ()):
        for between in route.joined_fields():
            if "_" not in between or "_x" in between:
                shown = f"{between!r} between" if between else "nothing between"
                raise fault(
                    f"{shown} two fields: different values would make one name (ab and c, a and"
                    ' bc): put "_", "-" or "." between them, or set rows.names = "replace"',
                    f"tables.{number}.table",
                )


def shared_names(routes: Sequence[TableRoute], rows: Rows) -> list[str]:
    """Return sentences about names that different messages share, as values are not escaped."""
    return [
        f"tables: {route.table}: different values may make one name (a_b and c, a and b_c):"
        " put a dot between the fields, or take one field"
        for route in routes
        if rows.names == "replace" and route.joined_fields()
    ]


def check_known_fields(routes: Sequence[TableRoute], parsers: Sequence[Parser]) -> None:
    """Refuse fields that no message of any topic has: its messages would all be in quarantine."""
    known: set[str] = set()
    for parser in parsers:
        if parser.known_fields is None:
            return
        known |= set(parser.known_fields)
    for number, route in enumerate(routes):
        wanted = [("field", route.field), ("operation_field", route.operation_field)]
        named = [path for _, path in parts_of(route.table) if path not in (None, "topic")]
        wanted += [("table", (path or "").removeprefix("fields.")) for path in named]
        for key, path in wanted:
            of_key = any(parser.key.has(path or "") for parser in parsers)
            if path is not None and path not in known and not of_key:
                why = f"no message has a field {path}, only {', '.join(sorted(known))}"
                raise fault(f"{why}: parser.decoder reads nothing else", f"tables.{number}.{key}")
        if route.mode == "cdc" and route.operation_field is None:
            why = "Debezium's envelopes are read by a decoder; parser.decoder reads no fields"
            raise fault(why, f"tables.{number}.mode")
