"""Entries of maps, and members in JSON text, whose value is null: they are kept in every format."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import duckdb
import fastavro
import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from secor.config.parser import Parser
from secor.core.model import DATA, QUARANTINE
from secor.core.ports import LogFormat
from secor.formats import make_format
from secor.parsing.decoders.columns import keep_nulls
from secor.parsing.decoders.json import JsonDecoder
from secor.parsing.pipeline import Pipeline
from secor.schema.schema import RowSchema
from secor.wiring.parsers import pipeline_for
from tests.unit.formats.typed_rows import read, written
from tests.unit.parsing.parsing_cases import chunk_of, reasons

FIELDS = [
    {"name": "id", "type": "int64"},
    {"name": "flags", "type": {"map": "string"}},
    {"name": "nested", "type": {"struct": [{"name": "sizes", "type": {"map": "int64"}}]}},
    {"name": "list", "type": {"list": {"map": "double"}}},
    {"name": "maps", "type": {"map": {"map": "string"}}},
    {"name": "raw", "type": "json"},
]
SCHEMA = RowSchema.parse(json.dumps({"fields": FIELDS}), "schema.json")

MESSAGES: list[dict[str, Any]] = [
    {"id": 1, "flags": {"a": "x", "b": None}, "raw": {"p": None, "q": [{"r": None}]}},
    {"id": 2, "flags": {"a": None}, "nested": {"sizes": {"s": None, "t": 5}}},
    {"id": 3, "flags": {}, "list": [{"u": None, "v": 1.5}, {"w": 2.5}], "raw": [None]},
    {"id": 4, "flags": {"c": "y"}, "maps": {"m": {"n": None}, "o": None}, "raw": {"p": 1}},
    {"id": 5, "flags": None, "nested": None, "raw": None},
]
MISSING = {"flags": None, "nested": None, "list": None, "maps": None, "raw": None}

Read = Callable[[bytes], list[dict[str, Any]]]


def as_sent(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a library as its message was: maps as objects, JSON text parsed."""
    nested = row["nested"]
    # Some libraries have no struct that is null within a row.
    sizes = None if nested is None else _map(nested["sizes"])
    return {
        "id": row["id"],
        "flags": _map(row["flags"]),
        "nested": None if sizes is None else {"sizes": sizes},
        "list": None if row["list"] is None else [_map(item) for item in row["list"]],
        "maps": None
        if row["maps"] is None
        else {name: _map(inner) for name, inner in dict(row["maps"]).items()},
        "raw": None if row["raw"] is None else json.loads(row["raw"]),
    }


def _map(value: Any) -> dict[str, Any] | None:
    return None if value is None else dict(value)


def by_pyarrow(data: bytes) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", pq.read_table(io.BytesIO(data)).to_pylist())


def by_orc(data: bytes) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", orc.read_table(io.BytesIO(data)).to_pylist())


def by_fastavro(data: bytes) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", list(fastavro.reader(io.BytesIO(data))))


def by_duckdb(data: bytes) -> list[dict[str, Any]]:
    connection = duckdb.connect()
    table = connection.read_parquet(io.BytesIO(data)).arrow()
    rows = table.read_all() if isinstance(table, pa.RecordBatchReader) else table
    return cast("list[dict[str, Any]]", rows.to_pylist())


def parsed_by(decoder: str, schema: RowSchema = SCHEMA, **settings: Any) -> Pipeline:
    given = {"decoder": decoder, "max_bad_ratio": "none", **settings}
    return pipeline_for(Parser.model_validate(given), typed=True, schema=schema)


def data_of(pipeline: Pipeline, values: list[bytes]) -> list[pa.RecordBatch]:
    parts = pipeline.split(chunk_of(values))
    assert reasons(parts) == {}
    return [part.records for part in parts if part.stream == DATA]


def file_of(name: str, records: list[pa.RecordBatch], schema: RowSchema = SCHEMA) -> bytes:
    log_format = cast("LogFormat", replace(cast("Any", make_format(name)), schema=schema))
    return written(log_format, *records)


def rows_by(reader: Read, data: bytes) -> list[dict[str, Any]]:
    return sorted(map(as_sent, reader(data)), key=lambda row: int(row["id"]))


@pytest.mark.parametrize("decoder", ["json", "messagepack"])
@pytest.mark.parametrize(
    ("log_format", "reader"),
    [
        ("typed-parquet", by_pyarrow),
        ("typed-parquet", by_duckdb),
        ("orc", by_orc),
        ("avro", by_fastavro),
    ],
)
def test_readers_find_the_entries_that_are_null(
    decoder: str, log_format: str, reader: Read
) -> None:
    encode = msgpack.packb if decoder == "messagepack" else lambda it: json.dumps(it).encode()
    records = data_of(parsed_by(decoder), [encode(message) for message in MESSAGES])
    expected = [MISSING | message for message in MESSAGES]
    assert rows_by(reader, file_of(log_format, records)) == expected


def test_json_lines_have_them_too() -> None:
    records = data_of(parsed_by("json"), [json.dumps(message).encode() for message in MESSAGES])
    lines = [json.loads(line) for line in file_of("jsonlines", records).splitlines()]
    shown = {line["id"]: {**line, "raw": line.get("raw")} for line in lines}
    for message in MESSAGES:
        present = {name: value for name, value in message.items() if value is not None}
        assert shown[message["id"]] == {"raw": None} | present


def test_what_a_message_becomes_does_not_depend_on_its_neighbours() -> None:
    values = [json.dumps(message).encode() for message in MESSAGES]
    together = rows_by(by_pyarrow, file_of("typed-parquet", data_of(parsed_by("json"), values)))
    alone = [
        rows_by(by_pyarrow, file_of("typed-parquet", data_of(parsed_by("json"), [value])))[0]
        for value in values
    ]
    assert together == alone


