"""Limits on memory and disk."""

from secor.consume.backpressure import HOLD, Limits, Load, relieve, spares
from secor.core.model import TopicPartition

LIMITS = Limits(memory=100, local=1000)


def load(partition: int, memory: int, size: int, *, may_seal: bool = True) -> Load:
    return Load(TopicPartition("t", partition), memory, size, may_seal)


def sealed(loads: list[Load], *, waiting: int = 0, held: bool = False) -> list[int]:
    relief = relieve(LIMITS, loads, sealed=waiting, held=held)
    return [topic_partition.partition for topic_partition in relief.seal]


def test_below_the_relief_nothing_happens() -> None:
    relief = relieve(LIMITS, [load(0, 79, 79)], sealed=0, held=False)
    assert (relief.seal, relief.hold) == ((), False)


def test_the_largest_in_memory_are_sealed_first_and_only_as_many_as_needed() -> None:
    assert sealed([load(0, 20, 20), load(1, 50, 50), load(2, 15, 15)]) == [1]
    assert sealed([load(0, 45, 45), load(1, 45, 45), load(2, 60, 60)]) == [2, 0]


def test_a_full_disk_seals_by_size_and_counts_what_waits_for_upload() -> None:
    assert sealed([load(0, 9, 100), load(1, 1, 200)], waiting=550) == [1]


def test_what_must_not_be_cut_is_left_alone() -> None:
    assert sealed([load(0, 90, 90, may_seal=False), load(1, 15, 15)]) == [1]


def test_reading_pauses_before_the_limit_and_resumes_below_the_relief() -> None:
    def hold(memory: int, *, held: bool) -> bool:
        return relieve(LIMITS, [load(0, memory, memory)], sealed=0, held=held).hold

    assert not hold(94, held=False)
    assert hold(95, held=False)
    assert hold(80, held=True)
    assert not hold(79, held=True)


def test_while_reading_is_paused_those_go_on_that_hold_little() -> None:
    assert sealed([load(0, 90, 90, may_seal=False), load(1, 1, 9)]) == []
    assert spares(LIMITS, load(0, 1, 12), 2)
    assert not spares(LIMITS, load(0, 2, 2), 2)
    assert not spares(LIMITS, load(0, 1, 13), 2)
    assert spares(LIMITS, load(0, 2, 24), 1)


def test_what_is_held_and_what_is_spared_are_within_the_limits() -> None:
    for partitions in (1, 7, 1000):
        most = max(
            size
            for size in range(1001)
            if spares(Limits(10**9, 1000), load(0, 0, size), partitions)
        )
        assert HOLD * 1000 + 2 * most * partitions <= 1000
