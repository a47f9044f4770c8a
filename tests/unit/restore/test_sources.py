from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from secor.adapters.local import DirectoryStore
from secor.archive.erasures import ErasedLog, Secret, agree, erasure_of, read_erasures
from secor.archive.objects import Archive
from secor.core.errors import ArchiveIncomplete, ConfigurationError
from secor.core.model import OffsetRange, StoredObject, TopicPartition
from secor.core.ports import LogFormat
from secor.formats import make_format
from secor.restore.model import Boundary, Piece, Silence, SourcePartition
from secor.restore.reading import ReadAhead
from secor.restore.sources import foreign_files
from secor.restore.sources.archive import LISTED_FOR, ArchiveSource, TopicListings
from secor.restore.sources.json_lines import JsonLinesSource
from tests.fakes.archive import Shelf, messages
from tests.fakes.clock import FakeClock
from tests.fakes.reader import DirectReader

CLICKS = SourcePartition("archive", "clicks", 0)


@pytest.fixture(params=["sequencefile", "parquet"])
def log_format(request: pytest.FixtureRequest) -> LogFormat:
    return make_format(request.param)


@pytest.fixture
def shelf(tmp_path: Path, log_format: LogFormat) -> Shelf:
    return Shelf(tmp_path / "bucket", log_format)


def source_of(shelf: Shelf, **settings: object) -> ArchiveSource:
    archive = Archive(shelf.store, shelf.prefix)
    return ArchiveSource(
        "archive",
        lambda _topic: archive,
        lambda: ["clicks"],
        reader=DirectReader,
        **settings,  # type: ignore[arg-type]
    )


def offsets(pieces: Iterator[Piece]) -> list[int]:
    read = list(pieces)
    assert all(after.next_offset >= before.next_offset for before, after in pairwise(read))
    return [offset for piece in read for offset in piece.records.column("offset").to_pylist()]


def put(shelf: Shelf, start: int, end: int, **changes: object) -> str:
    rows, batch = messages(range(start, end)), OffsetRange(start, end)
    return shelf.put(rows, batch, **changes)  # type: ignore[arg-type]


def test_every_message_comes_back_as_it_was(shelf: Shelf) -> None:
    put(shelf, 0, 10)
    put(shelf, 10, 20)
    source = source_of(shelf)
    assert source.partitions() == [CLICKS]
    assert source.extent(CLICKS).range == OffsetRange(0, 20)
    read = pa.Table.from_batches([piece.records for piece in source.pieces(CLICKS, 0)])
    assert read.to_pylist() == messages(range(20)).to_pylist()


@pytest.mark.parametrize("start", [0, 1, 9, 10, 15, 20, 30])
def test_reading_begins_at_any_offset(shelf: Shelf, start: int) -> None:
    put(shelf, 0, 10)
    put(shelf, 10, 20)
    assert offsets(source_of(shelf).pieces(CLICKS, start)) == list(range(start, 20))


def test_objects_that_overlap_give_each_offset_once(shelf: Shelf) -> None:
    put(shelf, 0, 12)
    put(shelf, 5, 20, generation=2)
    put(shelf, 18, 25)
    assert offsets(source_of(shelf).pieces(CLICKS, 0)) == list(range(25))


def test_files_of_one_batch_are_put_in_order(shelf: Shelf) -> None:
    whole = OffsetRange(0, 10)
    shelf.put(messages(range(0, 10, 2)), whole, output_partition="dt=1")
    shelf.put(messages(range(1, 10, 2)), whole, output_partition="dt=2")
    assert offsets(source_of(shelf).pieces(CLICKS, 3)) == list(range(3, 10))


def test_a_gap_in_the_log_is_no_hole(shelf: Shelf) -> None:
    shelf.put(messages([0, 4, 7]), OffsetRange(0, 10))
    put(shelf, 10, 12)
    assert offsets(source_of(shelf).pieces(CLICKS, 0)) == [0, 4, 7, 10, 11]
    assert source_of(shelf).extent(CLICKS).holes == ()


def test_a_missing_object_is_named_and_passed_over_only_when_told_to(shelf: Shelf) -> None:
    put(shelf, 0, 10)
    lost = put(shelf, 10, 20)
    put(shelf, 20, 30)
    shelf.store.delete(lost)
    assert source_of(shelf).extent(CLICKS).holes == (OffsetRange(10, 20),)
    with pytest.raises(ArchiveIncomplete, match=r"no object has the offsets \[10, 20\)"):
        offsets(source_of(shelf).pieces(CLICKS, 0))
    assert offsets(source_of(shelf, holes=True).pieces(CLICKS, 0)) == [*range(10), *range(20, 30)]


