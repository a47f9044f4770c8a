"""Tables are made from messages and grow with them; what cannot be is in quarantine."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from secor.core.errors import ConfigurationError, TableUnusable
from secor.core.small_objects import put_bytes
from secor.tables.catalog import AddColumn, NewTable, SchemaChange, Table
from secor.tables.commit.plan_notes import PlanNotes
from secor.tables.commit.table_updates import ASK_AGAIN
from tests.unit.tables.worker_world import WorkerWorld

FLIGHTS = {"table": "db.flights", "auto_create": True, "evolve": True}
GROWING = {"table": "db.flights", "evolve": True}


def world_with(directory: Path, *fields: pa.Field) -> WorkerWorld:
    world = WorkerWorld(directory, [GROWING])
    world.catalog.create_table("db.flights", NewTable(pa.schema(list(fields))))
    return world


def kinds(world: WorkerWorld) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in world.catalog.load_table("db.flights").schema}


def test_a_table_is_made_of_the_first_messages(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{**FLIGHTS, "partition_by": ["bucket(4, id)", "yes"]}])
    world.write({"id": 1, "yes": True, "x": 1, "empty": None, "none": []}, {"id": 2, "x": 0.5})
    assert kinds(world) == {
        "id": pa.int64(),
        "x": pa.float64(),
        "yes": pa.bool_(),
    }
    table = world.catalog.load_table("db.flights")
    assert [field.transform for field in table.spec] == ["bucket[4]", "identity"]
    assert table.properties["write.metadata.delete-after-commit.enabled"] == "true"
    assert table.properties["write.parquet.compression-codec"] == "zstd"
    assert sorted(row["x"] for row in world.rows()) == [0.5, 1.0]


def test_values_whose_type_is_not_known_yet_are_counted_by_field(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write({"id": 1, "in": {"known": 1}})
    world.write(
        {"id": 2, "lists": [None], "in": {"known": 2, "empty": {}}},
        {"id": 3, "lists": [[]], "none": None, "in": {"known": 3}},
        {"id": 4, "object": {}, "ID": 5},
        b"no json",
    )
    assert [*kinds(world)] == ["id", "in"]
    assert len(world.rows()) == 4
    counted = {name: number for name, number in world.counts.items() if "undeclared" in name}
    assert counted == {
        "undeclared_db.flights: lists": 2,
        "undeclared_db.flights: in.empty": 1,
        "undeclared_db.flights: object": 1,
        "undeclared_db.flights: ID": 1,
    }
    world.counts.clear()
    world.write({"id": 5, "lists": ["x"]}, {"id": 6, "lists": [None, "y"]})
    assert [row["lists"] for row in world.rows() if row["id"] == 6] == [[None, "y"]]
    assert not [name for name in world.counts if "undeclared" in name]


@pytest.mark.parametrize("first", [{"id": 0}, None])
def test_names_that_a_table_or_its_readers_do_not_take_are_no_columns(
    tmp_path: Path, first: object
) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    if first is not None:
        world.write(first)
    twice = {"x.y": {"z": 1}, "x": {"y.z": 1, "y": {"z": 2}}}
    world.write(
        {
            "id": 1,
            "ID": 2,
            "": 3,
            "_pos": 4,
            "_FILE": "f",
            "_partition": 5,
            "a.b": {"c": 1},
            "in": twice,
        }
    )
    world.write({"id": 2, "a": {"b": {"c": 1}, "other": 1}, "a.b.c": 1})
    assert [*kinds(world)] == ["id", "a.b"]
    assert [row["a.b"] for row in sorted(world.rows(), key=lambda row: row["id"])][-2:] == [
        {"c": 1},
        None,
    ]
    assert world.reasons() == []


def test_a_partition_s_value_of_any_length_has_a_path(tmp_path: Path) -> None:
    route = {**FLIGHTS, "partition_by": ["p", "q"]}
    world = WorkerWorld(tmp_path, [route])
    values = ["x" * 5000, "x" * 5001, "é" * 300, "a/b", ".."]
    world.write(*[{"p": value, "q": "y" * 240} for value in values], {"p": "x", "q": "z" * 5000})
    assert sorted(row["p"] for row in world.rows()) == sorted([*values, "x"])
    (found,) = world.rows(row_filter=f"p = '{'x' * 5001}'")
    assert found["p"] == "x" * 5001


def test_a_message_that_tells_no_columns_makes_no_table(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write({})
    world.write({"a": None})
    assert world.catalog.list_tables("db") == []
    assert all("the message has no columns of it" in reason for reason in world.reasons())
    world.write({}, {"id": 1})
    assert [row["id"] for row in world.rows()] == [None, 1]


def test_messages_without_a_partitions_column_make_no_table(tmp_path: Path) -> None:
    """The first message of a topic stopped it: there was no column to make the partitions of."""
    world = WorkerWorld(tmp_path, [{**FLIGHTS, "partition_by": ["day(at)", "id"]}])
    world.write({"id": 1})
    world.write({"at": "2026-01-01T00:00:00Z"}, {"id": 2})  # not enough: in no message together
    assert world.catalog.list_tables("db") == []
    assert len(world.reasons()) == 3
    assert all("the message has no at and id of it" in reason for reason in world.reasons())
    world.write({"id": 3}, {"id": 4, "at": "2026-01-01T00:00:00Z"})
    assert sorted(row["id"] for row in world.rows()) == [3, 4]


@pytest.mark.parametrize(
    ("at", "kind"), [("2026-01-01T00:00:00Z", "UTC"), ("2026-01-01 00:00", None)]
)
def test_a_column_whose_day_is_taken_holds_times_from_its_first_value(
    tmp_path: Path, at: str, kind: str | None
) -> None:
    """Text, as of any other column whose first 1,000 values are not there yet, has no day."""
    world = WorkerWorld(tmp_path, [{**FLIGHTS, "partition_by": ["day(meta.at)", "hour(at)"]}])
    world.write({"at": at, "other": at, "meta": {"at": at, "other": at}})
    schema = world.catalog.load_table("db.flights").schema
    assert schema.field("at").type == pa.timestamp("us", kind)
    assert schema.field("meta").type.field("at").type == pa.timestamp("us", kind)
    assert schema.field("other").type == schema.field("meta").type.field("other").type
    assert pa.types.is_string(schema.field("other").type)
    world.write({"at": "soon", "meta": {"at": at}})
    assert [reason.split(":")[0] for reason in world.reasons()] == ["schema"]


def test_where_rows_came_from_need_not_be_in_a_message(tmp_path: Path) -> None:
    rows = {"rows": {"metadata_columns": ["_timestamp"]}}
    world = WorkerWorld(tmp_path, [{**FLIGHTS, "partition_by": ["day(_timestamp)"]}], rows)
    world.write({"id": 1})
    assert [row["id"] for row in world.rows()] == [1]


def test_a_table_is_made_of_a_declared_schema(tmp_path: Path) -> None:
    declared = tmp_path / "flight.avsc"
    declared.write_text(
        '{"type": "record", "name": "Flight", "fields": [{"name": "id", "type": "int"},'
        ' {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},'
        ' {"name": "text", "type": ["null", "string"]}]}'
    )
    route = {**FLIGHTS, "evolve": False, "schema_file": str(declared)}
    world = WorkerWorld(tmp_path, [{**route, "partition_by": "day(at), truncate(1, text)"}])
    world.write({"id": 1, "at": "2026-01-01T00:00:00Z", "more": 1}, {"at": 5})
    schema = world.catalog.load_table("db.flights").schema
    assert (schema.field("id").nullable, schema.field("text").nullable) == (False, True)
    assert [row["id"] for row in world.rows()] == [1]
    assert world.reasons() == ["schema: db.flights: id: is missing"]
    other = WorkerWorld(tmp_path / "other", [{**route, "optional_columns": True}])
    other.write({"at": 5})
    assert other.catalog.load_table("db.flights").schema.field("id").nullable


def test_a_bad_partition_spec_stops_the_topic_before_anything_is_written(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{**FLIGHTS, "partition_by": ["day(id)"]}])
    with pytest.raises(TableUnusable, match=r"id is long, which day does not take.*schema_file"):
        world.write({"id": 1})
    assert world.catalog.list_tables("db") == []


def test_a_columns_type_is_that_of_99_of_100_values_not_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    times = {"at": "2026-11-21T04:05:06Z"}
    world.write({"who": "root", **times}, *[{"who": {"name": "a"}, **times}] * 999)
    world.write({"who": {"name": "b"}, "new": 1}, *[{"new": [number]} for number in range(100)])
    who = pa.struct([pa.field("name", pa.string())])
    element = pa.list_(pa.field("element", pa.int64()))
    assert kinds(world)["who"].equals(who)
    assert kinds(world)["at"] == pa.timestamp("us", "UTC")
    assert kinds(world)["new"].value_type == element.value_type
    assert len(world.rows()) == 999 + 100
    assert world.reasons() == [
        "schema: db.flights: who: 'root' is no struct<name: string>",
        "schema: db.flights: new: 1 is no list<element: int64>",
    ]
    logged = capsys.readouterr()
    assert "who (1 of 1,000 are texts, not objects)" in logged.out + logged.err


def test_a_new_field_is_a_column_from_its_message_on(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write({"id": 0})
    first, second = world.write({"id": 1}, {"id": 2, "new": "x"}, {"id": 3, "other": [1]})
    assert ((first.start, first.end), (second.start, second.end)) == ((1, 2), (2, 4))
    assert first.tables[0].schema_id + 1 == second.tables[0].schema_id
    rows = sorted(world.rows(), key=lambda row: int(row["id"]))
    assert [row["new"] for row in rows] == [None, None, "x", None]
    assert rows[3]["other"] == [1]


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        (pa.field("x", pa.int32()), 1 << 40, pa.int64()),
        (pa.field("x", pa.float32()), 1e300, pa.float64()),
        (pa.field("x", pa.decimal128(4, 2)), 12345, pa.decimal128(22, 2)),
        (pa.field("x", pa.list_(pa.field("element", pa.int32()))), [1, 1 << 40], None),
        (pa.field("x", pa.struct([pa.field("a", pa.int32())])), {"a": 1 << 40, "b": "new"}, None),
        (pa.field("x", pa.map_(pa.string(), pa.float32())), {"k": 1e300}, None),
    ],
    ids=["long", "double", "decimal", "list", "struct", "map"],
)
def test_a_value_that_needs_it_widens_its_column(
    tmp_path: Path, field: pa.Field, value: object, kind: pa.DataType | None
) -> None:
    world = world_with(tmp_path, pa.field("id", pa.int32()), field)
    world.write({"id": 1}, {"id": 2, "x": value})
    if kind is not None:
        assert kinds(world)["x"] == kind
    found = next(row["x"] for row in world.rows() if row["id"] == 2)
    if isinstance(found, Decimal):
        found = int(found)
    assert (dict(found) if isinstance(value, dict) else found) == value
    assert world.reasons() == []


def test_decimals_and_times_are_exact_or_in_quarantine(tmp_path: Path) -> None:
    world = world_with(
        tmp_path,
        pa.field("d", pa.decimal128(38, 10)),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
    )
    longest = "9" * 28 + "." + "9" * 10
    world.write(
        {"d": longest, "price": 2.67, "at": "2023-11-14T22:13:20.123456Z"},
        {"d": "0.00000000001"},
        {"d": "1e28"},
        {"price": 1.005},
        {"at": "2023-11-14T22:13:20.123456789Z"},
    )
    (row,) = world.rows()
    assert (row["d"], row["price"]) == (Decimal(longest), Decimal("2.67"))
    assert row["at"].isoformat() == "2023-11-14T22:13:20.123456+00:00"
    assert world.reasons() == [
        "schema: db.flights: d: '0.00000000001' is no decimal128(38, 10)",
        "schema: db.flights: d: '1e28' is no decimal128(38, 10)",
        "schema: db.flights: price: 1.005 is no decimal128(9, 2)",
        "schema: db.flights: at: '2023-11-14T22:13:20.123456789Z' is no timestamp[us, tz=UTC]",
    ]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_required_fields_of_a_struct_that_is_null_break_no_writer(
    tmp_path: Path, file_format: str
) -> None:
    inner = pa.struct([pa.field("x", pa.int32(), False), pa.field("u", pa.binary(4), False)])
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("of", inner)])
    properties = {"write.format.default": file_format}
    world.catalog.create_table("db.flights", NewTable(columns, properties=properties))
    full = {"x": 7, "u": "abcd"}
    (manifest,) = world.write({"id": 1}, {"id": 2, "of": full}, {"id": 3, "of": None})
    (file,) = manifest.tables[0].files
    assert (file.records, world.reasons()) == (3, [])
    if file_format == "parquet":
        structs = {row["id"]: row["of"] for row in world.rows()}
        assert structs == {1: None, 2: {"x": 7, "u": b"abcd"}, 3: None}


def test_what_is_declared_as_not_null_is_required_in_the_table(tmp_path: Path) -> None:
    declared = tmp_path / "flight.json"
    declared.write_text(
        '{"fields": [{"name": "id", "type": "int64", "nullable": false},'
        ' {"name": "of", "type": {"struct": [{"name": "x", "type": "int32", "nullable": false}]}}]}'
    )
    world = WorkerWorld(tmp_path, [{**FLIGHTS, "evolve": False, "schema_file": str(declared)}])
    world.write({"id": 1, "of": {"x": 2}}, {"of": {"x": 2}}, {"id": 3, "of": {}}, {"id": 4})
    schema = world.catalog.library.load_table("db.flights").schema()
    required = [schema.find_field(name).required for name in ("id", "of", "of.x")]
    assert required == [True, False, True]
    assert sorted(row["id"] for row in world.rows()) == [1, 4]
    assert world.reasons() == [
        "schema: db.flights: id: is missing",
        "schema: db.flights: of.x: is missing",
    ]
    route = {**FLIGHTS, "schema_file": str(declared), "optional_columns": True}
    other = WorkerWorld(tmp_path / "other", [route])
    other.write({"of": {}})
    schema = other.catalog.library.load_table("db.flights").schema()
    assert not any(field.required for field in (*schema.fields, schema.find_field("of.x")))


UUID = {"type": "string", "logicalType": "uuid"}
ONE = uuid.UUID("6f1d6f7a-8f0a-4d4e-9a53-0d3b4a1d2c3e")


def test_declared_uuids_are_columns_of_that_type(tmp_path: Path) -> None:
    avro = {
        "type": "record",
        "name": "flight",
        "fields": [
            {"name": "id", "type": ["null", UUID]},
            {"name": "seats", "type": {"type": "array", "items": ["null", UUID]}},
            {"name": "of", "type": {"type": "map", "values": UUID}},
        ],
    }
    own = {
        "fields": [
            {"name": "id", "type": "uuid"},
            {"name": "seats", "type": {"list": "uuid"}, "nullable": False},
            {"name": "of", "type": {"map": "uuid"}, "nullable": False},
        ]
    }
    for form in (avro, own):
        declared = tmp_path / "flight.json"
        declared.write_text(json.dumps(form))
        route = {**FLIGHTS, "evolve": False, "schema_file": str(declared)}
        world = WorkerWorld(tmp_path / str(len(declared.read_text())), [route])
        world.write(
            {"id": str(ONE), "seats": [str(ONE), None], "of": {"x": str(ONE)}},
            {"id": "no UUID", "seats": [], "of": {}},
        )
        assert world.rows() == [{"id": ONE, "seats": [ONE, None], "of": [("x", str(ONE))]}]
        [reason] = world.reasons()
        assert reason.startswith("schema: db.flights: id: ")


def test_declared_uuids_are_text_where_they_partition_a_table(tmp_path: Path) -> None:
    declared = tmp_path / "flight.json"
    declared.write_text('{"fields": [{"name": "id", "type": "uuid"}]}')
    route = {"table": "db.flights", "auto_create": True, "schema_file": str(declared)}
    world = WorkerWorld(tmp_path, [{**route, "partition_by": ["id"]}])
    world.write({"id": str(ONE)})
    assert world.rows() == [{"id": str(ONE)}]


def test_a_missing_value_makes_a_required_column_optional(tmp_path: Path) -> None:
    world = world_with(tmp_path, pa.field("id", pa.int64()), pa.field("x", pa.int32(), False))
    world.write({"id": 1, "x": 1}, {"id": 2})
    assert sorted(row["id"] for row in world.rows()) == [1, 2]


def test_what_cannot_be_widened_is_in_quarantine_and_the_others_are_not(tmp_path: Path) -> None:
    world = world_with(
        tmp_path, pa.field("id", pa.int64()), pa.field("x", pa.int32()), pa.field("d", pa.date32())
    )
    (manifest,) = world.write(
        {"id": 1, "x": "text"}, {"id": 2, "x": 2}, {"id": 3, "d": 1.5}, {"id": 4, "x": {"a": 1}}
    )
    assert sorted(row["id"] for row in world.rows()) == [2]
    assert manifest.tables[0].schema_id == 0
    assert world.reasons() == [
        "schema: db.flights: x: 'text' is no int32",
        "schema: db.flights: d: 1.5 is no date32[day]",
        "schema: db.flights: x: {'a': 1} is no int32",
    ]


def test_without_evolution_further_fields_are_left_out_or_refused(tmp_path: Path) -> None:
    for extra_fields, ids in (("drop", [1, 2]), ("quarantine", [2])):
        directory = tmp_path / extra_fields
        world = WorkerWorld(
            directory, [{"table": "db.flights"}], {"rows": {"extra_fields": extra_fields}}
        )
        schema = pa.schema([pa.field("id", pa.int64())])
        world.catalog.create_table("db.flights", NewTable(schema))
        world.write({"id": 1, "more": {"a": 1}}, {"id": 2})
        assert [row["id"] for row in world.rows()] == ids
        assert len(world.reasons()) == 2 - len(ids)


def test_a_column_that_another_name_of_is_there_is_not_added(tmp_path: Path) -> None:
    """Most readers of tables take Id and id for one; asking for ever would stop the topic."""
    world = world_with(tmp_path, pa.field("id", pa.int64()))
    world.write({"id": 1, "ID": 5, "": 6})
    assert world.rows() == [{"id": 1}]


def test_a_column_that_the_catalog_refuses_is_asked_for_once(tmp_path: Path) -> None:
    """A partition field may have that name already."""
    world = WorkerWorld(tmp_path, [GROWING])
    schema = pa.schema([pa.field("id", pa.int64())])
    world.catalog.create_table("db.flights", NewTable(schema, ("bucket(4, id)",)))
    world.write({"id": 1, "id_bucket": 7, "fine": 8}, {"id": 2})
    assert sorted(row["fine"] or 0 for row in world.rows()) == [0, 8]
    assert "id_bucket" not in kinds(world)


def test_who_changes_the_schema_second_finds_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write({"id": 0})
    change = world.catalog.update_schema
    racing = [[AddColumn(("new",), pa.string())], [AddColumn(("unrelated",), pa.int64())]]

    def update_schema(
        table: Table, changes: Sequence[SchemaChange], properties: Mapping[str, str]
    ) -> Table:
        if racing:
            change(world.catalog.load_table("db.flights"), racing.pop(0))
        return change(table, changes, properties)

    monkeypatch.setattr(world.catalog, "update_schema", update_schema)
    world.write({"id": 1, "new": "x", "second": 2})
    assert set(kinds(world)) == {"id", "new", "second", "unrelated"}
    assert {"id": 1, "new": "x", "second": 2, "unrelated": None} in world.rows()


def test_a_column_that_somebody_else_gave_another_type_is_a_conflict(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write({"id": 0})
    stale = world.plans("flights", None)
    world.catalog.update_schema(
        world.catalog.load_table("db.flights"), [AddColumn(("new",), pa.date32())]
    )
    assert stale.fingerprint != world.plans("flights", None).fingerprint
    world.write({"id": 1, "new": "x"})
    assert [row["id"] for row in world.rows()] == [0]
    assert world.reasons() == ["schema: db.flights: new: 'x' is no date32[day]"]


def test_an_open_intent_finds_its_schema_and_spec_again(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write({"id": 0})
    before = world.plans("flights", None)
    table = world.catalog.load_table("db.flights")
    table = world.catalog.update_schema(table, [AddColumn(("new",), pa.string())])
    with world.catalog.library.load_table("db.flights").update_spec() as update:
        update.add_field("id", "bucket[4]", "id_bucket")
    after_a_crash = world.new_plans()
    assert after_a_crash("flights", None).fingerprint != before.fingerprint
    found = after_a_crash("flights", before.fingerprint)
    assert found.fingerprint == before.fingerprint
    assert found.parser.identity == before.parser.identity


def test_an_open_intent_finds_the_tables_again_that_messages_had_named(tmp_path: Path) -> None:
    route = {"table": "db.{fields.kind}", "auto_create": True, "evolve": True}
    world = WorkerWorld(tmp_path, [route])
    world.write(*({"kind": kind, "id": 1} for kind in ("sale", "view", "return")))
    before = world.plans("flights", None)
    world.catalog.update_schema(
        world.catalog.load_table("db.sale"), [AddColumn(("new",), pa.string())]
    )
    after_a_crash = world.new_plans()
    found = after_a_crash("flights", before.fingerprint)
    assert found.fingerprint == before.fingerprint
    assert {"table=db.sale", "table=db.view", "table=db.return"} <= set(found.streams)


def test_tables_that_messages_name_are_opened_together(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.{fields.kind}", "auto_create": True}])
    kinds = [f"kind_{number}" for number in range(20)]
    world.write(*({"kind": kind, "id": 1} for kind in kinds))
    world.plans = world.new_plans()
    manifests = world.write(*({"kind": kind, "id": 2} for kind in kinds))
    assert [len(manifest.tables) for manifest in manifests] == [20]
    assert sorted(row["id"] for row in world.rows("db.kind_7")) == [1, 2]


def test_an_open_intent_finds_changes_again_that_were_declined(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [GROWING])
    schema = pa.schema([pa.field("id", pa.int64())])
    world.catalog.create_table("db.flights", NewTable(schema, ("bucket(4, id)",)))
    world.write({"id": 1, "id_bucket": 7})
    before = world.plans("flights", None)
    assert world.new_plans()("flights", None).fingerprint != before.fingerprint
    assert world.new_plans()("flights", before.fingerprint).fingerprint == before.fingerprint


def test_a_change_that_was_declined_is_asked_for_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table, or the catalog's version, may be another by then."""
    world = world_with(tmp_path, pa.field("id", pa.int64()))

    def refuse(
        table: Table, changes: Sequence[SchemaChange], properties: Mapping[str, str]
    ) -> Table:
        raise ConfigurationError("the catalog knows no such type")

    with monkeypatch.context() as patched:
        patched.setattr(world.catalog, "update_schema", refuse)
        world.write({"id": 1, "x": 7})
    world.write({"id": 2, "x": 8})
    assert [*kinds(world)] == ["id"]
    world.clock.advance(ASK_AGAIN)
    world.write({"id": 3, "x": 9})
    assert {row["id"]: row["x"] for row in world.rows()} == {1: None, 2: None, 3: 9}


