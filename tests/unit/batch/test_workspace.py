"""Local files: whole, counted, and gone afterwards."""

import errno
import fcntl
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from secor.batch.local_file import LARGEST_SHARED, SHARE_ABOVE, LocalFile
from secor.batch.shared_file import SLOT
from secor.batch.workspace import Workspace
from secor.core.errors import (
    ConfigurationError,
    DescriptorsExhausted,
    DiskFull,
    LocalFilesRefused,
    RestartPartition,
)


def test_a_file_knows_its_size_and_checksum(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "me")
    file = workspace.create()
    file.write(b"hello ")
    file.write(memoryview(b"world"))
    file.finish()
    assert file.path.read_bytes() == b"hello world"
    assert (file.size, file.crc32c) == (11, crc32c(b"hello world"))


def test_spilled_bytes_are_on_disk_until_they_are_taken_and_leave_nothing(
    tmp_path: Path,
) -> None:
    workspace = Workspace(tmp_path, "me")
    file, other = workspace.create(), workspace.create()
    file.spill(b"raw bytes, ")
    other.spill(b"those of another")
    file.spill(memoryview(b"and more of them"))
    assert (file.spilled, file.size, file.path.exists()) == (27, 0, False)
    assert list(file.take_spilled()) == [b"raw bytes, and more of them"]
    file.write(b"short")
    file.finish()
    assert file.path.read_bytes() == b"short"
    assert (file.spilled, file.size, file.crc32c) == (0, 5, crc32c(b"short"))
    assert b"".join(other.take_spilled()) == b"those of another"
    workspace.close()
    assert list(tmp_path.iterdir()) == []


def shared_file(workspace: Workspace) -> Path:
    return workspace.directory / ".shared"


def test_slots_of_spilled_bytes_are_used_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "me")
    content = {number: bytes([number]) * (SLOT * number + number) for number in range(4)}
    kept = workspace.create()
    kept.spill(b"kept")
    for _ in range(3):
        files = {number: workspace.create() for number in content}
        for half in (slice(0, SLOT + 5), slice(SLOT + 5, None)):
            for number, file in files.items():
                file.spill(content[number][half])
        assert shared_file(workspace).stat().st_size <= SLOT * 10
        files.pop(2).delete()
        for number, file in files.items():
            assert b"".join(file.take_spilled()) == content[number]
    assert b"".join(kept.take_spilled()) == b"kept"


def test_no_room_for_spilled_bytes_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Workspace(tmp_path, "me").create()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskFull, match=r"\.shared: No space left"):
        file.spill(b"x")
    file.delete()


@pytest.mark.parametrize("left", [b"", b"raw byte", b"raw bytez"])
def test_spilled_bytes_that_somebody_changed_are_not_taken(tmp_path: Path, left: bytes) -> None:
    workspace = Workspace(tmp_path, "me")
    file = workspace.create()
    file.spill(b"raw bytes")
    shared_file(workspace).write_bytes(left)
    with pytest.raises(LocalFilesRefused, match="changed it"):
        list(file.take_spilled())
    file.delete()
    another = workspace.create()
    another.spill(b"others")
    assert b"".join(another.take_spilled()) == b"others"


def test_files_should_spill_while_many_files_are_in_the_making(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "me")
    files = [workspace.create() for _ in range(SHARE_ABOVE + 2)]
    assert files[0].should_spill
    files.pop().finish()
    assert files[0].should_spill
    files.pop().delete()
    assert not files[0].should_spill


def test_a_file_without_a_byte_still_stands(tmp_path: Path) -> None:
    file = Workspace(tmp_path, "me").create()
    file.finish()
    assert file.path.stat().st_size == 0


def test_no_more_descriptors_are_open_than_allowed(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "me", open_files=2)
    files = [workspace.create() for _ in range(5)]
    for _ in range(3):
        for number, file in enumerate(files):
            file.write(b"%d" % number)
            assert workspace.open_files <= 2
    assert [file.path.read_bytes() for file in files] == [b"%d" % n * 3 for n in range(5)]


def test_it_says_how_much_room_there_is(tmp_path: Path) -> None:
    room = Workspace(tmp_path, "me").free_bytes
    assert room == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)


