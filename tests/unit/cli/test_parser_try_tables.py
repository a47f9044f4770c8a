"""``secor parser try`` of table groups: what it shows is what a worker then writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from secor.cli import main
from secor.cli.exit_codes import Exit
from secor.cli.parsing import parser
from secor.core.model import TopicPartition
from tests.unit.adapters.iceberg_tables import sqlite_catalog
from tests.unit.tables.worker_world import WorkerWorld, chunk_of

TABLE: dict[str, Any] = {"table": "db.{topic}", "auto_create": True, "evolve": True}


class Tried:
    """The JSON lines of one run."""

    def __init__(self, code: int, out: str) -> None:
        lines = [json.loads(line) for line in out.splitlines()]
        self.code = code
        self.messages = [line for line in lines if "message" in line]
        self.tables = {line["table"]: line for line in lines if "columns" in line}
        self.summary = lines[-1]["summary"] if lines else {}

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [
            row["values"]
            for message in self.messages
            for row in message.get("rows", ())
            if row["table"] == table
        ]

    def columns(self, table: str) -> dict[str, str]:
        return {it["name"]: it["type"] for it in self.tables[table]["columns"]}


class TryWorld:
    """A worker, and the command on its configuration."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def worker(self, *tables: Mapping[str, Any], **settings: Any) -> WorkerWorld:
        world = WorkerWorld(self.folder, tables or [TABLE], settings)
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{self.folder / 'catalog.db'}",
            "warehouse": f"file://{self.folder / 'warehouse'}",
        }
        tree = {
            "group": {"name": "g", "kind": "table"},
            "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["flights"]},
            "store": {"kind": "local", "local": {"directory": str(self.folder / "own")}},
            "catalog": {"properties": properties},
            "tables": [dict(table) for table in tables or [TABLE]],
            **settings,
        }
        (self.folder / "table.toml").write_text(toml(tree))
        return world

    def tries(self, lines: Sequence[object], *options: str) -> Tried:
        messages = self.folder / "messages"
        messages.write_bytes(b"\n".join(map(_line, lines)))
        self._capsys.readouterr()
        config = str(self.folder / "table.toml")
        code = main.run(["parser", "try", config, str(messages), "--json", *options])
        return Tried(code, self._capsys.readouterr().out)


def toml(tree: Mapping[str, Any]) -> str:
    """Return settings that hold nothing but texts, numbers, truths and lists of these."""
    tables = tree["tables"]
    flat = [line for name, it in tree.items() if name != "tables" for line in _settings(name, it)]
    for table in tables:
        flat += ["[[tables]]", *(f"{name} = {json.dumps(it)}" for name, it in table.items())]
    return "\n".join(flat)


def _settings(path: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [line for name, it in value.items() for line in _settings(f"{path}.{name}", it)]
    return [f"{path} = {json.dumps(value)}"]


def _line(message: object) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> TryWorld:
    return TryWorld(tmp_path, capsys)


def without_nulls(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: it for name, it in row.items() if it is not None} for row in rows]


