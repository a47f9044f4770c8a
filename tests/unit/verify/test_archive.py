from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from secor.adapters.local import DirectoryStore
from secor.archive.erasures import read_erasures
from secor.archive.objects import Archive
from secor.core.model import Entry, Intent, LogRange, OffsetRange, TopicPartition
from secor.core.ports import LogFormat
from secor.formats import format_of_key, make_format
from secor.verify.archive import partition_work
from secor.verify.archive.object_sources import ObjectSource
from secor.verify.archive.partition_work import ComparedSources, PartitionWork
from secor.verify.archive.report import ArchiveReport, PartitionReport
from secor.verify.archive.verifier import Verifier, verify_archive_only
from secor.verify.finding import FindingKind
from tests.fakes.archive import CLICKS, MemoryLog, OperatorLedger, Shelf, messages

LOSSLESS = [
    make_format("sequencefile"),
    make_format("parquet", row_group_rows=4),
]
TEXTS = [make_format("text"), make_format("text", codec="gzip")]


def shelf_of(tmp_path: Path, log_format: LogFormat = LOSSLESS[0]) -> Shelf:
    return Shelf(tmp_path / "bucket", log_format)


def log_of(*numbers: int, end: int) -> MemoryLog:
    log = MemoryLog()
    log.put(CLICKS, messages(numbers), end)
    return log


def report(
    shelf: Shelf,
    log: MemoryLog,
    committed: int | None,
    *,
    divided: bool = True,
    **settings: object,
) -> PartitionReport:
    """Compare; unless not ``divided``, see that pieces find the same."""
    ledger = settings.pop("ledger", None) or OperatorLedger({CLICKS: Entry(committed)})
    archive = Archive(shelf.store, "backup", formats=partial(format_of_key))
    verifier = Verifier(archive, log, ledger, **settings)  # type: ignore[arg-type]
    (found,) = verifier.verify("clicks", [0])
    if divided:
        assert_same_in_pieces(verifier)
    return found


def assert_same_in_pieces(verifier: Verifier) -> list[int]:
    """See that pieces, as tasks do them, find what one comparison finds.

    Returns how many pieces were compared side by side, each time.  The log is read message by
    message: findings end where chunks do.
    """
    assert isinstance(verifier.log, MemoryLog)
    whole = replace(verifier, log=replace(verifier.log, step=1), progress=None, looked=None)
    numbers: list[int] = []

    def in_tasks(works: Sequence[PartitionWork]) -> list[PartitionReport]:
        numbers.append(len(works))
        root = whole.archive.root("clicks")
        erasures = read_erasures(whole.archive.store, root, whole.secret)
        reading = ComparedSources(whole.archive, whole.log, whole.parsing, erasures)
        sent = pickle.loads(pickle.dumps(works))  # noqa: S301  # our own
        return [work.check(reading) for work in sent]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_work.PartitionWork.pieces, "__defaults__", (1,))
        patch.setattr(partition_work.in_pieces, "__defaults__", (1,))
        (pieces,) = replace(whole, in_tasks=in_tasks).verify("clicks", [0])
    (expected,) = whole.verify("clicks", [0])
    assert pieces.as_json() == expected.as_json()
    return numbers


def verifier_of(shelf: Shelf, log: MemoryLog, committed: int) -> Verifier:
    ledger = OperatorLedger({CLICKS: Entry(committed)})
    return Verifier(Archive(shelf.store, "backup", formats=partial(format_of_key)), log, ledger)


