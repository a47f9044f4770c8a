"""Settings of sink connectors in tables: what replaces each here, or what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from secor.config.translation.draft import Draft, PropertyOutcome
from secor.config.translation.report import finish

NOT_NEEDED, NOT_SUPPORTED = PropertyOutcome.UNNEEDED, PropertyOutcome.UNSUPPORTED

_REFERENCE = re.compile(r"\$\{\w+:(?!-)[^}]*\}")
"""A reference to one of Connect's config providers; ``${NAME}`` is the environment's."""

ABOUT = (
    "# Made by secor config import of {source}, which was {program}'s for Kafka Connect.",
    "# Behind each value are the settings that it came from; what is not here has the default",
    "# that docs/configuration.md explains.",
)


@dataclass(frozen=True, slots=True)
class SinkSetting:
    """``name`` may have ``<table>`` and a final ``*``; ``here`` is Markdown.

    ``outcome`` is what becomes of a setting that nothing translates, None for one that has its
    counterpart.
    """

    name: str
    here: str
    outcome: PropertyOutcome | None = None

    def matches(self, name: str) -> bool:
        """Return whether this is the row of a setting that a connector has."""
        pattern = re.escape(self.name).replace("<table>", ".+")
        if pattern.endswith(r"\*"):
            pattern = pattern.removesuffix(r"\*") + ".+"
        return re.fullmatch(pattern, name) is not None


CONNECT_SETTINGS = (
    SinkSetting("name", "`group.name`"),
    SinkSetting("connector.class", '`group.kind = "table"`'),
    SinkSetting("tasks.max", "none: run as many processes as you like", NOT_NEEDED),
    SinkSetting("topics", "`kafka.topics`"),
    SinkSetting("topics.regex", "`kafka.topics_pattern`"),
    SinkSetting("value.converter", "`parser.decoder`"),
    SinkSetting("value.converter.*", "`[parser]`"),
    SinkSetting(
        "key.converter",
        "`parser.key.decoder`, where rows are changed: the keys of messages without a value say"
        " which rows they delete",
    ),
    SinkSetting("key.converter.*", "`[parser.key]`, likewise"),
    SinkSetting("header.converter", "none: `_headers` has them as they are", NOT_NEEDED),
    SinkSetting("header.converter.*", "none: `_headers` has them as they are", NOT_NEEDED),
    SinkSetting(
        "transforms",
        "`parser.transforms`, written by hand; for the sink's own see below",
        NOT_SUPPORTED,
    ),
    SinkSetting("transforms.*", "as above", NOT_SUPPORTED),
    SinkSetting("predicates", "conditions in `parser.transforms`", NOT_SUPPORTED),
    SinkSetting("predicates.*", "as above", NOT_SUPPORTED),
    SinkSetting("errors.deadletterqueue.topic.name", "`parser.dead_letter_topic`"),
    SinkSetting(
        "errors.*", "none: what cannot be a row is in quarantine, with the reason", NOT_NEEDED
    ),
    SinkSetting("consumer.override.auto.offset.reset", "`kafka.reset`"),
    SinkSetting("consumer.override.client.rack", "`kafka.client_rack`"),
    SinkSetting(
        "consumer.override.group.instance.id", "`kafka.group_instance_id`, one for each process"
    ),
    SinkSetting("consumer.override.*", "`[kafka]`, written by hand", NOT_SUPPORTED),
    SinkSetting("producer.override.*", "none: nothing is produced but events", NOT_NEEDED),
    SinkSetting("admin.override.*", "none: `[kafka]` is one connection for all", NOT_NEEDED),
    SinkSetting("config.action.reload", "none: the environment is read at the start", NOT_NEEDED),
)
"""Of every sink connector."""

FETCHING = (
    *("max.poll.records", "max.partition.fetch.bytes", "fetch.min.bytes", "fetch.max.bytes"),
    *("fetch.max.wait.ms", "receive.buffer.bytes", "send.buffer.bytes", "session.timeout.ms"),
    *("heartbeat.interval.ms", "request.timeout.ms", "max.poll.interval.ms"),
    *("enable.auto.commit", "partition.assignment.strategy", "isolation.level", "client.id"),
)
"""Settings of the consumer that nothing needs here."""

STRAY = (
    SinkSetting("internal.*", "none: it is an old setting of the worker", NOT_NEEDED),
    SinkSetting("offset.*", "none: it is a setting of the worker", NOT_NEEDED),
    SinkSetting("rest.*", "none: it is a setting of the worker", NOT_NEEDED),
    SinkSetting("listeners", "none: it is a setting of the worker", NOT_NEEDED),
    SinkSetting("group.id", "none: the group is that of the connector", NOT_NEEDED),
    SinkSetting("plugin.path", "none: it is a setting of the worker", NOT_NEEDED),
    SinkSetting("confluent.*", "none: it is about Confluent's licence or cloud", NOT_NEEDED),
    SinkSetting("reporter.*", "none: messages that cannot be stored are in quarantine", NOT_NEEDED),
    SinkSetting("auto.offset.reset", "none: Connect reads consumer.override.…", NOT_NEEDED),
    SinkSetting("refresh.topics.*", "none: topics are looked for all the time", NOT_NEEDED),
    SinkSetting("max.retries", "none: what fails is tried again without end", NOT_NEEDED),
    SinkSetting("retry.*", "none: what fails is tried again without end", NOT_NEEDED),
    SinkSetting("comment*", "none: it is a comment", NOT_NEEDED),
    SinkSetting("_comment*", "none: it is a comment", NOT_NEEDED),
    SinkSetting("//*", "none: it is a comment", NOT_NEEDED),
)
"""Settings that people write next to a connector's, which no sink reads."""


