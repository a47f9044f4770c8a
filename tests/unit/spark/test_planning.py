"""What Spark is asked to read: options, pruning by names, splitting."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import ConfigurationError
from secor.core.model import StoredObject, TopicPartition
from secor.core.naming import ObjectName
from secor.spark.archive_location import cloud_store, local_place, open_archive, s3_place
from secor.spark.options import ReadOptions, Selection, Span, parse_options
from secor.spark.planning import (
    OPEN_COST,
    by_offset,
    filter_names,
    listed,
    packed,
    plan,
    split,
    tasks_of,
)
from secor.spark.versions import require_spark

MIB = 1 << 20
ORDERS = TopicPartition("orders", 1)


def options(**given: str) -> ReadOptions:
    return parse_options({"path": "s3://logs/backup", **given})


def stored(
    first: int,
    size: int = 100,
    *,
    topic: str = "clicks",
    partition: int = 0,
    output_partition: str = "offset=0",
    extension: str = ".seq",
) -> ArchivedObject:
    name = ObjectName(f"backup/{topic}", output_partition, 1, partition, first, extension)
    return ArchivedObject(topic, name, size, 0.0)


def firsts(objects: Sequence[ArchivedObject]) -> list[int]:
    return [one.name.start_offset for one in objects]


# ------------------------------------------------------------------ options


def test_options_are_read_whatever_their_case() -> None:
    read = options(
        TOPICS="clicks, orders-*",
        startingoffset="5",
        endingOffset="9",
        partitions="0,2-4",
        splitSize="32MiB",
        startingTimestamp="2026-11-21T06:00:00+01:00",
        endingTimestamp="1800000000000",
        corruptObjects="skip",
        pathStyle="true",
        secretKey="s",
    )
    assert read.selection == Selection(
        topics=("clicks", "orders-*"),
        partitions=frozenset({0, 2, 3, 4}),
        offsets=Span(5, 9),
        timestamps=Span(1795237200000, 1800000000000),
    )
    assert read.split_size == 32 * MIB
    assert read.skip_corrupt
    assert read.connection == {"path_style": True, "secret_key": "s"}
    assert "secret_key" not in repr(read)


def test_a_time_without_a_zone_is_utc() -> None:
    assert options(startingTimestamp="1970-01-02").selection.timestamps.start == 86_400_000


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("startOffset", "1", "did you mean startingOffset"),
        ("paths", "[]", "one path at a time"),
        ("startingOffset", "-1", "option startingOffset '-1'"),
        ("splitSize", "0", "write bytes"),
        ("splitSize", "big", "write bytes"),
        ("partitions", "1;2", "numbers and ranges"),
        ("partitions", "0,5-2", "5-2 ends before it begins"),
        ("topics", " , ", "one name or glob"),
        ("columns", "offset,payload", "no column 'payload'"),
        ("corruptObjects", "ignore", "fail or skip"),
        ("pathStyle", "yes", "true or false"),
        ("startingTimestamp", "yesterday", "milliseconds"),
        ("minPartitions", "0", "at least 1"),
        ("textDelimiter", "", "at least one"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_write(name: str, value: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        options(**{name: value})


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="endingOffset 3 is below startingOffset 5"):
        options(startingOffset="5", endingOffset="3")


def test_a_read_without_a_path_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no path"):
        parse_options({})


def test_paths_of_buckets_and_directories_are_told_apart(tmp_path: Path) -> None:
    assert s3_place("s3a://logs/raw_logs/backup/") == ("logs", "raw_logs/backup")
    assert s3_place("s3://logs") == ("logs", "")
    assert s3_place("/data") == (None, "")
    assert local_place(f"file://{tmp_path}") == tmp_path
    with pytest.raises(ConfigurationError, match="names no bucket"):
        s3_place("s3:///backup")
    with pytest.raises(ConfigurationError, match="read from s3://bucket/prefix, gs://"):
        local_place("hdfs://name/backup")
    with pytest.raises(ConfigurationError, match="no directory"):
        local_place(str(tmp_path / "none"))


def test_paths_of_the_clouds_are_their_stores() -> None:
    def opened(path: str, **more: str) -> tuple[str, str]:
        found = cloud_store(parse_options({"path": path, **more}))
        assert found is not None
        store, prefix = found
        return store.address, prefix

    assert opened("gs://logs/raw/backup/") == ("gs://logs", "/raw/backup/")
    azure = "abfss://logs@acme.dfs.core.windows.net"
    assert opened(f"{azure}/raw", accountKey="QUFB") == (azure, "/raw")
    assert cloud_store(parse_options({"path": "s3://logs"})) is None
    with pytest.raises(ConfigurationError, match="names no bucket"):
        opened("gs:///raw")
    with pytest.raises(ConfigurationError, match="write abfss://container@account"):
        opened("abfss://logs/raw")
    with pytest.raises(ConfigurationError, match="another kind of store than gs://logs: role_arn"):
        opened("gs://logs", roleArn="arn")
    with (
        pytest.raises(ConfigurationError, match="account_key"),
        open_archive(parse_options({"path": "s3://logs", "accountKey": "hidden"})),
    ):
        pass


class OldSession:
    version = "3.5.9"


def test_an_old_spark_is_told_what_to_use_instead() -> None:
    require_spark(OldSession(), (3, 5), "read_archive")
    with pytest.raises(ConfigurationError, match=r"this is 3\.5\.9: use secor\.spark\.read_arch"):
        require_spark(OldSession(), (4, 0), "the format 'secor'")


# ------------------------------------------------------------------ pruning


def test_offsets_prune_by_names_within_each_output_partition() -> None:
    days = ("dt=1", "dt=2")
    objects = [stored(first, output_partition=day) for day in days for first in (0, 10, 20, 30)]
    kept = by_offset(objects, Span(15, 20))
    assert [(one.name.output_partition, one.name.start_offset) for one in kept] == [
        ("dt=1", 10),
        ("dt=2", 10),
    ]
    assert firsts(by_offset(objects[:4], Span(None, 20))) == [0, 10]
    assert firsts(by_offset(objects[:4], Span(20, None))) == [20, 30]


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    start=st.integers(0, 40),
    length=st.integers(1, 20),
)
@settings(deadline=None, max_examples=100, derandomize=True)
def test_no_object_that_holds_a_wanted_offset_is_pruned(
    sizes: list[int], start: int, length: int
) -> None:
    bounds = [sum(sizes[:index]) for index in range(len(sizes) + 1)]
    objects = [stored(first) for first in bounds[:-1]]
    kept = set(firsts(by_offset(objects, Span(start, start + length))))
    needed = {
        first for first, end in itertools.pairwise(bounds) if first < start + length and end > start
    }
    assert needed <= kept
    assert len(kept) <= len(needed) + 1


def test_names_choose_partitions_generations_and_output_partitions() -> None:
    objects = [
        stored(0, partition=partition, output_partition=day)
        for partition in (0, 1)
        for day in ("dt=2026-11-20/hr=01", "dt=2026-11-21/hr=02")
    ]
    chosen = filter_names(
        objects, Selection(partitions=frozenset({1}), output_partitions=("dt=2026-11-21*",))
    )
    assert [one.key for one in chosen] == [objects[3].key]
    assert filter_names(objects, Selection(generations=frozenset({2}))) == []


class CountingStore:
    """Lists keys and counts; whoever opens an object while planning fails."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = sorted(keys)
        self.prefixes: list[str] = []

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self.prefixes.append(prefix)
        for key in self.keys:
            if key.startswith(prefix):
                yield StoredObject(key, 1000, 0.0)