def test_objects_lost_behind_what_was_read_before_are_a_hole(shelf: Shelf) -> None:
    first = put(shelf, 0, 10)
    put(shelf, 10, 20)
    shelf.store.delete(first)
    with pytest.raises(ArchiveIncomplete, match=r"no object has the offsets \[4, 10\)"):
        offsets(source_of(shelf).pieces(CLICKS, 4))
    assert offsets(source_of(shelf, holes=True).pieces(CLICKS, 4)) == list(range(10, 20))


def test_an_archive_that_begins_above_zero_has_no_hole(shelf: Shelf) -> None:
    put(shelf, 10, 20)
    assert offsets(source_of(shelf).pieces(CLICKS, 0)) == list(range(10, 20))


@pytest.mark.parametrize(
    ("lost", "start", "hole"),
    [
        ([0], 0, r"\[0, 10\)"),
        ([2], 0, r"\[20, 30\)"),
        ([2], 20, r"\[20, 30\)"),
        ([0, 1, 2], 5, r"\[5, 30\)"),
    ],
)
def test_objects_that_vanish_while_a_job_runs_are_missed(
    shelf: Shelf, lost: list[int], start: int, hole: str
) -> None:
    keys = [put(shelf, 0, 10), put(shelf, 10, 20), put(shelf, 20, 30)]
    listings = TopicListings(iter(range(0, 1000, 100)).__next__)
    source = source_of(shelf, listings=listings)
    assert source.extent(CLICKS).range == OffsetRange(0, 30)
    for number in lost:
        shelf.store.delete(keys[number])
    assert source.partitions() == [CLICKS]
    assert source.extent(CLICKS).range.end == 30
    with pytest.raises(ArchiveIncomplete, match=f"no object has the offsets {hole}"):
        offsets(source.pieces(CLICKS, start))


def test_an_object_that_vanishes_right_after_the_listing_is_named(shelf: Shelf) -> None:
    key = put(shelf, 0, 10)
    source = source_of(shelf)
    assert source.extent(CLICKS).range == OffsetRange(0, 10)
    shelf.store.delete(key)
    with pytest.raises(ArchiveIncomplete, match=f"{key}: the object is gone since the archive"):
        offsets(source.pieces(CLICKS, 0))


def test_an_object_that_vanishes_before_its_metadata_were_asked_for_is_named(shelf: Shelf) -> None:
    key = put(shelf, 0, 10)
    source = source_of(shelf)
    assert source.partitions() == [CLICKS]
    source.listings.objects(source.archives("clicks"), "clicks", 0, None)
    shelf.store.delete(key)
    with pytest.raises(ArchiveIncomplete, match=f"{key} does not exist, since the archive was"):
        source.extent(CLICKS)


def test_metadata_are_asked_for_once_as_long_as_an_object_stays(
    shelf: Shelf, tmp_path: Path
) -> None:
    key = put(shelf, 0, 10)
    store, clock = CountingStore(tmp_path / "bucket"), FakeClock()
    archive = Archive(store, shelf.prefix)
    listings = TopicListings(clock.monotonic)
    source = ArchiveSource("archive", lambda _: archive, lambda: ["clicks"], listings=listings)
    for _ in range(3):
        assert source.extent(CLICKS).range == OffsetRange(0, 10)
        clock.advance(LISTED_FOR)
    assert store.heads == 1
    shelf.store.delete(key)
    assert put(shelf, 0, 20).endswith(key.rpartition("/")[2])
    assert source.extent(CLICKS).range == OffsetRange(0, 20)
    assert store.heads == 2


def test_what_vanishes_after_it_was_read_is_not_missed(shelf: Shelf) -> None:
    keys = [put(shelf, 0, 10), put(shelf, 10, 20)]
    source = source_of(shelf, listings=TopicListings(iter(range(0, 1000, 100)).__next__))
    assert source.extent(CLICKS).range == OffsetRange(0, 20)
    shelf.store.delete(keys[0])
    assert offsets(source.pieces(CLICKS, 10)) == list(range(10, 20))
    shelf.store.delete(keys[1])
    assert offsets(source.pieces(CLICKS, 20)) == []


