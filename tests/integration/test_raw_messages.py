"""Keys, headers, timestamps and raw values of real messages, as other readers have them."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyiceberg.expressions import EqualTo, IsNull

from secor.adapters.duckdb_tables import open_connection
from secor.config.load import load
from secor.sandbox import Sandbox
from secor.wiring.table_catalogs import open_tables
from tests.integration.daemons import create_topic, daemons, run_secor, wait_until, write_config

RAW, KEYED = "raw_messages", "keyed_messages"
BEGINNING = int(time.time()) * 1000 - 3_600_000
"""The timestamp of the first message in milliseconds: recent, as the broker removes old ones."""

Header = tuple[str, bytes | None]
Message = tuple[bytes | None, bytes | None, list[Header]]

MESSAGES: list[Message] = [
    (None, None, []),
    (b"", b"", [("a", b"")]),
    (b"\x00\xff\xfe", b"\xff\x00{", [("a", b"1"), ("a", b"1"), ("a", None)]),
    ("schlüssel".encode(), b'{"x": 1}', [("é", b"\xff"), ("", b"x")]),
    (b"k" * 5000, b"v" * 100_000, [("long", b"h" * 5000)]),
    (b"7", b"null", []),
]
KEYS_AS_JSON: list[Message] = [
    (b'{"id": 7, "at": {"x": 1.5}}', b'{"n": 1}', [("trace", b"\x01")]),
    (b'{"id": 8}', b'{"n": 2}', []),
    (None, b'{"n": 3}', [("trace", None)]),
    (b"9", b'{"n": 4}', []),
    (b'"text"', b'{"n": 5}', []),
    (b'{"schema": null, "payload": 10}', b'{"n": 6}', []),
    (b'{"id": 11}', b'{"n": 7, "key_id": 11}', []),
    (b'{"id": 12}', b'{"n": 8, "key_id": 13}', []),
    (b"{", b'{"n": 9}', []),
]
BAD = {7: "key_id", 8: "key: "}
"""Offsets of keys that say something else than the value, or nothing, with the reason."""

SETTINGS = """
[[topics]]
match = "raw_messages"
parser.decoder = "none"
parser.key.decoder = "bytes"
parser.key.field = "id"

[[topics]]
match = "keyed_messages"
parser.decoder = "json"
parser.key.decoder = "json"
parser.key.prefix = "key_"

[[tables]]
table = "logs.{topic}"
auto_create = true
evolve = true
partition_by = ["day(_timestamp)"]

