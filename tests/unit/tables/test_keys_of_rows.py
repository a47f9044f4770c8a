"""Kafka's keys in tables: as columns, as keys of rows, and as what deletes a row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.fakes.confluent import Confluent
from tests.fakes.registry import running_registry
from tests.unit.tables.test_worker_changes import operations, staged, world_of
from tests.unit.tables.worker_world import Keyed, WorkerWorld

UPSERT = {"table": "db.flights", "auto_create": True, "mode": "upsert"}


def framed(kind: str, *keys: Any) -> tuple[Confluent, list[bytes], list[bytes]]:
    """Return keys of one Avro type and values with that id, as Confluent's serialisers write."""
    confluent = Confluent()
    fields = [{"name": "id", "type": kind}, {"name": "v", "type": "string"}]
    record = {"type": "record", "name": "V", "fields": fields}
    value, key = confluent.avro(json.dumps(record)), confluent.avro(json.dumps(kind))
    values = [confluent.write(value, {"id": it, "v": "a"}) for it in keys]
    return confluent, [confluent.write(key, it, key=True) for it in keys], values


@pytest.mark.parametrize(("kind", "first", "second"), [("string", "ann", "bob"), ("long", 1, 2)])
def test_a_framed_key_without_a_value_deletes_its_row(
    tmp_path: Path, kind: str, first: object, second: object
) -> None:
    confluent, keys, values = framed(kind, first, second)
    with running_registry() as registry:
        confluent.copy_to(registry)
        parser = {
            "decoder": "avro",
            "registry_url": registry.url,
            "key": {"decoder": "avro", "field": "none"},
        }
        world = world_of(tmp_path, {**UPSERT, "key": ["id"]}, parser=parser)
        messages = [Keyed(key, value) for key, value in zip(keys, values, strict=True)]
        manifests = world.stage(*messages, Keyed(keys[0], None), Keyed(b"unframed", None))
    assert operations(world, manifests) == [(0, 0, first), (1, 0, second), (2, 1, first)]
    [reason] = world.reasons()
    assert "deletes, and its key does not have id: magic byte" in reason
    columns = world.catalog.load_table("db.flights").schema.names
    assert columns == ["id", "v"]


def test_a_framed_key_needs_its_setting(tmp_path: Path) -> None:
    _, keys, _ = framed("string", "ann")
    world = world_of(tmp_path, {**UPSERT, "key": ["id"]})
    world.stage({"id": "ann"}, Keyed(keys[0], None))
    [reason] = world.reasons()
    assert reason.endswith("the frame of a schema registry: set parser.key.decoder")


def test_rows_by_kafkas_key_need_no_field_of_the_value(tmp_path: Path) -> None:
    parser = {"decoder": "none", "key": {"decoder": "text", "field": "id"}}
    world = world_of(tmp_path, {**UPSERT, "key": ["id"]}, parser=parser)
    messages = [Keyed(b"a", b"1"), Keyed(b"b", b"\xff"), Keyed(b"a", None), Keyed(None, b"2")]
    manifests = world.stage(*messages)
    assert operations(world, manifests) == [(0, 0, "a"), (1, 0, "b"), (2, 1, "a")]
    assert staged(world, manifests)[1]["row"] == {"value": b"\xff", "id": "b"}
    assert world.reasons() == ["schema: db.flights: id: is missing"]


def test_prefixed_keys_delete_by_either_name(tmp_path: Path) -> None:
    for number, column in enumerate(("id", "k_id")):
        parser = {"key": {"decoder": "json", "prefix": "k_"}}
        world = world_of(tmp_path / str(number), {**UPSERT, "key": [column]}, parser=parser)
        key = b'{"id": 1}'
        manifests = world.stage(Keyed(key, {"id": 1, "v": "a"}), Keyed(key, None))
        rows = staged(world, manifests)
        assert [(row["operation"], row["row"][column]) for row in rows] == [(0, 1), (1, 1)]


def test_a_key_in_connects_envelope_may_be_one_value(tmp_path: Path) -> None:
    world = world_of(tmp_path, {**UPSERT, "key": ["id"]})
    key = json.dumps({"schema": {"type": "int32", "optional": False}, "payload": 5}).encode()
    manifests = world.stage(Keyed(key, {"id": 5}), Keyed(key, None))
    assert operations(world, manifests) == [(0, 0, 5), (1, 1, 5)]