def test_the_end_of_what_vanished_is_reached_where_holes_are_accepted(shelf: Shelf) -> None:
    keys = [put(shelf, 0, 10), put(shelf, 10, 20)]
    listings = TopicListings(iter(range(0, 1000, 100)).__next__)
    source = source_of(shelf, listings=listings, holes=True)
    assert source.extent(CLICKS).range == OffsetRange(0, 20)
    shelf.store.delete(keys[1])
    assert list(source.pieces(CLICKS, 0))[-1].next_offset == 20


def test_an_object_that_holds_less_than_it_says_is_refused(shelf: Shelf) -> None:
    put(shelf, 0, 10, records=11)
    with pytest.raises(ArchiveIncomplete, match="holds 10 records"):
        offsets(source_of(shelf).pieces(CLICKS, 0))


def test_a_damaged_object_is_named(shelf: Shelf) -> None:
    key = put(shelf, 0, 10)
    shelf.change(key, lambda data: data[: len(data) // 2])
    with pytest.raises(ArchiveIncomplete, match=key):
        offsets(source_of(shelf).pieces(CLICKS, 0))


def test_two_logs_under_one_name_are_refused(shelf: Shelf) -> None:
    put(shelf, 0, 10, topic_id="first")
    put(shelf, 0, 10, topic_id="second", generation=2)
    with pytest.raises(ArchiveIncomplete, match="of 2 logs under one topic name"):
        offsets(source_of(shelf).pieces(CLICKS, 0))
    assert offsets(source_of(shelf, generations=[2]).pieces(CLICKS, 0)) == list(range(10))


def test_each_object_ends_a_transaction_of_its_own(shelf: Shelf) -> None:
    put(shelf, 0, 10)
    put(shelf, 10, 20)
    ends = [it.next_offset for it in source_of(shelf).pieces(CLICKS, 0) if it.boundary]
    assert ends == [10, 20]


def test_what_lost_a_part_of_its_messages_is_restored_only_when_told_to(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "bucket", make_format("text"))
    put(shelf, 5, 9)
    with pytest.raises(ArchiveIncomplete, match="set source"):
        offsets(source_of(shelf).pieces(CLICKS, 0))
    pieces = list(source_of(shelf, lossy=True).pieces(CLICKS, 0))
    assert [row["value"] for row in pieces[0].records.to_pylist()] == [
        b"payload %d" % offset for offset in range(5, 9)
    ]


class CountingStore(DirectoryStore):
    """Counts listings, and questions for metadata."""

    listings = 0
    heads = 0

    def head(self, key: str) -> StoredObject:
        self.heads += 1
        return super().head(key)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self.listings += 1
        return super().list(prefix)


def test_many_source_partitions_are_listed_together_and_grow_all_the_same(
    shelf: Shelf, tmp_path: Path
) -> None:
    for partition in range(30):
        where = TopicPartition("clicks", partition)
        shelf.put(messages(range(5)), OffsetRange(0, 5), topic_partition=where)
    store, clock = CountingStore(tmp_path / "bucket"), FakeClock()
    archive = Archive(store, shelf.prefix)
    source = ArchiveSource(
        "archive",
        lambda _topic: archive,
        lambda: ["clicks"],
        reader=DirectReader,
        listings=TopicListings(clock.monotonic),
    )
    sources = source.partitions()
    for each in sources:
        assert source.extent(each).range == OffsetRange(0, 5)
        assert offsets(source.pieces(each, 0)) == list(range(5))
    assert len(sources) == 30
    assert store.listings <= 4
    assert store.heads == 30
    put(shelf, 5, 9)
    clock.advance(LISTED_FOR)
    assert offsets(source.pieces(CLICKS, 0)) == list(range(9))


def test_reading_ahead_gives_the_same_and_then_the_error() -> None:
    def pieces() -> Iterator[Piece]:
        yield Piece(messages([1]), 2)
        raise ArchiveIncomplete("gone")

    reader = ReadAhead(pieces())
    piece = reader.next(10)
    assert isinstance(piece, Piece)
    with pytest.raises(ArchiveIncomplete):
        reader.next(10)


def test_reading_ahead_ends_and_can_be_closed_early() -> None:
    reader = ReadAhead(iter([Piece(messages([1]), 2)]), most_bytes=1)
    assert isinstance(reader.next(10), Piece)
    assert reader.next(10) is Silence.EXHAUSTED
    endless = ReadAhead(iter(lambda: Piece(messages([1]), 2), None), most_bytes=1)
    endless.close()


def lines(folder: Path, *text: str) -> JsonLinesSource:
    (folder / "clicks").mkdir()
    (folder / "clicks" / "0.jsonl").write_text("\n".join(text) + "\n")
    return JsonLinesSource("archive", folder, lambda topic: topic == "clicks", DirectReader)


def test_json_lines_define_their_transactions(tmp_path: Path) -> None:
    source = lines(
        tmp_path,
        '{"offset": 3, "key": "k", "value": "v", "headers": [["h", null]], "timestamp": 5}',
        '{"offset": 4}',
        '{"end": "commit"}',
        '{"offset": 9, "value": "bad"}',
        '{"end": "abort"}',
    )
    assert source.partitions() == [CLICKS]
    assert source.extent(CLICKS).range == OffsetRange(3, 10)
    first, second = source.pieces(CLICKS, 0)
    assert (first.next_offset, first.boundary) == (5, Boundary.COMMIT)
    assert first.records.to_pylist()[0]["headers"] == [{"key": "h", "value": None}]
    assert (second.next_offset, second.boundary) == (10, Boundary.ABORT)
    assert [piece.next_offset for piece in source.pieces(CLICKS, 5)] == [10]


@pytest.mark.parametrize("line", ["{", "[]", '{"value": "v"}', '{"end": "perhaps"}'])
def test_a_line_that_is_no_message_is_named(line: str, tmp_path: Path) -> None:
    source = lines(tmp_path, '{"offset": 1}', line)
    with pytest.raises(ArchiveIncomplete, match="line 2"):
        list(source.pieces(CLICKS, 0))


def test_offsets_of_lines_have_to_rise(tmp_path: Path) -> None:
    with pytest.raises(ArchiveIncomplete, match="line 2: offset 1 does not rise"):
        list(lines(tmp_path, '{"offset": 1}', '{"offset": 1}').pieces(CLICKS, 0))


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 200_000,
        b'{"offset":1e999}',
        b'{"offset":99999999999999999999}',
        b'{"offset":1,"headers":5}',
        b'{"offset":1,"headers":[[1,2,3]]}',
        b'{"offset":1,"key":5}',
        b'{"offset":1,"timestamp":"x"}',
        b'{"offset":1,"value":"\\ud800"}',
        b'{"offset":1,"headers":[["\\ud800","x"]]}',
        b'{"value":"x"}',
    ],
)
def test_a_line_that_cannot_be_a_message_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks/0.jsonl").write_bytes(b'{"offset":0}\n' + line + b"\n")
    source = JsonLinesSource("archive", tmp_path, {"clicks"}.__contains__, DirectReader)
    with pytest.raises(ArchiveIncomplete, match="line 2"):
        source.extent(CLICKS)


