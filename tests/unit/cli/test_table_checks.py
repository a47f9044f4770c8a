"""``secor doctor`` of a table group, with a catalog and a store in a directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.adapters.kafka.topic_admin import TopicDefinition, TopicDescription
from secor.cli.doctor.checks import CheckResult
from secor.cli.doctor.table_checks import _rights, of_tables
from secor.config.load import validate
from secor.config.model import Config
from secor.core.errors import AccessDenied
from secor.core.model import TopicPartition
from secor.tables.catalog import NewTable, TableCommit
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.vector import Vector
from secor.tables.overview import TableOverview
from secor.tables.staging.staged_manifests import Staged
from secor.wiring import clients, table_coordination, table_group
from secor.wiring.check_references import unusable_references
from tests.fakes.store import FakeStore
from tests.unit.adapters.iceberg_tables import sqlite_catalog

NO_CONTROL = {"control": "none"}


def config_of(
    directory: Path, *tables: dict[str, Any], commit: Mapping[str, str] = NO_CONTROL
) -> Config:
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/warehouse",
    }
    config, faults = validate(
        {
            "group": {"name": "g", "kind": "table"},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["a", "b"]},
            "store": {"kind": "local", "local": {"directory": f"{directory}/own"}},
            "catalog": {"properties": properties},
            "commit": dict(commit),
            "tables": list(tables),
        }
    )
    assert config is not None, faults
    return config


@dataclass
class Reader:
    """The brokers, as far as the checks ask them."""

    topics: tuple[str, ...] = ("a", "b")

    def group_partitions(self, *asked: object) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(topic, 0) for topic in self.topics)

    def cluster_id(self) -> str:
        return "cluster"


@dataclass
class Group:
    """The group's tables, as ``tables status`` looks at them."""

    overviews: list[TableOverview] = field(default_factory=list)

    def staged(self) -> list[Staged]:
        return []

    def tables(self, staged: Sequence[Staged]) -> list[str]:
        return [overview.table for overview in self.overviews]

    def look_at(self, names: Sequence[str], staged: Sequence[Staged]) -> list[TableOverview]:
        return self.overviews


@pytest.fixture(autouse=True)
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    tables = Group()
    monkeypatch.setattr(table_group, "open_table_group", lambda config: nullcontext(tables))
    return tables


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    brokers = Reader()
    monkeypatch.setattr(clients, "open_reader", lambda config: nullcontext(brokers))
    return brokers


def told(findings: list[CheckResult]) -> dict[str, str]:
    return {f"{it.check} {'ok' if it.ok else 'FAULT'}": it.text for it in findings}


def test_all_is_well_and_nothing_is_left_behind(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64())])
    sqlite_catalog(tmp_path).create_table("db.a", NewTable(schema, ("bucket(4, id)",)))
    config = config_of(tmp_path, {"table": "db.{topic}", "auto_create": True})
    found = list(of_tables(config))
    assert all(finding.ok for finding in found)
    texts = [finding.text for finding in found]
    assert any(
        "db.a: 1 columns, partitions: bucket[4](id_bucket), files: parquet" in it for it in texts
    )
    made = f"it is made with its first messages, in file://{tmp_path}/warehouse/db/b"
    assert f"db.b does not exist: {made}" in texts
    assert {"put", "get", "list", "put once", "delete"} <= {finding.check for finding in found}
    assert not list((tmp_path / "warehouse").rglob("_secor-doctor/*"))


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64())])
    bad = {"write.format.default": "csv"}
    sqlite_catalog(tmp_path).create_table("db.a", NewTable(schema, (), bad))
    found = list(of_tables(config_of(tmp_path, {"table": "db.{topic}"})))
    faults = [finding.text for finding in found if not finding.ok]
    assert "use parquet, orc or avro" in faults[0]
    assert "db.b does not exist: create it" in faults[1]


def test_a_catalog_that_does_not_answer_is_one_fault(tmp_path: Path) -> None:
    found = list(of_tables(config_of(tmp_path / "missing", {"table": "db.t"})))
    assert [(finding.check, finding.ok) for finding in found] == [("catalog", False)]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"schema_file": "missing.avsc"}, "cannot be read"),
        ({"schema_file": "DECLARED", "partition_by": ["day(nowhere)"]}, "no column nowhere"),
    ],
)
def test_config_check_looks_at_tables_that_are_to_be_made(
    tmp_path: Path, table: dict[str, Any], words: str
) -> None:
    declared = tmp_path / "declared.json"
    declared.write_text(
        '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
    )
    given = {key: str(declared) if it == "DECLARED" else it for key, it in table.items()}
    config = config_of(tmp_path, {"table": "db.t", "auto_create": True, **given})
    assert words in unusable_references(config)["tables.0"]


