from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
from crc32c import crc32c

from secor.archive.beginning import Beginning, Beginnings, read_beginnings
from secor.archive.expire import Expiry, choose_by_age, choose_by_size, note_removed
from secor.archive.objects import Archive
from secor.archive.repair.stored_ranges import extents_of
from secor.archive.rewrite.carrying_out import Rewriter
from secor.archive.rewrite.planning import RewriteLimits, plan_of
from secor.batch.workspace import Workspace
from secor.core.model import Entry, OffsetRange, TopicPartition
from secor.core.naming import ObjectName, parse_key
from secor.core.object_info import ObjectInfo
from secor.formats import make_format
from secor.restore.model import SourcePartition
from secor.restore.offsets import StoredOffset
from secor.restore.sources.archive import ArchiveSource
from secor.restore.sources.coverage import since
from secor.spark.options import Selection
from secor.spark.planning import listed
from secor.verify.archive.verifier import Verifier, verify_archive_only
from tests.fakes.archive import CLICKS, MemoryLog, OperatorLedger, messages
from tests.fakes.store import FakeStore

DAY = 86_400.0
NOW = 1000 * DAY


class Crash(BaseException):
    """The end of the process."""


class ExpireWorld:
    """An archive in memory; each object is put an hour after its newest message."""

    def __init__(self) -> None:
        self.store = FakeStore(now=lambda: self.put_at)
        self.archive = Archive(self.store, "backup")
        self.put_at = NOW

    def put(
        self,
        start: int,
        end: int,
        day: float | None,
        *,
        partition: int = 0,
        place: str = "offset=0",
        put_on: float | None = None,
        prefix: str = "backup",
        **changes: object,
    ) -> str:
        """Put ``[start, end)``, whose newest message is of ``day``; return its key."""
        topic_partition = TopicPartition("clicks", partition)
        greatest = None if day is None else int(day * DAY * 1000)
        info = ObjectInfo(
            topic_partition, OffsetRange(start, end), start, end - start, 1, "f" * 16, "id-1"
        )
        info = replace(info, greatest_timestamp=greatest, **changes)  # type: ignore[arg-type]
        name = ObjectName(f"{prefix}/clicks", place, info.generation, partition, start, ".seq")
        sink, log_format = BytesIO(), make_format("sequencefile")
        writer = log_format.create(sink, name.key.encode())
        writer.append(messages(range(start, end)))
        writer.close()
        self.put_at = put_on * DAY if put_on is not None else (day or 0) * DAY + 3600
        self.store.put(name.key, sink.getvalue(), crc32c(sink.getvalue()), info.metadata())
        return name.key

    def expire(self, older_than: float | None = None, keep: int | None = None) -> None:
        """Do what the command does at ``NOW``; days and bytes."""
        expiry = Expiry(self.archive, "clicks", "a test", "old", lambda: "then")
        logs = expiry.logs()
        if older_than is not None:
            choose_by_age(logs, NOW - older_than * DAY)
        if keep is not None:
            choose_by_size(logs, keep)
        expiry.run(logs)

    @property
    def beginnings(self) -> Beginnings:
        return read_beginnings(self.store, "backup/clicks")

    @property
    def keys(self) -> list[str]:
        """The keys of objects, without those of records."""
        return [key for key in sorted(self.store.objects) if "_beginning" not in key]


@pytest.fixture
def world() -> ExpireWorld:
    return ExpireWorld()


def test_what_is_wholly_older_goes_and_the_beginning_is_agreed(world: ExpireWorld) -> None:
    world.put(0, 10, 100)
    world.put(10, 20, 500, place="offset=1")
    world.put(10, 20, 800, place="offset=2")
    kept = [world.put(20, 30, 900), world.put(30, 40, 990)]
    world.expire(older_than=150)
    assert world.keys == kept
    assert world.beginnings.of(0, 1) == 20
    record = json.loads(
        world.store.objects[f"backup/clicks/_beginning/0_1-1_{20:020d}.json"].content
    )
    assert (record["topic_id"], record["why"], record["at"]) == ("id-1", "old", "then")
    world.expire(older_than=150)
    assert (world.keys, len(world.beginnings.agreed)) == (kept, 1)


def test_a_batch_goes_as_a_whole_also_its_quarantine(world: ExpireWorld) -> None:
    first = world.put(0, 10, 100)
    bad = world.put(0, 10, 900, prefix="backup/_quarantine")
    last = world.put(10, 20, 990)
    world.expire(older_than=500)
    assert world.keys == sorted([bad, first, last])
    world.expire(older_than=50)
    assert world.keys == [last]


def test_the_newest_object_of_a_topic_partition_stays(world: ExpireWorld) -> None:
    world.put(0, 10, 1)
    kept = [world.put(10, 20, 2), world.put(0, 5, 1, partition=1)]
    world.expire(older_than=0, keep=0)
    assert world.keys == sorted(kept)
    assert (world.beginnings.of(0, 1), world.beginnings.of(1, 1)) == (10, 0)


