"""Many partitions are asked about together before one by one."""

from __future__ import annotations

from typing import Any

from secor.core.model import TopicPartition
from secor.wiring.restore import LockedLog

MANY = [TopicPartition(f"t{number}", 0) for number in range(400)]


class Reader:
    def __init__(self) -> None:
        self.asked: list[list[TopicPartition]] = []

    def ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(partitions)
        return {}


def test_leaders_are_asked_for_in_one_question() -> None:
    reader: Any = Reader()
    log = LockedLog(reader)
    log.know_leaders(iter(MANY))
    log.know_leaders([])
    assert reader.asked == [MANY]
