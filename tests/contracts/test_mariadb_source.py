"""Tables compared with a real MariaDB, of whose rows one is missing, and one has another value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.adapters.mariadb import open_mariadb
from secor.core.errors import AccessDenied, ConfigurationError, Unavailable
from secor.verify.source.columns import Columns, pair_columns
from secor.verify.source.comparison import compare_with_source
from secor.verify.source.report import SourceComparison
from secor.verify.source.values import SourceName
from tests.conformance.databases import MariaDb
from tests.conformance.servers import PASSWORD
from tests.fakes.clock import FakeClock
from tests.unit.verify.test_source_comparison import tail

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EVERY_TYPE = """
CREATE TABLE things (
    id varbinary(8), part varchar(20), flag tinyint(1), tiny tinyint unsigned,
    big bigint unsigned, amount decimal(12,3), loose decimal(65,30), real_number float,
    number double, bits bit(13), bit1 bit(1), fixed char(8), doc json, feeling enum('sad', 'ok'),
    several set('a', 'b c'), token uuid, address inet6, data blob, born year, day date,
    zero date, clock time(6), span time, moment datetime(6), instant timestamp(6), note text,
    PRIMARY KEY (id, part)
)
"""
ROW = (
    "INSERT INTO things VALUES (UNHEX(%s), %s, 1, 255, 18446744073709551615, 12.345,"
    " 12345678901234567890123456789012345.10, 1.5, 1.5e300, b'0000000000101', b'1', 'ab', '[1.50]',"
    " 'ok', 'a,b c', '00000000-0000-4000-8000-000000000001', '::1', x'00ff', 2155, '2024-02-29',"
    " '0000-00-00', '-838:59:59.999999', '-100:00:01', '9999-12-31 23:59:59.999999',"
    " '2024-07-01 10:00:00.123456', NULL)"
)
SCHEMA = pa.schema(
    [
        ("id", pa.binary()),
        ("part", pa.string()),
        ("flag", pa.bool_()),
        ("tiny", pa.int32()),
        ("big", pa.decimal128(38, 0)),
        ("amount", pa.decimal128(12, 3)),
        ("loose", pa.string()),
        ("real_number", pa.float32()),
        ("number", pa.float64()),
        ("bits", pa.binary()),
        ("bit1", pa.bool_()),
        ("fixed", pa.string()),
        ("doc", pa.string()),
        ("feeling", pa.string()),
        ("several", pa.string()),
        ("token", pa.string()),
        ("address", pa.string()),
        ("data", pa.binary()),
        ("born", pa.int32()),
        ("day", pa.string()),
        ("zero", pa.date32()),
        ("clock", pa.string()),
        ("span", pa.string()),
        ("moment", pa.string()),
        ("instant", pa.string()),
        ("note", pa.string()),
    ]
)


def row(key: str, part: str) -> dict[str, Any]:
    """Return what a table has of a row."""
    values = [bytes.fromhex(key), part, True, 255, (1 << 64) - 1, "12.345"]
    values += ["12345678901234567890123456789012345.1", 1.5, 1.5e300, b"\5\0", True, "ab"]
    values += ["[1.50]", "ok", "a,b c", "00000000-0000-4000-8000-000000000001", "::1", b"\0\xff"]
    values += [2155, "2024-02-29", None, "-838:59:59.999999", "-100:00:01.000000"]
    values += ["9999-12-31T23:59:59.999999", "2024-07-01T10:00:00.123456Z", None]
    return dict(zip(SCHEMA.names, values, strict=True))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    database = MariaDb(tmp_path_factory.mktemp("mariadb"))
    database.server.start()
    try:
        connection = database.connect()
        database.cursor.execute(EVERY_TYPE)
        for key, part in (("00", "a"), ("01ff", "ä'"), ("02", "%s")):
            database.cursor.execute(ROW, (key, part))
        yield database
        connection.close()
    finally:
        database.server.stop()


class StoredTable:
    """A ``TableRows`` of rows in memory."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        decimals = {"amount", "big"}
        columns = [
            pa.array([str(it[field.name]) for it in rows]).cast(field.type)
            if field.name in decimals
            else pa.array([it[field.name] for it in rows], field.type)
            for field in SCHEMA
        ]
        self.batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        self.columns: Columns | None = None

    def refresh(self) -> bool:
        return False

    def scan(self) -> Iterator[pa.RecordBatch]:
        yield self.batch

    def tail(self) -> Any:
        return tail(position=1 << 62)


def compare(database: MariaDb, folder: Path, rows: list[dict[str, Any]]) -> SourceComparison:
    table = StoredTable(rows)
    with open_mariadb(database.url, PASSWORD, 30) as open_table:
        source = open_table(SourceName("public", "things"))
        result = SourceComparison("db.things", "public.things", position_text=source.position_text)
        columns = pair_columns(source.columns(), SCHEMA, ("id", "part"), result)
        chosen = [it.source for it in columns.columns]
        source.choose(chosen, [chosen[number] for number in columns.key], 2)
        compare_with_source(
            source, table, columns, result, folder, rows=0, clock=FakeClock(), wait=10
        )
    return result


def test_a_table_that_has_what_the_source_has_is_equal_in_every_type(
    database: MariaDb, tmp_path: Path
) -> None:
    result = compare(database, tmp_path, [row("00", "a"), row("01ff", "ä'"), row("02", "%s")])
    assert [it.text for it in result.differences] == []
    assert (result.findings, result.unlike, result.columns) == (0, {}, len(SCHEMA))
    assert (result.source_rows, result.table_rows) == (3, 3)
    assert "at GTID 0-1-" in list(result.lines())[-1]


def test_rows_that_differ_are_read_again_by_their_keys(database: MariaDb, tmp_path: Path) -> None:
    changed = {**row("01ff", "ä'"), "clock": "-00:00:01.000000", "big": 5}
    result = compare(database, tmp_path, [changed, row("02", "%s"), row("03", "new")])
    assert sorted(it.text for it in result.differences) == [
        (
            "different: id=\\x01ff, part=ä': big is 18446744073709551615 in the source, 5 in the"
            " table; clock is -838:59:59.999999 in the source, -00:00:01.000000 in the table"
        ),
        "missing: id=\\x00, part=a: the source has this row, the table does not",
        "surplus: id=\\x03, part=new: the table has this row, the source does not",
    ]


def test_errors_say_what_to_do_and_never_the_password(database: MariaDb) -> None:
    with pytest.raises(AccessDenied, match="set MYSQL_PWD") as denied:
        with open_mariadb(database.url, "s3cret", 30):
            pass
    assert "s3cret" not in str(denied.value)
    with pytest.raises(ConfigurationError, match="take it away, and set MYSQL_PWD"):
        with open_mariadb("mariadb://me:s3cret@127.0.0.1", None, 30):
            pass
    with pytest.raises(Unavailable, match=r"--source 127\.0\.0\.1:1: "):
        with open_mariadb("mariadb://me@127.0.0.1:1", None, 30):
            pass
    with open_mariadb(database.url, PASSWORD, 30) as open_table:
        with pytest.raises(ConfigurationError, match="there is no table public"):
            open_table(SourceName("public", "absent")).columns()
