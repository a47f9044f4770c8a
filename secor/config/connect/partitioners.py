"""Confluent's partitioners as a layout: directories of fields, of times, of Kafka partitions.

Source: ``PartitionerConfig``, ``TimeBasedPartitioner`` and its siblings of
kafka-connect-storage-common, and Joda's patterns of dates.
"""

from __future__ import annotations

import re

from secor.config.translation.draft import Draft
from secor.core.errors import ConfigurationError
from secor.parsing.layout import Layout
from secor.parsing.zones import Zone

CLASS = "partitioner.class"
DEFAULT = "partition={kafka_partition}"
_DAILY = "'year'=YYYY/'month'=MM/'day'=dd"
_PATHS = {"DailyPartitioner": _DAILY, "HourlyPartitioner": f"{_DAILY}/'hour'=HH"}
_DURATIONS = {"DailyPartitioner": 86_400_000, "HourlyPartitioner": 3_600_000}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")
_DIRECTIVES = {
    "yyyy": "%Y",
    "YYYY": "%Y",
    "y": "%Y",
    "Y": "%Y",
    "yy": "%y",
    "YY": "%y",
    "MM": "%m",
    "dd": "%d",
    "DDD": "%j",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}
_MILLISECONDS = {"%S": 1_000, "%M": 60_000, "%H": 3_600_000, "%d": 86_400_000, "%j": 86_400_000}
"""The directories' finest part, by what is in the pattern; finer ones first."""


def date_layout(pattern: str) -> str:
    """Return a layout that makes the directories of one of Joda's patterns.

    Raises ``ConfigurationError`` for one that no layout makes.
    """
    layout = ""
    position = 0
    for token in _TOKEN.finditer(pattern):
        if token.start() != position:
            break
        position = token.end()
        quoted, letter, other = token.groups()
        if letter is None:
            layout += other if other is not None else (quoted.replace("''", "'") or "'")
        elif token[0] in _DIRECTIVES:
            layout += f"{{time:{_DIRECTIVES[token[0]]}}}"
        else:
            raise ConfigurationError(f"no layout writes {token[0]!r}")
    if position != len(pattern):
        raise ConfigurationError(f"a quote is not closed: {pattern[position:]!r}")
    # Directives that touch are one time: "%Y%m", not two pieces next to each other.
    layout = layout.strip("/").replace("}{time:", "")
    Layout(layout)
    return layout


def convert_partitioner(draft: Draft) -> None:
    """Set ``parser.layout`` and how times are read."""
    kind = draft.value(CLASS).rpartition(".")[2] or "DefaultPartitioner"
    layout, timed = DEFAULT, False
    if kind == "FieldPartitioner":
        layout = _fields(draft)
    elif kind in ("TimeBasedPartitioner", *_PATHS):
        layout, timed = _time(draft, kind), True
    elif kind != "DefaultPartitioner":
        layout, timed = _others(draft, kind)
    sources = () if draft.outcomes.get(CLASS) else (CLASS,)
    used = ["path.format"] if timed and draft.value("path.format") else []
    used += ["partition.field.name"] if "{" in layout and "Field" in kind else []
    used = [name for name in used if name not in draft.outcomes]
    note = "" if draft.value(CLASS) else "the sink's default"
    draft.set("parser.layout", layout, *sources, *used, note=note)
    if "{time:" in layout:
        _times(draft)
    why = "directories have no times"
    draft.unneeded(why, "path.format", "timestamp.extractor", "timestamp.field", "timezone")
    draft.unneeded("directories are as fine as path.format", "partition.duration.ms")
    draft.unneeded("directories have numbers, no names of months", "locale")
    draft.unneeded(f"{kind} does not look at it", "partition.field.name")
    draft.unneeded("text that begins as ISO-8601 or a number is a time", "timestamp.parser")


