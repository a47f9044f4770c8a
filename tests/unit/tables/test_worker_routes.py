"""Which messages go to which table; and where a table has its rows, by its partition spec."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from secor.batch.workspace import Workspace
from secor.core.errors import AlreadyExists, TableUnusable
from secor.tables.catalog import NewTable
from secor.tables.commit import topic_tables
from secor.tables.staging import distribution
from tests.unit.tables.worker_world import WorkerWorld

MADE = {"auto_create": True, "evolve": True}
SKIP = {"rows": {"unrouted": "skip"}}


def ids(world: WorkerWorld, table: str) -> list[int]:
    return sorted(row["id"] for row in world.rows(table))


def test_a_message_goes_to_every_table_that_takes_it(tmp_path: Path) -> None:
    routes = [
        {"table": "db.all", **MADE},
        {"table": "db.late", "field": "delay", "matches": "[1-9][0-9]+", **MADE},
        {"table": "db.known", "field": "kind", "one_of": ["a", "b"], **MADE},
        {"table": "db.others", "field": "kind", "one_of": ["a", "b"], "negated": True, **MADE},
        {"table": "db.no_topic", "topics": "trains", **MADE},
    ]
    world = WorkerWorld(tmp_path, routes)
    world.write(
        {"id": 1, "delay": 5, "kind": "a"},
        {"id": 2, "delay": 75, "kind": "c"},
        {"id": 3, "delay": 80, "kind": "b"},
        {"id": 4},
    )
    found = {name: ids(world, name) for name in world.catalog.list_tables("db")}
    assert found == {
        "db.all": [1, 2, 3, 4],
        "db.late": [2, 3],
        "db.known": [1, 3],
        "db.others": [2, 4],
    }


def test_tables_beyond_the_limit_are_in_quarantine_and_stop_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (distribution, topic_tables):
        monkeypatch.setattr(module, "MOST_TABLES", 3)
    world = WorkerWorld(tmp_path, [{"table": "logs.{fields.kind}", **MADE}])
    world.write(*[{"id": number, "kind": f"k{number}"} for number in range(5)])
    world.write({"id": 5, "kind": "k5"}, {"id": 6, "kind": "k1"})
    assert world.catalog.list_tables("logs") == ["logs.k0", "logs.k1", "logs.k2"]
    assert ids(world, "logs.k1") == [1, 6]
    reasons = [reason for reason in world.reasons() if "is one table too many" in reason]
    assert len(reasons) == 3


def test_a_table_that_was_dropped_makes_room_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (distribution, topic_tables):
        monkeypatch.setattr(module, "MOST_TABLES", 2)
    world = WorkerWorld(tmp_path, [{"table": "logs.{fields.kind}", **MADE}])
    world.write({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"})
    world.catalog.library.drop_table("logs.a")
    world.stage({"id": 3, "kind": "c"}, {"id": 4, "kind": "b"})
    assert world.catalog.list_tables("logs") == ["logs.b", "logs.c"]


def test_a_message_names_its_table(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "logs.{topic}_{fields.at.kind}", **MADE}])
    world.write(
        {"id": 1, "at": {"kind": "click"}},
        {"id": 2, "at": {"kind": "a.b/c"}},
        {"id": 3, "at": {"kind": "click"}},
        {"id": 4, "at": {}},
        {"id": 5, "at": {"kind": "x" * 300}},
        topic="fl-1",
    )
    assert ids(world, "logs.fl_1_click") == [1, 3]
    assert ids(world, "logs.fl_1_a_x002E_b_x002F_c") == [2]
    assert [reason.partition(" ")[0] for reason in world.reasons()] == ["route:", "route:"]
    assert "at.kind is missing" in world.reasons()[0]
    assert "names no table" in world.reasons()[1]


def test_messages_of_tables_that_do_not_exist_wait_in_quarantine(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.{fields.kind}"}])
    schema = pa.schema([pa.field("id", pa.int64())])
    world.catalog.create_table("db.known", NewTable(schema))
    world.write({"id": 1, "kind": "known"}, {"id": 2, "kind": "unknown"})
    assert ids(world, "db.known") == [1]
    assert world.reasons() == ["route: there is no table db.unknown"]


@pytest.mark.parametrize(("settings", "reasons", "skipped"), [({}, 1, 0), (SKIP, 0, 1)])
def test_what_no_table_takes_is_in_quarantine_or_counted(
    tmp_path: Path, settings: dict[str, Any], reasons: int, skipped: int
) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.t", "field": "id", **MADE}], settings)
    world.write({"id": 1}, {"other": 1})
    assert ids(world, "db.t") == [1]
    assert (len(world.reasons()), world.counts["filtered"]) == (reasons, skipped)


def test_a_message_that_one_table_refuses_is_in_none(tmp_path: Path) -> None:
    """It is replayed from quarantine later: the other tables must not get it twice."""
    world = WorkerWorld(tmp_path, [{"table": "db.texts"}, {"table": "db.numbers"}])
    for name, kind in (("db.texts", pa.string()), ("db.numbers", pa.int64())):
        schema = pa.schema([pa.field("id", pa.int64()), pa.field("x", kind)])
        world.catalog.create_table(name, NewTable(schema))
    world.write({"id": 1, "x": "5"}, {"id": 2, "x": "text"})
    assert ids(world, "db.texts") == ids(world, "db.numbers") == [1]
    assert world.reasons() == ["schema: db.numbers: x: 'text' is no int64"]


def test_two_routes_to_one_table_give_a_row_once(tmp_path: Path) -> None:
    routes = [{"table": "db.t", "field": "a", **MADE}, {"table": "db.t", "field": "b", **MADE}]
    world = WorkerWorld(tmp_path, routes)
    world.write({"id": 1, "a": 1, "b": 1}, {"id": 2, "b": 1}, {"id": 3, "a": 1})
    assert ids(world, "db.t") == [1, 2, 3]


def test_a_missing_table_stops_its_topic(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.missing"}])
    with pytest.raises(TableUnusable, match=r"no table db\.missing for topic flights: create it"):
        world.plans("flights", None)


def test_a_table_of_format_version_3_stops_its_topic(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.t", **MADE}])
    world.write({"id": 1})
    table = world.catalog.library.load_table("db.t")
    path = Path(table.metadata_location.removeprefix("file://"))
    path.write_text(path.read_text().replace('"format-version":2', '"format-version":3'))
    with pytest.raises(TableUnusable, match="format version 3"):
        world.plans("flights", None)


def test_who_is_second_to_make_a_table_uses_that_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.t", **MADE}])
    create = world.catalog.create_table

    def create_table(identifier: str, new: NewTable) -> Any:
        create(identifier, NewTable(pa.schema([pa.field("other", pa.int64())])))
        raise AlreadyExists(identifier)

    monkeypatch.setattr(world.catalog, "create_table", create_table)
    world.write({"id": 1})
    assert world.rows("db.t") == [{"other": None, "id": 1}]


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
        pa.field("text", pa.string()),
        pa.field("money", pa.decimal128(9, 2)),
        pa.field("raw", pa.binary()),
        pa.field("inner", pa.struct([pa.field("a", pa.int32())])),
    ]
)
ROW = {
    "id": 34,
    "ts": "1969-12-31T23:59:59Z",
    "day": "2026-03-01",
    "text": "a/b c",
    "money": 10.65,
    "raw": "x",
    "inner": {"a": 5},
}


@pytest.mark.parametrize(
    ("terms", "path", "values"),
    [
        (["id"], "id=34", (34,)),
        (["year(ts)"], "ts_year=1969", (-1,)),
        (["month(day)"], "day_month=2026-03", (674,)),
        (["day(ts)"], "ts_day=1969-12-31", ("1969-12-31",)),
        (["hour(ts)"], "ts_hour=1969-12-31-23", (-1,)),
        (["bucket(100, id)"], "id_bucket=79", (79,)),  # as in Iceberg's specification
        (["truncate(3, text)"], "text_trunc=a%2Fb", ("a/b",)),
        (["truncate(50, money)"], "money_trunc=10.50", ("10.50",)),
        (["void(text)"], "text_null=null", (None,)),
        (["inner.a", "text"], "inner_a=5/text=a%2Fb+c", (5, "a/b c")),
    ],
    ids=str,
)
def test_rows_lie_where_their_partition_is(
    tmp_path: Path, terms: Sequence[str], path: str, values: tuple[object, ...]
) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.t"}])
    world.catalog.create_table("db.t", NewTable(SCHEMA, tuple(terms)))
    (manifest,) = world.write(ROW)
    (file,) = manifest.tables[0].files
    assert file.partition == values
    assert f"/data/{path}/g-flights-0-" in file.path
    (row,) = world.rows("db.t")
    assert (row["id"], row["money"], row["raw"]) == (34, Decimal("10.65"), b"x")
    assert row["ts"] == dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


def test_each_partition_of_a_batch_has_a_file_and_nulls_have_theirs(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.t"}])
    world.catalog.create_table("db.t", NewTable(SCHEMA, ("text", "day(ts)")))
    rows = [
        {"id": number, "text": text, "ts": ts}
        for number, (text, ts) in enumerate(
            [("a", 0), ("null", 0), (None, 0), ("a", 0), ("a", 86_400_000_000), (None, None)]
        )
    ]
    (manifest,) = world.write(*rows)
    files = {file.partition: file.records for file in manifest.tables[0].files}
    assert files == {
        ("a", "1970-01-01"): 2,
        ("null", "1970-01-01"): 1,
        (None, "1970-01-01"): 1,
        ("a", "1970-01-02"): 1,
        (None, None): 1,
    }
    assert ids(world, "db.t") == list(range(6))
    for condition, found in (("text is null", [2, 5]), ("text = 'null'", [1]), ("text = 'a'", 3)):
        scanned = [row["id"] for row in world.rows("db.t", row_filter=condition)]
        assert (len(scanned) if isinstance(found, int) else sorted(scanned)) == found


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_partitions_beyond_the_limit_of_open_files_have_all_their_rows(
    tmp_path: Path, file_format: str
) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.t"}])
    world.workspace = Workspace(tmp_path / "few", "worker", open_files=4)
    properties = {"write.format.default": file_format}
    world.catalog.create_table("db.t", NewTable(SCHEMA, ("id",), properties))
    (manifest,) = world.write(*({"id": number % 20, "text": "x"} for number in range(200)))
    files = {file.partition: file.records for file in manifest.tables[0].files}
    assert files == {(number,): 10 for number in range(20)}
    if file_format != "avro":  # the library reads no Avro data files
        assert len(world.rows("db.t", selected_fields=("id", "text"))) == 200


def test_files_go_where_the_table_wants_its_data(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.t"}])
    elsewhere = f"file://{tmp_path}/elsewhere/data"
    properties = {"write.data.path": elsewhere}
    world.catalog.create_table("db.t", NewTable(SCHEMA, ("id",), properties))
    (manifest,) = world.write({"id": 1})
    assert manifest.tables[0].files[0].path.startswith(f"{elsewhere}/id=1/g-flights-0-")
    assert ids(world, "db.t") == [1]


@pytest.mark.parametrize(
    ("place", "words"), [("hdfs://namenode/t", "can be in S3"), ("ftp://host/t", "can be in S3")]
)
def test_files_in_a_place_that_no_store_is_for_stop_the_topic(
    tmp_path: Path, place: str, words: str
) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.t"}])
    world.catalog.create_table("db.t", NewTable(SCHEMA, (), {"write.data.path": place}))
    with pytest.raises(TableUnusable, match=words):
        world.plans("flights", None)


def test_a_path_without_a_scheme_is_a_directory(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.t"}])
    properties = {"write.data.path": f"{tmp_path}/plain"}
    world.catalog.create_table("db.t", NewTable(SCHEMA, (), properties))
    (manifest,) = world.write({"id": 1})
    assert manifest.tables[0].files[0].path.startswith(f"file://{tmp_path}/plain/g-flights-0-")
    assert ids(world, "db.t") == [1]


def test_a_field_may_have_the_whole_name_of_the_table(tmp_path: Path) -> None:
    """As the Iceberg sink routes dynamically; a name without namespace is none."""
    world = WorkerWorld(tmp_path, [{"table": "{fields.to}", **MADE}])
    world.write(
        {"to": "db.click", "id": 1},
        {"to": "other.vi-ew", "id": 2},
        {"to": "click", "id": 3},
        {"to": "db..click", "id": 4},
    )
    assert ids(world, "db.click") == [1]
    assert ids(world, "other.vi_x002D_ew") == [2]
    assert world.reasons() == [
        "route: to 'click' names no table",
        "route: to 'db..click' names no table",
    ]


def test_topics_of_a_pattern_whose_tables_would_have_one_name_are_stopped(
    tmp_path: Path,
) -> None:
    """Rows of two topics are never mixed by an accident of their names."""
    kafka = {"bootstrap_servers": ["localhost:1"], "topics_pattern": ".*", "topics_exclude": "x-y"}
    routes = [{"table": "db.{topic}", **MADE}]
    world = WorkerWorld(tmp_path, routes, {"kafka": kafka})
    world.topics = {"a-b", "a_b", "c", "x-y", "x_y"}
    for topic in ("a-b", "a_b"):
        with pytest.raises(
            TableUnusable, match=r"topics a-b and a_b would both be rows of db\.a_b"
        ):
            world.write({"id": 1}, topic=topic)
    world.write({"id": 1}, topic="c")
    world.write({"id": 2}, topic="x_y")
    assert world.catalog.list_tables("db") == ["db.c", "db.x_y"]


def test_topics_may_share_a_table_that_is_named(tmp_path: Path) -> None:
    kafka = {"bootstrap_servers": ["localhost:1"], "topics_pattern": ".*"}
    world = WorkerWorld(tmp_path, [{"table": "db.all", **MADE}], {"kafka": kafka})
    world.topics = {"a-b", "a_b"}
    world.write({"id": 1}, topic="a-b")
    world.write({"id": 2}, topic="a_b")
    assert ids(world, "db.all") == [1, 2]


def test_rows_that_would_go_on_under_another_name_are_a_warning(tmp_path: Path) -> None:
    by_kind = {"table": "db.{fields.kind}", "auto_create": True}
    world = WorkerWorld(tmp_path, [by_kind])
    columns = pa.schema([pa.field("kind", pa.string())])
    for name, group in (("a_b", "g"), ("c_d", "another")):
        properties = {f"secor.{group}.vector": "{}"}
        world.catalog.create_table(f"db.{name}", NewTable(columns, properties=properties))
    with capture_logs() as logs:
        world.write({"kind": "a.b"}, {"kind": "c.d"}, {"kind": "e.f"})
        world.write({"kind": "a.b", "id": 4})
    [warning] = [log for log in logs if log["event"] == "table_named_anew"]
    assert (warning["table"], warning["earlier"]) == ("db.a_x002E_b", "db.a_b")
    assert warning["log_level"] == "warning"
    assert 'rows.names = "replace"' in warning["remedy"]
    world.config = world.config.with_sources({"rows.names": "file"})
    world.plans = world.new_plans()
    columns_of_group = {"secor.g.vector": "{}"}
    world.catalog.create_table("db.g_h", NewTable(columns, properties=columns_of_group))
    with capture_logs() as logs:
        world.write({"kind": "g.h"})
    assert "table_named_anew" not in [log["event"] for log in logs]
