"""Lines of any length: read in linear time, up to the largest message."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import pytest

from secor.core.errors import CorruptFile
from secor.core.ports import LogFormat
from secor.formats import text
from secor.formats.streams import BLOCK
from secor.formats.text import TextFormat
from secor.formats.typed import jsonlines
from secor.formats.typed.jsonlines import JsonLinesFormat

PIECES = 20


class Counted(bytes):
    """Bytes that count what is copied when others are put before them."""

    copied = 0

    def __radd__(self, other: Any) -> bytes:
        Counted.copied += len(other) + len(self)
        return bytes(other) + bytes(self)


class CountedFile:
    """A file without compression whose pieces are ``Counted``."""

    def __init__(self, file: BinaryIO, codec: str, name: str) -> None:
        self._file = file

    def read(self, size: int) -> Counted:
        return Counted(self._file.read(size))


@pytest.mark.parametrize(
    "log_format", [TextFormat(), TextFormat(delimiter=b"\r\n--"), JsonLinesFormat()]
)
def test_a_line_of_many_pieces_is_copied_once_not_with_each_piece(
    log_format: LogFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "DecompressingReader", CountedFile)
    monkeypatch.setattr(jsonlines, "DecompressingReader", CountedFile)
    monkeypatch.setattr(Counted, "copied", 0)
    delimiter = getattr(log_format, "delimiter", b"\n")
    line = b'{"a": "' + b"x" * (PIECES * 4 * BLOCK) + b'"}'
    content = delimiter.join([line, b"{}", b""])
    messages = [
        value
        for records in log_format.read(io.BytesIO(content), "o")
        for value in records.column("value").to_pylist()
    ]
    assert len(messages) == 2
    assert len(messages[0]) >= PIECES * 4 * BLOCK
    assert Counted.copied < 2 * len(content)


@pytest.mark.parametrize("log_format", [TextFormat(), JsonLinesFormat()])
def test_a_line_above_the_largest_message_is_corrupt_and_its_place_is_named(
    log_format: LogFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "LARGEST_PAYLOAD", 6 * BLOCK)
    content = b"{}\n" * 2 + b'{"a": "' + b"x" * 20 * BLOCK + b'"}\n'
    file = io.BytesIO(content)
    with pytest.raises(
        CorruptFile, match=r"^o: message 3, from byte 6 of its content on: no delim"
    ):
        list(log_format.read(file, "o"))
    assert file.tell() < len(content)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("delimiter", [b"\n", b"aa", b"aba", b"--\r\n"])
def test_pieces_of_any_size_give_what_the_whole_gives(size: int, delimiter: bytes) -> None:
    content = b"xaaabaababa--\r\r\n--\r\nxx\n\naaaaa--\r\n-" * 3
    splitter = text.Splitter(delimiter, "o")
    payloads = []
    for start in range(0, len(content), size):
        payloads += splitter.split(content[start : start + size])
    assert [*payloads, bytes(splitter.rest)] == content.split(delimiter)
    assert splitter.count == len(payloads)


@pytest.mark.parametrize("last", [b'{"a":{"b":[2]}}', b" {} ", b'{"a":"}"}'])
def test_a_last_line_without_an_end_is_read_if_it_is_whole(last: bytes) -> None:
    """Aiven's connector ends its objects so."""
    batches = list(JsonLinesFormat().read(io.BytesIO(b'{"a":1}\n' + last), "o"))
    assert sum(records.num_rows for records in batches) == 2


@pytest.mark.parametrize("last", [b'{"a":{"b":[2]}', b'{"a":"}', b"12", b"{}{", b" ", b"[]"])
def test_a_last_line_that_was_cut_short_is_corrupt(last: bytes) -> None:
    with pytest.raises(CorruptFile, match="its last line has no end"):
        list(JsonLinesFormat().read(io.BytesIO(b'{"a":1}\n' + last), "o"))
