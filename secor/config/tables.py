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

RESERVED = frozenset({"_partition", "_file", "_pos", "_spec_id", "_deleted"})
"""Names of columns that engines for Iceberg keep for themselves: Spark can neither compact nor
change a table that has one.
"""

METADATA_COLUMNS = ("_topic", "_kafka_partition", "_offset", "_timestamp")


def _mask(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: MASK if is_secret_name(name) else it for name, it in properties.items()}


TYPES = ("rest", "sql", "glue", "hive")
"""Types of catalogs that can be used."""

_KNOWN = '"rest", "sql", "glue" or "hive"'

CANNOT_COMMIT = frozenset({"dynamodb", "bigquery"})
"""Types of catalogs whose ``commit_table`` the Iceberg library 0.12 does not have."""


class Catalog(Section):
    """``[catalog]``: where tables are found, by the Iceberg library's own properties."""

    name: str = Field(default="secor", min_length=1)
    properties: Annotated[Properties, PlainSerializer(_mask, when_used="json")] = Field(
        default_factory=dict
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
    """``[spark]``: the application that merges rows, by Spark's own settings.

    ``timeout`` is in seconds: so long it may start, and be without executors while rows wait.
    """

    timeout: Duration = 300.0
    settings: Annotated[Properties, PlainSerializer(_mask, when_used="json")] = Field(
        default_factory=dict
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
