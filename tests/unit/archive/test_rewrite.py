"""Objects joined: the same messages, fewer objects, whatever happens on the way."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from crc32c import crc32c
from pyarrow import orc

from secor.archive.objects import Archive, ArchivedObject
from secor.archive.rewrite.carrying_out import Choose, Rewriter
from secor.archive.rewrite.planning import RewriteLimits, RewriteResult, plan_of
from secor.batch.workspace import Workspace
from secor.core.errors import ConfigurationError, Unavailable
from secor.core.model import Entry, OffsetRange, TopicPartition
from secor.core.naming import ObjectName
from secor.core.object_info import ObjectInfo
from secor.core.ports import LogFormat
from secor.formats import make_format
from secor.formats.joining import Target
from secor.verify.archive.verifier import Verifier
from tests.fakes.archive import MemoryLog, OperatorLedger, messages
from tests.fakes.store import FakeStore, nothing
from tests.unit.formats.typed_rows import batch as rows_of
from tests.unit.formats.typed_rows import fitting

CLICKS = TopicPartition("clicks", 0)
LIMITS = RewriteLimits(before=100.0, target_size=1 << 20)
STEPS = 200


def put(
    store: FakeStore,
    log_format: LogFormat,
    records: pa.RecordBatch,
    batch: OffsetRange,
    place: str = "offset=0",
    told: int | None = None,
    left_out: int | None = None,
) -> str:
    """Put one object as a daemon does, whose metadata tells of so many messages."""
    count = records.num_rows if told is None else told
    info = ObjectInfo(CLICKS, batch, records.column("offset")[0].as_py(), count, 1, "f")
    info = replace(info, left_out=left_out)
    name = ObjectName("p/clicks", place, info.generation, 0, batch.start, log_format.extension)
    sink = io.BytesIO()
    writer = log_format.create(sink, name.key.encode())
    writer.append(records)
    writer.close()
    store.put(name.key, sink.getvalue(), crc32c(sink.getvalue()), info.metadata())
    return name.key


def small_archive(store: FakeStore) -> None:
    """Put three batches of ten offsets in two places, of which the last is the newest."""
    log_format = make_format("sequencefile")
    for start in range(0, 30, 10):
        batch = OffsetRange(start, start + 10)
        put(store, log_format, messages([*range(start, start + 9, 2)]), batch, "dt=1")
        if start < 20:
            put(store, log_format, messages([*range(start + 1, start + 10, 2)]), batch, "dt=2")


def offsets_read(store: FakeStore) -> list[int]:
    archive = Archive(store, "p")
    return sorted(
        offset
        for archived in archive.objects("clicks")
        for records in archive.read(archived)
        for offset in records.column("offset").to_pylist()
    )


def joining(limits: RewriteLimits) -> Choose:
    return lambda objects, waiting: plan_of("clicks", objects, waiting, limits)


@contextmanager
def rewriter(
    store: FakeStore, directory: Path, instance: str = "a", limits: RewriteLimits = LIMITS
) -> Iterator[Rewriter]:
    workspace = Workspace(directory, instance)
    try:
        yield Rewriter(Archive(store, "p"), "clicks", workspace, joining(limits))
    finally:
        workspace.close()


def compact(
    store: FakeStore, directory: Path, instance: str = "a", limits: RewriteLimits = LIMITS
) -> list[RewriteResult]:
    with rewriter(store, directory, instance, limits) as compacting:
        return compacting.run()


def keys(store: FakeStore) -> list[str]:
    return [key for key in sorted(store.objects) if "/_rewrites/" not in key]


def typed(name: str, **settings: Any) -> tuple[LogFormat, list[pa.RecordBatch]]:
    batches = [
        rows_of(
            [{"a": at, "b": f"text {at}", "c": [{"d": at / 4}]} for at in range(first, first + 3)],
            first,
        )
        for first in (0, 3, 6)
    ]
    return fitting(make_format(name, **settings), *batches), batches


def whole(name: str, **settings: Any) -> tuple[LogFormat, list[pa.RecordBatch]]:
    return make_format(name, **settings), [
        messages([*range(first, first + 3)]) for first in (0, 3, 6)
    ]


def read_parquet(data: bytes) -> list[Any]:
    return pq.read_table(io.BytesIO(data)).to_pylist()


def read_orc(data: bytes) -> list[Any]:
    return orc.read_table(io.BytesIO(data)).to_pylist()


def read_avro(data: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(data)))


def read_gzip(data: bytes) -> list[Any]:
    return gzip.decompress(data).splitlines()


def read_messages(data: bytes) -> list[Any]:
    read = make_format("sequencefile").read(io.BytesIO(data), "object")
    return [row for records in read for row in records.to_pylist()]


FORMATS = {
    "sequencefile": (partial(whole, "sequencefile"), read_messages),
    "sequencefile legacy": (partial(whole, "sequencefile", keys="legacy"), read_messages),
    "sequencefile gzip": (partial(whole, "sequencefile", codec="gzip"), read_messages),
    "parquet": (partial(whole, "parquet"), read_parquet),
    "text": (partial(whole, "text", codec="gzip"), read_gzip),
    "typed parquet": (
        partial(typed, "typed-parquet", codec="snappy", metadata_columns=("_offset",)),
        read_parquet,
    ),
    "orc": (partial(typed, "orc"), read_orc),
    "avro": (partial(typed, "avro"), read_avro),
    "json lines": (partial(typed, "jsonlines", codec="gzip"), read_gzip),
}


@pytest.mark.parametrize(("make", "read"), FORMATS.values(), ids=list(FORMATS))
def test_other_readers_find_the_same_rows(
    make: Callable[[], tuple[LogFormat, list[pa.RecordBatch]]],
    read: Callable[[bytes], list[Any]],
    tmp_path: Path,
) -> None:
    store = FakeStore()
    log_format, batches = make()
    before: list[Any] = []
    for records in batches:
        first = records.column("offset")[0].as_py()
        key = put(store, log_format, records, OffsetRange(first, first + 3))
        before += read(store.content(key))
    newest = put(store, log_format, batches[0], OffsetRange(9, 12))
    (outcome,) = compact(store, tmp_path)
    assert not outcome.failed
    joined = f"p/clicks/offset=0/1_0_{0:020d}.rewrite-1-to-9{log_format.extension}"
    assert keys(store) == [joined, newest]
    assert read(store.content(joined)) == before
    assert compact(store, tmp_path) == []
    if log_format.extension == ".parquet":
        names = [column.name for column in pq.ParquetFile(io.BytesIO(store.content(joined))).schema]
        assert names == [
            column.name for column in pq.ParquetFile(io.BytesIO(store.content(newest))).schema
        ]


def read_zstd(data: bytes) -> list[Any]:
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read().splitlines()


def codec_in(extension: str, data: bytes) -> str:
    """Return the codec of a file as a library that is not ours names it."""
    match extension:
        case ".parquet":
            return str(pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).compression)
        case ".orc":
            return str(orc.ORCFile(io.BytesIO(data)).compression)
        case ".avro":
            return str(fastavro.reader(io.BytesIO(data)).codec)
        case ".seq":
            return next(name for name in ("ZStandard", "Gzip", "") if name.encode() in data[:200])
    return extension.rpartition(".")[2]


CONVERSIONS = {
    "sequencefile to zstd": ("sequencefile gzip", Target(codec="zstd"), ".seq", "ZStandard"),
    "sequencefile to parquet": (
        "sequencefile gzip",
        Target("parquet", "gzip"),
        ".parquet",
        "GZIP",
    ),
    "parquet to sequencefile": ("parquet", Target("sequencefile", "gzip"), ".seq", "Gzip"),
    "parquet to snappy": ("parquet", Target(codec="snappy"), ".parquet", "SNAPPY"),
    "text to zstd": ("text", Target(codec="zstd"), ".txt.zst", "zst"),
    "typed parquet to zstd": ("typed parquet", Target(codec="zstd"), ".parquet", "ZSTD"),
    "orc to snappy": ("orc", Target(codec="snappy"), ".orc", "SNAPPY"),
    "avro to snappy": ("avro", Target(codec="snappy"), ".avro", "snappy"),
    "json lines to zstd": ("json lines", Target(codec="zstd"), ".json.zst", "zst"),
}
OTHER_READERS = {".seq": read_messages, ".parquet": read_parquet}


def rows_in_order(found: list[Any]) -> list[Any]:
    """Return rows with headers in one form: libraries give pairs or dictionaries."""
    return [
        {**row, "headers": [dict(header) for header in row["headers"] or ()]}
        if isinstance(row, dict) and "headers" in row
        else row
        for row in found
    ]


@pytest.mark.parametrize(
    ("name", "target", "extension", "codec"), CONVERSIONS.values(), ids=list(CONVERSIONS)
)
def test_another_format_or_codec_has_the_same_rows(
    name: str, target: Target, extension: str, codec: str, tmp_path: Path
) -> None:
    make, read = FORMATS[name]
    store = FakeStore()
    log_format, batches = make()
    before: list[Any] = []
    for records in batches:
        first = records.column("offset")[0].as_py()
        key = put(store, log_format, records, OffsetRange(first, first + 3))
        before += read(store.content(key))
    put(store, log_format, batches[0], OffsetRange(9, 12))
    (outcome,) = compact(store, tmp_path, limits=replace(LIMITS, target=target))
    assert not outcome.failed
    new = f"p/clicks/offset=0/1_0_{0:020d}.rewrite-1-to-9{extension}"
    assert new in keys(store)
    data = store.content(new)
    read_new = read_zstd if codec == "zst" else OTHER_READERS.get(extension, read)
    assert rows_in_order(read_new(data)) == rows_in_order(before)
    assert codec_in(extension, data) == codec
    assert outcome.plan.version == 3
    assert compact(store, tmp_path, limits=replace(LIMITS, target=target)) == []


LINES = make_format("text", codec="gzip", null_values="skip")


def lines_of(store: FakeStore, values: list[bytes | None], left_out: int | None, *ends: int) -> str:
    """Put objects of text that end at ``ends``, and a newest one; return the first one's key."""
    log = messages([*range(len(values))], lambda offset: values[offset])
    keys = []
    for start, end in pairwise([0, *ends]):
        batch = OffsetRange(start, end)
        keys.append(put(store, LINES, log.slice(start, end - start), batch, left_out=left_out))
    put(store, LINES, messages([99]), OffsetRange(99, 100))
    return keys[0]