def _fields(draft: Draft) -> str:
    names = [
        item.strip() for item in draft.value("partition.field.name").split(",") if item.strip()
    ]
    if not names:
        draft.fault("partition.field.name", "is empty: FieldPartitioner wants the fields")
        return DEFAULT
    layout = "/".join(f"{name}={{{name}}}" for name in names)
    try:
        Layout(layout)
    except ConfigurationError as error:
        draft.unsupported(f"write parser.layout by hand: {error}", "partition.field.name")
        return DEFAULT
    draft.todo(
        f"null in a directory is {names[0]}=__HIVE_DEFAULT_PARTITION__, as Hive has it; the sink"
        " writes null, or fails"
    )
    return layout


def _time(draft: Draft, kind: str) -> str:
    pattern = _PATHS.get(kind, draft.value("path.format"))
    if kind in _PATHS:
        draft.unneeded(f"{kind} has its own", "path.format")
    if not pattern:
        draft.unsupported(f"{kind} wants path.format: write parser.layout by hand", CLASS)
        return DEFAULT
    try:
        layout = date_layout(pattern)
    except ConfigurationError as error:
        why = f"write parser.layout by hand, by days here: {error}"
        draft.unsupported(why, "path.format")
        return date_layout(_DAILY)
    finest = next((ms for part, ms in _MILLISECONDS.items() if part in layout), 86_400_000)
    given = draft.number("partition.duration.ms")
    # A directory of the sink begins at a multiple of this; ours wherever its name changes. Where
    # the duration is longer than the name's finest part, the sink leaves directories out that we
    # make.
    duration = _DURATIONS.get(kind, given or 0)
    if duration > finest and kind not in _PATHS:
        why = (
            f"a directory is for each {finest} ms, as path.format says: end it with a coarser part"
        )
        draft.unsupported(why, "partition.duration.ms")
    return layout


def _others(draft: Draft, kind: str) -> tuple[str, bool]:
    """Guess the layout of a class of one's own from its settings: a person looks at it."""
    fields = draft.value("partition.field.name") or draft.value("partition.field")
    parts = [f"{name.strip()}={{{name.strip()}}}" for name in fields.split(",") if name.strip()]
    pattern = draft.value("path.format")
    why = "it is none of Confluent's: look whether parser.layout makes its directories"
    draft.unsupported(why, CLASS)
    draft.unsupported(f"{kind}'s own: see parser.layout", "partition.field")
    names = [item for item in draft.properties if item.startswith("partition.field.format.")]
    draft.unsupported(f"{kind}'s own: see parser.layout", *names)
    timed = False
    if pattern:
        try:
            parts.append(date_layout(pattern))
            timed = True
        except ConfigurationError as error:
            draft.unsupported(f"write parser.layout by hand: {error}", "path.format")
    # Most such classes combine fields and times in this order; a person has to look in any case.
    layout = "/".join(parts) or DEFAULT
    try:
        Layout(layout)
    except ConfigurationError:
        return DEFAULT, False
    return layout, timed


def _times(draft: Draft) -> None:
    extractor, field = draft.value("timestamp.extractor"), draft.value("timestamp.field")
    kind = extractor.rpartition(".")[2]
    # Classes of one's own are mostly copies of Confluent's with the name before or behind.
    if "RecordField" in kind:
        draft.set(
            "parser.time_field", field or "timestamp", "timestamp.extractor", "timestamp.field"
        )
    elif kind.startswith("Record"):
        draft.unneeded("Kafka's timestamp is the default", "timestamp.extractor")
    else:
        if kind not in ("", "Wallclock", "WallclockTimestampExtractor"):
            why = "Java classes cannot be used: parser.time_field, or Kafka's timestamp"
            draft.unsupported(why, "timestamp.extractor")
        why = "Kafka's timestamp instead of the clock, so that a second reading lands there too"
        draft.unneeded(why, "timestamp.extractor")
        draft.todo(
            "directories follow Kafka's timestamp, not the worker's clock: a message that waited"
            " goes into an earlier directory than the connector's"
        )
    draft.unneeded("only RecordField looks at it", "timestamp.field")
    zone = draft.value("timezone")
    try:
        if zone not in ("", "UTC"):
            Zone(zone)
            draft.set("parser.time_zone", zone, "timezone")
    except ConfigurationError as error:
        draft.unsupported(f"set parser.time_zone: {error}", "timezone")
    draft.unneeded("UTC is the default", "timezone")
