"""Which objects of a listing are read: those whose range was not rewritten."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from secor.archive.objects import Archive, ArchivedObject, visible
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import ObjectName, parse_key
from secor.core.object_info import ObjectInfo
from tests.fakes.store import FakeStore

ROOT = "p/clicks"
OLD = ["dt=1/1_0_00000000000000000000.seq", "dt=1/1_0_00000000000000000100.seq"]
NEXT = "dt=1/1_0_00000000000000000200.seq"
NEW = "dt=1/1_0_00000000000000000000.rewrite-1-to-200.seq"
ELSEWHERE = "dt=2/1_0_00000000000000000100.seq"
NEW_ELSEWHERE = "dt=2/1_0_00000000000000000000.rewrite-1-to-200.seq"


def read(*keys: str) -> list[str]:
    listed = []
    for key in sorted(keys):
        name = parse_key(ROOT, f"{ROOT}/{key}")
        assert name is not None
        listed.append(ArchivedObject("clicks", name, 1, 0.0))
    return [archived.key.removeprefix(f"{ROOT}/") for archived in visible(listed)]


def test_a_rewritten_name_gives_back_its_key() -> None:
    name = ObjectName(ROOT, "dt=1", 1, 0, 7, ".txt.gz", 2, 900)
    assert name.key == f"{ROOT}/dt=1/1_0_00000000000000000007.rewrite-2-to-900.txt.gz"
    assert parse_key(ROOT, name.key) == name
    for wrong in (".rewrite-0-to-9.seq", ".rewrite-1-to-09.seq", ".rewrite-1.seq"):
        parsed = parse_key(ROOT, f"{ROOT}/1_0_00000000000000000007{wrong}")
        assert parsed is not None
        assert parsed.end is None


def test_what_begins_in_a_rewritten_range_is_not_read() -> None:
    assert read(*OLD, NEW, NEXT) == [NEW, NEXT]


def test_a_later_rewrite_replaces_an_earlier_one() -> None:
    later = NEW.replace("rewrite-1", "rewrite-2")
    wider = NEW.replace("rewrite-1-to-200", "rewrite-2-to-300")
    assert read(*OLD, NEW, later, NEXT) == [later, NEXT]
    assert read(*OLD, NEW, wider, NEXT) == [wider]


def test_a_range_counts_when_each_of_its_places_has_a_new_object() -> None:
    assert read(*OLD, ELSEWHERE, NEW) == [*OLD, ELSEWHERE]
    assert read(*OLD, ELSEWHERE, NEW, NEW_ELSEWHERE) == [NEW, NEW_ELSEWHERE]
    assert read(OLD[1], NEW, NEW_ELSEWHERE) == [NEW, NEW_ELSEWHERE]


@pytest.mark.parametrize(
    "other",
    [
        "dt=1/2_0_00000000000000000100.seq",
        "dt=1/1_1_00000000000000000100.seq",
        "dt=1/1_0_00000000000000000100.replayed-120.seq",
        "from=views/dt=1/1_0_00000000000000000100.seq",
    ],
    ids=["generation", "partition", "replayed", "topic"],
)
def test_other_objects_are_read(other: str) -> None:
    assert read(*OLD, NEW, other) == sorted([NEW, other])


def put(store: FakeStore, key: str, topic: str = "clicks") -> None:
    name = parse_key(key.partition("/dt")[0].partition("/from")[0], key)
    assert name is not None
    end = name.end or name.start_offset + 100
    batch = OffsetRange(name.start_offset, end)
    info = ObjectInfo(TopicPartition(topic, 0), batch, batch.start, 1, 1, "f" * 16)
    store.put(key, b"x", crc32c(b"x"), info.metadata())


def test_all_places_of_a_topic_count_also_those_of_routes() -> None:
    store = FakeStore()
    here = [f"{ROOT}/{key}" for key in (*OLD, NEW)]
    there = "p/views/from=clicks/dt=1/1_0_00000000000000000100.seq"
    for key in (*here, there):
        put(store, key)
    archive = Archive(store, "p", targets=("views",))

    def keys(*, superseded: bool = False) -> list[str]:
        stored = archive.everything("clicks", superseded=superseded)
        return [archived.key for archived in stored]

    assert keys() == [*sorted(here[:2]), there]
    new_there = there.replace("100.seq", "000.rewrite-1-to-200.seq")
    put(store, new_there)
    assert keys() == [here[2], new_there]
    assert sorted(keys(superseded=True)) == sorted([*here, there, new_there])


def test_metadata_must_tell_the_range_that_the_name_tells() -> None:
    store = FakeStore()
    key = f"{ROOT}/{NEW}"
    info = ObjectInfo(TopicPartition("clicks", 0), OffsetRange(0, 300), 0, 1, 1, "f" * 16)
    store.put(key, b"x", crc32c(b"x"), info.metadata())
    (archived,) = Archive(store, "p").objects("clicks", with_info=True)
    assert archived.fault is not None
    assert archived.info is None