@pytest.mark.parametrize("body", [b"", b"[", b"{}", b'[{"table": 1}]', b'[{"table": "db.x"}]'])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, body: bytes) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write({"id": 0})
    notes = PlanNotes(world.own, world.config.output.prefix)
    put_bytes(world.own, notes.key("flights", "f" * 16), body)
    present = world.plans("flights", None).fingerprint
    assert world.new_plans()("flights", "f" * 16).fingerprint == present


def test_fields_find_their_columns_by_name_mapping_and_any_case(tmp_path: Path) -> None:
    mapping = '[{"field-id": 1, "names": ["id", "ident"]}, {"field-id": 2, "names": ["inner"],'
    mapping += ' "fields": [{"field-id": 3, "names": ["a", "alpha"]}]}]'
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}], {"rows": {"case_sensitive": False}})
    inner = pa.struct([pa.field("a", pa.int64())])
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("inner", inner)])
    properties = {"schema.name-mapping.default": mapping}
    world.catalog.create_table("db.flights", NewTable(schema, (), properties))
    world.write(
        {"ident": 1, "INNER": {"alpha": 2}},
        {"ID": 3, "inner": {"A": 4}},
        {"id": 5, "ident": 5},
        {"Ident": "7"},
    )
    assert world.rows() == [
        {"id": 1, "inner": {"a": 2}},
        {"id": 3, "inner": {"a": 4}},
        {"id": 5, "inner": None},
        {"id": 7, "inner": None},
    ]


