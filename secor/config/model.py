"""The whole configuration of a group, typed, with the checks between its sections."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from secor.config.cluster import Registry, refuse_kept_cluster
from secor.config.finalize import Finalize
from secor.config.hudi import Hudi
from secor.config.output import TYPED_FORMATS, Output, Policy
from secor.config.parser import Parser, check_together
from secor.config.process import Erase, Limits, Local, Logs, Metrics
from secor.config.route_checks import (
    check_joined_fields,
    check_known_fields,
    conflicting_creation,
    shared_by_topics,
    shared_names,
)
from secor.config.servers import Kafka, Ledger, ZooKeeper
from secor.config.stores import S3, Azure, Gcs, LocalStore, Store
from secor.config.table_routes import TableRoute
from secor.config.tables import (
    Catalog,
    Commit,
    Rows,
    Spark,
    check_format_version,
    check_of_tables,
    without_control_topic,
)
from secor.config.topic_rules import TopicRule, TopicSettings, complete_rule
from secor.config.transforms import CHANGES_FIELDS
from secor.config.values import MIB, Name, Section, fault

__all__ = [
    "S3",
    "Azure",
    "Catalog",
    "Commit",
    "Config",
    "Erase",
    "Finalize",
    "Gcs",
    "Group",
    "Hudi",
    "Kafka",
    "Ledger",
    "Limits",
    "Local",
    "LocalStore",
    "Logs",
    "Metrics",
    "Output",
    "Parser",
    "Policy",
    "Rows",
    "Store",
    "TableRoute",
    "TopicRule",
    "TopicSettings",
    "ZooKeeper",
]


class Group(Section):
    """``[group]``: the consumer group; it names the ledger's entries, too."""

    name: Name = Field(
        min_length=1,
        description="Name of the consumer group and of its entries in the ledger.",
        examples=["backup"],
    )
    kind: Literal["backup", "partition", "table"] = Field(
        default="backup",
        description='What the group does: "backup" keeps messages verbatim, "partition" parses'
        ' them and places them by time and fields, "table" makes rows of tables. A job file of a'
        ' restore has "restore" here.',
    )


