"""Limits on memory and disk."""

from secor.consume.backpressure import PAUSE_SHARE, BufferLimits, Load, apply_limits, is_exempt
from secor.core.model import TopicPartition

LIMITS = BufferLimits(memory=100, local=1000)


def load(partition: int, memory: int, size: int, *, may_seal: bool = True) -> Load:
    return Load(TopicPartition("t", partition), memory, size, may_seal)


def to_seal(loads: list[Load], *, sealed: int = 0) -> list[int]:
    backpressure = apply_limits(LIMITS, loads, sealed=sealed, paused=False)
    return [topic_partition.partition for topic_partition in backpressure.seal]


def pauses(memory: int, *, paused: bool) -> bool:
    return apply_limits(LIMITS, [load(0, memory, memory)], sealed=0, paused=paused).pause


def test_below_the_share_for_sealing_nothing_happens() -> None:
    backpressure = apply_limits(LIMITS, [load(0, 79, 79)], sealed=0, paused=False)
    assert (backpressure.seal, backpressure.pause) == ((), False)


def test_the_largest_in_memory_are_sealed_first_and_only_as_many_as_needed() -> None:
    assert to_seal([load(0, 20, 20), load(1, 50, 50), load(2, 15, 15)]) == [1]
    assert to_seal([load(0, 45, 45), load(1, 45, 45), load(2, 60, 60)]) == [2, 0]


def test_a_full_disk_seals_by_size_and_counts_what_waits_for_upload() -> None:
    assert to_seal([load(0, 9, 100), load(1, 1, 200)], sealed=550) == [1]


def test_a_batch_that_must_not_be_cut_is_left_alone() -> None:
    assert to_seal([load(0, 90, 90, may_seal=False), load(1, 15, 15)]) == [1]


def test_reading_pauses_before_the_limit_and_resumes_below_the_share_for_sealing() -> None:
    assert not pauses(94, paused=False)
    assert pauses(95, paused=False)
    assert pauses(80, paused=True)
    assert not pauses(79, paused=True)


def test_small_partitions_are_exempt() -> None:
    assert to_seal([load(0, 90, 90, may_seal=False), load(1, 1, 9)]) == []
    assert is_exempt(LIMITS, load(0, 1, 12), 2)
    assert not is_exempt(LIMITS, load(0, 2, 2), 2)
    assert not is_exempt(LIMITS, load(0, 1, 13), 2)
    assert is_exempt(LIMITS, load(0, 2, 24), 1)


def test_what_is_held_at_the_pause_and_exempt_partitions_stay_within_the_limits() -> None:
    for partitions in (1, 7, 1000):
        most = max(
            size
            for size in range(1001)
            if is_exempt(BufferLimits(10**9, 1000), load(0, 0, size), partitions)
        )
        assert PAUSE_SHARE * 1000 + 2 * most * partitions <= 1000


def test_batches_at_rest_count_among_those_that_share_the_limits() -> None:
    loads = [load(0, 84, 84, may_seal=False), load(1, 1, 1)]
    for at_rest, sealed in ((0, ()), (1000, (loads[1].topic_partition,))):
        backpressure = apply_limits(LIMITS, loads, sealed=0, paused=False, at_rest=at_rest)
        assert backpressure.seal == sealed
