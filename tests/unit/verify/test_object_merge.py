"""Objects merged by offset: how many of them are open at a time, however many there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from secor.verify.archive.object_sources import BUFFERED_TOGETHER, ObjectMerge, ObjectSource

BATCH, BATCHES, OBJECTS = 10, 5, 60


@dataclass
class Source:
    """Stands for an object of five batches of ten messages; counts those that are open."""

    start: int
    opened: set[int]
    batch_bytes: int
    position: int = 0
    given: list[int] = field(default_factory=list)

    @property
    def buffered(self) -> int:
        return self.batch_bytes if self.start in self.opened else 0

    def head(self) -> int | None:
        if self.position == BATCH * BATCHES:
            self.opened.discard(self.start)
            return None
        self.opened.add(self.start)
        return self.start + self.position

    def edge(self) -> int | None:
        head = self.head()
        return None if head is None else self.start + (self.position // BATCH + 1) * BATCH

    def upto(self, end: int) -> list[int]:
        rows = [
            offset
            for offset in range(self.start + self.position, self.start + BATCH * BATCHES)
            if offset < end
        ]
        self.position += len(rows)
        self.head()
        return rows


def test_no_more_objects_are_open_for_a_later_window_than_for_the_first() -> None:
    opened: set[int] = set()
    sources = [
        Source(number * BATCH * BATCHES, opened, BUFFERED_TOGETHER // 4)
        for number in range(OBJECTS)
    ]
    most, offsets = 0, []
    merge = ObjectMerge(cast("list[ObjectSource]", sources))
    for rows in cast("Any", merge.windows()):
        most = max(most, len(opened))
        offsets += rows
    assert offsets == list(range(OBJECTS * BATCH * BATCHES))
    assert most <= 5