def listing(store: CountingStore, selection: Selection, **place: Any) -> list[str]:
    archive = Archive(store, **{"prefix": "backup", **place})  # type: ignore[arg-type]
    return [one.key for one in listed(archive, selection)]


def test_only_what_names_and_globs_need_is_listed() -> None:
    keys = [
        f"backup/{topic}/dt={day}/1_0_{0:020d}.seq"
        for topic in ("clicks", "clicks-2", "orders")
        for day in (1, 2)
    ]
    store = CountingStore([*keys, "backup/_quarantine/clicks/dt=1/1_0_" + "0" * 20, "backup/x"])
    assert listing(store, Selection()) == sorted(keys)
    assert listing(store, Selection(topics=("clicks*",))) == sorted(keys[:4])
    assert store.prefixes == ["backup/", "backup/"]
    days = ("dt=1*", "dt=1/*", "dt=2")
    assert listing(store, Selection(topics=("clicks",), output_partitions=days)) == keys[:2]
    assert store.prefixes[2:] == [
        *("backup/clicks/dt=1", "backup/clicks/dt=2"),
        "backup/clicks/_beginning/",
    ]


def test_topics_behind_a_hash_are_found() -> None:
    archive = Archive(CountingStore([]), "backup", hashed=True)  # type: ignore[arg-type]
    key = f"{archive.root('clicks')}/offset=0/1_0_{0:020d}.seq"
    store = CountingStore([key, f"0000/backup/clicks/offset=0/1_0_{0:020d}.seq"])
    assert listing(store, Selection(), hashed=True) == [key]
    assert listing(store, Selection(topics=("clicks",)), hashed=True) == [key]


