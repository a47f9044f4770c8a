from __future__ import annotations

import pytest

from secor.core.errors import CorruptBatch
from secor.wire import decode_chunks, record_headers
from secor.wire.record_headers import FEW
from tests.unit.wire.wire_batches import (
    CLICKS,
    HEADER_SIZE,
    Message,
    as_the_client_reads,
    batch_of,
    rows_of,
    with_payload,
)

pytestmark = pytest.mark.usefixtures("decoder")

Headers = tuple[tuple[str, bytes | None], ...]


def decoded(*all_headers: Headers) -> list[object]:
    batch = batch_of([Message(i, headers=headers) for i, headers in enumerate(all_headers)])
    rows = rows_of(decode_chunks(CLICKS, [batch], 0))
    assert rows == as_the_client_reads([batch])
    return [row[5] for row in rows]


def test_order_repeats_nulls_and_empty_names_are_kept() -> None:
    headers = (("b", b"1"), ("a", None), ("b", b""), ("", b"2"), ("b", b"1"))
    assert decoded((), headers, (), headers[:1]) == [[], list(headers), [], list(headers[:1])]


def test_batches_with_and_without_headers_mix() -> None:
    without = batch_of([Message(0), Message(1)])
    with_ = batch_of([Message(0), Message(1, headers=(("a", b"b"),))], base=2)
    again = batch_of([Message(0), Message(1)], base=4)
    rows = rows_of(decode_chunks(CLICKS, [without, with_, again], 0))
    assert [row[5] for row in rows] == [[], [], [], [("a", b"b")], [], []]


@pytest.mark.parametrize("count", [1, FEW - 1, FEW, FEW + 1, 3 * FEW])
def test_any_number_of_headers_is_read(count: int) -> None:
    many = tuple((f"name {index}", b"x" * index) for index in range(count))
    assert decoded(many, many[:1], (), many) == [list(many), list(many[:1]), [], list(many)]


def test_names_are_any_text() -> None:
    headers = (("zürich", b"\xff"), ("数", None), ("n" * 300, b"v" * 300))
    assert decoded(headers) == [list(headers)]


def test_a_name_that_is_no_utf8_is_escaped_and_stops_nothing() -> None:
    batch = batch_of([Message(0, headers=(("name", b"v"), ("zürich", b"w")))])
    changed = batch[HEADER_SIZE:].replace(b"name", b"n\xffm\xe9")
    rows = rows_of(decode_chunks(CLICKS, [with_payload(batch, changed)], 0))
    assert rows[0][5] == [("n\\xffm\\xe9", b"v"), ("zürich", b"w")]


@pytest.mark.parametrize("place", ["in the first", "in a late"])
def test_a_header_that_leads_out_of_its_record_is_refused(place: str) -> None:
    # The last name claims the byte of its own value's length, and more.
    count = 1 if place == "in the first" else FEW + 5
    headers = tuple(("n", b"") for _ in range(count))
    batch = batch_of([Message(0), Message(1, headers=headers), Message(2)])
    at = batch.rfind(b"\x02n\x00", HEADER_SIZE)
    for length in (0x01, 0x06, 0x7E, 0xFF):
        changed = bytearray(batch)
        changed[at] = length
        bad = with_payload(bytes(changed), bytes(changed[HEADER_SIZE:]))
        with pytest.raises(CorruptBatch, match="record 1 of the batch: "):
            list(decode_chunks(CLICKS, [bad], 0))


def test_a_record_that_goes_on_behind_many_headers_is_refused() -> None:
    headers = tuple(("n", b"") for _ in range(FEW + 5))
    batch = batch_of([Message(0, headers=headers)])
    payload = batch[HEADER_SIZE:]
    counted = bytes([2 * (FEW + 5)])
    assert payload.count(counted) == 1
    bad = with_payload(batch, payload.replace(counted, bytes([2 * (FEW + 4)])))
    with pytest.raises(CorruptBatch, match="goes on behind its last header"):
        list(decode_chunks(CLICKS, [bad], 0))


def same(rows: int) -> list[Message]:
    """Messages whose headers have the same names; values of any length, and null."""
    return [
        Message(
            row,
            headers=(
                ("traceparent-of-all", b"t" * 32),
                ("", None if row % 3 == 0 else b"v" * row),
                ("zürich", bytes(row * 40)),
                ("n" * 48, b""),
            ),
        )
        for row in range(rows)
    ]


def same_sizes(rows: int) -> list[Message]:
    """The same with values of the same sizes, also none."""
    return [
        Message(row, headers=(("a", b"%04d" % row), ("b", b""), ("", b"xy"), ("d", b"1")))
        for row in range(rows)
    ]


def outcome(batch: bytes) -> object:
    try:
        return rows_of(decode_chunks(CLICKS, [batch], 0))
    except CorruptBatch as error:
        return str(error)


def test_headers_of_the_same_names_are_read_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [
        batch_of(same(7)),
        batch_of(same_sizes(7)),
        batch_of(same_sizes(1)),
        batch_of([*same_sizes(5), Message(5, headers=same_sizes(12)[11].headers[:3])]),
        batch_of([*same(3), Message(3, headers=same(1)[0].headers[:3])]),
        batch_of([*same(3), Message(3, headers=(*same(1)[0].headers[:3], ("m" * 48, b"")))]),
        batch_of(
            [Message(0, headers=(("n" * 49, b"1"),)), Message(1, headers=(("n" * 49, b"2"),))]
        ),
    ]
    quick = [outcome(batch) for batch in batches]
    assert quick == [as_the_client_reads([batch]) for batch in batches]
    monkeypatch.setattr(record_headers, "same_names", lambda *_: None)
    assert quick == [outcome(batch) for batch in batches]


@pytest.mark.parametrize("messages", [same(3), same_sizes(3)], ids=["any sizes", "same sizes"])
@pytest.mark.slow
def test_a_damaged_byte_among_headers_of_the_same_names_is_answered_as_in_others(
    messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_of(messages)
    payload = batch[HEADER_SIZE:]
    damaged = [
        with_payload(batch, payload[:at] + bytes([byte]) + payload[at + 1 :])
        for at in range(len(payload))
        for byte in {0, 1, 2, 0x7F, 0x80, 0xFF, payload[at] + 2 & 0xFF}
    ]
    quick = [outcome(bad) for bad in damaged]
    monkeypatch.setattr(record_headers, "same_names", lambda *_: None)
    assert quick == [outcome(bad) for bad in damaged]
    assert any(isinstance(answer, str) for answer in quick)
    assert not all(isinstance(answer, str) for answer in quick)
