"""Which messages go to which table: by topic, by a field, or by a name made of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from secor.core.partition_terms import TIMES, parse_term
from secor.core.text import escaped_name, joined_name, safe_name
from secor.parsing.fields import Texts, field_at, show_value, texts
from secor.parsing.placement import Work
from secor.parsing.transforms import Selector
from secor.schema.new_columns import Numbers
from secor.tables.rows.encodings import Encodings
from secor.tables.rows.other_events import KINDS, TRUNCATE, Codes, find_events
from secor.tables.rows.row_changes import ChangeSettings
from secor.tables.rows.schema_changes import TextTypes
from secor.tables.rows.units import Units

Names = Literal["escape", "replace", "quarantine"]

Truths = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

LONGEST_NAME = 200
"""Characters of a value that names a table."""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Settings of a route's tables, which are made where they are missing.

    ``names`` says what becomes of characters in values that no name has, ``numbers`` what new
    columns of numbers are, ``units`` which numbers are times.  ``any_text``: columns of text take
    every value.
    """

    auto_create: bool = False
    evolve: bool = False
    optional_columns: bool = False
    names: Names = "escape"
    numbers: Numbers = "as seen"
    any_text: bool = True
    partition_by: tuple[str, ...] = ()
    schema_file: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    changes: ChangeSettings = field(default_factory=ChangeSettings)
    text_types: TextTypes = frozenset()
    encodings: Encodings | None = None
    units: Units = field(default_factory=dict)

    @property
    def partition_columns(self) -> list[str]:
        """The columns by which rows are partitioned."""
        return [parse_term(term)[1] for term in self.partition_by]

    @property
    def times(self) -> list[str]:
        """The columns by whose times rows are partitioned."""
        terms = map(parse_term, self.partition_by)
        return [column for transform, column in terms if transform in TIMES]

    def first_columns(self, known: Container[str]) -> list[str]:
        """Return the columns without which no table is made, ``known`` ones left out."""
        names = [*self.changes.key, *self.partition_columns]
        return [name for name in dict.fromkeys(names) if name not in known]


@dataclass(frozen=True, slots=True)
class Route:
    """One route of a topic.

    ``template`` is pairs of text and what follows it: ``topic``, ``fields.<path>`` or None.
    ``selector`` says which messages it takes, None for all.
    """

    template: tuple[tuple[str, str | None], ...]
    settings: TableSettings = field(default_factory=TableSettings)
    selector: Selector | None = None

    @property
    def identity(self) -> str:
        """All that changes where messages go."""
        selector = self.selector.identity if self.selector is not None else ""
        names: str = self.settings.names if self.named_by_messages else ""
        names += " joined" if names not in ("", "replace") and any(self._joints) else ""
        return f"route {self.template} {selector}{self.settings.changes.identity}{names}"

    @property
    def changes_rows(self) -> bool:
        """True if messages change rows; else they are appended."""
        return self.settings.changes.mode != "append"

    @property
    def reads_envelopes(self) -> bool:
        """True if messages are Debezium's envelopes."""
        return self.settings.changes.reads_envelopes

    def passes_over(self, events: Codes) -> Truths:
        """Return which messages change no row of the route's tables."""
        if not self.reads_envelopes:
            return np.zeros(len(events), dtype=bool)
        ignored = self.settings.changes.truncate == "ignore"
        return (events >= 0) if ignored else (events >= 0) & (events != TRUNCATE)

    @property
    def deletes_rows(self) -> bool:
        """True if messages may delete rows, those without a value among them."""
        return self.settings.changes.mode in ("upsert", "cdc")

    @property
    def named_by_messages(self) -> bool:
        """True if messages name the table; else the topic is enough."""
        return any(path not in (None, "topic") for _, path in self.template)

    @property
    def named_by_field_alone(self) -> bool:
        """True if a field has the whole name, namespace and all: ``{fields.table}``."""
        return [text for text, _ in self.template] == [""] and self.named_by_messages

    @property
    def _joints(self) -> list[bool]:
        """The pieces of the template that are joined to the next value by letters that values may
        have, too; a dot or a hyphen is in no value's name.
        """
        joints = [
            is_field(path) and is_field(following) and escaped_name(between) == between
            for (_, path), (between, following) in pairwise(self.template)
        ]
        return [*joints, False]

    def may_name(self, topic: str, table: str) -> bool:
        """Return whether messages of a topic may go to a table of this name."""
        if not self.named_by_messages:
            return self.name_for(topic) == table
        pattern = ""
        for text, path in self.template:
            of_topic = re.escape(safe_name(topic)) if path == "topic" else ".+"
            pattern += re.escape(text) + (of_topic if path else "")
        return re.fullmatch(pattern, table) is not None

    def name_for(self, topic: str) -> str:
        """Return the table of a topic, where messages do not name it."""
        assert not self.named_by_messages
        return "".join(text + (safe_name(topic) if path else "") for text, path in self.template)

    def accepted_rows(self, work: Work) -> Truths:
        """Return a mask of the rows that the route takes.

        A tombstone has no field to look at, so every route that changes rows takes it: to
        delete a row that is not there does no harm.
        """
        accepted = work.has_fields().copy()
        if self.selector is not None:
            accepted &= self.selector.keep(work.decoded)
        if work.tombstones is not None and self.deletes_rows and not self.named_by_messages:
            # Only where the topic names the table: a tombstone has no field from which a name could
            # be made.
            accepted |= work.live & work.tombstones
        return accepted

    def tables(self, work: Work, accepted: Truths) -> tuple[dict[str, Rows], dict[int, str]]:
        """Return the rows of each table, and why others name none."""
        topic = work.chunk.topic_partition.topic
        if not self.named_by_messages:
            return {self.name_for(topic): np.flatnonzero(accepted)}, {}
        names = np.full(len(accepted), "", dtype=object)
        bad: dict[int, str] = {}
        joints = self._joints
        for number, (text, path) in enumerate(self.template):
            names = names + text
            follows = number > 0 and joints[number - 1] and text.endswith("_")
            safe = _safe(self.settings.names, follows=follows, is_followed=joints[number])
            if self.named_by_field_alone:
                safe = partial(safe_identifier, safe=safe)
            if path == "topic":
                names = names + safe_name(topic)
            elif path is not None:
                field_texts = texts(field_at(work.decoded.rows, path.removeprefix("fields.")))
                names = names + _values(field_texts, path, accepted, bad, safe)
        good = accepted.copy()
        good[list(bad)] = False
        return _rows_by_name(names, np.flatnonzero(good)), bad