def test_lines_of_text_become_messages_whose_offsets_are_known(tmp_path: Path) -> None:
    store = FakeStore()
    values: list[bytes | None] = [b"a", b"", b"c", b"d d", b"\xff", b"f"]
    lines_of(store, values, 0, 2, 3, 6)
    to_parquet = replace(LIMITS, target=Target("parquet", "gzip"))
    (outcome,) = compact(store, tmp_path, limits=to_parquet)
    assert (outcome.failed, len(outcome.done)) == ([], 1)
    data = store.content(f"p/clicks/offset=0/1_0_{0:020d}.rewrite-1-to-6.parquet")
    rows = read_parquet(data)
    assert [row["offset"] for row in rows] == [*range(6)]
    assert [row["value"] for row in rows] == values
    assert {row[name] for row in rows for name in ("key", "timestamp", "timestamp_type")} == {None}
    assert codec_in(".parquet", data) == "GZIP"
    log = MemoryLog()
    log.put(CLICKS, messages([*range(6)], lambda offset: values[offset]), 6)
    for key in [key for key in store.objects if "00099" in key]:
        store.delete(key)
    verifier = Verifier(Archive(store, "p"), log, OperatorLedger({CLICKS: Entry(6)}))
    (report,) = verifier.verify("clicks", [0])
    assert (report.compared, report.values_only, report.findings) == (6, 6, [])


