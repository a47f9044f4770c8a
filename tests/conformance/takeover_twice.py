"""What a killed connector has stored twice, by a plain reading of its objects, against
``secor verify``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.sink_rows import rows_of


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """The objects of each message, by partition and offset, and those of nothing stored."""

    objects: Mapping[tuple[int, int], Sequence[str]]
    absent: Sequence[tuple[int, int]]


def stored_messages(
    paths: Mapping[str, Path], offsets: Mapping[int, tuple[int, int]]
) -> StoredMessages:
    """Read objects, by key; ``offsets`` has partition and offset of each message."""
    objects: dict[tuple[int, int], list[str]] = defaultdict(list)
    for key, path in sorted(paths.items()):
        for row in rows_of(path):
            objects[offsets[row.number]].append(key)
    return StoredMessages(objects, sorted(set(offsets.values()) - objects.keys()))


def wrong_findings(
    findings: Sequence[Mapping[str, Any]], stored: StoredMessages, committed: Sequence[int]
) -> Iterator[str]:
    """Yield how the findings of ``secor verify`` are not what the objects have."""
    twice: dict[tuple[int, tuple[str, ...]], list[int]] = defaultdict(list)
    extra: dict[str, int] = defaultdict(int)
    for (partition, offset), keys in stored.objects.items():
        if offset >= committed[partition]:
            for key in keys:
                extra[key] += 1
        elif len(keys) > 1:
            twice[partition, tuple(sorted(keys))].append(offset)
    missing = [place for place in stored.absent if place[1] < committed[place[0]]]
    expected = {
        (partition, keys, min(offsets), max(offsets) + 1, len(offsets))
        for (partition, keys), offsets in twice.items()
    }
    found = {
        (
            finding["partition"],
            tuple(sorted(finding["text"].removeprefix("in ").split(", "))),
            *(finding[name] for name in ("start", "end", "count")),
        )
        for finding in findings
        if finding["kind"] == "twice"
    }
    for text, one, other in (("not found", expected, found), ("not there", found, expected)):
        for item in sorted(one - other):
            yield f"twice, {text}: {item}"
    named = {finding["key"]: finding["count"] for finding in findings if finding["kind"] == "extra"}
    if named != extra:
        yield f"extra: {named}, the objects have {dict(extra)}"
    others = [finding for finding in findings if finding["kind"] not in ("twice", "extra")]
    if others or missing:
        yield f"other findings: {others[:3]}, of missing ones {missing[:3]}"