def is_field(path: str | None) -> bool:
    """Return whether a piece of a template is a field of messages."""
    return path is not None and path != "topic"


def _rows_by_name(names: npt.NDArray[np.object_], rows: Rows) -> dict[str, Rows]:
    """Return the rows of each name; the cost does not grow with how many names there are."""
    by_name: dict[str, list[int]] = {}
    for row, name in zip(rows.tolist(), names[rows], strict=True):
        by_name.setdefault(name, []).append(row)
    return {name: np.array(rows, dtype=np.int64) for name, rows in by_name.items()}


def _values(
    field_texts: Texts, path: str, accepted: Truths, bad: dict[int, str], safe: Callable[[str], str]
) -> npt.NDArray[np.object_]:
    names = [safe(text) for text in field_texts.distinct]
    table = np.array([*names, ""], dtype=object)
    lengths = np.array([*(0 < len(name) <= LONGEST_NAME for name in names), False])
    for row in np.flatnonzero(accepted & ~lengths[field_texts.codes]).tolist():
        value = field_texts.at(row)
        why = "is missing" if value is None else f"{show_value(value)} names no table"
        bad.setdefault(row, f"{path.removeprefix('fields.')} {why}")
    return table[field_texts.codes]


def _safe(names: Names, *, follows: bool, is_followed: bool) -> Callable[[str], str]:
    """Return what makes a name of a text, "" where it has none."""
    if names == "replace":
        return safe_name
    escape = partial(joined_name, follows=follows, is_followed=is_followed)
    if names == "escape":
        return escape if follows or is_followed else escaped_name
    # An underscore in front of what looks like an escape makes no two names alike here.
    plain = escape if is_followed else safe_name
    return lambda text: text if plain(text) == text else ""


def safe_identifier(text: str, safe: Callable[[str], str]) -> str:
    """Return a whole name, ``namespace.table``, with safe parts; empty for what is none."""
    parts = [safe(part) for part in text.split(".")]
    return ".".join(parts) if len(parts) > 1 and all(parts) else ""


def route_rows(
    routes: Sequence[Route], work: Work, *, skip_unrouted: bool
) -> dict[str, tuple[Route, Rows]]:
    """Return the rows of each table, with the first route that leads there.

    Rows that no route takes are out of ``work`` after that, in quarantine or counted, and so
    are those that name no table, and those that change no row.  A row that two routes lead to
    one table is there once.
    """
    chosen_rows: dict[str, tuple[Route, Rows]] = {}
    routed = np.zeros(len(work.live), dtype=bool)
    events = np.full(len(work.live), -1, np.int64)
    if any(route.reads_envelopes for route in routes):
        events = find_events(work.decoded.rows)
    passed = np.zeros(len(work.live), dtype=bool)
    for route in routes:
        passed_over = route.passes_over(events)
        accepted = route.accepted_rows(work) & ~passed_over
        passed |= passed_over
        routed |= accepted
        tables, bad = route.tables(work, accepted)
        for name, rows in tables.items():
            if len(rows):
                # The first route counts for a table, and rows that two routes lead there are there
                # once: with both, each would be a row twice.
                first, before = chosen_rows.get(name, (route, rows))
                chosen_rows[name] = first, rows if before is rows else np.union1d(before, rows)
        work.fail("route", bad)
    for code, kind in enumerate(KINDS):
        work.leave_out_events(kind, passed & ~routed & (events == code))
    # After all routes: what one of them refuses another may take.
    unrouted = work.live & ~routed
    if unrouted.any():
        if skip_unrouted:
            work.leave_out(unrouted)
        else:
            nowhere = np.flatnonzero(unrouted).tolist()
            work.fail("route", dict.fromkeys(nowhere, "no table takes this message"))
    return chosen_rows