def test_a_deleted_file_is_gone_and_closed(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "me")
    file = workspace.create()
    file.write(b"x")
    file.delete()
    assert workspace.open_files == 0
    assert not file.path.exists()


def many(workspace: Workspace) -> list[LocalFile]:
    """Begin so many files that those begun then share one."""
    return [workspace.create() for _ in range(SHARE_ABOVE)]


@pytest.mark.parametrize("size", [1, SLOT, LARGEST_SHARED, LARGEST_SHARED + 1, 6 * SLOT])
@pytest.mark.parametrize("piece", [SLOT - 1, 3 * SLOT, 6 * SLOT])
def test_small_ones_of_many_files_are_parts_of_one(
    tmp_path: Path, size: int, piece: int, request: pytest.FixtureRequest
) -> None:
    workspace = Workspace(tmp_path, "me")
    request.addfinalizer(workspace.close)
    many(workspace)
    content = random.Random(size).randbytes(size)
    files = [workspace.create() for _ in range(3)]
    for at in range(0, size, piece):
        for file in files:
            file.write(content[at : at + piece])
    files.pop(0).delete()
    for file in files:
        file.finish()
        assert (file.size, file.crc32c) == (size, crc32c(content))
        assert file.path.exists() == (size > LARGEST_SHARED)
        found = file.content()
        assert isinstance(found, bytes) == (size <= LARGEST_SHARED)
        with file.open() as opened:
            assert opened.read() == content
        file.delete()
        assert not file.path.exists()


def test_a_file_has_spilled_bytes_and_content_at_once(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "me")
    many(workspace)
    file = workspace.create()
    spilled = random.Random(1).randbytes(3 * SLOT)
    file.spill(spilled)
    for piece in file.take_spilled():
        file.write(piece[::-1])
    file.finish()
    content = file.content()
    assert content == b"".join(spilled[at : at + SLOT][::-1] for at in range(0, len(spilled), SLOT))


def test_a_shared_file_that_somebody_changes_is_read_again_from_kafka(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "me")
    many(workspace)
    file = workspace.create()
    file.write(b"some bytes")
    file.finish()
    shared_file(workspace).write_bytes(b"some bytez")
    with pytest.raises(RestartPartition, match="changed it; its messages are read again"):
        file.content()


def test_a_file_without_a_byte_stands_beside_many_others(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "me")
    many(workspace)
    file = workspace.create()
    file.finish()
    assert file.content() == file.path
    file.delete()
    assert not file.path.exists()


def test_a_full_disk_is_told_from_other_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Workspace(tmp_path, "me").create()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(DiskFull, match="No space left"):
            file.write(b"x")
    file.delete()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EIO, errno.ESTALE])