@pytest.mark.parametrize(
    ("values", "left_out", "why"),
    [
        ([b"a", b"b", b"c"], None, "some without a value may be left out"),
        ([b"a", None, b"c"], 1, "some without a value may be left out"),
        # As many lines as offsets: one is left out, and one is two lines.
        ([b"a", None, b"c\nc"], 1, "some without a value may be left out"),
        ([b"a", b"b\nb", b"c"], 0, "hold 4 messages, and their metadata says 3"),
    ],
)
def test_lines_of_text_with_unknown_offsets_stay_text(
    values: list[bytes | None], left_out: int | None, why: str, tmp_path: Path
) -> None:
    store = FakeStore()
    lines_of(store, values, left_out, 3)
    before = {key: store.content(key) for key in keys(store)}
    (outcome,) = compact(store, tmp_path, limits=replace(LIMITS, target=Target("parquet")))
    [failed] = outcome.failed
    assert why in failed.why
    assert {key: store.content(key) for key in keys(store)} == before


def test_lines_of_text_with_a_hole_or_in_two_places_stay_text(tmp_path: Path) -> None:
    for places in (["dt=1"], ["dt=1", "dt=2"]):
        store = FakeStore()
        for place in places:
            put(store, LINES, messages([0, 2]), OffsetRange(0, 3), place, left_out=0)
        put(store, LINES, messages([99]), OffsetRange(99, 100))
        (outcome,) = compact(store, tmp_path, limits=replace(LIMITS, target=Target("parquet")))
        [failed] = outcome.failed
        assert "2 messages are in it of the offsets [0, 3)" in failed.why


