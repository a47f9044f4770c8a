from __future__ import annotations

import os
from pathlib import Path

import crc32c
import pytest

from secor.adapters import local
from secor.adapters.local import DirectoryStore
from secor.core.errors import AlreadyExists, NotFound, OutcomeUnknown, StopPartition


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return path


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "bucket")


CRC = crc32c.crc32c(b"content")


@pytest.mark.parametrize(
    "key",
    ["", "/a", "a/", "a//b", "../a", "a/../b", "a/..", ".", "a/.", "a\0b", ".secor/lock",
     "a/.b.metadata"],
)  # fmt: skip
def test_a_key_that_leaves_the_directory_or_meets_its_own_files_is_refused(
    store: DirectoryStore, file: Path, tmp_path: Path, key: str
) -> None:
    with pytest.raises(StopPartition, match="cannot be the key"):
        store.put(key, file, CRC, {})
    with pytest.raises(StopPartition, match="cannot be the key"):
        store.open(key)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize("keys", [("a", "a/b"), ("a/b", "a")])
def test_a_key_that_begins_another_is_refused(
    store: DirectoryStore, file: Path, keys: tuple[str, str]
) -> None:
    store.put(keys[0], file, CRC, {})
    with pytest.raises(StopPartition, match="change the"):
        store.put(keys[1], file, CRC, {})
    with pytest.raises(NotFound):
        store.head(keys[1])
    assert [item.key for item in store.list("")] == [keys[0]]


@pytest.mark.parametrize("step", ["_write", "_make_directory", "_show", "_sync"])
def test_after_a_crash_at_any_step_a_put_can_be_repeated(
    store: DirectoryStore, file: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(local, step, crash)
        with pytest.raises(Crash):
            store.put("a/b", file, CRC, {"try": "1"})
    for item in store.list(""):
        assert store.head(item.key).metadata == {"try": "1"}
    try:
        store.put("a/b", file, CRC, {"try": "2"})
        expected = {"try": "2"}
    except AlreadyExists:
        expected = {"try": "1"}
    assert store.head("a/b").metadata == expected
    with store.open("a/b") as found:
        assert found.read() == b"content"


def test_metadata_that_a_crashed_put_left_is_replaced(
    store: DirectoryStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(local, "_show", crash)
        with pytest.raises(Crash):
            store.put("a/b", file, CRC, {"try": "1"})
    assert list(store.list("")) == []
    store.put("a/b", file, CRC, {"try": "2"})
    assert store.head("a/b").metadata == {"try": "2"}


def test_an_object_whose_directory_cannot_be_synced_may_be_there(
    store: DirectoryStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/first", file, CRC, {})

    def fail(directory: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(local, "_sync", fail)
    with pytest.raises(OutcomeUnknown, match="power cut"):
        store.put("a/second", file, CRC, {})
    assert store.head("a/second").size == len(b"content")


def test_check_makes_the_directory_and_removes_only_what_is_long_abandoned(
    store: DirectoryStore, tmp_path: Path
) -> None:
    store.check()
    old, new = (tmp_path / "bucket" / ".secor" / name for name in ("old.tmp", "new.tmp"))
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    store.check()
    assert (old.exists(), new.exists()) == (False, True)
    assert list(store.list("")) == []


def test_a_put_leaves_nothing_but_the_object_and_its_metadata(
    store: DirectoryStore, file: Path, tmp_path: Path
) -> None:
    store.put("a/b", file, CRC, {"Topic": "t"})
    files = [path for path in (tmp_path / "bucket").rglob("*") if path.is_file()]
    names = sorted(str(path.relative_to(tmp_path / "bucket")) for path in files)
    assert names == [".secor/lock", "a/.b.metadata", "a/b"]
    assert store.head("a/b").metadata == {"topic": "t"}
    file.write_bytes(b"changed")  # the object is a copy
    with store.open("a/b") as found:
        assert found.read() == b"content"


def test_a_file_that_somebody_else_put_there_is_an_object_without_metadata(
    store: DirectoryStore, file: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "bucket" / "a" / "b"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"theirs")
    assert [item.key for item in store.list("a/")] == ["a/b"]
    assert (store.head("a/b").size, store.head("a/b").metadata) == (6, {})
    with pytest.raises(AlreadyExists):
        store.put("a/b", file, CRC, {})


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"a": 1}', b"[]", b"\xff"])
def test_damaged_metadata_is_named(
    store: DirectoryStore, file: Path, tmp_path: Path, damaged: bytes
) -> None:
    store.put("a/b", file, CRC, {"topic": "t"})
    (tmp_path / "bucket" / "a" / ".b.metadata").write_bytes(damaged)
    with pytest.raises(StopPartition, match=r"a/\.b\.metadata is damaged"):
        store.head("a/b")