def test_a_group_that_feeds_the_same_topic_into_the_same_table_is_told(
    tmp_path: Path, reader: Reader
) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = catalog.create_table("db.all", NewTable(pa.schema([pa.field("id", pa.int64())])))
    ends = {TopicPartition("a", 0): 5}
    record = GroupRecord(Vector().advance("cluster", "id-of-a", ends, "a"))
    catalog.commit(table, TableCommit(None, (), record.properties("neighbour")))
    config = config_of(tmp_path, {"table": "db.all"})
    (fault,) = [it for it in of_tables(config) if not it.ok]
    assert fault.check == "groups"
    assert "db.all has rows of a from group neighbour, too" in fault.text
    reader.topics = ("b",)  # another topic in the same table is what tables are for
    assert all(finding.ok for finding in of_tables(config))


def test_a_group_of_another_cluster_is_no_neighbour(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = catalog.create_table("db.all", NewTable(pa.schema([pa.field("id", pa.int64())])))
    record = GroupRecord(Vector().advance("elsewhere", None, {TopicPartition("a", 0): 5}, "a"))
    catalog.commit(table, TableCommit(None, (), record.properties("neighbour")))
    found = list(of_tables(config_of(tmp_path, {"table": "db.all"})))
    assert all(finding.ok for finding in found)


def test_topics_whose_tables_would_have_one_name_are_told(tmp_path: Path, reader: Reader) -> None:
    sqlite_catalog(tmp_path)
    reader.topics = ("a-b", "a_b", "c")
    config = config_of(tmp_path, {"table": "db.{topic}", "auto_create": True})
    faults = told([it for it in of_tables(config) if not it.ok])
    assert "topics a-b and a_b would both be rows of db.a_b" in faults["topics FAULT"]


@dataclass
class Brokers:
    """The admin clients of a cluster with a user's rights; ``None`` is no topic."""

    rights: Sequence[str] | None = ("READ", "WRITE", "DESCRIBE")
    denied: bool = False
    may_create: bool = True
    may_join: bool = True
    asked: list[str] = field(default_factory=list)

    def topics(self, options: object) -> Brokers:
        return self

    def groups(self, options: object) -> Groups:
        return Groups(self)

    def close(self) -> None: ...

    def describe(self, topics: Sequence[str]) -> dict[str, TopicDescription]:
        (name,) = topics
        self.asked.append(name)
        if self.rights is None:
            return {}
        if self.denied:
            raise AccessDenied("topic: allow Describe")
        rights = frozenset(self.rights)
        return {name: TopicDescription(name, None, 1, 1, {}, {}, rights)}

    def refusal(self, topic: str, settings: TopicDefinition) -> str | None:
        return None if self.may_create else "allow this user Create"


@dataclass
class Groups:
    brokers: Brokers

    def close(self) -> None: ...

    def may_join(self, group: str) -> bool:
        self.brokers.asked.append(group)
        return self.brokers.may_join


def control_findings(
    directory: Path, monkeypatch: pytest.MonkeyPatch, brokers: Brokers, **commit: str
) -> dict[str, str]:
    monkeypatch.setattr(table_coordination, "TopicAdmin", brokers.topics)
    monkeypatch.setattr(table_coordination, "GroupAdmin", brokers.groups)
    findings = told(list(of_tables(config_of(directory, {"table": "db.t"}, commit=commit))))
    return {key: text for key, text in findings.items() if key.startswith(("control", "election"))}


def test_the_rights_on_control_topic_and_election_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers()
    assert control_findings(tmp_path, monkeypatch, brokers, coordinator="alone") == {
        "control ok": "secor-control-g may be read and written",
        "election ok": "the group secor-control-g may be joined",
    }
    brokers = Brokers(rights=None)
    assert control_findings(tmp_path, monkeypatch, brokers, control_topic="events") == {
        "control ok": "events does not exist: the first process makes it"
    }
    assert brokers.asked == ["events"], "a daemon that coordinates elects nobody"
    old = Brokers(rights=())  # which tell no rights
    assert "control ok" in control_findings(tmp_path, monkeypatch, old)
    brokers = Brokers()
    assert control_findings(tmp_path, monkeypatch, brokers, control="none") == {}
    assert brokers.asked == []


@pytest.mark.parametrize(
    ("brokers", "check", "words"),
    [
        (Brokers(rights=("READ", "DESCRIBE")), "control", "Read and Write on the topic"),
        (Brokers(denied=True), "control", "and Create unless it exists"),
        (Brokers(rights=None, may_create=False), "control", "does not exist: allow this user"),
        (Brokers(may_join=False), "election", "allow this user Read on the group secor-control-g"),
    ],
)
def test_a_right_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brokers: Brokers, check: str, words: str
) -> None:
    findings = control_findings(tmp_path, monkeypatch, brokers, coordinator="alone")
    assert words in findings[f"{check} FAULT"]
    assert len(findings) == 2


def change_catalog(config: Config, **properties: str | None) -> Config:
    given = {**config.catalog.properties, **properties}
    kept = {name: value for name, value in given.items() if value is not None}
    catalog = config.catalog.model_copy(update={"properties": kept})
    return config.model_copy(update={"catalog": catalog})


