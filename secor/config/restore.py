"""The job file of a restore (``group.kind = "restore"``): source, target and mapping of topics."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from secor.config.process import Logs, Metrics
from secor.config.servers import Brokers
from secor.config.stores import Store
from secor.config.values import MIB, Duration, Expression, Maybe, Name, Names, Section, Size, fault

_TARGET_NAME = re.compile(r"(?!\.\.?$)([A-Za-z0-9._-]|\{topic\}){1,249}")
_BROKERS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__cluster_metadata"})
_LAST_PARTITION, LAST_OFFSET = 2**31 - 1, 2**63 - 1
_Number = Annotated[int, Field(ge=0, le=_LAST_PARTITION)]


class RestoreGroup(Section):
    """``[group]``: the job; it names the offsets topic, the transactional ids and the group."""

    name: Name = Field(min_length=1, max_length=200, examples=["restore-clicks"])
    kind: Literal["restore"]


class Range(Section):
    """One of ``[[source.ranges]]``: offsets of one partition, ``[start, end)``."""

    topic: str = Field(examples=["clicks"])
    partition: int = Field(ge=0, le=_LAST_PARTITION, examples=[0])
    start: int = Field(default=0, ge=0, le=LAST_OFFSET)
    end: Maybe[int] = Field(default=None, ge=0, le=LAST_OFFSET)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.end is not None and self.end < self.start:
            raise fault(f"must be at least start ({self.start})", "end")
        return self


class Source(Section):
    """``[source]``: what is restored.  Offsets are archived ones, half open."""

    kind: Literal["archive", "json-lines", "confluent-s3", "aiven-s3", "lenses-s3", "plugin"] = (
        "archive"
    )
    name: str = Field(default="archive", min_length=1)
    prefix: str = ""
    hash_prefix: bool = False
    delimiter: str = Field(default="\n", min_length=1)
    directory: Maybe[Path] = None
    plugin: Maybe[str] = None
    options: dict[str, Any] = Field(default_factory=dict)
    topics: Names = ()
    topics_pattern: Maybe[Expression] = None
    topics_exclude: Maybe[Expression] = None
    partitions: tuple[_Number, ...] = ()
    generations: tuple[Annotated[int, Field(ge=0)], ...] = ()
    since: Maybe[datetime] = None
    until: Maybe[datetime] = None
    filter: Maybe[str] = None
    transform: Maybe[str] = None
    lossy: bool = False
    holes: bool = False
    ranges: tuple[Range, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.topics and self.topics_pattern is not None:
            raise fault("topics are named in source.topics already: keep one", "topics_pattern")
        if not self.topics and self.topics_pattern is None:
            raise fault("no topics: name them here, or give source.topics_pattern", "topics")
        if (self.kind == "json-lines") != (self.directory is not None):
            raise fault('belongs to source.kind = "json-lines"', "directory")
        if (self.kind == "plugin") != (self.plugin is not None):
            raise fault('belongs to source.kind = "plugin"', "plugin")
        for key in ("since", "until"):
            time = getattr(self, key)
            if time is not None and time.tzinfo is None:
                raise fault("needs a zone, such as 2026-11-01T00:00:00Z", key)
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise fault("must be later than source.since", "until")
        return self


class Target(Section):
    """``[target]``: which topics are written, and how messages find their partition."""

    topic: str = "{topic}"
    partitioning: Literal["same", "key", "mapping"] = "same"
    mapping: dict[_Number, _Number] = Field(default_factory=dict)
    create: bool = True
    partitions: Maybe[int] = Field(default=None, ge=1)
    replication_factor: Maybe[int] = Field(default=None, ge=1)
    settings: dict[str, str] = Field(default_factory=dict)
    archived_settings: bool = True
    append: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not _TARGET_NAME.fullmatch(self.topic):
            raise fault(
                'use {topic} for the archived name, as in "restored-{topic}", and beside it'
                " letters, digits, dots, hyphens and underscores, as Kafka's names have them",
                "topic",
            )
        if self.topic in _BROKERS_OWN:
            raise fault("is the brokers' own: name another one", "topic")
        if (self.partitioning == "mapping") != bool(self.mapping):
            raise fault('belongs to target.partitioning = "mapping"', "mapping")
        return self


class Writing(Section):
    """``[writing]``: transactions; times in seconds, sizes in bytes before compression."""

    exactly_once: Literal["required", "disabled"] = "required"
    boundary: Literal["poll", "interval", "source"] = "interval"
    interval: Duration = 5.0
    max_bytes: Size = 64 * MIB
    max_messages: int = Field(default=1_000_000, ge=1)
    transaction_timeout: Duration = 60.0
    request_timeout: Duration = 10.0
    batch_bytes: Size = 1_000_000
    codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    offsets_partitions: int = Field(default=33, ge=2)
    shared_offsets_topic: Maybe[Name] = Field(default=None, max_length=249)
    follow: bool = False
    look_again: Duration = 30.0
    workers: int = Field(default=2, ge=1, le=64)
    bytes_per_second: Maybe[Size] = None
    messages_per_second: Maybe[int] = Field(default=None, ge=1)
    provenance: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.interval * 2 > self.transaction_timeout:
            raise fault(
                "must be at most half of writing.transaction_timeout"
                f" ({self.transaction_timeout:g} s)",
                "interval",
            )
        if self.exactly_once == "disabled" and self.boundary == "source":
            raise fault(
                "what a source takes back is visible already with writing.exactly_once ="
                ' "disabled": choose "interval" or "poll"',
                "boundary",
            )
        return self


class RestoreMetrics(Metrics):
    """``[metrics]``: as a daemon's, but without a server unless a port is given."""

    port: Maybe[int] = Field(default=None, ge=0, le=65535)


class RestoreConfig(Section):
    """Everything of a restore; ``kafka`` is the cluster that is written to."""

    group: RestoreGroup
    kafka: Brokers
    store: Store
    source: Source
    target: Target = Field(default_factory=Target)
    writing: Writing = Field(default_factory=Writing)
    metrics: RestoreMetrics = Field(default_factory=RestoreMetrics)
    logs: Logs = Field(default_factory=Logs)
