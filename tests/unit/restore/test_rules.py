"""Offsets, routing, preflight, verification, the schedule: what is pure in a restore."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from secor.core.errors import (
    AccessDenied,
    ArchiveIncomplete,
    PluginFailed,
    SecorError,
    SpecChanged,
    TargetRefused,
    TransactionBroken,
    Unavailable,
    WriterFenced,
)
from secor.core.model import OffsetRange, TopicPartition
from secor.core.pace import Pace
from secor.restore.boundaries import Boundaries
from secor.restore.job_preflight import lost_offsets
from secor.restore.model import Boundary, JobSpec, Piece, SourceExtent, SourcePartition
from secor.restore.offsets import (
    OffsetTable,
    StoredOffset,
    job_key,
    offset_key,
    partition_of,
    record,
    rows_of,
)
from secor.restore.pairs import Pair, first_offsets, pairs_of, pairs_record
from secor.restore.preflight import JobLimits, Severity, TargetTopic, findings
from secor.restore.routing import PROVENANCE, Routing, first_millisecond
from secor.restore.schedule import (
    LATER_BASE,
    LATER_CAP,
    After,
    AssignedSource,
    Opening,
    Phase,
    Schedule,
    after,
)
from secor.restore.task import Turn
from secor.restore.writer.model import BatchPlacement
from secor.verify.restore import compare_as_sets, compare_in_order
from tests.fakes.archive import messages
from tests.fakes.clock import FakeClock

CLICKS = SourcePartition("archive", "clicks", 1)
TARGET = TopicPartition("clicks", 1)
NOW = 1_800_000_000_000


def test_a_key_is_canonical_json_and_found_again() -> None:
    wanted = b'["job",{"archive":"archive","partition":1,"topic":"clicks"}]'
    assert offset_key("job", CLICKS) == wanted
    table = OffsetTable("job")
    table.add([(wanted, StoredOffset(7, "spec").encode())])
    assert table.offsets == {CLICKS: StoredOffset(7, "spec")}
    assert table.next_offset(CLICKS, "spec") == 7
    with pytest.raises(SpecChanged, match="written under spec spec"):
        table.next_offset(CLICKS, "other")


def test_the_last_record_of_a_key_counts_and_null_deletes() -> None:
    table = OffsetTable("job")
    key = offset_key("job", CLICKS)
    table.add([(key, StoredOffset(7, "s").encode()), (key, StoredOffset(9, "s").encode())])
    assert table.next_offset(CLICKS, "s") == 9
    table.add([(key, None)])
    assert table.next_offset(CLICKS, "s") == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"not json", b"{}"),
        (offset_key("another", CLICKS), StoredOffset(1, "s").encode()),
        (b'["job", {"archive":"archive","partition":1,"topic":"clicks"}]', b"{}"),
        (offset_key("job", CLICKS), b'{"next_offset": -1, "spec": "s"}'),
        (offset_key("job", CLICKS), b'{"next_offset": true, "spec": "s"}'),
        (offset_key("job", CLICKS), b"\xff"),
    ],
)
def test_foreign_records_are_counted_and_change_nothing(key: bytes, value: bytes) -> None:
    table = OffsetTable("job")
    table.add([(key, value)])
    assert table.offsets == {}
    assert table.foreign == 1


def test_the_jobs_own_other_records_are_not_foreign() -> None:
    pairs = pairs_record("job", CLICKS, [BatchPlacement(TARGET, 5, 3, 10, 12)], 1)
    assert pairs is not None
    table = OffsetTable("job")
    table.add([(job_key("job"), b"{}"), *rows_of(pairs)])
    assert (table.offsets, table.foreign) == ({}, 0)


def test_pairs_are_found_again_among_other_records() -> None:
    pairs = pairs_record("job", CLICKS, [BatchPlacement(TARGET, 5, 3, 10, 12)], 1)
    assert pairs is not None
    rows = [*rows_of(pairs), *rows_of(record(b"other", None, 1)), (None, None)]
    (pair,) = pairs_of("job", rows)
    assert (pair.source, pair.placement) == (CLICKS, BatchPlacement(TARGET, 5, 3, 10, 12))
    assert pairs_record("job", CLICKS, [], 1) is None


def test_the_first_message_that_was_written_to_a_target_is_known() -> None:
    other = TopicPartition("clicks", 2)
    pairs = [
        Pair(CLICKS, BatchPlacement(TARGET, 70, 3, 10, 12)),
        Pair(CLICKS, BatchPlacement(other, 5, 1, 13, 13)),
        Pair(CLICKS, BatchPlacement(TARGET, 40, 3, 0, 2)),
    ]
    assert first_offsets(pairs) == {TARGET: 40, other: 5}


def test_no_source_partition_shares_the_jobs_own_partition() -> None:
    numbers = {partition_of("job", SourcePartition("a", "t", number), 4) for number in range(200)}
    assert numbers == {0, 1, 2}


def test_the_hash_of_a_spec_changes_with_every_setting() -> None:
    spec = JobSpec("job", {"a": 1, "b": [2]})
    assert spec.hash == JobSpec("job", {"b": [2], "a": 1}).hash
    assert len({spec.hash, JobSpec("job", {"a": 1, "b": [3]}).hash, JobSpec("x", {}).hash}) == 3


# ------------------------------------------------------------------- routing


def routed(routing: Routing, offsets: range) -> dict[TopicPartition, list[int]]:
    piece = Piece(messages(offsets), offsets.stop)
    return {
        target.topic_partition: target.records.column("offset").to_pylist()
        for target in routing(CLICKS, piece)
    }


def test_partition_and_order_stay_by_default_and_topics_are_renamed() -> None:
    routing = Routing("new-{topic}", {"new-clicks": 2})
    assert routed(routing, range(5)) == {TopicPartition("new-clicks", 1): list(range(5))}


def test_a_target_without_the_partition_is_refused() -> None:
    with pytest.raises(TargetRefused, match="has 1 partition, and no 1"):
        routed(Routing("{topic}", {"clicks": 1}), range(5))


def test_a_mapping_gives_partitions_another_number() -> None:
    routing = Routing("{topic}", {"clicks": 4}, partitioning="mapping", mapping={1: 3})
    assert routed(routing, range(3)) == {TopicPartition("clicks", 3): [0, 1, 2]}
    unnamed = Routing("{topic}", {"clicks": 4}, partitioning="mapping", mapping={0: 3})
    assert routed(unnamed, range(3)) == {TopicPartition("clicks", 1): [0, 1, 2]}
    with pytest.raises(TargetRefused, match="has 3 partitions, and no 3"):
        routed(Routing("{topic}", {"clicks": 3}, partitioning="mapping", mapping={1: 3}), range(3))
    mapped = told(TargetTopic("t", 3, 0, {}), mapping={1: 3})
    assert mapped[0].startswith("refuse: has 3 partitions, and needs 4")
    assert told(TargetTopic("t", 4, 0, {}), mapping={1: 3}) == []


def test_ranges_and_times_choose_messages() -> None:
    ranges = {("clicks", 1): [OffsetRange(2, 4), OffsetRange(7, 9)]}
    routing = Routing("{topic}", {"clicks": 2}, ranges=ranges)
    assert routed(routing, range(10)) == {TARGET: [2, 3, 7, 8]}
    base = 1_700_000_000_000
    routing = Routing("{topic}", {"clicks": 2}, since=base + 3, until=base + 6)
    assert routed(routing, range(10)) == {TARGET: [3, 4, 5]}


def test_by_key_equal_keys_meet_and_messages_without_one_stay() -> None:
    placed = routed(Routing("{topic}", {"clicks": 5}, partitioning="key"), range(30))
    without = [offset for offset in range(30) if offset % 3 == 0]
    with_key = [offset for offset in range(30) if offset % 3]
    assert sorted(map(tuple, placed.values())) == sorted([tuple(without), tuple(with_key)])
    assert placed[TARGET] == without


def test_plug_ins_filter_and_transform_and_must_keep_their_promise() -> None:
    def odd(_topic: str, records: pa.RecordBatch) -> pa.Array:
        return pc.equal(pc.bit_wise_and(records.column("offset"), 1), 1)

    routing = Routing("{topic}", {"clicks": 2}, row_filter=odd)
    assert routed(routing, range(6)) == {TARGET: [1, 3, 5]}
    routing = Routing("{topic}", {"clicks": 2}, transform=lambda _, records: records.slice(1))
    with pytest.raises(PluginFailed, match=r"source.transform"):
        routed(routing, range(6))
    routing = Routing("{topic}", {"clicks": 2}, row_filter=lambda *_: pa.array([True]))
    with pytest.raises(PluginFailed, match=r"source.filter"):
        routed(routing, range(6))


def test_provenance_stands_behind_the_messages_own_headers() -> None:
    routing = Routing("{topic}", {"clicks": 2}, provenance=True)
    (target,) = routing(CLICKS, Piece(messages([5]), 6))
    names = [header["key"] for header in target.records.to_pylist()[0]["headers"]]
    assert names == ["h", *PROVENANCE]


# ----------------------------------------------------------------- preflight

LIMITS = JobLimits(
    append=False,
    own=False,
    written=False,
    same_partitions=True,
    holes=False,
    batch_bytes=1000,
    now=NOW,
)
EXTENT = SourceExtent(CLICKS, OffsetRange(0, 10), oldest=NOW - 10_000, newest=NOW + 5_000)
GOOD = TargetTopic("clicks", 2, 0, {"retention.ms": "-1", "max.message.bytes": "1000"})


def told(target: TargetTopic, extent: SourceExtent = EXTENT, **limits: object) -> list[str]:
    changed = JobLimits(**{**{n: getattr(LIMITS, n) for n in LIMITS.__slots__}, **limits})
    return [
        f"{finding.severity.value}: {finding.what}"
        for finding in findings([extent], target, changed)
    ]


@pytest.mark.parametrize(
    ("holes", "then"),
    [(False, "stops at the first that did, unless source.holes = true"), (True, "goes on without")],
)
def test_messages_that_text_has_left_out_are_counted_and_objects_that_do_not_tell_named(
    holes: bool, then: str
) -> None:
    extent = replace(EXTENT, left_out=1200, uncounted=("a/b.txt", "a/c.txt"))
    counted, untold = told(GOOD, extent, holes=holes)
    assert counted.startswith("warn: 1,200 messages without a value are not in its text objects")
    assert untold.startswith(
        "warn: 2 text objects of an earlier version, the first of them a/b.txt"
    )
    assert then in untold


def test_a_good_target_is_not_talked_about() -> None:
    assert told(GOOD) == []
    assert told(TargetTopic("new", 0, 0, {})) == []


@pytest.mark.parametrize(
    ("target", "what"),
    [
        (TargetTopic("t", 1, 0, {}), "refuse: has 1 partition, and needs 2"),
        (TargetTopic("t", 2, 9, {}), "refuse: is not empty (9 offsets)"),
        (TargetTopic("t", 2, 0, {"retention.ms": "9000"}), "refuse: retention.ms = 9000"),
        (
            TargetTopic("t", 2, 0, {"message.timestamp.before.max.ms": "10"}),
            "refuse: message.timestamp.before.max.ms = 10",
        ),
        (
            TargetTopic("t", 2, 0, {"message.timestamp.after.max.ms": "4999"}),
            "refuse: message.timestamp.after.max.ms = 4999 refuses the newest",
        ),
        (
            TargetTopic("t", 2, 0, {"message.timestamp.difference.max.ms": "5000"}),
            "refuse: message.timestamp.difference.max.ms = 5000",
        ),
        # Topics that the job makes are judged by what they will be.
        (TargetTopic("t", 0, 0, {"retention.ms": "9000"}), "refuse: retention.ms = 9000"),
        (TargetTopic("t", 0, 0, {"max.message.bytes": "999"}), "refuse: max.message.bytes = 999"),
        (TargetTopic("t", 2, 0, {"max.message.bytes": "999"}), "refuse: max.message.bytes = 999"),
        (TargetTopic("t", 2, 0, {"cleanup.policy": "compact"}), "warn: is compacted"),
        (
            TargetTopic("t", 2, 0, {"message.timestamp.type": "LogAppendTime"}),
            "warn: message.timestamp.type is LogAppendTime",
        ),
        (
            TargetTopic("t", 2, 0, {"retention.bytes": "10"}),
            "warn: retention.bytes = 10 deletes the oldest messages",
        ),
        (
            TargetTopic("t", 2, 0, {}, frozenset({"READ", "DESCRIBE_CONFIGS"})),
            "refuse: allow this user Write and Describe on the topic",
        ),
        (
            TargetTopic("t", 2, 0, {}, frozenset({"WRITE", "DESCRIBE"})),
            "warn: its settings cannot be looked at",
        ),
    ],
)
def test_what_stands_in_the_way_is_named(target: TargetTopic, what: str) -> None:
    (finding,) = told(target)
    assert finding.startswith(what)


def test_a_target_that_vanished_under_a_job_that_goes_on_is_told() -> None:
    gone, empty = TargetTopic("t", 0, 0, {}), TargetTopic("t", 2, 0, {})
    assert told(gone, own=True, written=True)[0].startswith("refuse: is gone, though the job")
    assert told(empty, own=True, written=True)[0].startswith("warn: is empty, though the job")


def test_a_job_that_lost_its_offsets_is_not_written_again() -> None:
    empty, full = TargetTopic("empty", 3, 0, {}), TargetTopic("full", 3, 7, {})
    (finding,) = lost_offsets("offsets", ["secor:job:clicks:0"], [empty, full], None)
    assert finding.severity is Severity.REFUSE
    assert "the job has written before (the brokers know secor:job:clicks:0)" in finding.what
    assert "to full;" in finding.what
    assert "recover" not in finding.what
    (with_copies,) = lost_offsets("offsets", ["secor:job:clicks:0"], [full], "copies")
    assert "the copies in copies: see 'secor restore offsets recover'" in with_copies.what
    assert not list(lost_offsets("offsets", [], [full], None))
    assert not list(lost_offsets("offsets", ["x"], [empty], None))


def test_settings_let_some_of_it_pass() -> None:
    assert told(TargetTopic("t", 2, 9, {}), append=True) == []
    assert told(TargetTopic("t", 2, 9, {}), own=True) == []
    assert told(TargetTopic("t", 1, 0, {}), same_partitions=False) == []
    holed = SourceExtent(CLICKS, OffsetRange(0, 10), holes=(OffsetRange(3, 5),))
    assert told(GOOD, holed)[0].startswith("refuse: clicks/1: no object has the offsets [3, 5)")
    warned = told(GOOD, holed, holes=True)[0]
    assert warned.startswith(Severity.WARN.value)
    assert "or set source.holes" not in warned


# -------------------------------------------------------------- verification


def test_equal_streams_are_equal_however_they_are_cut() -> None:
    whole = [messages(range(10))]
    parts = [messages(range(3)), messages(range(3, 4)), messages(range(4, 10))]
    result = compare_in_order(TARGET, whole, parts)
    assert (result.messages, result.difference) == (10, None)
    assert compare_as_sets(TARGET, whole, reversed(parts)).difference is None


@pytest.mark.parametrize(
    ("actual", "what"),
    [
        ([0, 1, 2], "ends before the message of source offset 3"),
        ([0, 1, 2, 3, 4, 5], "offset 5: a message that the archive has not"),
        (
            [0, 1, 2, 2, 3, 4],
            "offset 2: timestamp, key, value are not those of source offset 3",
        ),
        ([0, 2, 3, 4], "offset 2: timestamp, value are not those of source offset 1"),
    ],
)
def test_a_difference_is_named(actual: list[int], what: str) -> None:
    found = [messages([number]) for number in actual]
    result = compare_in_order(TARGET, [messages(range(5))], found)
    assert result.difference is not None
    assert what in str(result.difference)
    assert compare_as_sets(TARGET, [messages(range(5))], found).difference is not None


# ------------------------------------------------------- boundaries and pace


def test_each_kind_of_boundary() -> None:
    piece = Piece(messages([1]), 2)
    interval = Boundaries("interval", 5, 100, 10)
    assert not interval.due(piece, elapsed=4.9, size=99, records=9)
    assert interval.due(piece, elapsed=5, size=0, records=0)
    assert interval.due(piece, elapsed=0, size=100, records=0)
    assert interval.due(piece, elapsed=0, size=0, records=10)
    assert Boundaries("poll").due(piece, elapsed=0, size=0, records=0)
    assert not Boundaries("source").due(piece, elapsed=99, size=2**40, records=2**40)


def cut_offsets(piece: Piece, limits: Boundaries, size: int, records: int) -> list[list[int]]:
    parts = limits.cut(piece, size=size, records=records)
    return [[] if part is None else part.records.column("offset").to_pylist() for part in parts]


def test_a_piece_is_cut_where_the_transaction_is_full() -> None:
    piece = Piece(messages([1, 4, 5, 9]), 12, Boundary.COMMIT)
    limits = Boundaries("interval", 5, 10**6, 10)
    assert cut_offsets(piece, limits, 0, 6) == [[1, 4, 5, 9], []]
    assert cut_offsets(piece, limits, 0, 8) == [[1, 4], [5, 9]]
    assert cut_offsets(piece, limits, 0, 10) == [[], [1, 4, 5, 9]]
    assert cut_offsets(piece, Boundaries("poll", 5, 10**6, 3), 0, 0) == [[1, 4, 5], [9]]
    assert cut_offsets(piece, Boundaries("source", 5, 1, 1), 0, 9) == [[1, 4, 5, 9], []]
    first, rest = limits.cut(piece, size=0, records=8)
    assert first is not None
    assert rest is not None
    assert (first.next_offset, first.boundary) == (5, None)
    assert (rest.next_offset, rest.boundary) == (12, Boundary.COMMIT)


def test_a_piece_is_cut_by_its_bytes_and_a_large_record_goes_alone() -> None:
    piece = Piece(messages(range(4), lambda offset: b"x" * (10_000 if offset == 2 else 100)), 4)
    limits = Boundaries("interval", 5, 1000, 10**6)
    assert cut_offsets(piece, limits, 0, 0) == [[0, 1], [2, 3]]
    assert cut_offsets(Piece(piece.records.slice(2), 4), limits, 0, 0) == [[2], [3]]
    assert cut_offsets(Piece(piece.records.slice(2), 4), limits, 300, 2) == [[], [2, 3]]
    # Rows that reading goes past take no room.
    assert cut_offsets(Piece(messages([]), 9), limits, 1000, 5) == [[], []]


def test_what_a_transaction_took_is_owed_afterwards() -> None:
    clock = FakeClock()
    pace = Pace(clock, bytes_per_second=100, messages_per_second=1000)
    assert pace.debt() == 0
    pace.took(200, 10)
    assert pace.debt() == 2
    clock.advance(2)
    assert pace.debt() == 0
    Pace(clock).took(10**9, 10**9)


# ------------------------------------------------------------------ schedule


class FakeTask:
    def __init__(self, source: SourcePartition) -> None:
        self.source = source
        self.closed = False

    def close(self) -> None:
        self.closed = True


def schedule_of(clock: FakeClock, look_again: float | None = None) -> Schedule:
    schedule = Schedule(clock=clock, rng=random.Random(1), look_again=look_again)
    sources = [SourcePartition("archive", "clicks", number) for number in range(2)]
    schedule.assign(TopicPartition("offsets", 0), sources)
    return schedule


def opened(schedule: Schedule) -> AssignedSource:
    work = schedule.take()
    assert isinstance(work, Opening)
    schedule.opened(work, [FakeTask(assigned.source) for assigned in work.assigned_sources])  # type: ignore[misc]
    assigned = schedule.take()
    assert isinstance(assigned, AssignedSource)
    return assigned


def test_all_of_a_partition_are_opened_together_and_then_take_turns() -> None:
    schedule = schedule_of(FakeClock())
    assigned = opened(schedule)
    assert assigned.phase is Phase.WORKING
    settled = [schedule.settled]
    schedule.record_step(assigned, Turn.EXHAUSTED)
    other = schedule.take()
    assert isinstance(other, AssignedSource)
    assert other is not assigned
    schedule.record_step(other, Turn.EXHAUSTED)
    settled.append(schedule.settled)
    assert settled == [False, True]
    assert schedule.take() is None


def test_a_source_that_may_grow_is_looked_at_again() -> None:
    clock = FakeClock()
    schedule = schedule_of(clock, look_again=30)
    assigned = opened(schedule)
    schedule.record_step(assigned, Turn.EXHAUSTED)
    other = schedule.take()
    assert isinstance(other, AssignedSource)
    schedule.record_step(other, Turn.EXHAUSTED)
    assert schedule.take() is None
    clock.advance(30)
    assert schedule.take() is not None


def test_failures_in_a_row_wait_longer_and_work_ends_the_row() -> None:
    clock = FakeClock()
    schedule = schedule_of(clock)
    waits = []
    for _ in range(5):
        assigned = opened(schedule)
        schedule.failed(assigned, TransactionBroken("x"))
        waits.append(assigned.again_at - clock.monotonic())
        clock.advance(60)
        for rest in schedule.assigned:
            if rest.phase is Phase.READY:
                rest.phase = Phase.CLOSED
    assert waits[-1] > 4 * waits[0]
    assigned = opened(schedule)
    schedule.record_step(assigned, Turn.WROTE)
    assert (assigned.attempts, assigned.error) == (0, None)


def test_what_a_person_has_to_mend_is_tried_again_now_and_then() -> None:
    clock = FakeClock()
    schedule = schedule_of(clock)
    waits = []
    for _ in range(6):
        assigned = opened(schedule)
        schedule.failed(assigned, TargetRefused("x"))
        assert str(assigned.error) == "x"
        waits.append(assigned.again_at - clock.monotonic())
        clock.advance(LATER_CAP)
        for rest in schedule.assigned:
            if rest.phase is Phase.READY:
                rest.phase = Phase.CLOSED
    assert LATER_BASE / 2 <= waits[0] <= LATER_BASE
    assert LATER_CAP / 2 <= waits[-1] <= LATER_CAP
    assigned = opened(schedule)
    assert assigned.error is not None  # it is named until something of it is written
    schedule.record_step(assigned, Turn.WROTE)
    assert [it.attempts for it in schedule.assigned if it.error is None] == [0, 0]


def test_what_another_configuration_alone_can_mend_is_left_alone() -> None:
    clock = FakeClock()
    schedule = schedule_of(clock)
    assigned = opened(schedule)
    schedule.failed(assigned, SpecChanged("x"))
    other = schedule.take()
    assert isinstance(other, AssignedSource)
    schedule.record_step(other, Turn.EXHAUSTED)
    clock.advance(10 * LATER_CAP)
    assert schedule.take() is None
    assert schedule.settled


def test_a_transaction_that_the_broker_wants_aborted_is_written_again_after_a_while() -> None:
    clock = FakeClock()
    schedule = schedule_of(clock)
    assigned = opened(schedule)
    schedule.record_step(assigned, Turn.ABORTED)
    other = schedule.take()
    assert isinstance(other, AssignedSource)
    assert other is not assigned
    schedule.record_step(other, Turn.EXHAUSTED)
    assert schedule.take() is None
    clock.advance(1)
    assert schedule.take() is assigned


def test_what_was_given_up_is_busy_until_its_work_ended() -> None:
    schedule = schedule_of(FakeClock())
    offsets = TopicPartition("offsets", 0)
    assigned = opened(schedule)
    schedule.revoke(offsets)
    assert schedule.busy(offsets)
    assert schedule.take() is None
    schedule.record_step(assigned, Turn.WROTE)
    assert not schedule.busy(offsets)
    schedule.forget(offsets)
    assert schedule.assigned == []


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (WriterFenced("x"), After.OPEN_AGAIN),
        (TransactionBroken("x"), After.OPEN_AGAIN),
        (Unavailable("x"), After.OPEN_AGAIN),
        (TargetRefused("x"), After.TRY_LATER),
        (ArchiveIncomplete("x"), After.TRY_LATER),
        (AccessDenied("x"), After.TRY_LATER),
        (SpecChanged("x"), After.FAIL),
        (PluginFailed("x"), After.FAIL),
        (SecorError("x"), After.FAIL),
    ],
)
def test_what_an_error_means(error: SecorError, meaning: After) -> None:
    assert after(error) is meaning


def test_the_edges_of_a_time_window_are_exact_milliseconds() -> None:
    edge = datetime(1974, 5, 5, 22, 14, 59, 839_000, tzinfo=UTC)
    assert first_millisecond(edge) == 137_024_099_839, "a float would be below it"
    assert first_millisecond(edge + timedelta(microseconds=1)) == 137_024_099_840
    assert first_millisecond(datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)) == 0
    east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
    assert first_millisecond(datetime(1, 1, 1, tzinfo=east)) < -62_135_596_800_000
    assert first_millisecond(datetime(9999, 12, 31, 23, tzinfo=west)) > 253_402_300_799_999