[catalog.properties]
"""


def produce(sandbox: Sandbox, topic: str, messages: Sequence[Message]) -> None:
    producer = Producer({"bootstrap.servers": sandbox.kafka})
    for number, (key, value, headers) in enumerate(messages):
        when = BEGINNING + number
        producer.produce(topic, value, key, partition=0, timestamp=when, headers=headers)
    assert producer.flush(60) == 0


def origin(number: int, message: Message) -> dict[str, Any]:
    """Return what the table has of a message beside its fields."""
    milliseconds = dt.timedelta(milliseconds=BEGINNING + number)
    return {
        "_offset": number,
        "_timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + milliseconds,
        "_key": message[0],
        "_headers": [{"key": name, "value": value} for name, value in message[2]],
    }


@pytest.fixture
def engine(sandbox: Sandbox) -> Iterator[Any]:
    """DuckDB with its extension for Iceberg tables."""
    s3 = sandbox.s3
    with open_connection() as connection:
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{s3.access_key}', SECRET '{s3.secret_key}', REGION"
            f" '{s3.region}', ENDPOINT '{s3.endpoint_url.partition('//')[2]}', URL_STYLE 'path',"
            " USE_SSL false)"
        )
        yield connection


def by_duckdb(engine: Any, table: Any) -> list[dict[str, Any]]:
    """Read a table in the order of offsets."""
    query = f"SELECT * FROM iceberg_scan('{table.metadata_location}') ORDER BY _offset"  # noqa: S608  # own text
    result: list[dict[str, Any]] = engine.execute(query).to_arrow_table().to_pylist()
    return result


def found_by_duckdb(engine: Any, table: Any, conditions: Sequence[str]) -> list[list[int]]:
    """Return the offsets of the rows that meet each condition."""
    rows = f"iceberg_scan('{table.metadata_location}')"
    lists = [f"(SELECT list(_offset) FROM {rows} WHERE {it})" for it in conditions]  # noqa: S608  # own text
    return list(engine.execute(f"SELECT {', '.join(lists)}").fetchall()[0])


def by_pyiceberg(table: Any, condition: Any = "true") -> list[dict[str, Any]]:
    rows = table.scan(row_filter=condition).to_arrow().sort_by("_offset")
    result: list[dict[str, Any]] = rows.to_pylist()
    return result


def test_raw_messages_and_keys_are_what_other_readers_read(
    sandbox: Sandbox, tmp_path: Path, engine: Any
) -> None:
    """Null, empty and binary keys and values, headers twice and without a value."""
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path / 'catalog.db'}",
        "warehouse": f"s3://{sandbox.s3.bucket}/{RAW}-warehouse",
    }
    config = write_config(
        tmp_path,
        sandbox,
        group=RAW,
        topic=RAW,
        ledger="kafka",
        settings={
            "group": {"name": RAW, "kind": "table"},
            "kafka": {"topics": [RAW, KEYED]},
            "rows": {"metadata_columns": ["_offset", "_timestamp", "_key", "_headers"]},
            "commit": {"interval": "1s", "timeout": "4s"},
        },
        more=SETTINGS + "\n".join(f"{key} = {json.dumps(it)}" for key, it in catalog.items()),
    )
    for topic, messages in ((RAW, MESSAGES), (KEYED, KEYS_AS_JSON)):
        create_topic(sandbox, topic, 1)
        produce(sandbox, topic, messages)
    opened, _ = open_tables(load(config, {}))

    def tables() -> dict[str, Any]:
        names = [f"logs.{name}" for name in (RAW, KEYED)]
        there = [name for name in names if name in opened.list_tables("logs")]
        return {name.removeprefix("logs."): opened.library.load_table(name) for name in there}

    def counted() -> bool:
        return {name: len(by_pyiceberg(it)) for name, it in tables().items()} == {
            RAW: len(MESSAGES),
            KEYED: len(KEYS_AS_JSON) - len(BAD),
        }

    with daemons() as start:
        daemon = start(config, tmp_path / "log")
        wait_until(counted, "all rows")
        assert daemon.stop() == 0, daemon.text()[-2000:]
    raw, keyed = tables()[RAW], tables()[KEYED]

    expected = [
        {"value": message[1], "id": message[0], **origin(number, message)}
        for number, message in enumerate(MESSAGES)
    ]
    assert by_duckdb(engine, raw) == expected
    assert by_pyiceberg(raw) == expected
    for column, contents in (
        ("_key", [key for key, _, _ in MESSAGES]),
        ("value", [value for _, value, _ in MESSAGES]),
    ):
        conditions = [
            f"{column} IS NULL" if it is None else f"{column} = from_hex('{it.hex()}')"
            for it in contents
        ]
        each = [[number] for number in range(len(MESSAGES))]
        assert found_by_duckdb(engine, raw, conditions) == each
        for number, content in enumerate(contents[:3]):
            filter_ = IsNull(column) if content is None else EqualTo(column, content)
            assert [row["_offset"] for row in by_pyiceberg(raw, filter_)] == [number]

    numbers = [number for number in range(len(KEYS_AS_JSON)) if number not in BAD]
    keys: dict[int, dict[str, Any]] = {
        0: {"key_id": 7, "key_at": {"x": 1.5}},
        1: {"key_id": 8},
        3: {"key": "9"},
        4: {"key": "text"},
        5: {"key": "10"},
        6: {"key_id": 11},
    }
    nothing = {"key_id": None, "key_at": None, "key": None}
    expected = [
        {"n": number + 1, **nothing, **keys.get(number, {}), **origin(number, KEYS_AS_JSON[number])}
        for number in numbers
    ]
    assert by_duckdb(engine, keyed) == expected
    assert by_pyiceberg(keyed) == expected
    listed = run_secor("quarantine", "cat", str(config))
    assert listed.returncode == 0, listed.stderr
    quarantined = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {it["offset"] for it in quarantined} == set(BAD)
    assert all(BAD[it["offset"]] in it["reason"] for it in quarantined)
    verified = run_secor("verify", str(config))
    assert verified.returncode == 0, verified.stdout + verified.stderr
