"""Errors that last, by what they say: one for all topic partitions that have it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_OF_ONE_PARTITION = re.compile(r"\S*[/\d]\S*")
"""Words of a message that differ between topic partitions: keys, addresses, offsets, ids."""

Picture = Mapping[str, Any]


def error_pattern(kind: str, message: str, topic: str) -> tuple[str, str]:
    """Return what an error has in common with the same error of other topic partitions."""
    return kind, _OF_ONE_PARTITION.sub("…", message.replace(topic, "…"))


def lasting_errors(partitions: Sequence[Picture]) -> list[dict[str, Any]]:
    """Return the last errors of topic partitions that are not over; those of most first.

    ``message`` is the newest, ``at`` its time; ``since`` is of the one that began first.
    """
    alike: dict[tuple[str, str], list[Picture]] = {}
    for partition in partitions:
        error = partition["last_error"]
        if error is not None and not error["over"]:
            key = error_pattern(error["kind"], error["message"], partition["topic"])
            alike.setdefault(key, []).append(partition)
    return sorted(map(_together, alike.values()), key=lambda it: -len(it["partitions"]))


def _together(partitions: Sequence[Picture]) -> dict[str, Any]:
    errors = [partition["last_error"] for partition in partitions]
    newest = min(errors, key=lambda error: error["age"])
    first = max(errors, key=lambda error: error["since_age"])
    return {
        **{name: newest[name] for name in ("kind", "message", "remedy", "at", "age")},
        "since": first["since"],
        "since_age": first["since_age"],
        "stopped": sum(partition["stopped"] is not None for partition in partitions),
        "partitions": [f"{it['topic']}/{it['partition']}" for it in partitions],
    }
