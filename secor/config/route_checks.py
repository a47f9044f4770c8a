"""Checks of all ``[[tables]]`` together, with the topics and parsers of the group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from secor.config.parser import Parser
from secor.config.table_routes import OF_CREATION, ONLY_NEW, TableRoute, parts_of
from secor.config.tables import Rows
from secor.config.values import fault
from secor.core.text import safe_name


def shared_by_topics(
    routes: Sequence[TableRoute], topics: Iterable[str], rows: Rows
) -> Iterator[tuple[list[str], str]]:
    """Give topics with messages that would share a table by mistake, and what to do about it.

    Their names differ only in characters that become underscores (``a-b`` and ``a_b``), or a value
    may be what one has more than the other: ``{topic}_{fields.kind}`` is ``a_b_c`` for the topic
    ``a_b`` and ``c``, and for the topic ``a`` and ``b_c``.
    """
    patterns: dict[str, set[str]] = {}
    for topic in topics:
        for route in routes:
            if route.takes(topic) and "{topic}" in route.table:
                patterns.setdefault(_pattern(route, topic), set()).add(topic)
    for pattern, names in patterns.items():
        if len(names) > 1:
            table = pattern.replace(_VALUE, "…")
            yield sorted(names), _describe_namesakes(table, sorted(names))
    if rows.names == "replace":
        return
    for pattern, other in _overlapping(patterns):
        for pair in product(patterns[pattern], patterns[other]):
            if pair[0] != pair[1]:
                yield sorted(pair), _describe_overlap(sorted(pair))


_VALUE, _TOPIC = "\0", "\1"
"""Placeholders of a field's value, and of a topic, in the pattern of a table's name."""

_APART = re.compile(f"([^A-Za-z0-9_{_VALUE}{_TOPIC}])")
"""A character that neither topics nor values have in names of tables."""

_TOPIC_AMONG_FIELDS = re.compile(rf"{_VALUE}\w*(?:{_TOPIC}\w*)+{_VALUE}", re.ASCII)


def _pattern(route: TableRoute, topic: str | None) -> str:
    """Return a route's table with the name of a topic, or a sign for it, and signs for values."""
    name = _TOPIC if topic is None else safe_name(topic)
    signs = {None: "", "topic": name}
    return "".join(text + signs.get(path, _VALUE) for text, path in parts_of(route.table))


def _overlapping(patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Give pairs of patterns that have a name in common."""
    heads = {text: text.partition(_VALUE)[0] for text in patterns}
    tails = {head: head[::-1].partition(_VALUE)[0] for head in heads}
    several = max(heads, tails, key=lambda ends: len({*ends.values()}))
    open_ones: list[str] = []
    for pattern in sorted(several, key=lambda listed_object: several[listed_object]):
        # In this order those that begin alike follow each other: few pairs are left to look at.
        while open_ones and not several[pattern].startswith(several[open_ones[-1]]):
            open_ones.pop()
        yield from ((pattern, other) for other in open_ones if _have_a_name(pattern, other))
        open_ones.append(pattern)


def _have_a_name(pattern: str, other: str) -> bool:
    """Return whether values make one name of two patterns."""
    parts, others = _APART.split(pattern), _APART.split(other)
    return len(parts) == len(others) and all(map(_may_be_equal, parts, others))


def _may_be_equal(pattern: str, other: str) -> bool:
    if _VALUE not in pattern:
        pattern, other = other, pattern
    if _VALUE not in pattern:
        return pattern == other
    head, tail = pattern.partition(_VALUE)[0], pattern.rpartition(_VALUE)[2]
    if _VALUE not in other:
        long_enough = len(other) > len(head) + len(tail)
        return long_enough and other.startswith(head) and other.endswith(tail)
    head_2, tail_2 = other.partition(_VALUE)[0], other.rpartition(_VALUE)[2]
    heads, tails = sorted((head, head_2), key=len), sorted((tail, tail_2), key=len)
    return heads[1].startswith(heads[0]) and tails[1].endswith(tails[0])


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
    """Return the tables that a route creates, as far as they are known; templates as they are."""
    if not route.auto_create:
        return set()
    named = {
        route.table.replace("{topic}", safe_name(topic)) for topic in topics if route.takes(topic)
    }
    return named | {route.table}


def _describe_namesakes(table: str, topics: Sequence[str]) -> str:
    """Return what is wrong, and what to do."""
    return (
        f"topics {' and '.join(topics)} would both be rows of {table}, because names of tables"
        f" have underscores for other characters: {_APART_BY_ROUTES}"
    )


def _describe_overlap(topics: Sequence[str]) -> str:
    return (
        f"topics {' and '.join(topics)} would both be rows of one table, because a value of the"
        ' field may be the rest of the longer name: put "-" or "." between {topic} and the field,'
        f' or {_APART_BY_ROUTES}; rows.names = "replace" lets them share tables'
    )


_APART_BY_ROUTES = (
    "give one a [[tables]] of its own (topics = ...), or leave it out by kafka.topics_exclude"
)


def check_joined_fields(routes: Sequence[TableRoute], rows: Rows) -> None:
    """Refuse names of several fields that do not show which values they are made of.

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
        if _TOPIC_AMONG_FIELDS.search(_pattern(route, None)):
            why = 'fields on both sides of {topic} make one name of different values: put "-" or'
            raise fault(
                f'{why} "." between, or set rows.names = "replace"', f"tables.{number}.table"
            )


def shared_names(routes: Sequence[TableRoute], rows: Rows) -> list[str]:
    """Return sentences about names that different messages share, as values are not escaped."""
    return [
        f"tables: {route.table}: different values may make one name (a_b and c, a and b_c):"
        " put a dot between them, or take one field"
        for route in routes
        if rows.names == "replace" and (route.joined_fields() or _joins_topic(route))
    ]


def _joins_topic(route: TableRoute) -> bool:
    parts = _APART.split(_pattern(route, None))
    return any(_TOPIC in part and _VALUE in part for part in parts)


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
