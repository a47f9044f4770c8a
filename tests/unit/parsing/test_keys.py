"""Keys of messages as fields, in every form that producers give them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from secor.config.load import validate
from secor.core.model import QUARANTINE, SCHEMA, Chunk, TopicPartition
from secor.parsing.parts import ROW, release_part
from secor.wiring.plans import plan_for
from tests.fakes.confluent import IN_HEADERS, Confluent
from tests.fakes.registry import running_registry

Headers = list[tuple[str, bytes]]


def parse(
    messages: Sequence[tuple[bytes | None, Any]],
    key: dict[str, Any],
    headers: Sequence[Headers] = (),
    **parser: Any,
) -> tuple[list[Any], list[str], dict[str, Any]]:
    """Return rows in the order of offsets, the reasons of quarantine, and the columns' types."""
    config, faults = validate(
        {
            "group": {"name": "g", "kind": "partition"},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["orders"]},
            "store": {"kind": "local", "local": {"directory": "d"}},
            "output": {"format": "jsonlines"},
            "parser": {"layout": "all", **parser, "key": key},
        }
    )
    assert config is not None, faults
    known = [*headers, *([] for _ in messages)]
    columns = {
        "offset": range(len(messages)),
        "timestamp": [1_767_225_600_000] * len(messages),
        "timestamp_type": [0] * len(messages),
        "key": [it for it, _ in messages],
        "value": [
            it if isinstance(it, bytes | None) else json.dumps(it).encode() for _, it in messages
        ],
        "headers": [
            [{"key": name, "value": value} for name, value in known[at]]
            for at in range(len(messages))
        ],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA]
    records = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    parts = plan_for(config, "orders", limited=False).parser.split(
        Chunk(TopicPartition("orders", 0), records, len(messages))
    )
    rows: dict[int, Any] = {}
    reasons: list[str] = []
    kinds: dict[str, Any] = {}
    for part in parts:
        if part.stream == QUARANTINE:
            reasons += release_part(part.records)[1]
            continue
        offsets = part.records.column("offset").to_pylist()
        rows |= dict(zip(offsets, part.records.column(ROW).to_pylist(), strict=True))
        kinds |= {field.name: field.type for field in part.records.column(ROW).type}
    return [rows[offset] for offset in sorted(rows)], reasons, kinds


def in_connects_envelope(kind: str, value: object, name: str | None = None) -> bytes:
    """Return a key of one value as Connect's JSON converter writes it."""
    schema = {"type": kind, "optional": False, **({} if name is None else {"name": name})}
    return json.dumps({"schema": schema, "payload": value}).encode()


@pytest.mark.parametrize(
    ("decoder", "raw", "field"),
    [
        ("text", "k€".encode(), "k€"),
        ("text", b"", ""),
        ("bytes", b"\xff", b"\xff"),
        ("json", b'{"id": 7, "day": "2026-01-01"}', {"id": 7, "day": "2026-01-01"}),
        ("json", b" 7 ", 7),
        ("json", b'"seven"', "seven"),
        ("json", b'{"schema": {"type": "int64", "optional": false}, "payload": 7}', 7),
        ("json", b'{"schema": null, "payload": {"id": 7}}', {"id": 7}),
        ("json", b'{"schema": {"type": "bytes"}, "payload": "3q0="}', b"\xde\xad"),
        ("json", in_connects_envelope("int32", 1, "io.debezium.time.Date"), date(1970, 1, 2)),
        ("json", b'{"schema": {"type": "none"}, "payload": "3q0="}', "3q0="),
        ("integer", (-7).to_bytes(8, "big", signed=True), -7),
        ("integer", b"\0\0\1\0", 256),
        ("integer", b"\x80\0", -32768),
        ("messagepack", b"\x81\xa2id\x07", {"id": 7}),
    ],
)
def test_a_key_is_a_field_of_its_message(decoder: str, raw: bytes, field: object) -> None:
    rows, reasons, _ = parse([(raw, {"v": 1}), (None, {"v": 2})], {"decoder": decoder})
    assert (rows[0]["key"], rows[0]["v"], reasons) == (field, 1, [])
    assert rows[1].get("key") is None


@pytest.mark.parametrize(
    ("decoder", "raw", "why"),
    [
        ("text", b"\xff", "decode: key: is not UTF-8"),
        ("json", b"", "decode: key: empty payload"),
        ("json", in_connects_envelope("int32", "x"), "decode: key: key: an integer is expected"),
        ("integer", b"\0\0\1", "decode: key: has 3 bytes, and integers have 1, 2, 4 or 8"),
        ("json", b"seven", "decode: key: is no JSON"),
        ("json", b'7, "v": 8', "decode: key: is no JSON"),
        ("json", b'{"id": 7', "decode: key: "),
        ("json", b'{"schema": NaN, "payload": 5}', "decode: key: "),
        ("json", b'{"schema": 1, "payload": ' + b"[" * 100_000, "decode: key: "),
    ],
)
def test_a_message_whose_key_cannot_be_read_is_in_quarantine(
    decoder: str, raw: bytes, why: str
) -> None:
    rows, reasons, _ = parse(
        [(b"{}" if decoder == "json" else b"k", {"v": 1}), (raw, {"v": 2})], {"decoder": decoder}
    )
    assert [row["v"] for row in rows] == [1]
    assert len(reasons) == 1
    assert reasons[0].startswith(why)