@pytest.mark.parametrize("log_format", [*LOSSLESS, TEXTS[0]], ids=lambda one: one.extension)
def test_every_kind_of_finding_is_the_same_in_pieces(tmp_path: Path, log_format: LogFormat) -> None:
    shelf = shelf_of(tmp_path, log_format)
    keys = [
        shelf.put(messages(range(start, start + 10)), OffsetRange(start, start + 10))
        for start in range(0, 80, 10)
    ]
    wrong = messages(range(20, 30), value=lambda offset: b"other %d" % (offset // 22))
    (tmp_path / "bucket" / keys[2]).unlink()
    shelf.put(wrong, OffsetRange(20, 30), output_partition="offset=1")
    shelf.put(messages(range(5, 9)), OffsetRange(0, 10), output_partition="offset=1")
    (tmp_path / "bucket" / keys[4]).unlink()
    broken = tmp_path / "bucket" / keys[5]
    broken.write_bytes(broken.read_bytes()[:-9])
    log = log_of(*range(2, 62), *range(64, 70), end=90)
    assert max(assert_same_in_pieces(verifier_of(shelf, log, 65))) == 6
    found = report(shelf, log, 65)
    assert {"missing", "different", "extra"} <= counts(found).keys()
    assert ("corrupt" in counts(found)) == (log_format in LOSSLESS)


def test_batches_are_in_one_piece_whatever_their_objects_hold(tmp_path: Path) -> None:
    log = log_of(*range(40), end=40)
    for number, stray in enumerate((range(10, 22), range(20, 27), range(8, 20))):
        shelf = shelf_of(tmp_path / str(number))
        three_batches(shelf)
        shelf.put(messages(stray), OffsetRange(10, 25), output_partition="offset=1")
        # What the last one's name says is below its batch: where it ends is not known either.
        pieces = 1 if stray.start < 10 else 3
        assert assert_same_in_pieces(verifier_of(shelf, log, 40)) == [pieces]
    overlapping = shelf_of(tmp_path / "overlapping")
    three_batches(overlapping)
    overlapping.put(messages(range(20, 30)), OffsetRange(20, 30), output_partition="offset=1")
    assert assert_same_in_pieces(verifier_of(overlapping, log, 40)) == [2]


def counts(found: PartitionReport) -> dict[str, int]:
    return {kind.value: number for kind, number in found.counts.items() if number}


def test_many_objects_of_one_batch_are_read_as_fast_as_of_many_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = shelf_of(tmp_path)
    objects = 300
    for offset in range(objects):
        rows = messages([offset, offset + objects])
        shelf.put(rows, OffsetRange(0, 2 * objects), output_partition=f"user={offset}")
    looks = 0
    head = ObjectSource.head

    def counted(source: ObjectSource) -> int | None:
        nonlocal looks
        looks += 1
        return head(source)

    monkeypatch.setattr(ObjectSource, "head", counted)
    (found,) = verify_archive_only(Archive(shelf.store, "backup"), "clicks")
    assert (found.compared, found.findings) == (2 * objects, [])
    assert looks < 10 * objects, "each object is asked some times, not once for each other one"


def three_batches(shelf: Shelf) -> list[str]:
    edges = [(0, 10), (10, 25), (25, 40)]
    return [shelf.put(messages(range(a, b)), OffsetRange(a, b)) for a, b in edges]


@pytest.mark.parametrize("log_format", [*LOSSLESS, *TEXTS], ids=lambda one: one.extension)
def test_a_complete_archive_has_nothing_to_report(tmp_path: Path, log_format: LogFormat) -> None:
    shelf = shelf_of(tmp_path, log_format)
    three_batches(shelf)
    found = report(shelf, log_of(*range(50), end=50), 40)
    assert counts(found) == {}
    assert found.compared == 40
    assert found.values_only == (40 if ".txt" in log_format.extension else 0)
    whole = ArchiveReport([found])
    assert whole.is_right
    assert whole.summary == (
        "verified 40 messages in 3 objects: nothing missing, nothing twice, nothing different"
    )


def test_a_comparison_of_nothing_is_a_success_of_an_empty_topic_alone(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path, LOSSLESS[0])
    unread = ArchiveReport([report(shelf, log_of(*range(50), end=50), 0)])
    assert unread.is_right is False
    assert unread.summary == (
        "nothing was compared: nothing that the logs have is committed, and 50 offsets wait"
    )
    empty = ArchiveReport([report(shelf, log_of(end=0), 0)])
    assert (empty.is_right, empty.summary) == (True, "nothing was compared: the logs are empty")
    assert ArchiveReport([]).is_right is False
    assert ArchiveReport([]).summary == "nothing was compared: there is no topic partition"
    assert ArchiveReport([], with_topic=False).is_right is False


def test_what_waits_behind_an_open_transaction_is_counted_and_is_no_empty_topic(
    tmp_path: Path,
) -> None:
    shelf = shelf_of(tmp_path)
    log = log_of(end=0)
    log.ranges[CLICKS] = LogRange(0, 0, high_watermark=500)
    found = ArchiveReport([report(shelf, log, 0)])
    waiting = "500 offsets wait behind an open transaction: see secor progress"
    assert found.is_right is False
    assert found.summary == f"nothing was compared: nothing can be read yet; {waiting}"
    three_batches(shelf)
    log = log_of(*range(40), end=40)
    log.ranges[CLICKS] = LogRange(0, 40, high_watermark=540)
    whole = ArchiveReport([report(shelf, log, 40)])
    assert whole.is_right
    assert whole.summary.endswith(f"nothing different; {waiting}")
    assert whole.partitions[0].as_json()["withheld"] == 500


def test_what_java_secor_stored_beyond_the_last_stable_offset_is_not_extra(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    three_batches(shelf)
    log = log_of(*range(40), end=40)
    log.ranges[CLICKS] = LogRange(0, 30, high_watermark=40)
    assert counts(report(shelf, log, 40)) == {}
    log.ranges[CLICKS] = LogRange(0, 30, high_watermark=35)
    found = report(shelf, log, 40)
    assert found.counts[FindingKind.EXTRA] == 5
    assert "beyond the log's end 35" in found.findings[0].details["text"]


@pytest.mark.parametrize("log_format", [*LOSSLESS, *TEXTS], ids=lambda one: one.extension)
def test_a_lost_object_is_missing_messages(tmp_path: Path, log_format: LogFormat) -> None:
    shelf = shelf_of(tmp_path, log_format)
    keys = three_batches(shelf)
    shelf.store.delete(keys[1])
    found = report(shelf, log_of(*range(50), end=50), 40)
    assert counts(found) == {"missing": 15}
    assert [(f.details["start"], f.details["end"], f.details["count"]) for f in found.findings] == [
        (10, 25, 15)
    ]
    assert ArchiveReport([found]).is_right is False
    assert "15 missing, nothing twice" in ArchiveReport([found]).summary


@pytest.mark.parametrize("log_format", LOSSLESS, ids=lambda one: one.extension)
def test_one_message_left_out_is_missing(tmp_path: Path, log_format: LogFormat) -> None:
    shelf = shelf_of(tmp_path, log_format)
    shelf.put(messages([*range(4), *range(5, 20)]), OffsetRange(0, 20))
    found = report(shelf, log_of(*range(20), end=20), 20)
    assert counts(found) == {"missing": 1}
    assert found.findings[0].details["start"] == 4


@pytest.mark.parametrize("log_format", LOSSLESS, ids=lambda one: one.extension)
def test_messages_in_two_objects_are_there_twice(tmp_path: Path, log_format: LogFormat) -> None:
    shelf = shelf_of(tmp_path, log_format)
    shelf.put(messages(range(20)), OffsetRange(0, 20))
    shelf.put(messages(range(15, 30)), OffsetRange(15, 30))
    found = report(shelf, log_of(*range(30), end=30), 30)
    assert counts(found) == {"twice": 5}
    assert (found.findings[0].details["start"], found.findings[0].details["end"]) == (15, 20)


@pytest.mark.parametrize("log_format", LOSSLESS, ids=lambda one: one.extension)
@pytest.mark.parametrize("column", ["value", "key", "timestamp", "headers"])
def test_a_changed_column_is_different(tmp_path: Path, log_format: LogFormat, column: str) -> None:
    shelf = shelf_of(tmp_path, log_format)
    records = messages(range(20))
    changed = {
        "value": b"other",
        "key": b"",
        "timestamp": 5,
        "headers": [{"key": "h", "value": None}],
    }
    rows = records.to_pylist()
    rows[11][column] = changed[column]
    shelf.put(type(records).from_pylist(rows, schema=records.schema), OffsetRange(0, 20))
    found = report(shelf, log_of(*range(20), end=20), 20)
    assert counts(found) == {"different": 1}
    assert found.findings[0].details["start"] == 11


@pytest.mark.parametrize("log_format", LOSSLESS, ids=lambda one: one.extension)
def test_a_tombstone_is_not_an_empty_payload(tmp_path: Path, log_format: LogFormat) -> None:
    shelf = shelf_of(tmp_path, log_format)
    shelf.put(messages(range(3), lambda _: b""), OffsetRange(0, 3))
    log = MemoryLog()
    log.put(CLICKS, messages(range(3), lambda offset: None if offset == 1 else b""), 3)
    assert counts(report(shelf, log, 3)) == {"different": 1}


@pytest.mark.parametrize("log_format", [*LOSSLESS, *TEXTS], ids=lambda one: one.extension)
def test_an_object_cut_short_is_corrupt_and_its_messages_missing(
    tmp_path: Path, log_format: LogFormat
) -> None:
    shelf = shelf_of(tmp_path, log_format)
    keys = three_batches(shelf)
    shelf.change(keys[2], lambda data: data[: len(data) // 2])
    found = report(shelf, log_of(*range(50), end=50), 40)
    assert found.counts[FindingKind.MISSING] > 0
    if log_format.extension != ".txt":  # plain text has nothing to tell it is not whole
        assert found.counts[FindingKind.CORRUPT] == 1
        assert any(f.details["key"] == keys[2] for f in found.findings)


def test_metadata_that_tells_another_number_of_records_is_corrupt(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    shelf.put(messages(range(20)), OffsetRange(0, 20), records=21)
    assert counts(report(shelf, log_of(*range(20), end=20), 20)) == {"corrupt": 1}


def test_objects_beyond_the_committed_offset_are_extra(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    three_batches(shelf)
    found = report(shelf, log_of(*range(50), end=50), 25)
    assert counts(found) == {"extra": 15}


def test_objects_of_an_open_intent_are_no_trouble(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    three_batches(shelf)
    intent = Intent(25, 40, "f", "me", 0.0, "backup/clicks")
    ledger = OperatorLedger({CLICKS: Entry(25, intent)})
    found = report(shelf, log_of(*range(50), end=50), None, ledger=ledger)
    assert counts(found) == {}
    assert (found.compared, found.in_progress) == (25, 15)


def test_gaps_of_the_log_are_not_missing(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    there = [0, 1, 5, 6, 20, 39]
    shelf.put(messages(there), OffsetRange(0, 40))
    found = report(shelf, log_of(*there, end=45), 40)
    assert counts(found) == {}
    assert found.compared == 6


def test_what_the_log_compacted_away_since_is_told_but_no_trouble(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    three_batches(shelf)
    found = report(shelf, log_of(0, *range(10, 40), end=40), 40)
    assert counts(found) == {}
    assert found.unlogged == 9
    assert "no longer in the log" in " ".join(ArchiveReport([found]).remarks)


@pytest.mark.parametrize("log_format", [*LOSSLESS, *TEXTS], ids=lambda one: one.extension)
def test_below_the_log_start_nothing_is_compared_and_that_is_said(
    tmp_path: Path, log_format: LogFormat
) -> None:
    shelf = shelf_of(tmp_path, log_format)
    keys = three_batches(shelf)
    found = report(shelf, log_of(*range(25, 40), end=40), 40)
    assert counts(found) == {}
    assert (found.below_log, found.compared) == (25, 15)
    assert any("begins at offset 25" in note for note in found.notes)
    shelf.store.delete(keys[0])
    assert counts(report(shelf, log_of(*range(25, 40), end=40), 40)) == {}


def test_a_committed_offset_beyond_the_log_is_told(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    three_batches(shelf)
    found = report(shelf, log_of(*range(30), end=30), 40)
    assert found.counts[FindingKind.EXTRA] == 10
    assert "beyond the log's end" in found.findings[0].details["text"]


def test_of_two_generations_the_newer_counts(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    three_batches(shelf)
    shelf.put(messages(range(10, 40)), OffsetRange(10, 40), generation=2)
    found = report(shelf, log_of(*range(40), end=40), 40)
    assert counts(found) == {}
    assert found.superseded == 30


def test_objects_of_an_earlier_topic_of_the_name_are_set_aside(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    shelf.put(messages(range(9), lambda _: b"old"), OffsetRange(0, 9), topic_id="old")
    shelf.put(messages(range(5)), OffsetRange(0, 5), generation=2, topic_id="new")
    ledger = OperatorLedger({CLICKS: Entry(5, topic_id="new")})
    found = report(shelf, log_of(*range(5), end=5), None, ledger=ledger)
    assert counts(found) == {}
    assert found.objects == 1


@pytest.mark.parametrize("log_format", LOSSLESS, ids=lambda one: one.extension)
def test_objects_of_many_output_partitions_are_merged(
    tmp_path: Path, log_format: LogFormat
) -> None:
    shelf = shelf_of(tmp_path, log_format)
    for start, end in [(0, 100), (100, 230)]:
        for day in range(5):
            rows = messages([offset for offset in range(start, end) if offset % 5 == day])
            shelf.put(rows, OffsetRange(start, end), output_partition=f"dt=2026-11-{day:02d}")
    assert counts(report(shelf, log_of(*range(230), end=230), 230)) == {}
    shelf.put(messages([7]), OffsetRange(0, 100), output_partition="dt=x")
    assert counts(report(shelf, log_of(*range(230), end=230), 230)) == {"twice": 1}


def test_text_of_many_output_partitions_is_compared_batch_by_batch(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path, TEXTS[0])
    keys = []
    for day in range(3):
        rows = messages([offset for offset in range(30) if offset % 3 == day])
        keys.append(shelf.put(rows, OffsetRange(0, 30), output_partition=f"dt={day}"))
    log = log_of(*range(30), end=30)
    assert counts(report(shelf, log, 30)) == {}
    shelf.change(keys[1], lambda data: data.replace(b"payload 4\n", b"payload 5\n"))
    assert counts(report(shelf, log, 30)) == {"different": 1}
    shelf.store.delete(keys[2])
    assert counts(report(shelf, log, 30)) == {"missing": 10}


def test_damaged_text_names_the_offset(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path, TEXTS[0])
    keys = three_batches(shelf)
    log = log_of(*range(50), end=50)
    shelf.change(keys[1], lambda data: data.replace(b"payload 13\n", b"payl\nad 13\n"))
    found = report(shelf, log, 40)
    assert counts(found) == {"different": 1}
    assert found.findings[0].details["start"] == 13
    shelf.change(keys[0], lambda data: data + b"more\n")
    assert report(shelf, log, 40).counts[FindingKind.EXTRA] == 1


def test_text_with_delimiters_inside_and_tombstones_is_complete(tmp_path: Path) -> None:
    def value(offset: int) -> bytes | None:
        return None if offset % 4 == 0 else b"two\nlines %d" % offset

    shelf = shelf_of(tmp_path, TEXTS[1])
    shelf.put(messages(range(30), value), OffsetRange(0, 30))
    log = MemoryLog()
    log.put(CLICKS, messages(range(30), value), 30)
    assert counts(report(shelf, log, 30)) == {}


JAVA = "backup/clicks/offset=0/1_0_{:020d}"


def java_text(shelf: Shelf, start: int, values: list[bytes | None]) -> str:
    """Put an object as Java Secor does: no metadata, an empty line for no value."""
    key = JAVA.format(start)
    shelf.put_bytes(key, b"".join((value or b"") + b"\n" for value in values), {})
    return key


def after_java_secor(tmp_path: Path, log_format: LogFormat, **ours: object) -> Shelf:
    """Two batches of Java Secor's text, then two of ours."""
    shelf = shelf_of(tmp_path, log_format)
    for start in (0, 10):
        java_text(shelf, start, [tombstone(offset) for offset in range(start, start + 10)])
    for start in (20, 30):
        rows = messages(range(start, start + 10), tombstone)
        shelf.put(rows, OffsetRange(start, start + 10), **ours)  # type: ignore[arg-type]
    return shelf


def tombstone(offset: int) -> bytes | None:
    return None if offset % 4 == 1 else b"payload %d" % offset


@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("log_format", [*LOSSLESS, *TEXTS], ids=lambda one: one.extension)
def test_java_secors_text_is_compared_up_to_where_ours_goes_on(
    tmp_path: Path, log_format: LogFormat, generation: int
) -> None:
    shelf = after_java_secor(tmp_path, log_format, generation=generation)
    log = MemoryLog()
    log.put(CLICKS, messages(range(40), tombstone), 40)
    found = report(shelf, log, 40)
    assert counts(found) == {}
    assert found.compared == 40
    shelf.store.delete(JAVA.format(10))
    java_text(shelf, 10, [tombstone(offset) for offset in range(10, 18)])
    assert counts(report(shelf, log, 40)) == {"missing": 2}


def test_what_java_secor_uploaded_and_never_committed_is_extra(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    for start in (0, 10):
        java_text(shelf, start, [tombstone(offset) for offset in range(start, start + 10)])
    log = MemoryLog()
    log.put(CLICKS, messages(range(40), tombstone), 40)
    found = report(shelf, log, 10)
    assert set(counts(found)) == {"extra"}
    assert [finding.details["key"] for finding in found.findings] == [JAVA.format(10)]


def test_java_secors_uncommitted_objects_are_found_beside_ours(tmp_path: Path) -> None:
    """It was killed after an upload, before its commit: the same messages are there twice."""
    shelf = after_java_secor(tmp_path, make_format("text"))
    java_text(shelf, 20, [tombstone(offset) for offset in range(20, 25)])
    log = MemoryLog()
    log.put(CLICKS, messages(range(40), tombstone), 40)
    assert report(shelf, log, 40).counts.total()


def test_a_partition_without_an_entry_is_told(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    three_batches(shelf)
    found = report(shelf, log_of(*range(40), end=40), None)
    assert counts(found) == {"extra": 40}
    assert any("secor offsets recover" in note for note in found.notes)


def test_the_archive_alone_tells_holes_overlaps_and_wrong_metadata(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    keys = three_batches(shelf)
    archive = Archive(shelf.store, "backup")
    (found,) = verify_archive_only(archive, "clicks")
    assert counts(found) == {}
    assert found.compared == 40

    shelf.store.delete(keys[1])
    (found,) = verify_archive_only(archive, "clicks")
    assert counts(found) == {"missing": 15}

    shelf.put(messages(range(9, 25)), OffsetRange(9, 25))
    shelf.put(
        messages(range(40, 50)),
        OffsetRange(40, 50),
        topic_partition=TopicPartition("clicks", 0),
        first_offset=41,
    )
    (found,) = verify_archive_only(archive, "clicks")
    assert counts(found) == {"twice": 2, "corrupt": 1}


@pytest.mark.parametrize("log_format", [*LOSSLESS, TEXTS[1]], ids=lambda one: one.extension)
def test_the_archive_alone_finds_objects_that_cannot_be_read(
    tmp_path: Path, log_format: LogFormat
) -> None:
    shelf = shelf_of(tmp_path, log_format)
    keys = three_batches(shelf)
    shelf.change(keys[1], lambda data: data[:-20])
    (found,) = verify_archive_only(Archive(shelf.store, "backup"), "clicks")
    assert counts(found) == {"corrupt": 1}


def test_the_archive_knows_its_topics(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    shelf.put(messages([1]), OffsetRange(0, 2))
    shelf.put(messages([1]), OffsetRange(0, 2), topic_partition=TopicPartition("a.b", 3))
    archive = Archive(shelf.store, "backup")
    assert archive.topics() == ["a.b", "clicks"]
    (found,) = archive.objects("a.b", with_info=True)
    assert found.topic_partition == TopicPartition("a.b", 3)
    assert found.info
    assert found.info.batch == OffsetRange(0, 2)
    assert list(archive.objects("a.b", partitions=[0])) == []
    assert list(archive.objects("a.b", offsets=OffsetRange(2, 9), with_info=True)) == []


def opening(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Note what is opened from now on, and in which thread."""
    opened: list[tuple[str, str]] = []
    real = DirectoryStore.open

    def noted(store: DirectoryStore, key: str) -> BinaryIO:
        opened.append((key, threading.current_thread().name))
        return real(store, key)

    monkeypatch.setattr(DirectoryStore, "open", noted)
    return opened


@pytest.mark.parametrize("log_format", [LOSSLESS[0], TEXTS[0]], ids=lambda one: one.extension)
def test_many_small_objects_are_fetched_ahead_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_format: LogFormat
) -> None:
    shelf = shelf_of(tmp_path, log_format)
    for first in range(0, 400, 5):
        shelf.put(
            messages(range(first, first + 5)),
            OffsetRange(first // 100 * 100, first // 100 * 100 + 100),
            output_partition=f"offset={first}",
        )
    opened = opening(monkeypatch)
    found = report(shelf, log_of(*range(400), end=400), 400, divided=False)
    assert counts(found) == {}
    assert found.compared == 400
    assert len({key for key, _ in opened}) == len(opened) == 80
    assert len([thread for _, thread in opened if thread.startswith("ahead")]) == 79


@pytest.mark.parametrize("alone", [True, False])
def test_objects_of_many_output_partitions_are_fetched_no_oftener_than_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, alone: bool
) -> None:
    shelf = shelf_of(tmp_path, LOSSLESS[1])
    for first in range(0, 400, 40):
        for hour in range(10):
            rows = messages(range(first + 4 * hour, first + 4 * hour + 4))
            reach = OffsetRange(first, first + 40)
            shelf.put(rows, reach, output_partition=f"dt=2026-11-21/hr={9 - hour:02}")
    opened = opening(monkeypatch)
    archive = Archive(shelf.store, "backup")
    if alone:
        (found,) = verify_archive_only(archive, "clicks", parsed=True)
    else:
        # Of a group that does not parse nothing has to be looked into first; of one that parses
        # one object of each fingerprint.
        found = report(shelf, log_of(*range(400), end=400), 400, divided=False)
    assert counts(found) == {}
    assert found.compared == 400
    assert len(opened) == (101 if alone else 100)


@pytest.mark.parametrize("log_format", [*LOSSLESS, *TEXTS], ids=lambda one: one.extension)
def test_an_object_whose_metadata_was_removed_is_corrupt(
    tmp_path: Path, log_format: LogFormat
) -> None:
    shelf = shelf_of(tmp_path, log_format)
    keys = three_batches(shelf)
    for sidecar in (tmp_path / "bucket").rglob(f".{Path(keys[1]).name}.metadata"):
        sidecar.unlink()
    for found in (
        report(shelf, log_of(*range(50), end=50), 40),
        *verify_archive_only(Archive(shelf.store, "backup"), "clicks"),
    ):
        [finding] = [one for one in found.findings if one.kind is FindingKind.CORRUPT]
        assert finding.details["key"] == keys[1]
        assert finding.details["text"].startswith("its metadata is gone")
        assert ArchiveReport([found]).is_right is False


def test_java_secors_objects_have_no_metadata_and_that_is_no_trouble(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    log_format = make_format("sequencefile")
    sink = io.BytesIO()
    writer = log_format.create(sink, b"")
    writer.append(messages(range(20)))
    writer.close()
    shelf.put_bytes("backup/clicks/offset=0/1_0_00000000000000000000", sink.getvalue(), {})
    found = report(shelf, log_of(*range(20), end=20), 20)
    assert counts(found) == {}


def test_an_entry_that_cannot_be_read_is_named_and_the_rest_is_verified(tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path)
    keys = three_batches(shelf)
    other = TopicPartition("clicks", 1)
    shelf.put(messages(range(5)), OffsetRange(0, 5), topic_partition=other)
    log = log_of(*range(50), end=50)
    log.put(other, messages(range(5)), 5)
    ledger = OperatorLedger({other: Entry(5)}, corrupt={CLICKS})
    verifier = Verifier(Archive(shelf.store, "backup"), log, ledger)
    first, second = verifier.verify("clicks", [0, 1])
    assert (counts(first), first.compared) == ({"ledger": 1}, 40)
    assert "10.1.2.3" in str(first.findings[-1])
    assert (counts(second), second.compared) == ({}, 5)
    whole = ArchiveReport([first, second])
    assert whole.is_right is False
    assert whole.summary.endswith(", 1 ledger entry unreadable")
    shelf.store.delete(keys[0])
    first, _ = verifier.verify("clicks", [0, 1])
    assert counts(first) == {"ledger": 1, "missing": 10}
