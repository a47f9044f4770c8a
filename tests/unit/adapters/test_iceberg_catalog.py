"""Tables by the Iceberg library, on its SQLite catalog in a folder."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalogBaseTable

from secor.adapters.iceberg.catalog import IcebergTables, open_catalog
from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    ConfigurationError,
    NotFound,
    Refused,
    Unavailable,
)
from secor.tables.catalog import (
    FIELD_ID,
    AddColumn,
    MakeOptional,
    NewTable,
    PartitionField,
    SchemaChange,
    WidenColumn,
)

EVERY_TYPE = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("big", pa.int64()),
        pa.field("half", pa.float32()),
        pa.field("whole", pa.float64()),
        pa.field("yes", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field("clock", pa.time64("us")),
        pa.field("local", pa.timestamp("us")),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("text", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("fixed", pa.binary(3)),
        pa.field("uuid", pa.uuid()),
        pa.field("money", pa.decimal128(9, 2)),
        pa.field("inner", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])),
        pa.field("many", pa.list_(pa.field("element", pa.int32()))),
        pa.field("by_name", pa.map_(pa.string(), pa.struct([pa.field("x", pa.float32())]))),
    ]
)


@pytest.fixture
def tables(tmp_path: Path) -> IcebergTables:
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    return IcebergTables(open_catalog("secor", properties))


@pytest.mark.parametrize("made", [1, 2])
def test_of_two_that_open_a_new_sql_catalog_at_once_one_makes_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: int
) -> None:
    """The other process makes one or both tables between the look and CREATE."""
    metadata = SqlCatalogBaseTable.metadata
    create_all = metadata.create_all
    raced: list[str] = []

    def be_late(engine: Any) -> None:
        if raced:
            create_all(engine)
            return
        for table in metadata.sorted_tables[:made]:
            raced.append(table.name)
            table.create(engine)
        create_all(engine, checkfirst=False)

    monkeypatch.setattr(metadata, "create_all", be_late)
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    assert IcebergTables(open_catalog("secor", properties)).list_tables("logs") == []
    assert len(raced) == made


def test_a_sql_catalog_whose_tables_cannot_be_made_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = SqlCatalogBaseTable.metadata
    create_all = metadata.create_all
    attempts: list[Any] = []

    def fail(engine: Any) -> None:
        attempts.append(engine)
        create_all(engine)
        try:
            create_all(engine, checkfirst=False)
        finally:
            metadata.drop_all(engine)

    monkeypatch.setattr(metadata, "create_all", fail)
    with pytest.raises(Unavailable, match="already exists"):
        open_catalog("secor", {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"})
    assert len(attempts) == 3


def ids(kind: pa.DataType | pa.Schema) -> list[int]:
    fields = [kind.field(at) for at in range(len(kind) if isinstance(kind, pa.Schema) else 0)]
    if pa.types.is_struct(kind) if isinstance(kind, pa.DataType) else False:
        fields = list(kind.fields)
    return [int(field.metadata[FIELD_ID]) for field in fields]


def test_every_type_of_version_2_comes_back_with_field_ids(tables: IcebergTables) -> None:
    made = tables.create_table("db.every", NewTable(EVERY_TYPE))
    loaded = tables.load_table("db.every")
    assert loaded == made
    assert loaded.schema.equals(EVERY_TYPE)
    assert ids(loaded.schema) == list(range(1, 18))
    assert ids(loaded.schema.field("inner").type) == [18, 19]
    assert (loaded.format_version, loaded.refs, loaded.spec) == (2, {}, ())


def test_partition_terms_become_a_spec(tables: IcebergTables) -> None:
    terms = ("day(ts)", "bucket(16, id)", "truncate(4, text)", "yes", "hours(local)", "void(big)")
    made = tables.create_table("db.parted", NewTable(EVERY_TYPE, terms))
    assert made.spec == (
        PartitionField(9, 1000, "day", "ts_day"),
        PartitionField(1, 1001, "bucket[16]", "id_bucket"),
        PartitionField(10, 1002, "truncate[4]", "text_trunc"),
        PartitionField(5, 1003, "identity", "yes"),
        PartitionField(8, 1004, "hour", "local_hour"),
        PartitionField(2, 1005, "void", "big_null"),
    )


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (("hour(id)",), "id is int"),
        (("day(nowhere)",), "no column nowhere"),
        (("week(ts)",), "no such partition transform"),
        (("bucket(id)",), "no such partition transform"),
        (("day(ts",), "is no partition field"),
        (("inner",), "inner is struct"),
        (("yes", "identity(yes)"), "two partition fields"),
    ],
)
def test_a_bad_partition_term_is_named_and_nothing_is_made(
    tables: IcebergTables, terms: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        tables.create_table("db.bad", NewTable(EVERY_TYPE, terms))
    assert tables.list_tables("db") == []


def test_who_makes_a_table_second_is_told(tables: IcebergTables) -> None:
    tables.create_table("db.t", NewTable(EVERY_TYPE))
    with pytest.raises(AlreadyExists):
        tables.create_table("db.t", NewTable(EVERY_TYPE))
    assert tables.list_tables("db") == ["db.t"]


def test_a_missing_table_is_not_found(tables: IcebergTables) -> None:
    with pytest.raises(NotFound):
        tables.load_table("db.nowhere")


def test_a_schema_grows_at_every_level_in_one_commit(tables: IcebergTables) -> None:
    table = tables.create_table("db.t", NewTable(EVERY_TYPE))
    changes: list[SchemaChange] = [
        AddColumn(("new",), pa.struct([pa.field("deep", pa.list_(pa.int64()))])),
        AddColumn(("inner", "c"), pa.float64()),
        AddColumn(("by_name", "value", "y"), pa.int32()),
        WidenColumn(("id",), pa.int64()),
        MakeOptional(("id",)),
        WidenColumn(("many", "element"), pa.int64()),
        WidenColumn(("by_name", "value", "x"), pa.float64()),
        WidenColumn(("money",), pa.decimal128(12, 2)),
    ]
    grown = tables.update_schema(table, changes)
    assert grown.schema_id == table.schema_id + 1
    assert grown.schemas[table.schema_id] == table.schema
    kinds = {field.name: field.type for field in grown.schema}
    assert grown.schema.field("id").nullable
    assert kinds["id"] == pa.int64()
    assert kinds["money"] == pa.decimal128(12, 2)
    assert kinds["many"].value_type == pa.int64()
    assert kinds["inner"].field("c").type == pa.float64()
    assert [field.name for field in kinds["by_name"].item_type] == ["x", "y"]
    assert kinds["by_name"].item_type.field("x").type == pa.float64()
    assert pa.types.is_struct(kinds["new"])


def test_of_two_changes_of_one_schema_the_second_is_refused(tables: IcebergTables) -> None:
    table = tables.create_table("db.t", NewTable(EVERY_TYPE))
    tables.update_schema(table, [AddColumn(("first",), pa.string())])
    with pytest.raises(Refused):
        tables.update_schema(table, [AddColumn(("second",), pa.string())])


def test_a_change_of_a_table_made_again_is_refused(tables: IcebergTables) -> None:
    table = tables.create_table("db.t", NewTable(EVERY_TYPE))
    tables.library.drop_table("db.t")
    tables.create_table("db.t", NewTable(EVERY_TYPE))
    with pytest.raises(Refused):
        tables.update_schema(table, [AddColumn(("first",), pa.string())])


def test_what_iceberg_cannot_widen_is_refused(tables: IcebergTables) -> None:
    table = tables.create_table("db.t", NewTable(EVERY_TYPE))
    with pytest.raises(ConfigurationError, match="Cannot change column type"):
        tables.update_schema(table, [WidenColumn(("text",), pa.int64())])


def test_a_catalog_that_does_not_answer_is_named_with_its_place_and_without_secrets() -> None:
    uri = "sqlite:////no/such/directory/catalog.db"
    with pytest.raises(AccessDenied, match=f"catalog secor at {uri}: .*unable to open database"):
        open_catalog("secor", {"type": "sql", "uri": uri})
    with pytest.raises(Unavailable, match=r"catalog secor at http://\*+@127.0.0.1:9/: ") as raised:
        open_catalog("secor", {"type": "rest", "uri": "http://me:hidden@127.0.0.1:9/"})
    assert "hidden" not in str(raised.value)


def test_a_catalog_that_cannot_be_opened_is_a_fault_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError):
        open_catalog("secor", {"type": "nonsense"})