def test_a_field_that_is_renamed_to_a_map_keeps_them() -> None:
    transforms = [{"kind": "rename", "field": "old", "to": "flags"}]
    pipeline = parsed_by("json", transforms=transforms)
    records = data_of(pipeline, [b'{"id": 1, "old": {"a": null}}', b'{"id": 2, "old": {"b": "x"}}'])
    rows = rows_by(by_pyarrow, file_of("typed-parquet", records))
    assert [row["flags"] for row in rows] == [{"a": None}, {"b": "x"}]


@pytest.mark.parametrize(
    ("transform", "flags"),
    [
        ({"kind": "drop", "field": "flags.secret"}, {"b": None}),
        ({"kind": "mask", "field": "flags.secret", "value": "***"}, {"b": None, "secret": "***"}),
        ({"kind": "rename", "field": "flags.b", "to": "c"}, {"c": None, "secret": "s"}),
    ],
)
def test_steps_within_a_map_see_objects_with_null_members(
    transform: dict[str, str], flags: dict[str, str | None]
) -> None:
    pipeline = parsed_by("json", transforms=[transform])
    records = data_of(pipeline, [b'{"id": 1, "flags": {"b": null, "secret": "s"}}'])
    (row,) = rows_by(by_pyarrow, file_of("typed-parquet", records))
    assert row["flags"] == flags


def test_an_entry_that_may_not_be_null_sends_its_message_into_quarantine() -> None:
    item = pa.field("value", pa.string(), nullable=False)
    fields = pa.struct([pa.field("flags", pa.map_(pa.string(), item))])
    values = [b'{"flags": {"a": null, "b": "x"}}', b'{"flags": {"b": "x"}}']
    parts = parsed_by("json", RowSchema(fields)).split(chunk_of(values))
    assert reasons(parts) == {0: "schema: flags.a: is missing"}


@pytest.mark.parametrize(
    ("decoder", "value", "reason"),
    [
        ("json", b'{"flags": {"a": null, "a": "x"}}', "name 'a' twice"),
        ("messagepack", msgpack.packb({"flags": {None: "x"}}), "neither text nor integer"),
        ("messagepack", b"\x81\xa5flags\x82\xa1a\xc0\xa1a\xa1x", "a key twice in one map"),
    ],
    ids=["twice-in-json", "null-in-messagepack", "twice-in-messagepack"],
)
def test_keys_that_are_null_or_there_twice_are_in_quarantine(
    decoder: str, value: bytes, reason: str
) -> None:
    parts = parsed_by(decoder).split(chunk_of([value]))
    assert [part.stream for part in parts] == [QUARANTINE]
    assert reason in reasons(parts)[0]


def test_a_message_of_too_many_values_is_not_built_to_look_for_nulls() -> None:
    value = b'{"flags": {"a": null}, "list": [%s]}' % b",".join([b"1"] * 50)
    parts = parsed_by("json", max_elements=40).split(chunk_of([value]))
    assert [part.stream for part in parts] == [QUARANTINE]


@pytest.mark.parametrize("log_format", ["typed-parquet", "orc", "avro", "jsonlines"])
def test_messages_made_of_such_files_have_them(log_format: str) -> None:
    message = {"id": 1, "flags": {"a": "x", "b": None}, "maps": {"m": {"n": None}, "o": None}}
    data = file_of(log_format, data_of(parsed_by("json"), [json.dumps(message).encode()]))
    (value,) = read(make_format(log_format), data).column("value").to_pylist()
    assert json.loads(value) == message


def written_oddly(chance: random.Random, value: Any) -> str:
    """Return JSON with white space, names in any case, and escapes that nobody needs."""
    space = chance.choice(["", "", " ", "\n\t"])
    if isinstance(value, dict):
        members = []
        for name, item in value.items():
            text = json.dumps(chance.choice([name, name.upper()]))
            if chance.random() < 0.1:
                text = f'"\\u{ord(name[0]):04x}{name[1:]}"'
            members.append(f"{space}{text}{space}:{space}{written_oddly(chance, item)}")
        return "{" + ",".join(members) + space + "}"
    if isinstance(value, list):
        return f"[{','.join(written_oddly(chance, item) for item in value)}{space}]"
    return json.dumps(value)


def odd_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(8 if depth < 3 else 5)
    if kind < 2:
        return None
    if kind < 5:
        return chance.choice([1, True, "null", '{"a": null}', "n", "}", 'x"y', "\\", "ü"])
    if kind == 5:
        return [odd_value(chance, depth + 1) for _ in range(chance.randrange(3))]
    names = chance.sample(["flags", "raw", "other", "n"], chance.randrange(4))
    return {name: odd_value(chance, depth + 1) for name in names}


def test_every_message_with_a_null_to_keep_is_found() -> None:
    chance = random.Random(35)
    decoder = JsonDecoder(keep_nulls_in=("flags", "raw"))
    objects = [{"flags": odd_value(chance), "other": odd_value(chance)} for _ in range(2000)]
    texts = [written_oddly(chance, item) for item in objects]
    parsed = [json.loads(text) for text in texts]
    kept = keep_nulls(parsed, frozenset({"flags", "raw"}))
    expected = [row for row, item in enumerate(parsed) if kept[row] is not item]
    values = pa.array([text.encode() for text in texts], pa.binary())
    assert decoder._rows_with_nulls(values).tolist() == expected
    assert 100 < len(expected) < 1900
