"""Offsets of consumer groups, translated from the pairs that a job keeps."""

from __future__ import annotations

import random

from secor.core.model import OffsetRange, TopicPartition
from secor.restore.groups import (
    GroupOffset,
    Places,
    Position,
    Precision,
    Translation,
    Untranslated,
    translate,
)
from secor.restore.model import SourcePartition
from secor.restore.pairs import Pair
from secor.restore.writer.model import BatchPlacement

SOURCES = [SourcePartition("archive", "clicks", number) for number in range(3)]
SOURCE = SOURCES[0]
TARGET = TopicPartition("restored", 0)


def at(offset: int, source: SourcePartition = SOURCE) -> GroupOffset:
    return GroupOffset("readers", TopicPartition(source.topic, source.partition), offset, "kept")


def pair(first: int, last: int, base: int, records: int) -> Pair:
    return Pair(SOURCE, BatchPlacement(TARGET, base, records, first, last))


def nothing_by_time(source: SourcePartition, offset: int) -> tuple[TopicPartition, int] | None:
    del source, offset
    return None


def not_counted(source: SourcePartition, target: TopicPartition, offsets: OffsetRange) -> int:
    raise AssertionError(f"{source}: {offsets} of {target} need not be read")


def one_translation(places: Places, offset: int, written: int = 100) -> Translation:
    (result,) = translate([at(offset)], SOURCES, {SOURCE: written}, places, nothing_by_time)
    assert isinstance(result, Translation)
    return result


def test_inside_a_run_without_gaps_the_offset_is_exact_and_nothing_is_read() -> None:
    places = Places([pair(10, 19, 0, 10), pair(20, 29, 11, 10)], not_counted)
    translation = one_translation(places, 25)
    assert translation.position == Position(16, Precision.EXACT)
    assert translation.metadata == "kept"
    assert one_translation(places, 20).position == Position(11, Precision.EXACT)


def test_in_a_run_with_gaps_the_archive_says_how_many_messages_are_before_it() -> None:
    asked: list[OffsetRange] = []

    def count(source: SourcePartition, target: TopicPartition, offsets: OffsetRange) -> int:
        assert (source, target) == (SOURCE, TARGET)
        asked.append(offsets)
        return 2

    places = Places([pair(10, 29, 5, 4)], count)
    assert one_translation(places, 20).position == Position(7, Precision.EXACT)
    assert asked == [OffsetRange(10, 20)]


def test_before_the_first_message_and_behind_the_last_and_between_runs() -> None:
    places = Places([pair(10, 19, 0, 10), pair(30, 39, 11, 10)], not_counted)
    assert one_translation(places, 3).position == Position(0, Precision.EXACT)
    assert one_translation(places, 25).position == Position(11, Precision.EXACT)
    assert one_translation(places, 40).position == Position(21, Precision.EXACT)


def test_what_the_job_has_not_written_yet_is_read_again_once_it_is() -> None:
    places = Places([pair(10, 19, 0, 10)], not_counted)
    assert one_translation(places, 50, written=20).position == Position(10, Precision.ROUNDED)


def test_partitions_that_meet_in_a_target_give_the_first_message_not_consumed() -> None:
    other = SOURCES[1]
    places = Places(
        [
            pair(0, 4, 0, 5),
            Pair(other, BatchPlacement(TARGET, 6, 5, 0, 4)),
            pair(5, 9, 12, 5),
            Pair(other, BatchPlacement(TARGET, 18, 5, 5, 9)),
        ],
        not_counted,
    )
    written = dict.fromkeys(SOURCES, 10)
    (result,) = translate([at(7), at(3, other)], SOURCES, written, places, nothing_by_time)
    assert isinstance(result, Translation)
    assert result.position == Position(9, Precision.ROUNDED)
    assert result.metadata == ""
    # A partition without an offset was not consumed at all.
    (result,) = translate([at(7)], SOURCES, written, places, nothing_by_time)
    assert isinstance(result, Translation)
    assert result.position == Position(6, Precision.ROUNDED)


def test_without_pairs_the_time_of_the_message_tells_where_it_is() -> None:
    places = Places([], not_counted)
    (result,) = translate([at(7)], SOURCES, {SOURCE: 9}, places, lambda *_: (TARGET, 4))
    assert isinstance(result, Translation)
    assert result.position == Position(4, Precision.BY_TIME)
    (missing,) = translate([at(7)], SOURCES, {SOURCE: 9}, places, nothing_by_time)
    assert isinstance(missing, Untranslated)


def test_what_has_no_place_is_told() -> None:
    places = Places([pair(10, 19, 0, 10)], not_counted)
    unknown = SourcePartition("archive", "orders", 0)
    results = translate(
        [at(1, unknown), at(1, SOURCES[2])], SOURCES, {SOURCE: 9}, places, nothing_by_time
    )
    whys = [it.why for it in results if isinstance(it, Untranslated)]
    assert whys == [
        "the job restores no such partition",
        "the job has written nothing of this partition yet",
    ]


def test_no_group_goes_on_behind_a_message_that_it_has_not_consumed() -> None:
    """Random archives with gaps, written in random transactions: against a plain model."""
    for seed in range(300):
        rng = random.Random(seed)
        log: list[tuple[int, int, int]] = []  # source, offset, place on the target
        pairs: list[Pair] = []
        left = {n: sorted(rng.sample(range(40), rng.randrange(1, 30))) for n in range(2)}
        end = 0
        while any(left.values()):
            number = rng.choice([n for n, offsets in left.items() if offsets])
            size = rng.randrange(1, 6)
            run, left[number] = left[number][:size], left[number][size:]
            log += [(number, offset, end + at) for at, offset in enumerate(run)]
            placement = BatchPlacement(TARGET, end, len(run), run[0], run[-1])
            pairs.append(Pair(SOURCES[number], placement))
            end += len(run) + 1  # the transaction's marker

        def count(
            source: SourcePartition,
            target: TopicPartition,
            offsets: OffsetRange,
            log: list[tuple[int, int, int]] = log,
        ) -> int:
            del target
            within = range(offsets.start, offsets.end)
            return sum(n == source.partition and offset in within for n, offset, _ in log)

        committed = {number: rng.randrange(45) for number in range(2)}
        results = translate(
            [at(offset, SOURCES[number]) for number, offset in committed.items()],
            SOURCES,
            dict.fromkeys(SOURCES, 50),
            Places(pairs, count),
            nothing_by_time,
        )
        (result,) = results
        assert isinstance(result, Translation)
        unread = [place for number, offset, place in log if offset >= committed[number]]
        expected = min(unread, default=max(place for *_, place in log) + 1)
        assert result.position.offset == expected, f"seed {seed}"
