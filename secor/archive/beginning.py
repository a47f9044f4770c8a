"""The agreed beginning of the archive of each topic partition: what begins below has expired.

``<topic root>/_beginning/<partition>_<generations>_<offset, 20 digits>.json`` is put if absent and
never changed; the greatest offset counts, so a beginning only moves forward.  It is put *before*
objects go.  ``<generations>`` are the least and the greatest generation that it is of, as ``1-2``:
a topic that was made anew has others.  Such as ``0_1-1_00000000000000001000.json``:

    {"at": "2026-11-21T10:00:00Z", "beginning": 1000, "by": "secor 1.0", "generations": [1, 1],
     "partition": 0, "topic": "clicks", "topic_id": "...", "why": "older than 400 days"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from secor.core.errors import OutcomeUnknown
from secor.core.naming import ROUTED, ObjectName
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes

DIRECTORY = "_beginning"
_NAME = re.compile(r"([0-9]{1,10})_([0-9]{1,19})-([0-9]{1,19})_([0-9]{20})\.json")
_TRIES = 5


class _HasName(Protocol):
    @property
    def name(self) -> ObjectName:
        """The object's name."""


Named = TypeVar("Named", bound=_HasName)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The offset at which the archive of a topic partition begins, in these generations."""

    partition: int
    least_generation: int
    greatest_generation: int
    offset: int

    @property
    def name(self) -> str:
        """The last part of its key."""
        generations = f"{self.least_generation}-{self.greatest_generation}"
        return f"{self.partition}_{generations}_{self.offset:020d}.json"

    def is_of(self, partition: int, generation: int) -> bool:
        """Return whether it is of a log."""
        inside = self.least_generation <= generation <= self.greatest_generation
        return partition == self.partition and inside


@dataclass(frozen=True, slots=True)
class Beginnings:
    """All that were agreed for one topic."""

    agreed: tuple[Beginning, ...] = ()

    def of(self, partition: int, generation: int) -> int:
        """Return where a log begins in the archive; 0 without an agreement."""
        offsets = (
            beginning.offset for beginning in self.agreed if beginning.is_of(partition, generation)
        )
        return max(offsets, default=0)

    def greatest(self, partition: int) -> int:
        """Return the greatest of a partition, of whatever generation; 0 without one."""
        return max(
            (beginning.offset for beginning in self.agreed if beginning.partition == partition),
            default=0,
        )

    def is_expired(self, name: ObjectName) -> bool:
        """Return whether an object begins below the beginning: it is read no more.

        A rewritten one that reaches over it, made at the same time, is read.
        """
        if not self.agreed:
            return False
        beginning = self.of(name.partition, name.generation)
        return name.start_offset < beginning and (name.end is None or name.end <= beginning)

    def above(self, objects: Iterable[Named], *, routed: bool = False) -> Iterator[Named]:
        """Give the objects of a topic that have not expired.

        Those that a route brought from another topic stay, unless they are of this one: ``routed``.
        """
        for archived in objects:
            from_another = archived.name.output_partition.startswith(ROUTED) and not routed
            # A beginning is of one topic's log. Offsets that a route brought from another topic
            # have nothing to do with it.
            if from_another or not self.is_expired(archived.name):
                yield archived


NO_BEGINNINGS = Beginnings()


def parse_beginning(root: str, key: str) -> Beginning | None:
    """Return what the key of a record below the topic's directory says; None for other keys."""
    directory, _, name = key.rpartition("/")
    match = _NAME.fullmatch(name) if directory == f"{root}/{DIRECTORY}" else None
    return Beginning(*(int(part) for part in match.groups())) if match else None


def read_beginnings(store: ObjectStore, root: str) -> Beginnings:
    """List what was agreed for the topic with the directory ``root``."""
    listed = store.list(f"{root}/{DIRECTORY}/")
    parsed = (parse_beginning(root, stored.key) for stored in listed)
    return Beginnings(tuple(record for record in parsed if record is not None))


@dataclass(frozen=True, slots=True)
class Agreement:
    """A beginning, with the person, time and reason of the agreement, for people."""

    beginning: Beginning
    topic: str
    topic_id: str | None
    at: str
    by: str
    why: str

    def put(self, store: ObjectStore, root: str) -> None:
        """Agree, below the topic's directory ``root``; again is as once.

        Raises ``OutcomeUnknown``, ``Unavailable``, ``AccessDenied``: then no object may go.
        """
        of = self.beginning
        content = {
            "at": self.at,
            "beginning": of.offset,
            "by": self.by,
            "generations": [of.least_generation, of.greatest_generation],
            "partition": of.partition,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "why": self.why,
        }
        body = json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"
        for attempt in range(_TRIES):
            try:
                put_bytes(store, f"{root}/{DIRECTORY}/{of.name}", body)
            # Tried again at once: the record has the same content each time, and whichever attempt
            # arrived is right.
            except OutcomeUnknown:
                if attempt == _TRIES - 1:
                    raise
            else:
                return