class Config(Section):
    """Everything; ``for_topic`` gives what holds for one topic."""

    group: Group = Field(description="The group: its name and what it does.")
    kafka: Kafka = Field(description="The brokers, the topics and how they are read.")
    ledger: Ledger = Field(
        default_factory=Ledger, description="Where committed offsets and intents are stored."
    )
    store: Store = Field(description="Where objects go: one of the stores below.")
    registry: Registry = Field(
        default_factory=Registry, description="A schema registry; a backup keeps its content."
    )
    output: Output = Field(default_factory=Output, description="Names and format of the objects.")
    parser: Parser = Field(
        default_factory=Parser,
        description="From messages to fields, times and directories. Messages that cannot be"
        " read go into quarantine, <prefix>/_quarantine/<topic>/..., with the reason"
        " (docs/parsing.md).",
    )
    policy: Policy = Field(default_factory=Policy, description="When a batch is uploaded.")
    finalize: Finalize = Field(
        default_factory=Finalize,
        description="For 'secor finalize', which marks complete hours and days (docs/finalize.md).",
    )
    catalog: Catalog = Field(
        default_factory=Catalog, description="The catalog of Iceberg tables (docs/tables.md)."
    )
    rows: Rows = Field(default_factory=Rows, description="From messages to rows of tables.")
    commit: Commit = Field(
        default_factory=Commit, description="How staged rows become visible in the tables."
    )
    spark: Spark = Field(
        default_factory=Spark,
        description="The Spark application that merges rows into tables with changed rows,"
        " and that writes Hudi tables.",
    )
    hudi: Hudi = Field(default_factory=Hudi, description="Where Hudi tables are (docs/hudi.md).")
    limits: Limits = Field(default_factory=Limits, description="What one process may use.")
    local: Local = Field(default_factory=Local, description="Local files of one process.")
    metrics: Metrics = Field(
        default_factory=Metrics,
        description="The HTTP server of / (what the process does now), /status.json, /metrics,"
        " /healthz and /readyz.",
    )
    logs: Logs = Field(default_factory=Logs, description="Log messages on standard error.")
    erase: Erase = Field(default_factory=Erase, description="Erased keys (docs/lifecycle.md).")
    tables: tuple[TableRoute, ...] = Field(
        default=(),
        description="Which messages go to which table. A message goes to every table whose"
        " conditions it meets.",
        examples=[[{"table": "logs.{topic}"}]],
    )
    topics: tuple[TopicRule, ...] = Field(
        default=(),
        description="Rules for some topics: the first rule that matches the whole name of a topic"
        " counts.",
        examples=[[{"match": "audit-.*"}]],
    )

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)
    _stray: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="before")
    @classmethod
    def _complete_tables(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        # Without a table of its own the store still has something to say: which bucket?
        data = {"store": {}, **data}
        if _kind(data) in ("partition", "table") and isinstance(data.get("output", {}), dict):
            # Not among the backups: their names would be mixed with these.
            data["output"] = {"prefix": str(_kind(data)), **data.get("output", {})}
        if _kind(data) == "partition" and isinstance(data.get("kafka", {}), dict):
            # More messages a chunk: fewer pieces where a chunk is divided among many files.
            data["kafka"] = {"max_partition_fetch_bytes": 4 * MIB, **data.get("kafka", {})}
        if _kind(data) == "table":
            data["kafka"] = without_control_topic(data)
        if isinstance(data.get("topics"), list | tuple):
            data["topics"] = [complete_rule(rule, data) for rule in data["topics"]]
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.ledger.kind == "kafka":
            if self.policy.upload_on_revoke:
                raise fault("needs the ZooKeeper ledger", "policy.upload_on_revoke")
            for index, rule in enumerate(self.topics):
                if rule.policy.upload_on_revoke:
                    key = f"topics.{index}.policy.upload_on_revoke"
                    raise fault("needs the ZooKeeper ledger", key)
        if self.group.kind != "partition" and self.finalize != Finalize():
            raise fault('only group.kind "partition" has directories of hours and days', "finalize")
        if self.group.kind != "backup":
            refuse_kept_cluster(self.kafka, self.registry)
        if self.group.kind == "table" and self.erase.apply:
            raise fault(
                "'secor tables erase' deletes rows of tables, later ones too", "erase.apply"
            )
        self._check_tables()
        self._check_kind("", self.output, self.parser)
        parsers = {"": self.parser}
        for index, rule in enumerate(self.topics):
            parsers[f"topics.{index}."] = rule.parser
            self._check_kind(f"topics.{index}.", rule.output, rule.parser)
        check_together(parsers)
        return self

    @property
    def changes_rows(self) -> bool:
        """True if messages change rows of tables, so that an engine has to merge them."""
        return any(route.mode != "append" or route.format == "hudi" for route in self.tables)

    @property
    def table_format(self) -> Literal["iceberg", "hudi"]:
        """The format of the group's tables."""
        return "hudi" if any(route.format == "hudi" for route in self.tables) else "iceberg"

    def _check_tables(self) -> None:
        if self.group.kind == "table":
            if not self.tables:
                raise fault("name at least one: [[tables]] with table = ...", "tables")
            if self.commit.topic_of(self.group.name) in self.kafka.topics:
                raise fault("names the control topic, which holds no rows", "kafka.topics")
            for _, why in shared_by_topics(self.tables, self.kafka.topics, self.rows):
                raise fault(why, "tables")
            other = conflicting_creation(self.tables, self.kafka.topics)
            if other is not None:
                number, key, table = other
                why = f"another [[tables]] creates {table} with another {key}: give both the same"
                raise fault(why, f"tables.{number}.{key}")
            check_joined_fields(self.tables, self.rows)
            self._check_engine()
            check_known_fields(self.tables, [self.parser, *(rule.parser for rule in self.topics)])
            return
        sections = (
            *(("catalog", Catalog()), ("rows", Rows()), ("commit", Commit())),
            *(("spark", Spark()), ("hudi", Hudi())),
        )
        for name, default in sections:
            if getattr(self, name) != default:
                raise fault('only group.kind "table" has tables', name)
        if self.tables:
            raise fault('only group.kind "table" has tables', "tables")

    def _check_engine(self) -> None:
        """Tables that only Spark can write have a coordinator of their own."""
        if self.table_format == "hudi":
            self._check_hudi()
        elif self.hudi != Hudi():
            raise fault('no [[tables]] has format = "hudi"', "hudi")
        for number, route in enumerate(self.tables):
            by_spark = route.mode != "append" or route.format == "hudi"
            if by_spark and self.store.kind in ("gcs", "azure"):
                why = 'Spark writes these tables, which it does to "s3" or "local" so far'
                raise fault(why, "store.kind")
            if by_spark and self.commit.coordinator != "alone":
                why = (
                    'rows are merged by Spark, in "secor tables run": set'
                    ' commit.coordinator = "alone"'
                )
                raise fault(f"{route.table}: {why}", "commit.coordinator")
            if route.format == "iceberg":
                catalog = self.catalog.properties
                check_format_version(f"tables.{number}", route.mode, route.properties, catalog)

    def _check_hudi(self) -> None:
        for number, route in enumerate(self.tables):
            key = f"tables.{number}"
            if route.format != "hudi":
                why = "Spark has another version for Hudi: give Iceberg tables a group of their own"
                raise fault(why, f"{key}.format")
            if route.location is None and self.hudi.warehouse is None:
                raise fault("say where Hudi tables are: [hudi] warehouse", f"{key}.location")
            if route.location is not None and "{" in route.table:
                raise fault(
                    "several tables would be in one place: use [hudi] warehouse", f"{key}.location"
                )
        if self.catalog != Catalog():
            raise fault(
                "Hudi tables are in no catalog: [hudi] warehouse says where they are", "catalog"
            )
        if self.commit.branch != "main":
            raise fault("Hudi tables have no branches", "commit.branch")

    def _check_dead_letters(self, before: str, parser: Parser) -> None:
        """Copies that were read again would be quarantined and copied again, for ever."""
        name, kafka = parser.dead_letter_topic, self.kafka
        if name is None:
            return
        excluded = kafka.topics_exclude and re.fullmatch(kafka.topics_exclude, name)
        matched = kafka.topics_pattern and re.fullmatch(kafka.topics_pattern, name)
        if name in kafka.topics or (matched and not excluded):
            why = f"this group reads {name} itself; leave it out by kafka.topics_exclude"
            raise fault(why, f"{before}parser.dead_letter_topic")

    def _check_kind(self, before: str, output: Output, parser: Parser) -> None:
        """Refuse settings that the group's kind does nothing with."""
        self._check_dead_letters(before, parser)
        if self.group.kind == "backup":
            if parser.model_fields_set:
                raise fault('nothing is parsed where group.kind is "backup"', f"{before}parser")
            output.check_of_backup(f"{before}output.")
            return
        if self.group.kind == "table":
            check_of_tables(before, output, parser)
            return
        if output.offsets_per_partition != Output().offsets_per_partition:
            key = f"{before}output.offsets_per_partition"
            raise fault('write {offset:...} into parser.layout; only "backup" has this', key)
        if output.naming != "secor" and parser.targets:
            why = "routes bring messages of several topics together, and names would be the same"
            raise fault(f'{why}: only with naming = "secor"', f"{before}output.naming")
        changing = [
            transform.kind for transform in parser.transforms if transform.kind in CHANGES_FIELDS
        ]
        if changing and not output.stores_fields:
            shown = ", ".join(sorted(TYPED_FORMATS))
            why = f"{changing[0]} would not show: {output.format} writes values as they came"
            raise fault(f"{why}; {shown} have fields", f"{before}parser.transforms")

    def rule_of(self, topic: str) -> int | None:
        """Return the index of the first rule that matches the whole name, if any does."""
        for index, rule in enumerate(self.topics):
            if re.fullmatch(rule.match, topic):
                return index
        return None

    def for_topic(self, topic: str) -> TopicSettings:
        """Return the settings of the first rule that matches, or the general ones."""
        index = self.rule_of(topic)
        where: TopicRule | Config = self if index is None else self.topics[index]
        return TopicSettings(where.output, where.policy, where.parser)

    def with_sources(self, sources: Mapping[str, str], stray: Sequence[str] = ()) -> Self:
        """Return a copy that knows where the dotted keys of ``sources`` came from.

        ``stray`` are sentences about variables of the environment that set nothing.
        """
        copy = self.model_copy()
        copy._sources = dict(sources)
        copy._stray = tuple(stray)
        return copy

    def source(self, key: str) -> str:
        """Return where a dotted key came from: ``file``, ``environment SECOR_…``, ``default``."""
        return self._sources.get(key, "default")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about settings that are legal and lose something."""
        named = [("output", self.output)]
        named += [(f"topics.{index}.output", rule.output) for index, rule in enumerate(self.topics)]
        sentences: dict[str, str] = {}
        for where, output in named:
            for sentence in output.losses(self.group.kind):
                sentences.setdefault(sentence, f"{where}: {sentence}")
        ledger = self.ledger.zookeeper.losses if self.ledger.kind == "zookeeper" else []
        own = (*self.kafka.losses, *ledger, *self.metrics.losses, *self.catalog.losses)
        named_alike = shared_names(self.tables, self.rows)
        return (*sentences.values(), *own, *named_alike, *self._stray)


def _kind(data: Mapping[str, Any]) -> object:
    group = data.get("group", {})
    return group.get("kind") if isinstance(group, dict) else None
