"""Names that are data: columns and memory grow with the bytes of the messages, not faster."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pyarrow as pa
import pytest

from secor.config.parser import Parser
from secor.parsing.decoders import extent
from secor.parsing.decoders.extent import CELLS_PER_BYTE, FREE_CELLS, MOST_COLUMNS, TOO_SPARSE
from secor.parsing.decoders.json import JsonDecoder
from secor.parsing.decoders.messagepack import MessagePackDecoder
from secor.parsing.rows import Decoded, DividingDecoder, Rows
from secor.schema.schema import RowSchema
from secor.wiring.parsers import pipeline_for
from tests.unit.parsing.decoder_cases import batch
from tests.unit.parsing.neighbours import agree, lines
from tests.unit.parsing.parsing_cases import chunk_of

Make = Callable[[int], list[bytes]]

SHAPES: dict[str, Make] = {
    "names of their own": lambda n: [b'{"t":1700000000,"k%d":1}' % at for at in range(n)],
    "after a regular beginning": lambda n: [
        *[b'{"t":1700000000,"a":1}'] * 200,
        *[b'{"t":1700000000,"k%d":1}' % at for at in range(n)],
    ],
    "one of many": lambda n: [b'{"t":1700000000,"k%d":1}' % (at % 990) for at in range(n)],
    "within an object": lambda n: [b'{"t":1,"o":{"k%d":1}}' % at for at in range(n)],
    "two levels down": lambda n: [b'{"o":{"k%d":{"k%d":1}}}' % (at % 100, at) for at in range(n)],
    "in a list": lambda n: [b'{"t":1,"o":[{"k%d":1}]}' % at for at in range(n)],
    "of several types": lambda n: [b'{"k%d":%s}' % (at, (b"1", b'"x"')[at % 2]) for at in range(n)],
}


def cells(kind: pa.DataType, array: pa.Array) -> int:
    """Count the values of all columns, null ones too."""
    if pa.types.is_struct(kind):
        return len(array) + sum(cells(it.type, it) for it in array.flatten())
    return cells(kind.value_type, array.flatten()) if pa.types.is_list(kind) else len(array)


def decoded(decoder: DividingDecoder, messages: list[bytes]) -> list[tuple[Rows, Decoded]]:
    groups = list(decoder.decode_apart(batch(messages), None))
    assert [row for rows, _ in groups for row in rows] == list(range(len(messages)))
    return groups


@pytest.mark.parametrize("shape", SHAPES)
def test_columns_grow_with_the_bytes(shape: str) -> None:
    messages = SHAPES[shape](20_000)
    groups = decoded(JsonDecoder(), messages)
    total = sum(cells(found.rows.type, found.rows) for _, found in groups)
    size = sum(map(len, messages))
    assert total <= 6 * CELLS_PER_BYTE * size
    assert sum(found.rows.nbytes for _, found in groups) <= 120 * size
    for rows, found in groups:
        own = sum(len(messages[row]) for row in rows)
        assert cells(found.rows.type, found.rows) <= 2 * (CELLS_PER_BYTE * own + FREE_CELLS)


def test_messagepack_is_divided_likewise() -> None:
    messages = [msgpack.packb({"t": 1, f"k{at}": 1}) for at in range(20_000)]
    groups = decoded(MessagePackDecoder(), messages)
    assert len(groups) > 1
    total = sum(cells(found.rows.type, found.rows) for _, found in groups)
    assert total <= 4 * (CELLS_PER_BYTE * sum(map(len, messages)) + len(groups) * FREE_CELLS)


def test_a_chunk_of_names_that_are_data_takes_bounded_memory_on_its_whole_way() -> None:
    schema = RowSchema(pa.struct([("t", pa.int64())]), "json", exact=True)
    pipeline = pipeline_for(Parser(), typed=True, schema=schema)
    values = SHAPES["names of their own"](20_000)
    before = pa.default_memory_pool().max_memory()
    (part,) = pipeline.split(chunk_of(values))
    assert part.records.num_rows == 20_000
    assert part.records.column("row")[7].as_py() == {"t": 1700000000, "_extra": '{"k7":1}'}
    assert pa.default_memory_pool().max_memory() - before < 100 << 20


def object_of(names: int) -> bytes:
    return b"{" + b",".join(b'"k%d":%d' % (at, at) for at in range(names)) + b"}"


def test_one_message_of_very_many_fields_is_bad_and_one_of_many_is_not() -> None:
    messages = [object_of(20_000), b'{"k1":7}', object_of(MOST_COLUMNS - 1)]
    groups = decoded(JsonDecoder(), messages)
    bad = {int(rows[at]): why for rows, found in groups for at, why in found.bad.items()}
    assert bad == {0: f"has 20000 fields, more than {MOST_COLUMNS}"}
    assert all(found.rows.type.num_fields < MOST_COLUMNS for _, found in groups)


def test_a_list_of_objects_with_one_of_many_names_each_is_bad() -> None:
    items = b",".join(b'{"k%d":1}' % (at % 990) for at in range(200_000))
    (group,) = decoded(JsonDecoder(), [b'{"o":[' + items + b"]}"])
    assert group[1].bad == {0: TOO_SPARSE}


def test_one_list_of_objects_of_all_names_is_json_text() -> None:
    items = b",".join(b'{"k%d":1}' % at for at in range(20_000))
    (group,) = decoded(JsonDecoder(), [b'{"o":[' + items + b"]}"])
    assert group[1].bad == {}
    assert cells(group[1].rows.type, group[1].rows) < 50_000


def test_what_becomes_of_a_message_does_not_depend_on_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extent, "FREE_CELLS", 20)
    monkeypatch.setattr(extent, "CELLS_PER_BYTE", 0)
    monkeypatch.setattr(extent, "MAX_FIELDS", 5)
    values: list[bytes | None] = [
        b'{"a":%d,"k%d":{"x":1,"y%d":"z"},"o":{"n%d":1.5}}' % (at, at % 7, at % 3, at)
        for at in range(40)
    ]
    values[5:7] = [b"{", b'{"a":"text"}']
    pipeline = pipeline_for(Parser(layout="a={a}"), typed=True, schema=RowSchema())
    agree(lines, pipeline, values)
    declared = RowSchema(
        pa.struct([("a", pa.int64()), ("k2", pa.struct([("x", pa.int64())]))]), "json"
    )
    agree(lines, pipeline_for(Parser(layout="all"), typed=True, schema=declared), values)
