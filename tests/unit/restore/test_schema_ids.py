"""Ids in messages, changed to those of another registry; Confluent's deserialisers judge."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from secor.core.model import HEADERS_TYPE, SCHEMA
from secor.restore.schema_ids import SchemaIds, framed_by, undecided, with_new_ids
from tests.fakes.confluent import Confluent
from tests.fakes.registry import running_registry

FRAMED = {1: 101, 7: 300, 0x01020304: 5}


def column(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def changed(*values: bytes | None) -> tuple[list[bytes | None], int, int]:
    array, mapped, unknown = with_new_ids(column(*values), FRAMED, {*FRAMED, 2})
    return array.to_pylist(), mapped, unknown


def test_only_ids_behind_a_zero_byte_change() -> None:
    given = [
        b"\x00\x00\x00\x00\x01payload",
        b"\x00\x00\x00\x00\x02payload",
        b"\x01\x00\x00\x00\x01payload",
        None,
        b"",
        b"\x00\x00\x00\x00\x01",
        b"\x00\x01\x02\x03\x04\x00",
        b"\x00\x00\x00\x00\x09payload",
    ]
    values, mapped, unknown = changed(*given)
    assert values == [
        b"\x00\x00\x00\x00\x65payload",
        *given[1:6],
        b"\x00\x00\x00\x00\x05\x00",
        given[7],
    ]
    assert (mapped, unknown) == (2, 1)


@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_part_of_a_column_changes_alone(start: int) -> None:
    whole = column(b"\x00\x00\x00\x00\x01a", None, b"\x00\x00\x00\x00\x07b", b"x")
    sliced = whole.slice(start)
    array, _, _ = with_new_ids(sliced, FRAMED, FRAMED)
    expected = [b"\x00\x00\x00\x00\x65a", None, b"\x00\x00\x01\x2cb", b"x"][start:]
    assert array.to_pylist() == [
        value if value != b"\x00\x00\x01\x2cb" else b"\x00\x00\x00\x01\x2cb" for value in expected
    ]
    assert whole.to_pylist()[0] == b"\x00\x00\x00\x00\x01a", "what was read is not written over"


@pytest.mark.parametrize("values", [[], [None], [b""]])
def test_columns_without_bytes_stay(values: list[Any]) -> None:
    assert changed(*values) == (values, 0, 0)


def test_topics_are_chosen_by_their_subjects_and_a_long_as_a_key_is_none() -> None:
    key = (7 << 24 | 0x5BCD15).to_bytes(8, "big")
    value = b"\x00\x00\x00\x00\x07{}"
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([5], pa.int64()),
            pa.array([0], pa.int64()),
            pa.array([0], pa.int8()),
            column(key),
            column(value),
            pa.array([None], HEADERS_TYPE),
        ],
        schema=SCHEMA,
    )
    ids = SchemaIds(FRAMED, FRAMED, framed_by({"orders-value"}, lambda part: part == "dead-value"))
    after = ids("orders", batch)
    assert after.column("key").to_pylist() == [key]
    assert after.column("value").to_pylist() == [b"\x00\x00\x00\x01\x2c{}"]
    assert ids("dead", batch).column("value").to_pylist() == [b"\x00\x00\x00\x01\x2c{}"]
    assert ids("other", batch) == batch
    assert (ids.mapped, ids.unknown) == (2, {})
    assert undecided(["orders", "dead"], {"orders-value"}) == ["dead"]


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_confluents_deserialisers_read_what_has_the_ids_of_another_registry(kind: str) -> None:
    lost = Confluent()
    written, reader = _written(lost, kind)
    old = int.from_bytes(written[1:5], "big")
    with running_registry() as there:
        there.register(old, '"bytes"', subject="others")
        lost.copy_to(there)
        schema = there.schemas.pop(old)
        there.schemas = {old: {"schema": '"bytes"'}, old + 700: schema}
        client = SchemaRegistryClient({"url": there.url})
        field = SerializationContext("orders", MessageField.VALUE)
        array, mapped, _ = with_new_ids(column(written), {old: old + 700}, {old})
        assert mapped == 1
        assert reader(client)(array[0].as_py(), field) == {"number": 7}


def _written(lost: Confluent, kind: str) -> tuple[bytes, Any]:
    if kind == "avro":
        fields = [{"name": "number", "type": "long"}]
        schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
        return lost.write(lost.avro(schema), {"number": 7}), AvroDeserializer
    if kind == "json":
        schema = json.dumps({"title": "Order", "type": "object"})
        return (
            lost.write(lost.json(schema), {"number": 7}),
            lambda client: JSONDeserializer(None, schema_registry_client=client),
        )
    message = order_message()

    def reader(client: Any) -> Any:
        conf = {"use.deprecated.format": False}
        read = ProtobufDeserializer(message, conf, client)
        return lambda data, context: {"number": read(data, context).number}

    return lost.write(lost.protobuf(message), message(number=7)), reader


def order_message() -> Any:
    """Return the class of a message with one number."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    field = file.message_type.add(name="Order").field.add(name="number", number=1, label=1)
    field.type = descriptor_pb2.FieldDescriptorProto.TYPE_INT64
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