def row_of(name: str, rows: Iterable[SinkSetting]) -> SinkSetting | None:
    """Return the row of a setting: the first that names it; None for an unknown one."""
    rows = tuple(rows)
    # A row of the very name comes before one with a star, wherever it is in the table.
    exact = [row for row in rows if row.name == name]
    return next(iter([*exact, *(row for row in rows if row.matches(name))]), None)


def markdown_rows(rows: Iterable[SinkSetting]) -> list[str]:
    """Return a table for a page, with its head."""
    head = ["| its setting | here |", "|---|---|"]
    return [*head, *(f"| `{row.name}` | {row.here} |" for row in rows)]


def default_outcome(
    draft: Draft, name: str, rows: tuple[SinkSetting, ...]
) -> tuple[PropertyOutcome, str]:
    """Return what is reported of a setting that no converter has mapped or explained."""
    row = row_of(name, rows)
    if row is None:
        # High, for many settings differ in one word: a wrong suggestion is worse than none.
        near = get_close_matches(name, [item.name for item in rows], n=1, cutoff=0.85)
        return PropertyOutcome.UNKNOWN, f"did you mean {near[0]}?" if near else ""
    if row.outcome is None:
        return PropertyOutcome.UNNEEDED, "it changes nothing with these settings"
    return row.outcome, row.here.replace("`", "")


def say_whose_types(draft: Draft, kind: str) -> None:
    """Tell how columns get the connector's types, of formats that have any."""
    if kind in ("avro", "parquet"):
        draft.todo(
            "int and float become long and double where types are found: secor schema stored writes"
            " the connector's own schema, for output.schema_file"
        )


def finish_connector(
    draft: Draft, program: str, source: str, rest: Callable[[str], tuple[PropertyOutcome, str]]
) -> tuple[str, Draft]:
    """Return the file and the draft; values that only Connect could look up are faults."""
    # Last, over all lines: any setting may come from a vault, file or environment of the worker,
    # and written into a file of ours the reference would be taken as the value.
    for line in [*draft.lines, *(line for lines in draft.rules.values() for line in lines)]:
        if _REFERENCE.search(str(line.value)):
            name = next(iter(line.names), line.key)
            draft.fault(name, f"Connect looks {draft.value(name)} up: give it, -D {name}=…")
    about = "\n".join(ABOUT).format(source=source, program=program)
    return finish(draft, about, source, rest)