def test_large_objects_get_another_format_one_by_one(tmp_path: Path) -> None:
    store = FakeStore()
    for first in (0, 3, 6):
        put(
            store,
            make_format("parquet"),
            messages([*range(first, first + 3)]),
            OffsetRange(first, first + 3),
        )
    expected = offsets_read(store)
    limits = replace(LIMITS, target_size=1, target=Target("sequencefile"))
    (outcome,) = compact(store, tmp_path, limits=limits)
    assert [(part.start, part.end) for part in outcome.done] == [(0, 3), (3, 6)]
    assert [key.rpartition(".")[2] for key in keys(store)] == ["seq", "seq", "parquet"]
    assert offsets_read(store) == expected


def test_what_cannot_have_a_format_or_codec_stays_as_it_is(tmp_path: Path) -> None:
    for name, target in (
        ("text", Target("sequencefile")),
        ("orc", Target("sequencefile")),
        ("typed parquet", Target("sequencefile")),
        ("avro", Target(codec="lz4")),
    ):
        store = FakeStore()
        log_format, batches = FORMATS[name][0]()
        for records in batches:
            first = records.column("offset")[0].as_py()
            put(store, log_format, records, OffsetRange(first, first + 3))
        before = keys(store)
        (outcome,) = compact(store, tmp_path, limits=replace(LIMITS, target=target))
        assert len(outcome.failed) == 1
        assert keys(store) == before


def test_a_range_of_several_output_partitions_is_joined_as_one(tmp_path: Path) -> None:
    store = FakeStore()
    small_archive(store)
    before = offsets_read(store)
    (outcome,) = compact(store, tmp_path)
    assert [(part.start, part.end, len(part.objects)) for part in outcome.done] == [(0, 20, 2)]
    assert len(keys(store)) == 3
    assert offsets_read(store) == before
    archived = next(Archive(store, "p").objects("clicks", with_info=True))
    assert archived.info is not None
    assert (archived.info.records, archived.info.batch) == (10, OffsetRange(0, 20))


def test_a_crash_at_any_step_is_finished_by_the_next_run(tmp_path: Path) -> None:
    for step in range(STEPS):
        store = FakeStore()
        small_archive(store)
        expected = offsets_read(store)
        calls = 0

        def crash(call: str, key: str, step: int = step) -> None:
            nonlocal calls
            calls += call in ("put", "delete")  # the others leave nothing behind
            if calls > step:
                raise Unavailable("the process is killed")

        store.before = crash
        crashed = False
        try:
            compact(store, tmp_path)
        except Unavailable:
            crashed = True
        store.before = nothing
        assert offsets_read(store) == expected
        compact(store, tmp_path)
        assert offsets_read(store) == expected
        assert len(keys(store)) == 3
        if not crashed:
            return
    raise AssertionError("more steps than expected")


def test_late_puts_of_objects_that_were_joined_go_again(tmp_path: Path) -> None:
    store = FakeStore()
    small_archive(store)
    old = dict(store.objects)
    compact(store, tmp_path)
    after = keys(store)
    store.objects |= old  # puts of a process that had slept
    assert len(keys(store)) == 7
    assert compact(store, tmp_path) == []
    assert keys(store) == after


