"""The job file of a restore (``group.kind = "restore"``): source, target and mapping of topics."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from secor.config.cluster import Registry
from secor.config.process import Erase, Logs, Metrics
from secor.config.restore_source import PartitionNumber, Source
from secor.config.servers import Brokers
from secor.config.stores import Store
from secor.config.values import MIB, Duration, Expression, Maybe, Name, Section, Size, fault

_TARGET_NAME = re.compile(r"(?!\.\.?$)([A-Za-z0-9._-]|\{topic\}){1,249}")
# Messages that are written there would be taken for groups, transactions or the cluster's state.
BROKERS_OWN = frozenset(
    {
        *("__consumer_offsets", "__transaction_state", "__cluster_metadata"),
        *("__share_group_state", "__remote_log_metadata"),
    }
)


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
    mapping: dict[PartitionNumber, PartitionNumber] = Field(
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
        # The brokers count from the transaction's begin: the other half is for what is still on its
        # way when the interval is over, and for the commit.
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
