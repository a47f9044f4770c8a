"""Tables compared with a real PostgreSQL: our own writer made them, and defects are planted."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from secor.adapters.postgresql import PostgreSqlSource, open_postgresql
from secor.core.errors import AccessDenied, ConfigurationError, Unavailable
from secor.sandbox.catalogs import USER, PostgreSqlServer
from secor.sandbox.state import free_port
from secor.tables.catalog import NewTable
from secor.verify.source.columns import Columns, pair_columns
from secor.verify.source.comparison import LogTail, compare_with_source
from secor.verify.source.report import SourceComparison
from secor.verify.source.values import SourceName
from tests.fakes.clock import FakeClock
from tests.unit.tables.worker_world import WorkerWorld

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

EVERY_TYPE = """
CREATE TYPE mood AS ENUM ('sad', 'happy day');
CREATE TABLE things (
    id int, part text, amount numeric(12,3), wide numeric(38,10), loose numeric,
    real_number real, number double precision, price money,
    day date, clock time, zoned timetz, moment timestamp, instant timestamptz, span interval,
    token uuid, data bytea, flag boolean, bits bit(13), small smallint, big bigint,
    doc jsonb, raw json, feeling mood, padded char(8), address inet, range int4range,
    numbers int[], texts text[], amounts numeric(12,3)[],
    PRIMARY KEY (id, part)
);
"""
ROW = (
    "INSERT INTO things VALUES ({id}, '{part}', 12.345, 1234567890123456789012345678.0123456789,"
    " 0.10, 1.1, 1.5e300, 12.34,"
    " '2024-02-29', '23:59:59.999999', '01:02:03+02', '2024-01-01 00:00:00.5',"
    " '2024-07-01 12:00:00.123456+02', 'P1Y2M3DT4H5M6.789S',"
    " '00000000-0000-0000-0000-0000000000{id:02}', '\\x00ff{id:02}', true, B'0000000000101', -1,"
    " 9223372036854775807, '{{\"b\": [1.50, null], \"a\": 1}}', '{{\"a\":1e2}}', 'happy day',"
    " 'ab', '10.0.0.1/8', '[1,10)', '{{1,NULL,3}}', '{{a,\"b,c\",NULL}}', '{{1.500,2.000}}')"
)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
        pa.field("amount", pa.decimal128(12, 3)),
        pa.field("wide", pa.decimal128(38, 10)),
        pa.field("loose", pa.string()),
        pa.field("real_number", pa.float32()),
        pa.field("number", pa.float64()),
        pa.field("price", pa.decimal128(18, 2)),
        pa.field("day", pa.date32()),
        pa.field("clock", pa.string()),
        pa.field("zoned", pa.string()),
        pa.field("moment", pa.timestamp("us")),
        pa.field("instant", pa.timestamp("us", "UTC")),
        pa.field("span", pa.string()),
        pa.field("token", pa.string()),
        pa.field("data", pa.string()),
        pa.field("flag", pa.bool_()),
        pa.field("bits", pa.string()),
        pa.field("small", pa.int32()),
        pa.field("big", pa.int64()),
        pa.field("doc", pa.string()),
        pa.field("raw", pa.string()),
        pa.field("feeling", pa.string()),
        pa.field("padded", pa.string()),
        pa.field("address", pa.string()),
        pa.field("range", pa.string()),
        pa.field("numbers", pa.list_(pa.int32())),
        pa.field("texts", pa.list_(pa.string())),
        pa.field("amounts", pa.list_(pa.decimal128(12, 3))),
    ]
)


def envelope(row_id: int, part: str) -> dict[str, Any]:
    """Return a row as Debezium writes it, where a table has a column for it."""
    after = {
        "id": row_id,
        "part": part,
        "amount": "12.345",
        "wide": "1234567890123456789012345678.0123456789",
        "loose": "0.10",
        "real_number": 1.1,
        "number": 1.5e300,
        "price": "12.34",
        "day": "2024-02-29",
        "clock": "23:59:59.999999",
        "zoned": "23:02:03Z",
        "moment": "2024-01-01T00:00:00.5",
        "instant": "2024-07-01T10:00:00.123456Z",
        "span": "P1Y2M3DT4H5M6.789S",
        "token": f"00000000-0000-0000-0000-0000000000{row_id:02}",
        "data": "AP8" + {1: "B", 2: "C", 3: "D"}[row_id],
        "flag": True,
        "bits": "BQA=",
        "small": -1,
        "big": 9223372036854775807,
        "doc": '{"a": 1.0, "b": [1.5, null]}',
        "raw": '{"a":1e2}',
        "feeling": "happy day",
        "padded": "ab      ",
        "address": "10.0.0.1/8",
        "range": "[1,10)",
        "numbers": [1, None, 3],
        "texts": ["a", "b,c", None],
        "amounts": ["1.500", "2.000"],
    }
    return {"op": "c", "before": None, "after": after, "source": {"lsn": 7}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSqlServer]:
    folder = tmp_path_factory.mktemp("source")
    server = PostgreSqlServer(folder=folder, log=folder / "log", port=free_port())
    server.start()
    with psycopg.connect(url_of(server), autocommit=True) as connection:
        connection.execute(EVERY_TYPE)
        for row_id, part in ((1, "a"), (2, "ä'"), (3, "%s")):
            connection.execute(ROW.format(id=row_id, part=part.replace("'", "''")))
    try:
        yield server
    finally:
        server.stop()


def url_of(server: PostgreSqlServer) -> str:
    return f"postgresql://{USER}@{server.address}/postgres"


class WrittenTable:
    """A ``TableRows`` whose files our own writer has made of envelopes."""

    def __init__(self, folder: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
        """``change`` plants a defect."""
        route = {"table": "db.things", "mode": "cdc", "key": ["id", "part"]}
        world = WorkerWorld(folder, [route], {"commit": {"coordinator": "alone"}})
        world.catalog.create_table("db.things", NewTable(SCHEMA, key=("id", "part")))
        manifests = world.stage(envelope(1, "a"), envelope(2, "ä'"), envelope(3, "%s"))
        rows: list[dict[str, Any]] = []
        for file in (
            it for manifest in manifests for table in manifest.tables for it in table.files
        ):
            with world.own.open(file.path) as stored:
                rows += [it["row"] for it in pq.read_table(io.BytesIO(stored.read())).to_pylist()]
        assert len(rows) == 3
        change(rows)
        library_table = world.catalog.library.load_table("db.things")
        library_table.append(pa.Table.from_pylist(rows, library_table.schema().as_arrow()))
        self._catalog = world.catalog
        self.table = world.catalog.load_table("db.things")
        self.columns: Columns | None = None

    def refresh(self) -> bool:
        return False

    def scan(self) -> Iterator[pa.RecordBatch]:
        assert self.columns is not None
        names = [column.table_name for column in self.columns.columns]
        yield from self._catalog.scan(self.table, "main", names)

    def tail(self) -> LogTail:
        return LogTail(frozenset(), 1 << 62)


def compare(
    server: PostgreSqlServer,
    folder: Path,
    change: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
    ignored: Sequence[str] = (),
) -> SourceComparison:
    table = WrittenTable(folder, change)
    result = SourceComparison("db.things", "public.things")
    with open_postgresql(url_of(server), None, 30) as open_table:
        source: PostgreSqlSource = open_table(SourceName("public", "things"))
        key = ("id", "part")
        columns = pair_columns(source.columns(), table.table.schema, key, result, ignored=ignored)
        table.columns = columns
        chosen = [it.source for it in columns.columns]
        source.choose(chosen, [chosen[at] for at in columns.key], 2)
        compare_with_source(
            source, table, columns, result, folder, rows=0, clock=FakeClock(), wait=10
        )
    return result


def test_a_table_that_has_what_the_source_has_is_equal_in_every_type(
    server: PostgreSqlServer, tmp_path: Path
) -> None:
    result = compare(server, tmp_path)
    assert [it.text for it in result.differences] == []
    assert (result.findings, result.unlike, result.columns) == (0, {}, 29)
    assert (result.source_rows, result.table_rows, result.only_in_table) == (3, 3, [])


def change_value(name: str, value: Callable[[Any], Any]) -> Callable[[list[dict[str, Any]]], None]:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[1][name] = value(rows[1][name])

    return change


KEY = "id=2, part=ä'"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            change_value("feeling", lambda _: "sad"),
            f"different: {KEY}: feeling is happy day in the source, sad in the table",
        ),
        (
            change_value("instant", lambda it: it + timedelta(hours=2)),
            (
                f"different: {KEY}: instant is 2024-07-01 10:00:00.123456Z in the source,"
                " 2024-07-01 12:00:00.123456Z in the table"
            ),
        ),
        (
            change_value("amount", lambda it: it.quantize(Decimal("0.1"))),
            f"different: {KEY}: amount is 12.345 in the source, 12.3 in the table",
        ),
        (
            change_value("texts", lambda it: it[:2]),
            (
                f'different: {KEY}: texts is {{"a","b,c",NULL}} in the source, {{"a","b,c"}} in the'
                " table"
            ),
        ),
        (
            change_value("doc", lambda _: None),
            (
                f'different: {KEY}: doc is {{"a": 1e0, "b": [15e-1, null]}} in the source,'
                " null in the table"
            ),
        ),
        (lambda rows: rows.pop(1), f"missing: {KEY}: the source has this row, the table does not"),
        (
            lambda rows: rows.append({**rows[1], "part": "new"}),
            "surplus: id=2, part=new: the table has this row, the source does not",
        ),
        (
            lambda rows: rows.append(rows[1]),
            f"twice: {KEY}: the table has several rows of this key",
        ),
    ],
)
def test_a_planted_defect_is_reported_by_key_and_column(
    server: PostgreSqlServer, tmp_path: Path, change: Any, line: str
) -> None:
    result = compare(server, tmp_path, change)
    assert [it.text for it in result.differences] == [line]
    assert result.findings == 1
    examples = json.loads(json.dumps(result.as_json()))["examples"]
    assert line.startswith(f"{examples[0]['kind']}: {examples[0]['key']}")


def test_columns_that_cannot_be_compared_are_named(
    server: PostgreSqlServer, tmp_path: Path
) -> None:
    with psycopg.connect(url_of(server), autocommit=True) as connection:
        connection.execute("ALTER TABLE things ADD spot point, ADD late text")
        try:
            result = compare(server, tmp_path, ignored=["late"])
        finally:
            connection.execute("ALTER TABLE things DROP spot, DROP late")
    assert result.unlike == {"spot": "point in the source, not in the table"}
    assert (result.left_out, result.findings) == (["late"], 1)


def test_errors_say_what_to_do_and_show_no_password(server: PostgreSqlServer) -> None:
    with psycopg.connect(url_of(server), autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")

    def columns(url: str, name: str, password: str | None = None) -> None:
        with ExitStack() as opened:
            open_table = opened.enter_context(open_postgresql(url, password, 30))
            with open_table(SourceName("public", name)).snapshot():
                raise AssertionError("it was opened")

    with pytest.raises(ConfigurationError, match="--source-table"):
        columns(url_of(server), "nothing")
    reader = url_of(server).replace(USER, "reader")
    with pytest.raises(AccessDenied, match="GRANT SELECT"):
        columns(reader, "things")
    with pytest.raises(ConfigurationError, match="set PGPASSWORD") as refused:
        columns(f"postgresql://{USER}:hunter2@{server.address}/postgres", "things")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="no URL") as refused:
        columns("postgresql://me:hunter2@host/db?nonsense=1", "things")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(Unavailable) as unreachable:
        columns(f"postgresql://{USER}@127.0.0.1:{free_port()}/postgres", "things", "hunter2")
    assert "hunter2" not in str(unreachable.value)


def test_the_source_is_never_changed(server: PostgreSqlServer) -> None:
    with (
        open_postgresql(url_of(server), None, 30) as open_table,
        pytest.raises(Unavailable, match="read-only"),
        open_table(SourceName("public", "things")).snapshot() as snapshot,
    ):
        snapshot.connection.execute("DELETE FROM things")
