from __future__ import annotations

from secor.adapters.kafka.stalls import Stall, StallDetector
from secor.core.model import TopicPartition

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


def look(
    detector: StallDetector,
    seconds: range,
    reading: dict[TopicPartition, tuple[int, int]],
    *,
    has_room: bool = True,
) -> list[tuple[int, Stall]]:
    """Look each second; return the stalls with the second at which they were found."""
    return [
        (second, stall)
        for second in seconds
        for stall in detector.look(float(second), reading, has_room=has_room)
    ]


def test_a_partition_stalls_when_nothing_came_for_so_long() -> None:
    detector = StallDetector(10.0)
    found = look(detector, range(100, 112), {A: (5, 9), B: (9, 9)})
    assert found == [(110, Stall(A, 5, 9, 10.0))]


def test_any_progress_begins_the_wait_anew() -> None:
    detector = StallDetector(10.0)
    assert look(detector, range(100, 110), {A: (5, 9)}) == []
    assert look(detector, range(110, 120), {A: (6, 9)}) == []
    assert [second for second, _ in look(detector, range(120, 125), {A: (6, 9)})] == [120]


def test_a_partition_that_is_not_read_meanwhile_begins_its_wait_anew() -> None:
    detector = StallDetector(10.0)
    look(detector, range(100, 110), {A: (5, 9)})
    look(detector, range(110, 111), {})
    assert look(detector, range(111, 121), {A: (5, 9)}) == []


def test_seconds_without_room_for_messages_do_not_count() -> None:
    detector = StallDetector(10.0)
    look(detector, range(100, 106), {A: (5, 9)})
    assert look(detector, range(106, 200), {A: (5, 9)}, has_room=False) == []
    assert [second for second, _ in look(detector, range(200, 210), {A: (5, 9)})] == [204]


def test_a_process_that_stood_still_has_not_waited_long() -> None:
    detector = StallDetector(10.0)
    look(detector, range(100, 102), {A: (5, 9)})
    assert look(detector, range(500, 505), {A: (5, 9)}) == []


def test_at_one_offset_each_wait_is_twice_the_one_before() -> None:
    detector = StallDetector(10.0)
    found = look(detector, range(2000), {A: (5, 9)})
    assert [second for second, _ in found] == [10, 30, 70, 150, 310, 630, 950, 1270, 1590, 1910]


def test_a_log_whose_last_messages_were_compacted_away_is_no_stall() -> None:
    detector = StallDetector(10.0)
    assert len(look(detector, range(100, 111), {A: (5, 9)})) == 1
    detector.answered_empty(A, 5, 9)
    assert look(detector, range(111, 300), {A: (5, 9)}) == []
    assert len(look(detector, range(300, 321), {A: (5, 10)})) == 1


def test_an_empty_answer_from_elsewhere_proves_nothing() -> None:
    detector = StallDetector(10.0)
    look(detector, range(100, 105), {A: (5, 9)})
    detector.answered_empty(A, 4, 9)
    detector.answered_empty(B, 5, 9)
    assert len(look(detector, range(105, 115), {A: (5, 9)})) == 1


def test_it_looks_once_a_second() -> None:
    detector = StallDetector(10.0)
    assert detector.is_due(100.0)
    detector.look(100.0, {}, has_room=True)
    assert not detector.is_due(100.9)
    assert detector.is_due(101.0)
