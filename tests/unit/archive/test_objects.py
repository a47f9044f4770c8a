"""Reading the archive ahead of who opens its objects."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from crc32c import crc32c

from secor.archive.objects import (
    FETCHED_AHEAD,
    HEADS_AHEAD,
    HEADS_AT_ONCE,
    MOST_FETCHED,
    Archive,
    reading_ahead,
)
from secor.core.errors import NotFound
from tests.fakes.store import FakeStore

KEYS = [f"k{at:02}" for at in range(40)]
SIZES = dict.fromkeys(KEYS, 10)
PATIENCE = 60.0
OBJECTS = [f"p/clicks/offset=0/1_0_{at:020d}.seq" for at in range(300)]


@pytest.fixture
def store(tmp_path: Path) -> FakeStore:
    made = FakeStore()
    for key in KEYS:
        path = tmp_path / key
        path.write_bytes(key.encode())
        made.put(key, path, crc32c(path.read_bytes()), {})
    return made


def read(archive: Archive, key: str) -> bytes:
    with archive.store.open(key) as file:
        return file.read()


def opened(store: FakeStore) -> list[str]:
    found: list[str] = []
    store.before = lambda call, key: found.append(key) if call == "open" else None
    return found


def test_objects_that_come_next_are_fetched_at_the_same_time(store: FakeStore) -> None:
    together = threading.Barrier(FETCHED_AHEAD)

    def meet(call: str, key: str) -> None:
        if key in KEYS[1 : 1 + FETCHED_AHEAD]:
            together.wait(PATIENCE)

    store.before = meet
    with reading_ahead(Archive(store, ""), SIZES) as archive:
        assert [read(archive, key) for key in KEYS] == [key.encode() for key in KEYS]


def test_each_object_is_fetched_once_and_a_bounded_number_ahead(store: FakeStore) -> None:
    found = opened(store)
    with reading_ahead(Archive(store, ""), SIZES) as archive:
        for at, key in enumerate(KEYS):
            read(archive, key)
            assert len(found) <= at + 1 + FETCHED_AHEAD
    assert sorted(found) == KEYS


def test_objects_may_be_passed_over_or_opened_again(store: FakeStore) -> None:
    found = opened(store)
    with reading_ahead(Archive(store, ""), SIZES) as archive:
        for key in [*KEYS[::15], *KEYS[::-1], KEYS[3], KEYS[3]]:
            assert read(archive, key) == key.encode()
        assert read(archive, KEYS[0]) == KEYS[0].encode()
    assert len(found) < 10 * len(KEYS)


def test_large_objects_are_not_fetched_as_a_whole(store: FakeStore) -> None:
    found = opened(store)
    sizes = {**SIZES, KEYS[1]: MOST_FETCHED + 1}
    with reading_ahead(Archive(store, ""), sizes) as archive:
        read(archive, KEYS[0])
    assert KEYS[1] not in found


def test_an_object_that_is_gone_is_told_to_who_opens_it(store: FakeStore) -> None:
    store.delete(KEYS[1])
    with reading_ahead(Archive(store, ""), SIZES) as archive:
        read(archive, KEYS[0])
        with pytest.raises(NotFound, match=KEYS[1]):
            archive.store.open(KEYS[1])
        assert read(archive, KEYS[2]) == KEYS[2].encode()


def test_metadata_of_several_objects_are_asked_for_at_once_and_a_bounded_number_ahead(
    tmp_path: Path,
) -> None:
    store, asked = FakeStore(), list[str]()
    path = tmp_path / "empty"
    path.write_bytes(b"")
    for key in OBJECTS:
        store.put(key, path, 0, {})
    together = threading.Barrier(HEADS_AT_ONCE)

    def before(call: str, key: str) -> None:
        if call == "head":
            asked.append(key)
            if key in OBJECTS[:HEADS_AT_ONCE]:
                together.wait(PATIENCE)

    store.before = before
    given = []
    for number, archived in enumerate(Archive(store, "p").objects("clicks", with_info=True), 1):
        given.append(archived.key)
        assert len(asked) <= number + HEADS_AHEAD
    assert given == sorted(asked) == OBJECTS