def test_an_object_whose_offsets_fall_between_pieces_is_refused(shelf: Shelf) -> None:
    """What came behind the fall was passed over: 100 messages of 8,292."""
    rows = pa.concat_batches([messages(range(10_000, 18_192)), messages(range(100))])
    shelf.put(rows, OffsetRange(0, 20_000))
    with pytest.raises(ArchiveIncomplete, match="do not rise"):
        offsets(source_of(shelf).pieces(CLICKS, 0))


def test_two_objects_of_a_batch_that_have_an_offset_twice_are_refused(shelf: Shelf) -> None:
    """Both were written: the target had the messages twice."""
    for place in ("a=1", "a=2"):
        shelf.put(messages(range(10)), OffsetRange(0, 10), output_partition=place)
    with pytest.raises(ArchiveIncomplete, match=r"a=1.* and .*a=2.*twice"):
        offsets(source_of(shelf).pieces(CLICKS, 0))


def test_an_object_with_offsets_that_are_not_of_its_batch_is_refused(shelf: Shelf) -> None:
    """They were passed over, as those of another batch that nobody has."""
    shelf.put(messages(range(30)), OffsetRange(0, 10))
    with pytest.raises(ArchiveIncomplete, match=r"from 0 to 29, .* \[0, 10\)"):
        offsets(source_of(shelf).pieces(CLICKS, 0))


def test_an_object_that_claims_the_offsets_of_others_is_refused(shelf: Shelf) -> None:
    """It hid them: of 30 messages one was restored, and verify compared no more."""
    for start in (0, 10, 20):
        put(shelf, start, start + 10)
    shelf.put(messages(range(1)), OffsetRange(0, 1_000_000), output_partition="x")
    with pytest.raises(ArchiveIncomplete, match=r"\[0, 1000000\) and 1 message, .* have 30"):
        offsets(source_of(shelf).pieces(CLICKS, 0))