def columns_of_keys(world: WorkerWorld, messages: Sequence[Keyed]) -> list[dict[str, Any]]:
    world.write(*messages)
    assert world.reasons() == []
    return sorted(world.rows(), key=lambda row: int(row["v"]))


_UUID = "6f1d6f7a-8f0a-4d4e-9a53-0d3b4a1d2c3e"
_DAY = date(2018, 6, 20)
_AT = datetime(2018, 6, 20, 15, 13, 16, 945000)  # noqa: DTZ001


def in_connects_envelope(kind: str, value: object, name: str | None = None) -> bytes:
    schema = {"type": kind, "optional": False, **({} if name is None else {"name": name})}
    return json.dumps({"schema": schema, "payload": value}).encode()


@pytest.mark.parametrize("decoder", ["none", "json"])
@pytest.mark.parametrize(
    ("kind", "name", "written", "expected"),
    [
        ("int64", None, 7, 7),
        ("string", None, "a", "a"),
        ("bytes", None, "3q0=", b"\xde\xad"),
        ("int32", "io.debezium.time.Date", 17_702, _DAY),
        ("int64", "io.debezium.time.Timestamp", 1_529_507_596_945, _AT),
        ("int64", "io.debezium.time.MicroTimestamp", 1_529_507_596_945_000, _AT),
        ("string", "io.debezium.data.Uuid", _UUID, UUID(_UUID)),
    ],
)
def test_a_key_of_one_value_is_what_its_schema_says(
    tmp_path: Path, decoder: str, kind: str, name: str | None, written: object, expected: object
) -> None:
    parser = {} if decoder == "none" else {"key": {"decoder": decoder, "field": "none"}}
    world = world_of(tmp_path, {**UPSERT, "key": ["id"]}, parser=parser)
    column = {"type": kind, "field": "id", **({} if name is None else {"name": name})}
    made = {"schema": {"type": "struct", "fields": [column]}, "payload": {"id": written}}
    gone = Keyed(in_connects_envelope(kind, written, name), None)
    whole = Keyed(json.dumps(made).encode(), None)
    manifests = world.stage(made, gone, whole)
    assert world.reasons() == []
    rows = [(operation, _plain(it)) for _, operation, it in operations(world, manifests)]
    assert rows == [(0, expected), (1, expected), (1, expected)]


def _plain(value: object) -> object:
    is_uuid = isinstance(value, bytes) and len(value) == len(UUID(_UUID).bytes)
    return UUID(bytes=value) if is_uuid and isinstance(value, bytes) else value


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_key_that_a_serialiser_of_integers_wrote_deletes_its_row(
    tmp_path: Path, size: int
) -> None:
    parser = {"key": {"decoder": "integer", "field": "none"}}
    world = world_of(tmp_path, {**UPSERT, "key": ["id"]}, parser=parser)
    gone = Keyed((-7).to_bytes(size, "big", signed=True), None)
    manifests = world.stage({"id": -7}, gone, Keyed(b"-7!", None))
    assert operations(world, manifests) == [(0, 0, -7), (1, 1, -7)]
    [reason] = world.reasons()
    assert "has 3 bytes, and integers have 1, 2, 4 or 8" in reason


def test_columns_of_keys_are_beside_those_of_values(tmp_path: Path) -> None:
    table = {"table": "db.flights", "auto_create": True, "partition_by": ["key_country"]}
    parser = {"key": {"decoder": "json", "prefix": "key_"}}
    world = WorkerWorld(tmp_path, [table], {"parser": parser})
    keys = [{"id": at, "country": country} for at, country in enumerate(("NL", "BE"))]
    messages = [Keyed(json.dumps(key).encode(), {"v": at}) for at, key in enumerate(keys)]
    assert columns_of_keys(world, messages) == [
        {"v": 0, "key_id": 0, "key_country": "NL"},
        {"v": 1, "key_id": 1, "key_country": "BE"},
    ]
    scan = world.catalog.library.load_table("db.flights").scan(row_filter="key_country = 'BE'")
    assert len(list(scan.plan_files())) == 1


def test_a_table_that_grows_gets_the_column_of_keys(tmp_path: Path) -> None:
    table = {"table": "db.flights", "auto_create": True, "evolve": True}
    world = WorkerWorld(tmp_path, [table], {"parser": {"key": {"decoder": "text"}}})
    world.write(Keyed(None, {"v": 1}))
    rows = columns_of_keys(world, [Keyed(b"k", {"v": 2})])
    assert rows == [{"v": 1, "key": None}, {"v": 2, "key": "k"}]