def test_times_that_go_backwards_take_nothing_from_the_middle(world: ExpireWorld) -> None:
    world.put(0, 10, 100)
    kept = [world.put(10, 20, 900), world.put(20, 30, 3), world.put(30, 40, 990)]
    world.expire(older_than=500)
    assert world.keys == kept


def test_messages_from_the_future_are_as_old_as_their_upload(world: ExpireWorld) -> None:
    world.put(0, 10, 90_000, put_on=100)
    world.put(10, 20, None, put_on=101)
    kept = world.put(20, 30, 990)
    world.expire(older_than=500)
    assert world.keys == [kept]


def test_above_a_size_the_oldest_of_all_partitions_go(world: ExpireWorld) -> None:
    world.put(0, 10, 100)
    world.put(0, 10, 50, partition=1)
    kept = [world.put(10, 20, 200), world.put(10, 20, 300, partition=1)]
    size = sum(len(world.store.objects[key].content) for key in kept)
    world.expire(keep=size)
    assert world.keys == sorted(kept)
    world.expire(keep=size)
    assert world.keys == sorted(kept)


def test_an_earlier_topic_of_the_name_has_a_beginning_of_its_own(world: ExpireWorld) -> None:
    world.put(0, 500, 10, topic_id="id-0")
    old = world.put(500, 600, 11, topic_id="id-0")
    new = [
        world.put(0, 10, 900, generation=2, topic_id="id-2"),
        world.put(10, 20, 990, generation=2, topic_id="id-2"),
    ]
    world.expire(older_than=500)
    assert world.keys == sorted([old, *new])
    assert (world.beginnings.of(0, 1), world.beginnings.of(0, 2)) == (500, 0)
    found = [it.key for it in world.archive.objects("clicks")]
    assert found == sorted([old, *new])


def test_objects_of_two_generations_of_one_log_go_together(world: ExpireWorld) -> None:
    world.put(0, 10, 100)
    world.put(5, 20, 200, generation=2)
    kept = [world.put(20, 30, 900), world.put(20, 40, 990, generation=2)]
    world.expire(older_than=300)
    assert world.keys == sorted(kept)
    assert world.beginnings.agreed == (Beginning(0, 1, 2, 20),)


def readers(world: ExpireWorld) -> Iterator[tuple[str, list[int]]]:
    """Give, by reader, the first offsets of what it reads."""
    archive = world.archive
    yield "objects", [it.name.start_offset for it in archive.objects("clicks")]
    yield "everything", [it.name.start_offset for it in archive.everything("clicks")]
    yield "recover", [it.start for it in extents_of(archive, CLICKS)]
    yield "spark", [it.name.start_offset for it in listed(archive, Selection())]
    source = ArchiveSource("s", lambda _: archive, lambda: ["clicks"])
    pieces = list(source.pieces(SourcePartition("s", "clicks", 0), 0))
    yield (
        "restore",
        [piece.records.column("offset")[0].as_py() for piece in pieces if piece.records.num_rows],
    )


def test_a_crash_at_any_step_leaves_an_archive_that_is_whole(world: ExpireWorld) -> None:
    """From the agreement on nobody reads what goes; before it, nothing is gone."""
    edges = range(0, 60, 10)
    steps = 0
    while True:
        world = ExpireWorld()
        for start in edges:
            world.put(start, start + 10, 100 + start)
        left = steps

        def crash(call: str, _: str) -> None:
            nonlocal left
            if call in ("put", "delete"):
                left -= 1
                if left == 0:
                    raise Crash

        for hook in ("before", "after"):
            setattr(world.store, hook, crash)
        crashed = False
        try:
            world.expire(older_than=1000 - 135)
        except Crash:
            crashed = True
        world.store.before = world.store.after = lambda _, __: None
        begins = world.beginnings.of(0, 1)
        assert begins in (0, 40)
        for reader, starts in readers(world):
            assert starts == list(range(begins, 60, 10)), f"{reader} at step {steps}"
        [report] = verify_archive_only(world.archive, "clicks")
        assert not report.findings
        world.expire(older_than=1000 - 135)
        assert [key[-6:-4] for key in world.keys] == ["40", "50"]
        if steps and not crashed:
            break
        steps += 1
    assert steps > 8


def test_what_has_expired_is_missing_to_no_comparison_with_the_topic(world: ExpireWorld) -> None:
    world.put(0, 10, 100)
    world.put(10, 20, 990)
    log = MemoryLog()
    log.put(CLICKS, messages(range(20)), 20)
    verifier = Verifier(world.archive, log, OperatorLedger({CLICKS: Entry(20)}))
    world.expire(older_than=500)
    [report] = verifier.verify("clicks", [0])
    assert (report.compared, report.findings) == (10, [])
    assert report.notes == ["the archive begins at offset 10: what was below has expired"]


