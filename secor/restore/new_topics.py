"""Settings of target topics that the job makes; pure.

The archive may know what the topic was like.  Until the restore is verified nothing of it may
be deleted or replaced: neither by retention, nor by compaction, nor by the time of appending.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

KEEP_EVERYTHING = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.type": "CreateTime",
    }
)
"""What a target has while it is written."""

ALWAYS_SET = frozenset({"retention.ms"})
"""Set though the topic had none of its own: the brokers' default would delete."""

TIME_LIMITS = frozenset(
    {
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    }
)
"""Refuse messages older or newer than this, so they come back last, too."""

NO_LIMIT = str(2**63 - 1)
"""The greatest limit, in milliseconds: refuses no message."""


OF_THE_CLUSTER = frozenset(
    {
        "min.insync.replicas",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "local.retention.ms",
        "local.retention.bytes",
    }
)
"""Fit the cluster that the topic came from, and are left to the target's."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """``settings`` are what it is made with; ``later`` are archived ones that would delete.

    ``left_out`` are archived settings that only fitted the old cluster.
    """

    partitions: int
    settings: Mapping[str, str]
    later: Mapping[str, str]
    left_out: Mapping[str, str]


def new_topic(
    needed: int,
    archived_partitions: int | None,
    archived: Mapping[str, str],
    wanted_partitions: int | None,
    wanted: Mapping[str, str],
) -> NewTopic:
    """Return what a topic is made with: what the job says before what the archive knows.

    ``needed`` is the least number of partitions for what is restored.
    """
    settings = dict.fromkeys(ALWAYS_SET, KEEP_EVERYTHING["retention.ms"])
    later, left_out = {}, {}
    for name, value in archived.items():
        if name in wanted:
            continue
        if name in OF_THE_CLUSTER:
            left_out[name] = value
        elif name in TIME_LIMITS and value == NO_LIMIT:
            pass  # ``without_time_limits`` sets it where the brokers' own differs.
        elif name in TIME_LIMITS:
            later[name] = value
        elif KEEP_EVERYTHING.get(name, value) != value:
            settings[name] = KEEP_EVERYTHING[name]
            later[name] = value
        else:
            settings[name] = value
    partitions = wanted_partitions or max(needed, archived_partitions or 0)
    return NewTopic(partitions, {**settings, **wanted}, later, left_out)


def without_time_limits(
    new: NewTopic, effective: Mapping[str, str], wanted: Mapping[str, str]
) -> NewTopic:
    """Return the topic with no limit on times but those that the job itself ``wanted``.

    ``effective`` are all settings that the brokers would make it with, their own defaults, too:
    Kafka 4 refuses messages that are an hour ahead.  Brokers that do not name a limit do not
    know it, and would refuse to set it.
    """
    limits = {
        name: NO_LIMIT
        for name in TIME_LIMITS - wanted.keys()
        if effective.get(name, NO_LIMIT) != NO_LIMIT
    }
    return replace(new, settings={**new.settings, **limits})
