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
    # Brokers delete by the timestamps of messages: what is restored is old, and would go within
    # minutes.
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


def held_back(
    archived: Mapping[str, str], wanted: Mapping[str, str], present: Mapping[str, str] | None
) -> dict[str, str | None]:
    """Return what a topic that was made by ``new_topic`` must still get; None to take one away.

    ``present`` are the settings that it has been given, None before it is made.  What somebody
    has changed since is not there: see ``changed_since``.
    """
    at_the_end = _at_the_end(archived, wanted)
    if present is None:
        return at_the_end
    return {
        name: value
        for name, value in at_the_end.items()
        if present.get(name) != value and present.get(name) in _while_written(name)
    }


def changed_since(
    archived: Mapping[str, str], wanted: Mapping[str, str], present: Mapping[str, str]
) -> list[str]:
    """Return the settings where the topic has neither the archived value nor the held one."""
    return sorted(
        name
        for name, value in _at_the_end(archived, wanted).items()
        if present.get(name) != value and present.get(name) not in _while_written(name)
    )


def _at_the_end(archived: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Return the settings that ``new_topic`` holds back or adds, as the topic had them."""
    later: dict[str, str | None] = dict(new_topic(1, None, archived, None, wanted).later)
    added = (ALWAYS_SET | TIME_LIMITS) - archived.keys() - wanted.keys()
    return {**dict.fromkeys(sorted(added)), **later}


def _while_written(name: str) -> tuple[str | None, ...]:
    """Return the values that a setting may have until it gets its own."""
    # Limits that the brokers would not have by themselves are not set.
    return (NO_LIMIT, None) if name in TIME_LIMITS else (KEEP_EVERYTHING[name],)


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