def test_the_second_of_two_values_for_a_column_never_vanishes(tmp_path: Path) -> None:
    mapping = '[{"field-id": 1, "names": ["id", "ident"]}]'
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}], {"rows": {"case_sensitive": False}})
    inner = pa.list_(pa.struct([pa.field("a", pa.int64())]))
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("items", inner)])
    properties = {"schema.name-mapping.default": mapping}
    world.catalog.create_table("db.flights", NewTable(schema, (), properties))
    world.write(
        {"id": 1, "ident": 2},
        {"id": 3, "ID": None},
        {"id": 4, "ident": 4},
        {"ID": 5, "Id": "x"},
        {"id": 6, "items": [{"a": 1}, {"a": 2, "A": 3}]},
        {"id": 7, "items": [{"A": 4}]},
    )
    assert [row["id"] for row in world.rows()] == [3, 4, 7]
    differ = "have different values for this column"
    assert sorted(world.reasons()) == [
        f"schema: db.flights: id: the fields 'ID' and 'Id' {differ}",
        f"schema: db.flights: id: the fields 'id' and 'ident' {differ}",
        f"schema: db.flights: items[].a: the fields 'A' and 'a' {differ}",
    ]


def test_thousands_of_misfits_are_looked_at_together(tmp_path: Path) -> None:
    world = WorkerWorld(
        tmp_path, [GROWING], {"parser": {"max_bad_ratio": "none", "max_bad_messages": "none"}}
    )
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("x", pa.int32())])
    world.catalog.create_table("db.flights", NewTable(schema))
    began = time.process_time()
    bad = [{"id": number, "x": f"text {number}"} for number in range(5000)]
    first, second = world.write(*bad, {"id": 1 << 40, "x": 1}, {"id": 7, "x": 1 << 40})
    assert time.process_time() - began < 10  # one by one they take a minute
    assert (first.end, second.end) == (5000, 5002)
    assert sorted(row["id"] for row in world.rows()) == [7, 1 << 40]
    assert len(world.reasons()) == 5000


def test_empty_objects_and_lists_of_one_field_cut_no_batch(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.seal({"id": 1})
    empty = [{"id": 2, "b": {}}, {"id": 3, "b": []}, {"id": 4, "b": {}}]
    assert len(world.seal(*empty)) == 1
    assert len(world.seal(*empty, {"id": 5, "b": {"c": 1}}, *empty)) == 2


METADATA = {"rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset", "_timestamp"]}}


def test_a_table_that_grows_gets_the_metadata_columns_that_it_lacks(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [GROWING], METADATA)
    world.catalog.create_table("db.flights", NewTable(pa.schema([pa.field("id", pa.int64())])))
    world.write({"id": 1}, {"id": 2})
    assert [*kinds(world)] == ["id", "_topic", "_kafka_partition", "_offset", "_timestamp"]
    assert sorted((row["id"], row["_offset"]) for row in world.rows()) == [(1, 0), (2, 1)]


def test_a_table_that_does_not_grow_says_which_column_it_lacks(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}], METADATA)
    world.catalog.create_table("db.flights", NewTable(pa.schema([pa.field("id", pa.int64())])))
    with pytest.raises(TableUnusable, match=r"no column _topic: add it .*, set evolve = true"):
        world.write({"id": 1})