def test_rights_that_go_while_it_runs_are_an_error_that_another_try_may_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    workspace = Workspace(tmp_path, "me", open_files=1)
    file, other = workspace.create(), workspace.create()
    file.write(b"x")

    def refused(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        for name in ("open", "pwrite", "unlink"):
            patched.setattr(os, name, refused)
        calls: list[Callable[[], None]] = [
            lambda: file.write(b"y"),
            lambda: other.write(b"x"),
            other.finish,
        ]
        for call in calls:
            with pytest.raises(LocalFilesRefused, match=f"{os.strerror(number)}; this user"):
                call()
        patched.setattr(Path, "open", refused)
        with pytest.raises(RestartPartition, match="read again"):
            file.content()
        file.delete()
    workspace.create().write(b"x")
    workspace.close()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_somebody_deletes_is_made_anew_and_no_half_file_is_taken_for_a_whole(
    tmp_path: Path,
) -> None:
    workspace = Workspace(tmp_path, "me", open_files=1)
    half = workspace.create()
    half.write(b"first ")
    shutil.rmtree(tmp_path)
    after = workspace.create()
    after.write(b"x")
    assert after.path.read_bytes() == b"x"
    uses: list[Callable[[], None]] = [lambda: half.write(b"half"), half.finish]
    for use in uses:
        with pytest.raises(LocalFilesRefused, match="No such file"):
            use()
    with pytest.raises(RestartPartition, match="No such file"):
        half.content()
    half.delete()
    Workspace(tmp_path, "other")
    assert after.path.exists(), "its lock is held"


def test_a_directory_that_cannot_be_locked_anew_keeps_its_lock_and_is_locked_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(tmp_path, "me")
    shutil.rmtree(tmp_path)
    open_file = os.open

    def no_lock(path: Path, *arguments: int) -> int:
        if path.name == ".lock":
            raise OSError(errno.EMFILE, "Too many open files")
        return open_file(path, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", no_lock)
        with pytest.raises(DescriptorsExhausted):
            workspace.create().write(b"x")
    assert workspace.free_bytes > 0
    file = workspace.create()
    file.write(b"x")
    Workspace(tmp_path, "other")
    assert file.path.exists(), "its lock is held"
    workspace.close()


def test_a_directory_that_somebody_deletes_is_made_anew_for_the_shared_file(
    tmp_path: Path,
) -> None:
    workspace = Workspace(tmp_path, "me")
    many(workspace)
    shutil.rmtree(tmp_path)
    file = workspace.create()
    file.write(b"x")
    assert file.content() == b"x"
    shutil.rmtree(tmp_path)
    file.write(b"y")
    assert file.content() == b"xy", "an open file needs no name"
    Workspace(tmp_path, "other")
    workspace.create().finish()
    workspace.close()


def test_files_that_are_not_ours_are_left_where_they_are(tmp_path: Path) -> None:
    foreign = tmp_path / "dead" / "notes.txt"
    foreign.parent.mkdir()
    foreign.write_text("mine")
    (foreign.parent / ".lock").touch()
    (foreign.parent / "000000001").touch()
    linked = tmp_path / "linked"
    linked.symlink_to(foreign.parent)
    Workspace(tmp_path, "me")
    assert list(foreign.parent.iterdir()) == [foreign]


def test_files_of_a_dead_process_are_deleted_and_those_of_a_living_one_kept(
    tmp_path: Path,
) -> None:
    living = Workspace(tmp_path, "living")
    kept = living.create()
    kept.write(b"x")
    dead = tmp_path / "dead"
    dead.mkdir()
    (dead / ".lock").touch()
    (dead / "000000001").write_bytes(b"left")
    Workspace(tmp_path, "me")
    assert not dead.exists()
    assert kept.path.exists()


def test_a_process_that_starts_is_not_taken_for_a_dead_one_before_it_has_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    others: list[None] = []

    def slow(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX and not others:
            others.append(None)
            Workspace(tmp_path, "another")
        flock(descriptor, operation)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", slow)
        workspace = Workspace(tmp_path, "me")
    assert others
    workspace.create().write(b"x")


def test_a_full_disk_at_the_start_is_no_fault_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", full)
        with pytest.raises(DiskFull, match="No space left"):
            Workspace(tmp_path, "me")


def test_a_closed_workspace_leaves_nothing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "me")
    workspace.create().write(b"x")
    workspace.close()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"local\.directory"):
        Workspace(tmp_path / "file" / "below", "me")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_no_free_descriptor_is_something_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    workspace = Workspace(tmp_path, "me")
    file = workspace.create()

    def none_free(*_: object, **__: object) -> int:
        raise OSError(number, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", none_free)
        with pytest.raises(DescriptorsExhausted, match=r"000000001: .*limits\.open_files"):
            file.write(b"x")
        with pytest.raises(DescriptorsExhausted):
            Workspace(tmp_path, "another")
    file.write(b"x")
    assert file.path.read_bytes() == b"x"


def test_what_others_left_in_a_shared_directory_keeps_nobody_from_starting(
    tmp_path: Path,
) -> None:
    shared, elsewhere = tmp_path / "shared", tmp_path / "elsewhere"
    (shared / "folder" / ".lock").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / ".lock").touch()
    (elsewhere / "precious").touch()
    (elsewhere / "000000001").touch()  # named as our files, and not below our directory
    (shared / "link").symlink_to(elsewhere, target_is_directory=True)
    (shared / "loop").mkdir()
    (shared / "loop" / ".lock").symlink_to(".lock")
    (tmp_path / "alias").symlink_to(shared, target_is_directory=True)
    first = Workspace(tmp_path / "alias", "first")
    second = Workspace(shared, "second")
    assert first.directory.is_dir()
    assert (elsewhere / "precious").exists()
    second.close()
    first.close()
    assert (elsewhere / "precious").exists()
    assert (elsewhere / "000000001").exists()