def test_what_another_run_is_about_to_delete_is_left_to_it(tmp_path: Path) -> None:
    store = FakeStore()
    small_archive(store)
    expected = offsets_read(store)
    inside: list[list[str]] = []

    def other(call: str, key: str) -> None:
        # All new objects are there, and the hashes of the old ones are not recorded yet.
        if call == "put" and "/chain/" in key and not inside:
            inside.append([])
            compact(store, tmp_path, "b", replace(LIMITS, before=0.0))
            inside[0] += keys(store)

    store.before = other
    compact(store, tmp_path)
    store.before = nothing
    assert inside
    assert [key for key in store.objects if "/chain/" in key]
    assert offsets_read(store) == expected
    assert len(keys(store)) == 3


def test_a_second_run_at_any_step_does_the_same(tmp_path: Path) -> None:
    for step in range(0, STEPS, 2):
        store = FakeStore()
        small_archive(store)
        expected = offsets_read(store)
        calls = 0
        read_meanwhile: list[list[int]] = []

        def other(
            call: str,
            key: str,
            step: int = step,
            store: FakeStore = store,
            told: list[list[int]] = read_meanwhile,
        ) -> None:
            nonlocal calls
            calls += 1
            if calls == step + 1:
                store.before = nothing
                compact(store, tmp_path, "b")
                told.append(offsets_read(store))

        store.before = other
        compact(store, tmp_path)
        store.before = nothing
        assert [*read_meanwhile, offsets_read(store)] == [expected] * (len(read_meanwhile) + 1)
        assert len(keys(store)) == 3
        if calls <= step:
            return
    raise AssertionError("more steps than expected")


def test_runs_with_other_limits_carry_out_one_plan(tmp_path: Path) -> None:
    store = FakeStore()
    log_format = make_format("sequencefile")
    for start in range(0, 60, 10):
        put(store, log_format, messages([start]), OffsetRange(start, start + 10))
    size = max(stored.size for stored in store.list("p/clicks/"))

    def die(call: str, key: str) -> None:
        if call == "put" and "rewrite-1-to-20" not in key and "_rewrites" not in key:
            raise Unavailable("the process is killed")

    def other(call: str, key: str) -> None:
        if call == "put":
            store.before = die
            with rewriter(store, tmp_path, "b") as second, pytest.raises(Unavailable):
                replace(second, choose=joining(RewriteLimits(100.0, 2 * size + 1))).run()
            store.before = nothing

    store.before = other
    (outcome,) = compact(store, tmp_path)
    assert [(part.start, part.end) for part in outcome.done] == [(0, 20), (20, 40)]
    assert offsets_read(store) == [*range(0, 60, 10)]


def test_a_backfill_that_may_be_rolled_back_is_left_alone(tmp_path: Path) -> None:
    store = FakeStore()
    small_archive(store)
    journal = "p/_backfill/abc/_journal/"
    store.put(f"{journal}begun.json", b"{}", crc32c(b"{}"), {})
    with pytest.raises(ConfigurationError, match="backfill abc is being published"):
        compact(store, tmp_path)
    store.put(f"{journal}done.json", b"{}", crc32c(b"{}"), {})
    made = store.objects["p/clicks/dt=1/1_0_00000000000000000000.seq"]
    made.metadata["backfill"] = "abc"
    assert compact(store, tmp_path) == []
    store.put(f"{journal}cleaned.json", b"{}", crc32c(b"{}"), {})
    assert len(compact(store, tmp_path)) == 1


def test_a_put_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    store = FakeStore()
    small_archive(store)
    expected = offsets_read(store)
    (outcome,) = compact(store, tmp_path)
    late = [(new, store.objects[new.key]) for new in outcome.done[0].objects]
    log_format = make_format("sequencefile")
    for start in range(30, 60, 10):
        put(store, log_format, messages([start]), OffsetRange(start, start + 10), "dt=1")
    (outcome,) = compact(store, tmp_path)
    assert outcome.done[0].end == 50
    expected = sorted([*expected, 30, 40, 50])
    assert offsets_read(store) == expected
    for new, stored in late:
        store.objects[new.key] = stored
    assert offsets_read(store) == expected


