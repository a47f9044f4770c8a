"""The corpus of mixed JSON in a table: what became of each message and its values.

The table is written in this process, into a directory; the Iceberg library for Python reads it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.conformance.mixed_json import MixedMessage, Numbers, corpus
from tests.unit.tables.worker_world import WorkerWorld

TABLE = {"table": "db.flights", "auto_create": True, "evolve": True}
FETCHED = 500
"""Messages that are fetched together: the first of them decide the types of columns."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a corpus; ``lost`` are messages that some column could have held."""

    messages: int
    rows: int
    lost: list[MixedMessage] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """Tell whether nothing was lost or changed."""
        return not self.lost and not self.different


def store_corpus(
    directory: Path, seed: int, messages: int, numbers: Numbers, fetched: int = FETCHED
) -> Outcome:
    """Write a corpus into a table, and compare each row with its message."""
    given = list(corpus(seed, messages, numbers))
    settings = {
        "rows": {"numbers": numbers, "metadata_columns": ["_offset"]},
        "parser": {"max_bad_ratio": 1.0},
    }
    world = WorkerWorld(directory, [TABLE], settings)
    for start in range(0, len(given), fetched):
        world.write(*(message.value for message in given[start : start + fetched]))
    rows = {row["_offset"]: row for row in world.rows()}
    lost = [it for offset, it in enumerate(given) if it.storable and offset not in rows]
    different = [
        f"offset {offset}: {why}"
        for offset, row in sorted(rows.items())
        for why in differences(json.loads(given[offset].value), row)
    ]
    kinds = Counter(reason.partition(":")[0] for reason in world.reasons())
    assert len(rows) + kinds.total() == len(given), "each message is in one place"
    return Outcome(len(given), len(rows), lost, different, kinds)


def differences(message: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    """Give what a row has otherwise than its message."""
    for name, value in message.items():
        if name not in row and is_nothing(value):
            continue  # no value of this field had a type yet
        if name not in row or not is_same(value, row[name]):
            yield f"{name}: {value!r} is {row.get(name)!r}"


def is_nothing(value: Any) -> bool:
    """Tell whether a value shows no type: null, and lists and objects of nothing else."""
    if isinstance(value, list | dict):
        return all(map(is_nothing, value.values() if isinstance(value, dict) else value))
    return value is None


def is_same(value: Any, stored: Any) -> bool:
    """Tell whether a column holds a value of JSON: by itself, or as its JSON text."""
    if value is None or stored is None or isinstance(value, bool) or isinstance(stored, bool):
        return value is stored or is_nothing(value) or _is_text_of(value, stored)
    if isinstance(stored, dt.datetime):
        return isinstance(value, str) and dt.datetime.fromisoformat(value) == stored
    if isinstance(value, dict) and isinstance(stored, dict):
        return all(
            is_nothing(inner) or is_same(inner, stored.get(name)) for name, inner in value.items()
        )
    if isinstance(value, list) and isinstance(stored, list):
        return len(value) == len(stored) and all(map(is_same, value, stored))
    if isinstance(value, int | float) and isinstance(stored, int | float | Decimal):
        return Decimal(str(value)) == Decimal(str(stored))
    return _is_text_of(value, stored)


def _is_text_of(value: Any, stored: Any) -> bool:
    if not isinstance(stored, str):
        return False
    if isinstance(value, str):
        return stored == value
    return is_same(value, json.loads(stored))
