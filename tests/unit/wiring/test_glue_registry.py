"""Messages framed for the registry of AWS Glue, from the configuration to rows."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import boto3
import pytest
from moto import mock_aws

from secor.config.parser import Parser
from secor.core.model import QUARANTINE, Chunk, TopicPartition
from secor.parsing.parts import ROW
from secor.wiring.parsers import pipeline_for
from tests.fakes.archive import messages

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}'
PROTOBUF = """syntax = "proto3";
package shop;
message Zebra { int32 z = 1; }
message Order {
  message Line { string sku = 1; }
  map<string, int32> notes = 1;
}
"""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with mock_aws():
        client = boto3.client("glue", region_name="eu-west-1")
        client.create_registry(RegistryName="r")
        yield client


def head_of(registry: Any, kind: str, text: str, compression: int = 0) -> bytes:
    made = registry.create_schema(
        RegistryId={"RegistryName": "r"},
        SchemaName=kind,
        DataFormat=kind,
        Compatibility="NONE",
        SchemaDefinition=text,
    )
    return struct.pack("BB", 3, compression) + UUID(made["SchemaVersionId"]).bytes


def parsed(decoder: str, values: list[bytes]) -> list[Any]:
    address = "https://glue.eu-west-1.amazonaws.com"
    settings = {"decoder": decoder, "framing": "glue", "registry_url": address}
    parser = pipeline_for(Parser.model_validate(settings), typed=True, limited=False)
    chunk = Chunk(
        TopicPartition("orders", 0), messages(range(len(values)), values.__getitem__), len(values)
    )
    parts = parser.split(chunk)
    assert QUARANTINE not in [part.stream for part in parts]
    return [row for part in parts for row in part.records.column(ROW).to_pylist()]


def test_avro_is_read_plain_and_compressed(registry: Any) -> None:
    head = head_of(registry, "AVRO", AVRO)
    compressed = head[:1] + b"\5" + head[2:]
    values = [head + b"\x04NL", compressed + zlib.compress(b"\x04FR")]
    assert parsed("avro", values) == [{"a": "NL"}, {"a": "FR"}]


def test_a_protobuf_type_is_the_one_at_its_position_among_all_names(registry: Any) -> None:
    head = head_of(registry, "PROTOBUF", PROTOBUF)
    # shop.Order, shop.Order.Line, shop.Order.NotesEntry, shop.Zebra
    assert parsed("protobuf", [head + b"\x01" + b"\x0a\x01a"]) == [{"sku": "a"}]
    assert parsed("protobuf", [head + b"\x03" + b"\x08\x05"]) == [{"z": 5}]


def test_json_has_the_types_of_its_schema(registry: Any) -> None:
    head = head_of(registry, "JSON", '{"type": "object", "properties": {"a": {"type": "number"}}}')
    assert parsed("json", [head + b'{"a": 1}']) == [{"a": 1.0}]
