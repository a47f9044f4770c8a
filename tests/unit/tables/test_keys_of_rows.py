"""Kafka's keys in tables: as columns, as keys of rows, and as what deletes a row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
