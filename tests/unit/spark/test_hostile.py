"""What lies in an archive and is none of it, or is broken: left alone, or named."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from secor.archive.objects import Archive
from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange
from secor.formats import EXTENSIONS, make_format
from secor.spark.options import parse_options
from secor.spark.planning import plan
from secor.spark.reading import read_tasks
from tests.fakes.archive import Shelf, messages

NAME = f"1_0_{7:020d}"
FOREIGN = (
    "readme.txt",
    "_SUCCESS",
    f"{NAME}.seq",
    "clicks/_SUCCESS",
    "clicks/offset=0/_SUCCESS",
    "clicks/_schema/1_0001.json",
    "clicks/offset=0/part-00000-6f1c.snappy.parquet",
    "clicks/offset=0/1_0_7.seq",
    f"clicks/offset=0/1_x_{7:020d}.seq",
    f"clicks/offset=0/-1_0_{7:020d}.seq",
    f"clicks/offset=0/1_0_{7:021d}.seq",
    f"clicks/offset=0/.{NAME}.seq.crc",
    f"clicks/offset=0/{NAME}-5fd1.tmp",
    f"_quarantine/clicks/{NAME}.seq",
    f"_backfill/0123/clicks/offset=0/{NAME}.seq",
    f"_replaced/0123/clicks/offset=0/{NAME}.seq",
)
RANDOM = random.Random(6)
BROKEN = {
    "zeros": bytes(5000),
    "garbage": RANDOM.randbytes(3000),
    "a SequenceFile's beginning": b"SEQ\x06" + RANDOM.randbytes(3000),
    "a Parquet file's ends": b"PAR1" + RANDOM.randbytes(300) + b"PAR1",
    "a gzip file's beginning": b"\x1f\x8b\x08\x00" + RANDOM.randbytes(300),
}
MAY_BE_EMPTY = (".txt", ".json")
"""Lines, of which there may be none: messages without a payload can be left out."""


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    made = Shelf(tmp_path / "store", make_format("sequencefile"), prefix="")
    made.put(messages(range(5)), OffsetRange(0, 5))
    return made


def read(shelf: Shelf, **given: str) -> list[dict[str, Any]]:
    asked = parse_options({"path": str(shelf.directory), **given})
    tasks = plan(Archive(shelf.store, ""), asked)
    return [row for batch in read_tasks(asked, tasks) for row in batch.to_pylist()]


def lay(shelf: Shelf, key: str, content: bytes) -> None:
    path = shelf.directory / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("key", FOREIGN)
def test_what_no_group_has_put_there_is_not_read(shelf: Shelf, key: str) -> None:
    lay(shelf, key, BROKEN["garbage"])
    assert [row["offset"] for row in read(shelf)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("extension", ["", *EXTENSIONS])
def test_a_broken_object_is_named_or_skipped(shelf: Shelf, extension: str, what: str) -> None:
    key = f"clicks/offset=0/{NAME}{extension}"
    lay(shelf, key, BROKEN[what])
    with pytest.raises(CorruptFile, match=f"{key}: .*corruptObjects=skip"):
        read(shelf)
    rows = read(shelf, corruptObjects="skip", columns="offset,object,error")
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 4, None]
    assert [row["object"] for row in rows if row["error"]] == [key]


@pytest.mark.parametrize("extension", ["", ".lzo", *EXTENSIONS])
def test_an_object_of_no_bytes_is_corrupt_where_it_cannot_be_right(
    shelf: Shelf, extension: str
) -> None:
    key = f"clicks/offset=0/{NAME}{extension}"
    lay(shelf, key, b"")
    if extension in MAY_BE_EMPTY:
        assert len(read(shelf)) == 5
        return
    with pytest.raises(CorruptFile, match=f"{key}: .*corruptObjects=skip"):
        read(shelf)
    assert len(read(shelf, corruptObjects="skip")) == 5


@pytest.mark.parametrize(("name", "settings"), [("sequencefile", {}), ("parquet", {})])
def test_an_object_that_was_cut_anywhere_gives_no_message_that_was_not_in_it(
    shelf: Shelf, name: str, settings: dict[str, Any]
) -> None:
    shelf.log_format = make_format(name, **settings)
    key = shelf.put(messages(range(7, 27)), OffsetRange(7, 27))
    whole = (shelf.directory / key).read_bytes()
    sound = read(shelf)
    for size in range(0, len(whole), 13):
        lay(shelf, key, whole[:size])
        rows = read(shelf, corruptObjects="skip", columns="offset,value,error")
        told = [(row["offset"], row["value"]) for row in rows if row["error"] is None]
        assert told == [(row["offset"], row["value"]) for row in sound][: len(told)]
        assert len(told) >= 5