def test_a_generation_that_was_raised_since_is_of_the_same_log(world: ExpireWorld) -> None:
    world.put(0, 10, 100)
    world.put(10, 20, 980)
    world.expire(older_than=500)
    world.put(20, 30, 990, generation=2)
    log = MemoryLog()
    log.put(CLICKS, messages(range(30)), 30)
    verifier = Verifier(world.archive, log, OperatorLedger({CLICKS: Entry(30, None, "id-1")}))
    [report] = verifier.verify("clicks", [0])
    assert (report.compared, report.findings) == (20, [])


def test_a_restore_that_had_begun_goes_on_behind_what_has_expired(world: ExpireWorld) -> None:
    world.put(0, 10, 100)
    world.put(10, 20, 200)
    world.put(20, 30, 990)
    source = ArchiveSource("s", lambda _: world.archive, lambda: ["clicks"])
    clicks = SourcePartition("s", "clicks", 0)
    assert source.extent(clicks).range == OffsetRange(0, 30)
    source.listings._now = lambda: float("inf")  # as if time had passed
    world.expire(older_than=500)
    extent = since(source.extent(clicks), StoredOffset(5, "spec"))
    assert (extent.range, extent.holes, extent.beginning) == (OffsetRange(20, 30), (), 20)
    pieces = list(source.pieces(clicks, 5))
    assert [len(piece.records) for piece in pieces] == [10, 0]


def test_a_rewritten_range_over_the_beginning_is_read(world: ExpireWorld) -> None:
    """It was made while others agreed: what is above the beginning is in no other object."""
    name = ObjectName("backup/clicks", "offset=0", 1, 0, 0, ".rewrite-1-to-30.seq")
    parsed = parse_key("backup/clicks", name.key)
    assert parsed is not None
    assert parsed.end == 30
    assert not Beginnings((Beginning(0, 1, 1, 20),)).is_expired(parsed)
    assert Beginnings((Beginning(0, 1, 1, 30),)).is_expired(parsed)


def test_notes_of_what_the_store_removed_delete_nothing(world: ExpireWorld) -> None:
    kept = [world.put(30, 40, 100), world.put(50, 60, 990)]
    expiry = Expiry(world.archive, "clicks", "a test", "noted", lambda: "then")
    logs = note_removed(expiry.logs())
    for log in logs:
        expiry.agree(log)
    assert (world.keys, world.beginnings.of(0, 1)) == (kept, 30)
    [report] = verify_archive_only(world.archive, "clicks")
    assert [(it.details["start"], it.details["end"]) for it in report.findings] == [(40, 50)]
    assert note_removed(expiry.logs()) == []


def test_a_topic_without_objects_has_nothing_to_expire(world: ExpireWorld) -> None:
    world.expire(older_than=0, keep=0)
    assert world.store.objects == {}


def test_a_partition_that_never_had_a_message_has_no_beginning(world: ExpireWorld) -> None:
    world.put(0, 10, 100)
    world.put(10, 20, 990)
    log = MemoryLog()
    log.put(CLICKS, messages(range(20)), 20)
    empty = TopicPartition("clicks", 1)
    log.put(empty, messages([]), 0)
    ledger = OperatorLedger({CLICKS: Entry(20), empty: Entry(None)})
    world.expire(older_than=500)
    assert [beginning.partition for beginning in world.beginnings.agreed] == [0]
    expiry = Expiry(world.archive, "clicks", "a test", "noted", lambda: "then")
    assert note_removed(expiry.logs()) == []
    reports = Verifier(world.archive, log, ledger).verify("clicks", [0, 1])
    assert [(report.compared, report.findings) for report in reports] == [(10, []), (0, [])]


def test_a_range_that_expires_while_it_is_rewritten_stops_no_later_plan(
    world: ExpireWorld, tmp_path: Path
) -> None:
    """A compaction was killed before its first put; what it was to join has expired since."""
    for start in range(0, 60, 10):
        world.put(start, start + 10, 100 + start)
    limits = RewriteLimits(2 * NOW, 1 << 20)
    choose = partial(plan_of, "clicks", limits=limits)
    workspace = Workspace(tmp_path, "a")
    rewriter = Rewriter(world.archive, "clicks", workspace, choose)

    def killed(call: str, key: str) -> None:
        if call == "put" and "/offset=0/" in key:
            raise Crash

    world.store.before = killed
    with pytest.raises(Crash):
        rewriter.run()
    world.store.before = lambda _, __: None
    world.expire(older_than=1000 - 115)
    first, *others = rewriter.run()
    assert [failed.why for failed in first.failed] == [
        "the archive begins at 20 since it was planned: run it again"
    ]
    assert [len(part.inputs) for outcome in others for part in outcome.done] == [3]
    [report] = verify_archive_only(world.archive, "clicks")
    assert not report.findings
    assert [archived.name.start_offset for archived in world.archive.objects("clicks")] == [20, 50]
    workspace.close()
