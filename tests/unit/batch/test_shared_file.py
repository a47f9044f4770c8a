"""One file for many: slots are used again, and the disk is not filled with what nobody needs."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from secor.batch.local_file import LARGEST_SHARED, SHARE_ABOVE
from secor.batch.shared_file import SLOT, FileSlots, SharedFile
from secor.batch.workspace import Workspace
from secor.core.errors import DiskFull

_PWRITE = os.pwrite


def on_disk(path: Path) -> int:
    """Return the bytes that a file, or all files of a directory, take on disk."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(512 * file.stat().st_blocks for file in files)


def written(shared: SharedFile, size: int = SLOT) -> FileSlots:
    extent = FileSlots(shared)
    extent.write(memoryview(bytes(range(1, 256)) * (size // 255 + 1))[:size])
    return extent


def needs_room(descriptor: int, position: int, size: int) -> bool:
    """Tell whether a part of these bytes is not on disk yet."""
    try:
        return os.lseek(descriptor, position, os.SEEK_HOLE) < position + size
    except OSError:  # behind the end
        return True


def limit_disk(monkeypatch: pytest.MonkeyPatch, directory: Path, most: int) -> None:
    """Let ``directory`` be on a disk of ``most`` bytes."""

    def pwrite(descriptor: int, data: memoryview, position: int) -> int:
        if needs_room(descriptor, position, len(data)) and on_disk(directory) + len(data) > most:
            raise OSError(errno.ENOSPC, "No space left on device")
        return _PWRITE(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)


def test_threads_take_and_free_slots(tmp_path: Path) -> None:
    shared = SharedFile(tmp_path, os.open)

    def use(number: int) -> None:
        for _ in range(200):
            extent = FileSlots(shared)
            content = bytes([number]) * (SLOT + number)
            extent.write(memoryview(content))
            assert b"".join(extent.read()) == content
            extent.free()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(4)))
    assert shared.path.stat().st_size <= 8 * SLOT, "somebody's slots were lost"
    shared.close()


def test_threads_that_begin_at_once_open_one_file(tmp_path: Path) -> None:
    opened: list[int] = []
    both = threading.Barrier(2)

    def open_slowly(path: Path, flags: int) -> int:
        opened.append(os.open(path, flags))
        threading.Event().wait(0.05)
        return opened[-1]

    shared = SharedFile(tmp_path, open_slowly)

    def begin(_: int) -> int:
        both.wait(30)
        return shared.descriptor()

    with ThreadPoolExecutor(2) as threads:
        assert set(threads.map(begin, range(2))) == set(opened)
    assert len(opened) == 1
    shared.close()


def test_the_end_that_nobody_needs_is_cut_off(tmp_path: Path) -> None:
    shared = SharedFile(tmp_path, os.open, kept=8 * SLOT)
    extents = [FileSlots(shared) for _ in range(12)]
    for number, extent in enumerate(extents):
        extent.write(memoryview(b"%d" % number))
    for extent in extents[4:]:
        extent.free()
    assert shared.path.stat().st_size > 11 * SLOT
    extents[3].free()
    assert shared.path.stat().st_size == 9 * SLOT
    assert shared.make_room()
    assert shared.path.stat().st_size == 3 * SLOT
    extents[0].free()
    others = [FileSlots(shared) for _ in range(2)]
    for extent in others:
        extent.write(memoryview(b"other"))
    assert b"".join(extents[1].read()) == b"1"
    assert [b"".join(extent.read()) for extent in others] == [b"other"] * 2
    shared.close()


def test_a_slot_in_use_at_the_end_keeps_no_room_for_those_before_it(tmp_path: Path) -> None:
    shared = SharedFile(tmp_path, os.open, kept=8 * SLOT)
    extents = [written(shared) for _ in range(100)]
    assert on_disk(shared.path) >= 100 * SLOT
    for extent in extents[:-1]:
        extent.free()
    assert on_disk(shared.path) <= 9 * SLOT
    again = [written(shared) for _ in range(50)]
    for extent in (extents[-1], *again):
        assert b"".join(extent.read()) == b"".join(extents[-1].read())
    assert shared.path.stat().st_size == 100 * SLOT
    shared.close()


def test_where_room_cannot_be_given_back_in_the_middle_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secor.batch.shared_file._fallocate", lambda: None)
    shared = SharedFile(tmp_path, os.open, kept=2 * SLOT)
    first, middle, last = (written(shared) for _ in range(3))
    middle.free()
    first.free()
    assert shared.make_room()
    assert not shared.make_room()
    assert b"".join(last.read()) == b"".join(written(shared).read())
    last.free()
    shared.close()


def test_a_full_disk_gets_the_room_of_what_nobody_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(tmp_path, "me")
    files = [workspace.create() for _ in range(SHARE_ABOVE + 1)]
    for file in files:
        file.write(bytes(18_000))
    for file in files:
        file.delete()
    held = on_disk(tmp_path)
    assert held >= (SHARE_ABOVE + 1) * 18_000
    limit_disk(monkeypatch, tmp_path, held + SLOT)
    # A small one, whose slots have less room than it needs, and one that has a file of its own.
    many = [workspace.create() for _ in range(SHARE_ABOVE + 1)]
    for size in (LARGEST_SHARED, 8 * LARGEST_SHARED // 2):
        file = workspace.create()
        file.write(b"x" * size)
        file.finish()
        file.delete()
    for file in many:
        file.delete()
    with pytest.raises(DiskFull):
        workspace.create().write(b"x" * (held + 4 * SLOT))
    workspace.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_file_is_made_when_room_was_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    workspace = Workspace(tmp_path, "me")
    files = [workspace.create() for _ in range(SHARE_ABOVE + 1)]
    for file in files:
        file.write(b"x")
    files.pop().delete()
    open_file: Callable[..., int] = os.open
    refusals = [OSError(number, os.strerror(number))]

    def refuse_once(path: Path, *arguments: int) -> int:
        if refusals:
            raise refusals.pop()
        return open_file(path, *arguments)

    monkeypatch.setattr(os, "open", refuse_once)
    file = workspace.create()
    file.write(b"x" * (LARGEST_SHARED + 1))
    assert file.path.stat().st_size == LARGEST_SHARED + 1
    workspace.close()
