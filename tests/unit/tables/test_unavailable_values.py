"""Columns that an update leaves out: found in each of Debezium's forms, and staged as kept."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.core.variant_json import MIXED
from secor.tables.catalog import NewTable
from secor.tables.rows.unavailable_values import DEBEZIUM_DEFAULT, Placeholder, hide_unavailable
from tests.unit.tables.test_worker_changes import DEBEZIUM, UPSERT, envelope, staged, world_of
from tests.unit.tables.worker_world import WorkerWorld

PLACEHOLDER = DEBEZIUM_DEFAULT
RAW = PLACEHOLDER.encode()
IN_BASE64 = base64.b64encode(RAW).decode()
UUID = str(uuid.UUID(bytes=hashlib.md5(RAW, usedforsecurity=False).digest(), version=3))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([PLACEHOLDER, "x", None, "", PLACEHOLDER + " "], pa.string()),
        ([IN_BASE64, IN_BASE64[:-1]], pa.string()),
        ([RAW.hex(), RAW.hex()[2:]], pa.string()),
        ([RAW, RAW[:-1], None, b""], pa.binary()),
        ([[PLACEHOLDER], [PLACEHOLDER, "x"], ["x"], [None], [], None], pa.list_(pa.string())),
        ([[UUID], [UUID, UUID]], pa.list_(pa.string())),
        ([[IN_BASE64], [IN_BASE64, ""]], pa.list_(pa.string())),
        ([[RAW], [RAW, RAW], [b""]], pa.list_(pa.binary())),
        ([[*RAW], [*RAW, 1], [*RAW[1:], 0], [1], [], None], pa.list_(pa.int32())),
        ([[*RAW], [*RAW[1:]]], pa.list_(pa.int64())),
        (
            [{PLACEHOLDER: PLACEHOLDER}, {"a": PLACEHOLDER}, {}, None],
            pa.map_(pa.string(), pa.string()),
        ),
        (
            [{PLACEHOLDER: PLACEHOLDER}, {"a": "x"}, {PLACEHOLDER: PLACEHOLDER, "a": "x"}, None],
            pa.struct({"a": pa.string(), PLACEHOLDER: pa.string()}),
        ),
        (
            [{"wkb": "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==", "srid": 4326}, {"wkb": "AQE="}],
            pa.struct({"wkb": pa.string(), "srid": pa.int32()}),
        ),
    ],
)
def test_each_form_is_found_and_nothing_else(values: list[Any], kind: pa.DataType) -> None:
    rows = pa.StructArray.from_arrays(
        [pa.array(range(len(values))), pa.array(values, kind)], names=["id", "v"]
    )
    hidden, masks = hide_unavailable(rows.slice(0), Placeholder(PLACEHOLDER), lambda _: False)
    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "v": [True] + [False] * (len(values) - 1)
    }
    assert hidden.field("v").null_count == values.count(None) + 1
    assert hidden.field("id").to_pylist() == list(range(len(values)))
    same, _ = hide_unavailable(rows, Placeholder(PLACEHOLDER), lambda _: True)
    assert same.equals(rows)


def test_values_of_several_kinds_are_found_in_their_json_text() -> None:
    values = [PLACEHOLDER, [PLACEHOLDER], [*RAW], {PLACEHOLDER: PLACEHOLDER}, [1], {"a": "b"}, 5]
    column = pa.array([*map(json.dumps, values), None])
    rows = pa.StructArray.from_arrays([column], fields=[pa.field("v", pa.string(), metadata=MIXED)])
    _, masks = hide_unavailable(rows, Placeholder(PLACEHOLDER), lambda _: False)
    assert masks["v"].tolist() == [True] * 4 + [False] * 4


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.timestamp("us")), pa.map_(pa.string(), pa.timestamp("us"))],
    ids=str,
)
def test_times_that_python_does_not_have_are_passed_over(kind: pa.DataType) -> None:
    beyond = pa.array([400_000_000_000_000_000], pa.int64()).cast(pa.timestamp("us"))
    column = (
        pa.ListArray.from_arrays([0, 1], beyond)
        if pa.types.is_list(kind)
        else pa.MapArray.from_arrays([0, 1], pa.array(["a"]), beyond)
    )
    rows = pa.StructArray.from_arrays([column], ["at"])
    _, masks = hide_unavailable(rows, Placeholder(PLACEHOLDER), lambda _: False)
    assert not masks


def test_a_placeholder_may_be_given_by_its_bytes() -> None:
    rows = pa.array([{"v": "abc"}, {"v": "YWJj"}, {"v": "hex:616263"}])
    _, masks = hide_unavailable(rows, Placeholder("hex:616263"), lambda _: False)
    assert masks["v"].tolist() == [True, True, False]


def test_a_key_is_never_left_out(tmp_path: Path) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    world.stage(envelope("c", after={"id": "x", "a": "b"}))
    changes = staged(world, world.stage(envelope("c", after={"id": PLACEHOLDER, "a": "b"})))
    assert kept(world, changes) == [[]]
    assert changes[0]["row"] == {"id": PLACEHOLDER, "a": "b"}


def kept(world: WorkerWorld, changes: list[dict[str, Any]]) -> list[list[str]]:
    """Return the names of the columns that each staged change keeps."""
    schema = world.catalog.load_table("db.flights").schema
    names = {int(field.metadata[b"PARQUET:field_id"]): field.name for field in schema}
    return [[names[number] for number in change["kept"] or ()] for change in changes]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_column_that_an_update_leaves_out_is_staged_as_kept(
    tmp_path: Path, wrapped: bool
) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    row = {"id": 1, "v": "a", "body": "long", "numbers": [1], "tags": {"k": "v"}, "price": 1.5}
    unknown = {
        **row,
        "v": "b",
        "body": PLACEHOLDER,
        "numbers": [*RAW],
        "tags": {PLACEHOLDER: PLACEHOLDER},
        "price": PLACEHOLDER,
    }
    messages = [envelope("c", after=row), envelope("u", after=unknown), envelope("d", row)]
    if wrapped:
        messages = [{"schema": None, "payload": it} for it in messages]
    changes = staged(world, world.stage(*messages))
    assert world.reasons() == []
    assert kept(world, changes) == [[], ["body", "numbers", "tags", "price"], []]
    assert changes[1]["row"] == {**dict.fromkeys(row), "id": 1, "v": "b"}
    assert world.catalog.load_table("db.flights").schema.names == list(row)


def test_the_first_messages_show_no_columns_by_a_placeholder(tmp_path: Path) -> None:
    world = world_of(tmp_path, DEBEZIUM)
    after = {"id": 1, "tags": {PLACEHOLDER: PLACEHOLDER}}
    changes = staged(world, world.stage(envelope("u", after=after)))
    assert world.catalog.load_table("db.flights").schema.names == ["id"]
    assert kept(world, changes) == [[]]
    changes = staged(world, world.stage(envelope("c", after={"id": 2, "tags": {"a": "b"}})))
    assert changes[0]["row"]["tags"] == {"a": "b"}


def test_a_column_that_must_have_a_value_has_the_placeholder_beside(tmp_path: Path) -> None:
    world = world_of(tmp_path, {**DEBEZIUM, "auto_create": False})
    columns = [pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.string())]
    required = pa.field("b", pa.string(), nullable=False)
    world.catalog.create_table("db.flights", NewTable(pa.schema([*columns, required]), ()))
    after = {"id": 1, "a": PLACEHOLDER, "b": PLACEHOLDER}
    (change,) = staged(world, world.stage(envelope("u", after=after)))
    assert kept(world, [change]) == [["a", "b"]]
    assert change["row"] == {"id": 1, "a": None, "b": PLACEHOLDER}


def test_another_placeholder_and_none(tmp_path: Path) -> None:
    after = {"id": 1, "a": PLACEHOLDER, "b": "left out"}
    for directory, setting, expected in (("x", "left out", ["b"]), ("y", "", None)):
        world = world_of(tmp_path / directory, {**DEBEZIUM, "unavailable_value": setting})
        world.stage(envelope("c", after={"id": 2, "a": "a", "b": "b"}))
        (change,) = staged(world, world.stage(envelope("u", after=after)))
        if expected is None:
            assert "kept" not in change
            assert change["row"] == after
        else:
            assert kept(world, [change]) == [expected]
            assert change["row"] == {"id": 1, "a": PLACEHOLDER, "b": None}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"mode": "cdc", "unavailable_value": "hex:5"}, "no bytes in hexadecimal"),
        (
            {"mode": "append", "key": [], "unavailable_value": "x"},
            'is for mode = "upsert" or "cdc"',
        ),
    ],
)
def test_a_placeholder_that_could_be_no_value_is_a_fault(
    tmp_path: Path, settings: dict[str, Any], fault: str
) -> None:
    with pytest.raises(AssertionError, match=fault):
        world_of(tmp_path, {**DEBEZIUM, **settings})


def test_flat_messages_keep_what_a_setting_names(tmp_path: Path) -> None:
    for directory, expected in (("x", False), ("y", True)):
        settings = {"unavailable_value": PLACEHOLDER} if expected else {}
        world = world_of(tmp_path / directory, {**UPSERT, **settings})
        world.stage({"id": 2, "a": "a"})
        (change,) = staged(world, world.stage({"id": 1, "a": PLACEHOLDER}))
        assert ("kept" in change) == expected
        assert change["row"]["a"] == (None if expected else PLACEHOLDER)