def test_objects_and_texts_among_keys_are_apart() -> None:
    messages = [(b'{"id": 1}', {"v": 1}), (b'"a"', {"v": 2}), (None, {"v": 3}), (b"4", {"v": 4})]
    rows, reasons, _ = parse(messages, {"decoder": "json"})
    assert reasons == []
    keys = [row.get("key") for row in rows]
    # Text and numbers of one chunk are JSON text, as they are among values.
    assert keys == [{"id": 1}, '"a"', None, "4"]


def test_fields_of_keys_are_beside_those_of_values() -> None:
    messages = [
        (b'{"id": 1}', {"v": 1}),
        (b'{"id": 2}', {"v": 2, "key_id": 2}),
        (b'{"id": 3}', {"v": 3, "key_id": 4}),
        (b'"text"', {"v": 4}),
    ]
    rows, reasons, _ = parse(messages, {"decoder": "json", "prefix": "key_"})
    assert [(row["v"], row.get("key_id"), row.get("key")) for row in rows] == [
        (1, 1, None),
        (2, 2, None),
        (4, None, "text"),
    ]
    assert reasons == ["decode: key: its key_id differs from the value's"]


def test_a_field_that_value_and_key_have_is_there_once() -> None:
    messages = [(b'{"id": 1}', {"id": 1.0, "v": 1.5}), (b'{"id": 2}', {"id": None, "v": 2})]
    rows, reasons, _ = parse(messages, {"decoder": "json", "prefix": ""})
    assert (rows, reasons) == ([{"id": 1, "v": 1.5}, {"id": 2, "v": 2}], [])


def test_a_text_is_the_same_whatever_its_neighbours_in_the_value_are() -> None:
    """An object beside it makes the values of this chunk JSON text, those of keys not."""
    messages = [(b'{"id": "a"}', {"id": "a"}), (b'{"id": "b"}', {"v": 1}), (None, {"id": {"x": 1}})]
    rows, reasons, _ = parse(messages, {"decoder": "json", "prefix": ""})
    assert reasons == []
    assert [row["id"] for row in rows] == ['"a"', "b", '{"x":1}']


def test_layouts_and_filters_see_keys() -> None:
    config, faults = validate(
        {
            "group": {"name": "g", "kind": "partition"},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["orders"]},
            "store": {"kind": "local", "local": {"directory": "d"}},
            "output": {"format": "text"},
            "parser": {
                "decoder": "none",
                "layout": "country={key.country}",
                "transforms": [{"kind": "filter", "field": "key.id", "one_of": [1, 2]}],
                "key": {"decoder": "json"},
            },
        }
    )
    assert config is not None, faults
    columns: dict[str, list[Any]] = {name: [None] * 3 for name in SCHEMA.names}
    columns |= {"offset": [0, 1, 2], "value": [b"a", b"b", b"c"]}
    columns["key"] = [json.dumps({"id": at, "country": f"c{at}"}).encode() for at in range(3)]
    records = pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
    parts = plan_for(config, "orders").parser.split(Chunk(TopicPartition("orders", 0), records, 3))
    assert [part.output_partition for part in parts] == ["country=c1", "country=c2"]


def test_keys_that_confluents_serialisers_framed_are_read_by_the_same_registry() -> None:
    confluent = Confluent()
    value = confluent.avro(
        json.dumps({"type": "record", "name": "V", "fields": [{"name": "v", "type": "long"}]})
    )
    record = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "int"}]}
    keys = [
        (confluent.avro('"string"'), "ann"),
        (confluent.avro('"long"'), 7),
        (confluent.avro(json.dumps(record)), {"id": 8}),
        (confluent.avro('"string"', **IN_HEADERS), "bob"),
    ]
    messages, headers = [], []
    for number, (serializer, key) in enumerate(keys):
        # Each of another topic, and so of another subject.
        raw = confluent.write(serializer, key, topic=f"t{number}", key=True)
        headers.append(list(confluent.headers))
        messages.append((raw, confluent.write(value, {"v": number})))
    with running_registry() as registry:
        confluent.copy_to(registry)
        settings: dict[str, Any] = {"decoder": "avro", "registry_url": registry.url}
        rows, reasons, _ = parse(messages, {"decoder": "avro"}, headers, **settings)
        assert reasons == []
        assert [row["key"] for row in rows] == ["ann", 7, {"id": 8}, "bob"]
        assert [row["v"] for row in rows] == [0, 1, 2, 3]
        _, reasons, _ = parse([(b"ann", messages[0][1])], {"decoder": "avro"}, **settings)
        assert reasons == ["decode: key: magic byte 97, not 0 or 1"]