def by_id(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return sorted(without_nulls(rows), key=lambda row: str(row["id"]))


def files_below(folder: Path) -> list[str]:
    return sorted(str(it) for it in folder.rglob("*") if "messages" not in it.name)


MIXED: list[object] = [
    {"id": 1, "size": 10, "name": "ada", "at": "2026-11-21T06:00:00Z"},
    {"id": 2, "size": 10.5, "tags": ["a", "b"], "more": {"deep": True}},
    b'{"id": ',
    {"id": "three", "name": 7},
    {"id": 4, "late": 1 << 40},
]


def test_its_rows_and_columns_are_those_that_a_worker_then_writes(world: TryWorld) -> None:
    worker = world.worker()
    (world.folder / "catalog.db").rename(world.folder / "elsewhere")
    before = files_below(world.folder)
    tried = world.tries(MIXED)
    assert files_below(world.folder) == before
    (world.folder / "elsewhere").rename(world.folder / "catalog.db")
    assert tried.code == Exit.DIFFERENT
    assert "rows" not in tried.messages[2]
    assert tried.messages[2]["quarantine"].startswith("decode: ")
    assert tried.summary["rows"] == 4
    assert not tried.tables["db.flights"]["exists"]
    worker.write(*MIXED)
    assert by_id(tried.rows("db.flights")) == by_id(worker.rows())
    schema = worker.catalog.library.load_table("db.flights").schema()
    assert list(tried.columns("db.flights")) == [field.name for field in schema.fields]
    assert tried.columns("db.flights")["size"] == "double" == str(schema.find_type("size"))
    assert tried.columns("db.flights")["id"] == "string" == str(schema.find_type("id"))
    assert any(text.startswith("id ") for text in tried.tables["db.flights"]["mixed"])


def test_a_table_of_the_catalog_is_looked_at_and_stays_as_it_is(world: TryWorld) -> None:
    worker = world.worker()
    worker.write({"id": 1, "size": 10})
    metadata = sqlite_catalog(world.folder).library.load_table("db.flights").metadata_location
    more: list[object] = [{"id": 2, "size": "x"}, {"id": 3, "size": 4, "new": "y"}]
    tried = world.tries(more)
    assert tried.tables["db.flights"]["exists"]
    columns = {it["name"]: it["before"] for it in tried.tables["db.flights"]["columns"]}
    assert columns == {"id": "long", "size": "long", "new": None}
    reason = tried.messages[0]["quarantine"]
    present = sqlite_catalog(world.folder).library.load_table("db.flights").metadata_location
    assert present == metadata
    worker.write(*more)
    assert worker.counts["quarantined_schema"] == 1
    assert reason in worker.reasons()
    assert by_id(tried.rows("db.flights")) == by_id(worker.rows())[1:]


def test_without_a_catalog_each_table_is_made_anew(world: TryWorld) -> None:
    world.worker({"table": "db.{topic}"}).catalog.library.create_namespace("db")
    tried = world.tries([{"id": "x"}], "--without-catalog")
    assert tried.code == Exit.OK
    assert tried.columns("db.flights") == {"id": "string"}
    assert tried.tables["db.flights"]["exists"] is None


def test_fields_that_get_no_column_are_named(world: TryWorld) -> None:
    world.worker()
    tried = world.tries([{"Ab": 1, "aB": 2}])
    assert tried.rows("db.flights") == [{"Ab": 1}]
    assert tried.tables["db.flights"]["undeclared"] == ["aB"]


def test_changes_of_rows_are_shown_with_their_keys(world: TryWorld) -> None:
    changed = {**TABLE, "mode": "upsert", "key": ["id"]}
    world.worker(changed, commit={"coordinator": "alone"})
    lines = [b'{"id": 1}\t{"id": 1, "name": "ada"}', b'{"id": 1}\t', b'\t{"name": "no key"}']
    tried = world.tries(lines, "--key-separator", "\t")
    operations = [
        (row["operation"], row["values"]) for it in tried.messages for row in it.get("rows", ())
    ]
    assert operations == [("upsert", {"id": 1, "name": "ada"}), ("delete", {"id": 1})]
    assert "quarantine" in tried.messages[2]
    assert tried.tables["db.flights"]["key"] == ["id"]


def test_messages_name_tables_and_one_may_go_to_several(world: TryWorld) -> None:
    late = {**TABLE, "table": "db.late", "field": "late", "equals": True}
    world.worker({**TABLE, "table": "db.kind_{fields.kind}"}, late)
    tried = world.tries([{"kind": "a", "late": True}, {"kind": "a b", "late": False}])
    tables = [[row["table"] for row in message["rows"]] for message in tried.messages]
    assert tables[0] == ["db.kind_a", "db.late"]
    assert len(tables[1]) == 1
    assert set(tried.tables) == {"db.late", tables[0][0], tables[1][0]}


def test_text_names_rows_tables_and_what_stops_a_daemon(
    world: TryWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.worker({**TABLE, "partition_by": ["id"]}, parser={"max_bad_messages": 1})
    (world.folder / "messages").write_bytes(b'{"id": 7}\n{\n[]\n')
    config = str(world.folder / "table.toml")
    code = main.run(["parser", "try", config, str(world.folder / "messages")])
    assert code == Exit.DIFFERENT
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == '1: db.flights (id=7): {"id":7}'
    assert shown[1].startswith("2: quarantine: decode: ")
    assert shown[3:6] == [
        "table db.flights: would be made, partitioned by id",
        "  id long",
        "3 messages: 1 become rows, 0 left out, 2 in quarantine",
    ]
    assert shown[6].startswith("a daemon stops there: ")


def test_types_that_depend_on_which_partition_is_read_first_are_shown(
    world: TryWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.worker()
    chunks = [
        chunk_of([{"id": 1}, {"id": 2}], TopicPartition("flights", 0)),
        chunk_of([{"id": "x"}, {"id": 3}], TopicPartition("flights", 1)),
    ]
    monkeypatch.setattr(parser, "_messages_of", lambda *_: iter(chunks))
    config = str(world.folder / "table.toml")
    capsys.readouterr()
    assert main.run(["parser", "try", config, "--from-topic", "flights"]) == Exit.DIFFERENT
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == 'flights/0@0: db.flights: {"id":1}'
    assert shown[2].startswith("flights/1@0: quarantine: schema: db.flights: id: ")
    at = shown.index("  id long")
    assert shown[at + 1] == "    string if flights/1 is read first"
