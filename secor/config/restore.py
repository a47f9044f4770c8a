"""The job file of a restore (``group.kind = "restore"``): source, target and mapping of topics."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from secor.config.cluster import Registry
from secor.config.process import Erase, Logs, Metrics
from secor.config.servers import Brokers
from secor.config.stores import Store
from secor.config.values import MIB, Duration, Expression, Maybe, Name, Names, Section, Size, fault

_TARGET_NAME = re.compile(r"(?!\.\.?$)([A-Za-z0-9._-]|\{topic\}){1,249}")
BROKERS_OWN = frozenset(
    {
        *("__consumer_offsets", "__transaction_state", "__cluster_metadata"),
        *("__share_group_state", "__remote_log_metadata"),
    }
)
_LAST_PARTITION, LAST_OFFSET = 2**31 - 1, 2**63 - 1
_Number = Annotated[int, Field(ge=0, le=_LAST_PARTITION)]


class RestoreGroup(Section):
    """``[group]``: the job; it names the offsets topic, the transactional ids and the group."""

    name: Name = Field(
        min_length=1,
        max_length=200,
        description="Name of the job, and in the names of its offsets topic"
        " secor-restore-<name>, its group and its transactional ids.",
        examples=["restore-clicks"],
    )
    kind: Literal["restore"] = Field(description="What the file is: the job of a restore.")


class Range(Section):
    """One of ``[[source.ranges]]``: offsets of one partition, ``[start, end)``."""

    topic: str = Field(description="The archived topic.", examples=["clicks"])
    partition: int = Field(
        ge=0, le=_LAST_PARTITION, description="The archived partition.", examples=[0]
    )
    start: int = Field(default=0, ge=0, le=LAST_OFFSET, description="The first offset.")
    end: Maybe[int] = Field(
        default=None,
        ge=0,
        le=LAST_OFFSET,
        description='The offset after the last one. "none": to the end.',
        examples=[2000],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.end is not None and self.end < self.start:
            raise fault(f"must be at least start ({self.start})", "end")
        return self


class Source(Section):
    """``[source]``: what is restored.  Offsets are archived ones, half open."""

    kind: Literal["archive", "json-lines", "confluent-s3", "aiven-s3", "lenses-s3", "plugin"] = (
        Field(
            default="archive",
            description='What to read: "archive"; archives of other S3 sink connectors'
            ' ("confluent-s3", "aiven-s3", "lenses-s3"); files of a directory ("json-lines"); or'
            ' "plugin". docs/restore.md describes them.',
        )
    )
    name: str = Field(
        default="archive",
        min_length=1,
        description="A name in offset records; it distinguishes archives that a job reads one"
        " after the other.",
    )
    prefix: str = Field(
        default="",
        description="Prefix of the archive in the bucket: output.prefix of its group.",
        examples=["backup"],
    )
    hash_prefix: bool = Field(
        default=False, description="output.hash_prefix of the archive's group."
    )
    delimiter: str = Field(
        default="\n",
        min_length=1,
        description="Text, and the bytes format of confluent-s3: the end of each message.",
    )
    directory: Maybe[Path] = Field(
        default=None, description="json-lines: the directory.", examples=["/srv/lines"]
    )
    plugin: Maybe[str] = Field(
        default=None,
        description='plugin: a source class of yours, "package.module:Class".',
        examples=["acme.secor:Source"],
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="plugin: arguments of the class besides name.",
        examples=[{"url": "https://archive.example.org"}],
    )
    topics: Names = Field(
        default=(),
        description="Topics by name. Without this and source.topics_pattern: all archived topics.",
        examples=[["clicks"]],
    )
    topics_pattern: Maybe[Expression] = Field(
        default=None,
        description="Instead of source.topics: all archived topics whose whole name matches this"
        " regular expression.",
        examples=["click.*"],
    )
    topics_exclude: Maybe[Expression] = Field(
        default=None,
        description="Topics that source.topics_pattern, or all archived topics, leave out: those"
        " whose whole name matches this regular expression.",
        examples=["_.*"],
    )
    partitions: tuple[_Number, ...] = Field(
        default=(), description="Only these partitions. Empty: all.", examples=[[0, 1]]
    )
    generations: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(), description="Only objects of these generations. Empty: all.", examples=[[1]]
    )
    since: Maybe[datetime] = Field(
        default=None,
        description="Only messages from this time on. Each message is judged by itself; a"
        " message without a time is kept.",
        examples=["2026-11-01T00:00:00Z"],
    )
    until: Maybe[datetime] = Field(
        default=None,
        description="Only messages before this time. Each message is judged by itself; a message"
        " without a time is kept.",
        examples=["2026-11-02T00:00:00Z"],
    )
    filter: Maybe[str] = Field(
        default=None,
        description='A class of yours, "package.module:Class", whose keep(topic, records)'
        " returns a boolean per row.",
        examples=["acme.secor:Keep"],
    )
    transform: Maybe[str] = Field(
        default=None,
        description='A class of yours, "package.module:Class", whose transform(topic, records)'
        " returns the rows to write instead.",
        examples=["acme.secor:Anonymise"],
    )
    lossy: bool = Field(
        default=False,
        description="Also restore objects that lack keys, headers, times or offsets: text,"
        ' "legacy" keys, Java Secor\'s.',
    )
    holes: bool = Field(
        default=False,
        description="Go on although the archive lacks offsets that it should have, or text"
        " objects have fewer messages than their metadata says, and no number of those without"
        " a value.",
    )
    ranges: tuple[Range, ...] = Field(
        default=(),
        description="Only some offsets of some partitions. Partitions that no range names are"
        " restored whole.",
        examples=[[{"topic": "clicks", "partition": 0, "start": 1000, "end": 2000}]],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.topics and self.topics_pattern is not None:
            raise fault("topics are named in source.topics already: keep one", "topics_pattern")
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

    topic: str = Field(
        default="{topic}",
        description="The target of each archived topic; {topic} is its name.",
        examples=["restored-{topic}"],
    )
    partitioning: Literal["same", "key", "mapping"] = Field(
        default="same",
        description='"same": partition and order as they were. "key": by the key\'s hash, as'
        ' Java\'s producer does. "mapping": as target.mapping says.',
    )
    mapping: dict[_Number, _Number] = Field(
        default_factory=dict,
        description="Archived partitions to target partitions; others keep their number."
        " Messages of several archived partitions with one target are mixed.",
        examples=[{"0": 3, "1": 3}],
    )
    create: bool = Field(default=True, description="Create missing topics.")
    partitions: Maybe[int] = Field(
        default=None,
        ge=1,
        description='Partitions of a new topic. "none": as many as the topic had.',
        examples=[12],
    )
    replication_factor: Maybe[int] = Field(
        default=None,
        ge=1,
        description='Replicas of a new topic. "none": the brokers\' default.',
        examples=[3],
    )
    settings: dict[str, str] = Field(
        default_factory=dict,
        description="Settings of a new topic.",
        examples=[{"max.message.bytes": "8388608"}],
    )
    archived_settings: bool = Field(
        default=True,
        description="Also give new topics the settings that the backup kept of the topic;"
        " target.settings override these. Settings that would delete restored messages"
        " (retention, compaction) are left to you: the plan names them.",
    )
    append: bool = Field(default=False, description="Also write to topics that are not empty.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not _TARGET_NAME.fullmatch(self.topic):
            raise fault(
                'use {topic} for the archived name, as in "restored-{topic}", and with it'
                " letters, digits, dots, hyphens and underscores, as Kafka's names have them",
                "topic",
            )
        if self.topic in BROKERS_OWN:
            raise fault("is the brokers' own: name another one", "topic")
        if (self.partitioning == "mapping") != bool(self.mapping):
            raise fault('belongs to target.partitioning = "mapping"', "mapping")
        return self


class Writing(Section):
    """``[writing]``: transactions; times in seconds, sizes in bytes before compression."""

    exactly_once: Literal["required", "disabled"] = Field(
        default="required",
        description='"required": write in transactions, each message once; refuse targets and'
        ' sources that cannot do that. "disabled": write without transactions, for brokers or'
        " users that have none; after a crash the messages of the last interval are duplicated.",
    )
    boundary: Literal["poll", "interval", "source"] = Field(
        default="interval",
        description='When a transaction ends: "interval", "poll" (after each piece that is'
        ' read), or "source" (where the source ends its own; for an archive, after what was'
        " uploaded together).",
    )
    interval: Duration = Field(
        default=5.0,
        description='boundary "interval": end a transaction after this time; at most half of'
        " writing.transaction_timeout.",
    )
    max_bytes: Size = Field(
        default=64 * MIB,
        description='boundary "interval": end a transaction after this number of bytes before'
        " compression; a larger piece is cut.",
    )
    max_messages: int = Field(
        default=1_000_000,
        ge=1,
        description='boundary "interval": end a transaction after this number of messages; a'
        " larger piece is cut.",
    )
    transaction_timeout: Duration = Field(
        default=60.0,
        description="The brokers abort a transaction that takes longer; at most their"
        " transaction.max.timeout.ms.",
    )
    request_timeout: Duration = Field(
        default=10.0, description="Time limit of one request; then it is sent again."
    )
    batch_bytes: Size = Field(
        default=1_000_000,
        description="Bytes of one record batch before compression; at most the target's"
        " max.message.bytes.",
    )
    codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="lz4", description="Compression of written batches."
    )
    offsets_partitions: int = Field(
        default=33,
        ge=2,
        description="Partitions of a new offsets topic: the most daemons that can share the job,"
        " and one more.",
    )
    shared_offsets_topic: Maybe[Name] = Field(
        default=None,
        max_length=249,
        description="A topic that gets a copy of each offset after its commit, shared by many"
        " jobs: for people to read, and for 'secor restore offsets recover' if the job's own"
        " offsets topic is lost.",
        examples=["restored-offsets"],
    )
    follow: bool = Field(
        default=False, description="Run for ever, and look for new objects of the archive."
    )
    look_again: Duration = Field(
        default=30.0,
        description="How often a job with writing.follow checks whether the archive has grown.",
    )
    workers: int = Field(
        default=2, ge=1, le=64, description="Source partitions that one daemon writes at once."
    )
    bytes_per_second: Maybe[Size] = Field(
        default=None,
        description="Limit of one daemon: bytes per second; it waits between transactions.",
        examples=["20MiB"],
    )
    messages_per_second: Maybe[int] = Field(
        default=None,
        ge=1,
        description="Limit of one daemon: messages per second; it waits between transactions.",
        examples=[10000],
    )
    provenance: bool = Field(
        default=False,
        description="Add headers with the origin to each message: topic, partition and offset.",
    )

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


class Recover(Section):
    """``[recover]``: what ``secor recover`` brings back besides topics and messages."""

    leave_out: tuple[Literal["groups", "acls", "quotas", "schemas"], ...] = Field(
        default=(),
        description="Kinds that are not brought back, as where another tool makes the ACLs.",
        examples=[["acls"]],
    )
    framed: Maybe[Expression] = Field(
        default=None,
        description="Which keys and values begin with ids of schemas, besides those that are"
        " subjects of the registry: an expression about <topic>-key and <topic>-value. It is asked"
        " for where ids change (docs/recovery.md).",
        examples=["dead-letters-value"],
    )


class DrillCluster(Section):
    """The file of ``secor drill --into``: a cluster that has nothing but drills."""

    kafka: Brokers = Field(description="Where its brokers are.")


class RestoreMetrics(Metrics):
    """``[metrics]``: as a daemon's, but without a server unless a port is given."""

    port: Maybe[int] = Field(
        default=None,
        ge=0,
        le=65535,
        description='Port of the server. "none": no server; 0: any free port. Each daemon on a'
        " machine needs its own port.",
        examples=[9879],
    )


class RestoreConfig(Section):
    """Everything of a restore; ``kafka`` is the cluster that is written to."""

    group: RestoreGroup = Field(description="The job of a restore.")
    kafka: Brokers = Field(description="The target cluster: Kafka 3.6 or newer.")
    store: Store = Field(description="Where the archive is: one of the stores below.")
    source: Source = Field(description="What is restored. Offsets are archived ones.")
    target: Target = Field(
        default_factory=Target,
        description="Which topics are written, and how messages find their partition.",
    )
    writing: Writing = Field(
        default_factory=Writing, description="Transactions, limits and the offsets of the job."
    )
    recover: Recover = Field(
        default_factory=Recover,
        description="What 'secor recover' brings back besides topics and messages.",
    )
    registry: Registry = Field(
        default_factory=Registry,
        description="The new schema registry, where 'secor recover' registers the kept schemas.",
    )
    metrics: RestoreMetrics = Field(
        default_factory=RestoreMetrics,
        description="The HTTP server of / (what the daemon does now), /status.json, /metrics,"
        " /healthz and /readyz.",
    )
    logs: Logs = Field(default_factory=Logs, description="Log messages on standard error.")
    erase: Erase = Field(default_factory=Erase, description="Erased keys (docs/lifecycle.md).")