def test_damage_leaves_a_range_as_it_is(tmp_path: Path) -> None:
    store = FakeStore()
    small_archive(store)
    before = keys(store)
    damaged = before[0]
    content = store.objects[damaged].content
    store.objects[damaged] = replace(store.objects[damaged], content=content[:-5])
    (outcome,) = compact(store, tmp_path)
    assert not outcome.done
    assert damaged in outcome.failed[0].why
    assert keys(store) == before


def test_metadata_that_tells_another_number_leaves_a_range_as_it_is(tmp_path: Path) -> None:
    store = FakeStore()
    log_format = make_format("sequencefile")
    for start in range(0, 40, 10):
        put(store, log_format, messages([start]), OffsetRange(start, start + 10), told=2)
    (outcome,) = compact(store, tmp_path)
    assert "see secor verify" in outcome.failed[0].why
    assert len(keys(store)) == 4


def archived(start: int, end: int | None = None, **changes: Any) -> ArchivedObject:
    place = changes.pop("place", "offset=0")
    extension = changes.pop("extension", ".seq")
    size, modified = changes.pop("size", 10), changes.pop("modified", 0.0)
    batch = OffsetRange(start, start + 10 if end is None else end)
    info = replace(ObjectInfo(CLICKS, batch, start, 1, 1, "f"), **changes)
    name = ObjectName("p/clicks", place, info.generation, 0, start, extension)
    return ArchivedObject("clicks", name, size, modified, info)


def planned(*objects: ArchivedObject, quarantined: tuple[ArchivedObject, ...] = ()) -> list[Any]:
    plan = plan_of("clicks", objects, quarantined, RewriteLimits(100.0, 100))
    return [(part.start, part.end) for part in plan.ranges]


ROW = [archived(start) for start in range(0, 60, 10)]


def test_the_newest_batch_stays() -> None:
    assert planned(*ROW) == [(0, 50)]
    assert planned(*ROW[:2]) == []


@pytest.mark.parametrize(
    "other",
    [
        archived(20, fingerprint="g"),
        archived(20, topic_id="another"),
        archived(20, modified=100.0),
        archived(20, size=50),
        archived(20, extension=".replayed-3.seq"),
        archived(20, extension=".bin"),
        replace(archived(20), info=None),
        replace(archived(20), fault="damaged"),
    ],
    ids=["settings", "topic", "young", "large", "replayed", "format", "foreign", "fault"],
)
def test_neighbours_are_not_joined_across(other: ArchivedObject) -> None:
    assert planned(*ROW[:2], other, *ROW[3:]) == [(0, 20), (30, 50)]


def test_neighbours_are_not_joined_across_a_hole_another_generation_or_an_overlap() -> None:
    assert planned(*ROW[:2], *ROW[3:]) == [(0, 20), (30, 50)]
    assert planned(*ROW[:3], *(archived(at, generation=2) for at in range(30, 60, 10))) == [
        (0, 20),
        (30, 50),
    ]
    assert planned(*ROW, archived(25, 35)) == [(0, 20)]


def test_what_is_in_quarantine_waits() -> None:
    assert planned(*ROW, quarantined=(archived(20),)) == [(0, 20), (30, 50)]


def test_new_objects_have_at_most_the_target_size() -> None:
    assert planned(*(archived(at, size=40) for at in range(0, 70, 10))) == [
        (0, 20),
        (20, 40),
        (40, 60),
    ]


def test_an_archive_that_would_not_get_fewer_objects_stays() -> None:
    spread = [archived(at, place=f"dt={at}") for at in range(0, 60, 10)]
    assert planned(*spread) == []


def test_what_was_joined_by_the_hour_is_not_written_again() -> None:
    hours = [f"hr={hour:02}" for hour in range(8)]
    yesterday = [archived(0, 100, place=hour) for hour in hours[:4]]
    today = [archived(start, place=hour) for start in range(100, 150, 10) for hour in hours[3:5]]
    newest = [archived(150, place=hours[4])]
    assert planned(*yesterday, *today, *newest) == [(100, 150)]


def test_a_large_object_is_not_written_again_for_a_small_one() -> None:
    large, newest = archived(0, size=40), archived(30)
    assert planned(large, archived(10), newest) == []
    assert planned(large, archived(10, size=9), archived(20, size=9), newest) == [(10, 30)]
    assert planned(large, archived(10), archived(20), newest) == [(0, 30)]