def test_what_was_stored_again_in_another_size_is_no_forgery(shelf: Shelf) -> None:
    put(shelf, 0, 30)
    for start in (0, 10, 20, 30, 40):
        put(shelf, start, start + 10, output_partition="again")
    assert offsets(source_of(shelf).pieces(CLICKS, 0)) == list(range(50))


def odd_values(shelf: Shelf, left_out: int | None = None) -> str:
    """Store five messages, of which the first, third and last have no value."""
    rows = messages(range(5), lambda offset: b"%d" % offset if offset % 2 else None)
    return shelf.put(rows, OffsetRange(0, 5), left_out=left_out)


def test_text_that_does_not_tell_what_it_left_out_is_restored_where_holes_are_allowed(
    tmp_path: Path,
) -> None:
    shelf = Shelf(tmp_path / "bucket", make_format("text"))
    key = odd_values(shelf)
    with pytest.raises(ArchiveIncomplete, match=r"holds 2 records.* says 5.*null_values.*holes"):
        list(source_of(shelf, lossy=True).pieces(CLICKS, 0))
    source = source_of(shelf, lossy=True, holes=True)
    first, end = source.pieces(CLICKS, 0)
    assert first.records.column("value").to_pylist() == [b"1", b"3"]
    assert end.next_offset == 5
    extent = source.extent(CLICKS)
    assert (extent.left_out, extent.uncounted) == (0, (key,))


def test_text_that_tells_what_it_left_out_has_to_have_the_rest(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "bucket", make_format("text"))
    key = odd_values(shelf, left_out=3)
    source = source_of(shelf, lossy=True)
    assert offsets(source.pieces(CLICKS, 0)) == [0, 1], "numbered, as text has no offsets"
    assert offsets(source.pieces(CLICKS, 1)) == [1]
    extent = source.extent(CLICKS)
    assert (extent.left_out, extent.uncounted) == (3, ())
    shelf.change(key, lambda content: content[:2])
    with pytest.raises(ArchiveIncomplete, match=r"holds 1 records, and its metadata says 2; bring"):
        list(source_of(shelf, lossy=True, holes=True).pieces(CLICKS, 0))


def test_text_without_any_value_is_passed_over(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "bucket", make_format("text"))
    shelf.put(messages(range(2), lambda _: None), OffsetRange(0, 2), left_out=2)
    (end,) = source_of(shelf, lossy=True).pieces(CLICKS, 0)
    assert (end.records.num_rows, end.next_offset) == (0, 2)


def test_a_damaged_object_that_is_no_text_is_no_hole(shelf: Shelf) -> None:
    put(shelf, 0, 4, records=5)
    with pytest.raises(ArchiveIncomplete, match=r"holds 4 records, and its metadata says 5; bring"):
        list(source_of(shelf, lossy=True, holes=True).pieces(CLICKS, 0))


def test_a_json_line_above_the_longest_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_files, "LONGEST_LINE", 1000)
    source = lines(tmp_path, '{"offset": 0}', '{"offset": 1, "value": "%s"}' % ("x" * 2000))
    with pytest.raises(ArchiveIncomplete, match=r"line 2: .*line 2 has more than 1,000 bytes"):
        list(source.pieces(SourcePartition("archive", "clicks", 0), 0))


def test_what_is_erased_is_left_out_also_of_objects_that_came_back(shelf: Shelf) -> None:
    secret = Secret(b"the secret of the group")
    put(shelf, 0, 10)
    put(shelf, 10, 20, erasures=1)
    put(shelf, 20, 30)
    erasure = erasure_of(
        "clicks", secret, [None], [ErasedLog(0, 1, None, 25)], tombstones=False, at="", by=""
    )
    agree(shelf.store, read_erasures(shelf.store, "backup/clicks", secret), erasure)
    source = source_of(shelf, secret=secret)
    assert source.extent(CLICKS).range == OffsetRange(0, 30)
    # Every third has no key; what was rewritten by this list is not looked at again.
    assert offsets(source.pieces(CLICKS, 0)) == [
        offset for offset in range(30) if offset % 3 or 10 <= offset < 20 or offset >= 25
    ]
    for other in (None, Secret(b"another secret, by mistake")):
        with pytest.raises(ConfigurationError, match=r"_erased/00000001\.json"):
            source_of(shelf, secret=other).extent(CLICKS)
