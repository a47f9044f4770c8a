"""What a Spark task reads, and what a stream gives when, without Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.adapters.local import DirectoryStore
from secor.archive.erasures import ErasedLog, Secret, agree, erasure_of, read_erasures
from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import ConfigurationError, CorruptFile, NotFound, ObjectConflict
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from secor.spark import cursor as cursors
from secor.spark.columns import COLUMNS, as_timestamps
from secor.spark.options import Selection, parse_options
from secor.spark.planning import listed, plan
from secor.spark.reading import gathered, read_tasks
from secor.spark.source import ObjectStream
from tests.fakes.archive import Shelf, messages

ORDERS = TopicPartition("orders", 1)


# ------------------------------------------------------------------ reading


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "store", make_format("sequencefile"), prefix="")


def read(shelf: Shelf, **given: str) -> list[dict[str, Any]]:
    asked = parse_options({"path": str(shelf.directory), **given})
    tasks = plan(Archive(shelf.store, ""), asked)
    again = pickle.loads(pickle.dumps(tasks))  # noqa: S301  # as Spark does
    return [row for batch in read_tasks(asked, again) for row in batch.to_pylist()]


def test_messages_come_with_where_they_are_from(shelf: Shelf) -> None:
    rows = messages(range(3, 8))
    key = shelf.put(rows, OffsetRange(0, 8))
    found = read(shelf)
    assert [one["offset"] for one in found] == [3, 4, 5, 6, 7]
    assert found[2]["headers"] == [{"key": "h", "value": b"5"}]
    assert found[0]["timestamp"].isoformat() == "2023-11-14T22:13:20.003000+00:00"
    assert {one["object"] for one in found} == {key}
    assert list(found[0]) == [name for name in COLUMNS if name != "error"]
    assert read(shelf, columns="value,partition") == [
        {"value": b"payload %d" % at, "partition": 0} for at in range(3, 8)
    ]


def test_what_is_erased_is_left_out_also_of_objects_that_came_back(shelf: Shelf) -> None:
    rows = messages(range(10))
    shelf.put(rows, OffsetRange(0, 10))
    secret = Secret(b"the secret of the group")
    logs = [ErasedLog(0, 1, None, 8)]
    erasure = erasure_of("clicks", secret, [None], logs, tombstones=False, at="", by="")
    agree(shelf.store, read_erasures(shelf.store, "clicks", secret), erasure)
    found = read(shelf, eraseSecret="the secret of the group")
    assert [row["offset"] for row in found] == [1, 2, 4, 5, 7, 8, 9]
    for given in ({}, {"eraseSecret": "another secret, by mistake"}):
        with pytest.raises(ConfigurationError, match="eraseSecret for Spark"):
            read(shelf, **given)


def test_ranges_choose_messages_and_metadata_choose_objects(shelf: Shelf) -> None:
    start = 1_700_000_000_000
    for first in range(0, 40, 10):
        shelf.put(
            messages(range(first, first + 10)),
            OffsetRange(first, first + 10),
            least_timestamp=start + first,
            greatest_timestamp=start + first + 9,
        )
    late = {"startingTimestamp": str(start + 25)}
    assert [one["offset"] for one in read(shelf, **late)] == list(range(25, 40))
    assert [one["offset"] for one in read(shelf, startingOffset="8", endingOffset="12")] == [
        8,
        9,
        10,
        11,
    ]
    asked = parse_options({"path": str(shelf.directory), **late})
    [task] = plan(Archive(shelf.store, ""), asked)
    assert [piece.archived.name.start_offset for piece in task.pieces] == [20, 30]


def test_text_gives_a_range_only_where_metadata_say_enough(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "store", make_format("text"), prefix="")
    shelf.put(messages(range(10)), OffsetRange(0, 10))
    shelf.put(messages(range(10, 20)), OffsetRange(10, 20))
    whole = read(shelf, startingOffset="10", endingOffset="20")
    assert [one["value"] for one in whole] == [b"payload %d" % at for at in range(10, 20)]
    assert whole[0]["offset"] is None
    with pytest.raises(ConfigurationError, match="does not record the offset"):
        read(shelf, startingOffset="11")
    with pytest.raises(ConfigurationError, match="does not record the timestamp"):
        read(shelf, startingTimestamp="0")


def test_a_corrupt_object_fails_the_read_or_is_left_out_and_told(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.put(messages(range(10)), OffsetRange(0, 10))
    broken = shelf.put(messages(range(10, 5000)), OffsetRange(10, 5000))
    shelf.change(broken, lambda data: data[:-3])
    with pytest.raises(CorruptFile, match=rf"{broken}: at byte .*corruptObjects=skip"):
        read(shelf)
    assert [one["offset"] for one in read(shelf, corruptObjects="skip")] == list(range(10))
    assert broken in caplog.text
    told = read(shelf, corruptObjects="skip", columns="offset,object,error")
    [fault] = [one for one in told if one["error"]]
    assert fault["object"] == broken
    assert "cut short" in fault["error"]
    assert len(told) == 11


def test_an_object_that_goes_away_after_planning_is_named(shelf: Shelf) -> None:
    key = shelf.put(messages(range(10)), OffsetRange(0, 10))
    asked = parse_options({"path": str(shelf.directory), "corruptObjects": "skip"})
    tasks = plan(Archive(shelf.store, ""), asked)
    shelf.store.delete(key)
    with pytest.raises(NotFound, match=f"{key} is gone since this read was planned"):
        list(read_tasks(asked, tasks))


def test_small_batches_are_put_together() -> None:
    batches = [messages(range(at, at + 1000)) for at in range(0, 40_000, 1000)]
    sizes = [one.num_rows for one in gathered([messages([]), *batches])]
    assert sum(sizes) == 40_000
    assert sizes == [16_000, 16_000, 8000]
    assert list(gathered([])) == []


def test_a_timestamp_that_spark_cannot_hold_is_null() -> None:
    most = (1 << 63) - 1
    column = as_timestamps(pa.array([None, -1, 0, most, -most], pa.int64()))
    assert column.cast(pa.int64()).to_pylist() == [None, -1000, 0, None, None]


# ------------------------------------------------------------------- cursor


def stream(shelf: Shelf, **given: str) -> ObjectStream:
    return ObjectStream(parse_options({"path": str(shelf.directory), **given}))


def put(shelf: Shelf, start: int, end: int, first: int, place: str = "offset=0") -> str:
    rows = messages(range(first, end))
    return shelf.put(rows, OffsetRange(start, end), output_partition=place)


def keys(objects: Sequence[ArchivedObject]) -> set[str]:
    return {one.key for one in objects}


def test_a_stream_gives_each_object_once_also_of_a_batch_still_being_stored(shelf: Shelf) -> None:
    begun = stream(shelf)
    old = put(shelf, 0, 10, 0)
    high = put(shelf, 10, 30, 20, "offset=20")
    first = begun.latest()
    assert keys(begun.between({}, first)) == {old, high}
    low = put(shelf, 10, 30, 10)
    second = begun.latest()
    assert keys(begun.between(first, second)) == {low}
    position = {"settled": 10, "open": sorted([low, high]), "reached": 30}
    assert second["clicks"]["1_0"] == position
    newest = put(shelf, 30, 40, 30, "offset=20")
    third = begun.latest()
    assert keys(begun.between(second, third)) == {newest}
    assert begun.latest() == third


def test_a_batch_of_the_stream_is_the_same_when_it_is_planned_again(shelf: Shelf) -> None:
    put(shelf, 0, 10, 0)
    begun = stream(shelf)
    first = begun.latest()
    expected = keys(begun.between({}, first))
    put(shelf, 10, 20, 10)
    shelf.put(messages([0, 1]), OffsetRange(0, 2), topic_partition=ORDERS)
    restarted = stream(shelf)
    assert keys(restarted.between({}, json.loads(json.dumps(first)))) == expected
    assert len(restarted.between(first, restarted.latest())) == 2


def test_only_committed_batches_wait_for_the_next_one(shelf: Shelf) -> None:
    old = put(shelf, 0, 10, 0)
    begun = stream(shelf, onlyCommitted="true")
    first = begun.latest()
    assert begun.between({}, first) == []
    newer = put(shelf, 10, 20, 10)
    second = begun.latest()
    assert keys(begun.between(first, second)) == {old}
    put(shelf, 20, 30, 20)
    assert keys(begun.between(second, begun.latest())) == {newer}


def test_a_cursor_never_goes_back_when_objects_are_deleted(shelf: Shelf) -> None:
    old, newer = put(shelf, 0, 10, 0), put(shelf, 10, 20, 10)
    begun = stream(shelf)
    first = begun.latest()
    shelf.store.delete(newer)
    assert begun.latest() == first
    shelf.store.delete(old)
    assert begun.latest() == first
    newest = put(shelf, 20, 30, 20)
    assert keys(begun.between(first, begun.latest())) == {newest}


def test_an_object_that_was_replaced_after_it_was_given_stops_the_stream(shelf: Shelf) -> None:
    given = put(shelf, 0, 20, 0)
    begun = stream(shelf)
    first = begun.latest()
    shelf.store.delete(given)
    shelf.log_format = make_format("parquet")
    put(shelf, 0, 20, 0)
    with pytest.raises(ObjectConflict, match=f"{given} was given to this stream and is replaced"):
        begun.between(first, begun.latest())


def test_objects_without_metadata_begin_their_own_batches(tmp_path: Path) -> None:
    vectors = Path(__file__).parents[2] / "vectors/java-secor/s3/seq_default"
    begun = ObjectStream(parse_options({"path": str(vectors)}))
    latest = begun.latest()
    assert latest["c_raw"]["1_1"]["settled"] == 20
    assert len(begun.between({}, latest)) == 6
    store = DirectoryStore(vectors)
    objects = list(listed(Archive(store, ""), Selection()))
    assert len(cursors.between(objects, latest, latest)) == 0