def test_copies_are_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    key = f"backup/clicks/offset=0/1_0_{0:020d}.seq"
    store = CountingStore([key, f"{key}.bak", f"{key}.orig", "backup/clicks/_SUCCESS"])
    assert listing(store, Selection()) == [key]
    assert caplog.messages == [f"2 objects with names of copies not read, such as {key}.bak"]


class ManyObjects(CountingStore):
    """Small objects of 50 partitions, listed without being held."""

    def __init__(self, count: int) -> None:
        super().__init__([])
        self.count = count

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self.prefixes.append(prefix)
        for at in range(self.count):
            yield StoredObject(f"backup/clicks/offset=0/1_{at % 50}_{at:020d}.seq", 1000, 0.0)


@pytest.mark.parametrize(
    "count", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)], ids=["many", "million"]
)
def test_planning_a_million_small_objects_asks_for_none_of_them(count: int) -> None:
    store = ManyObjects(count)
    read = options(startingOffset=str(count // 2))
    before = time.process_time()
    tasks = plan(Archive(store, "backup"), read)  # type: ignore[arg-type]
    # A million takes some 10 s of CPU time, and would take days if each pair were looked at.
    assert time.process_time() - before < 120
    planned = {piece.archived.name.start_offset for task in tasks for piece in task.pieces}
    assert sum(len(task.pieces) for task in tasks) == len(planned)
    # The last object below of each of 49 partitions may hold the first offset.
    assert planned == set(range(count // 2 - 49, count))
    assert len(store.prefixes) == 1
    assert count // 1000 < len(tasks) < count // 20


def test_a_wrong_place_or_topic_is_no_empty_answer() -> None:
    archive = Archive(CountingStore([f"backup/clicks/a/1_0_{0:020d}.seq"]), "backup")  # type: ignore[arg-type]
    assert len(plan(archive, options(topics="cl*"))) == 1
    assert plan(archive, options(topics="clicks", startingOffset="5", partitions="3")) == []
    with pytest.raises(ConfigurationError, match="no objects of topic orders below s3://logs"):
        plan(archive, options(topics="clicks,orders"))
    with pytest.raises(ConfigurationError, match="give the directory that holds the topics"):
        plan(Archive(archive.store, "other"), options())


# ---------------------------------------------------------------- splitting


@given(size=st.integers(0, 10_000), target=st.integers(1, 3000))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_the_pieces_of_an_object_are_all_of_it(size: int, target: int) -> None:
    pieces = list(split(stored(0, size), target))
    assert pieces[0].start == 0
    assert pieces[-1].end == size
    assert all(one.end == two.start for one, two in itertools.pairwise(pieces))
    assert all(piece.end - piece.start <= 2 * target for piece in pieces)
    assert (len(pieces) == 1) == pieces[0].whole


@pytest.mark.parametrize("extension", [".txt", ".txt.gz", ".parquet", ".gz"])
def test_what_is_no_sequence_file_stays_whole(extension: str) -> None:
    [piece] = split(stored(0, 100 * MIB, extension=extension), MIB)
    assert piece.whole


def test_small_objects_share_a_task_and_keep_their_order() -> None:
    pieces = [piece for at in range(10) for piece in split(stored(at, MIB), 64 * MIB)]
    tasks = list(packed(pieces, 4 * MIB))
    assert [len(task.pieces) for task in tasks] == [2, 2, 2, 2, 2]
    assert [piece for task in tasks for piece in task.pieces] == pieces
    assert OPEN_COST == MIB


def test_a_read_has_about_as_many_tasks_as_asked_for() -> None:
    objects = [stored(at, 10 * MIB) for at in range(20)]
    assert len(tasks_of(objects, options(minPartitions="2"))) in range(4, 6)
    assert len(tasks_of(objects, options(minPartitions="20"))) == 20
    assert len(tasks_of(objects, options(splitSize="5MiB"))) == 40
    assert len(tasks_of(objects, options(splitSize="5MiB", corruptObjects="skip"))) == 20