def test_where_a_new_table_is_to_be_is_tried(tmp_path: Path) -> None:
    """A bucket that does not exist was seen only by the first commit."""
    (tmp_path / "file").touch()
    config = config_of(tmp_path, {"table": "db.{topic}", "auto_create": True})
    config = change_catalog(config, warehouse=f"file://{tmp_path}/file")
    faults = [it for it in of_tables(config) if not it.ok]
    assert [it.check for it in faults] == ["put", "put"]
    assert faults[0].text.startswith(f"file://{tmp_path}/file/db/a: ")


def test_a_catalog_that_lets_nobody_write_is_a_fault(tmp_path: Path) -> None:
    sqlite_catalog(tmp_path)
    config = config_of(tmp_path, {"table": "db.t", "auto_create": True})
    read_only = change_catalog(config, uri=f"sqlite:///file:{tmp_path}/catalog.db?mode=ro&uri=true")
    faults = told([it for it in of_tables(read_only) if not it.ok])
    assert "attempt to write a readonly database" in faults.pop("catalog FAULT")
    assert not faults


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"type": None, "uri": None}, "write type and uri of the catalog"),
        ({"uri": None}, "write type and uri of the catalog"),
        ({"type": None, "uri": "mysql://host/db"}, "write type and uri of the catalog"),
        ({"warehouse": None}, "there is no place for new tables"),
        ({"warehouse": ""}, "there is no place for new tables"),
        ({"warehouse": "hdfs://host/lake"}, "write a URI that begins with s3://"),
        ({"warehouse": "/var/lake"}, "write a URI that begins with s3://"),
        ({"uri": ""}, "write type and uri of the catalog"),
        ({"uri": "foo"}, "write it as SQLAlchemy does"),
        ({"uri": "oracle+nothing://user:secret@host/db"}, "*@host/db'"),
        ({"type": "rest", "uri": "localhost:8181"}, "write http:// or https://host"),
        ({"type": "hive", "uri": "localhost:9083"}, "write thrift://host"),
        ({"type": None, "py-catalog-impl": "nope.Nope"}, "nope.Nope: cannot be imported"),
    ],
)
def test_a_catalog_that_cannot_be_opened_is_told_by_config_check(
    tmp_path: Path, properties: dict[str, str | None], words: str
) -> None:
    config = config_of(tmp_path, {"table": "db.t", "auto_create": True})
    assert "catalog.properties" not in unusable_references(config)
    changed = change_catalog(config, **properties)
    assert words in unusable_references(changed)["catalog.properties"]


def test_a_catalog_needs_no_place_where_every_table_has_one(tmp_path: Path) -> None:
    route = {"table": "db.t", "auto_create": True, "location": "s3://bucket/t"}
    config = change_catalog(config_of(tmp_path, route), warehouse=None)
    assert not unusable_references(config)


def test_the_librarys_own_variables_may_name_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = change_catalog(config_of(tmp_path, {"table": "db.t"}), type=None, uri=None)
    monkeypatch.setenv("PYICEBERG_CATALOG__SECOR__URI", "https://catalog.example")
    assert not unusable_references(config)


def test_a_table_that_is_stopped_is_a_fault(tmp_path: Path, group: Group) -> None:
    sqlite_catalog(tmp_path)
    record = GroupRecord()
    group.overviews = [
        TableOverview("db.a", "uuid", "stopped", "was rolled back", record),
        TableOverview("db.b", None, "absent", "does not exist: ...", record),
        TableOverview("db.c", "uuid", "ok", "", record),
    ]
    found = told(list(of_tables(config_of(tmp_path, {"table": "db.t", "auto_create": True}))))
    assert found["tables FAULT"] == "db.a is stopped: was rolled back"
    group.overviews = group.overviews[1:]
    found = told(list(of_tables(config_of(tmp_path, {"table": "db.t", "auto_create": True}))))
    assert found["tables ok"] == "none is stopped"


def test_tables_of_topics_that_only_a_pattern_names_are_looked_at(
    tmp_path: Path, reader: Reader
) -> None:
    sqlite_catalog(tmp_path)
    config = config_of(tmp_path, {"table": "db.{topic}", "auto_create": True})
    kafka = config.kafka.model_copy(update={"topics": (), "topics_pattern": ".*"})
    reader.topics = tuple(f"t{number:02d}" for number in range(25))
    found = list(of_tables(config.model_copy(update={"kafka": kafka})))
    looked_at = [it.text for it in found if it.check == "table"]
    assert len(looked_at) == 21
    assert f"in file://{tmp_path}/warehouse/db/t00" in looked_at[0]
    assert looked_at[-1] == "5 other tables: not looked at"


def test_a_bucket_that_does_not_exist_is_told_once() -> None:
    class Nowhere(FakeStore):
        def put(self, key: str, *content: object) -> None:
            raise AccessDenied("there is no bucket")

    roots = ["s3://bucket/a", "s3://bucket/b", "s3://other/c", "_changes/db.t"]
    texts = [finding.text for finding in _rights(Nowhere(), roots)]
    assert texts == [f"{root}: there is no bucket" for root in (roots[0], *roots[2:])]
