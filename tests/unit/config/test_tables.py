"""The table group's sections: what they take, and what they refuse."""

from __future__ import annotations

import re
from typing import Any

import pytest

from secor.config.load import validate
from secor.config.model import Config
from secor.config.route_checks import shared_by_topics
from secor.config.show import settings
from secor.config.table_routes import TableRoute
from secor.config.tables import Rows

ROUTE = {"table": "db.t"}
MADE = {**ROUTE, "auto_create": True}


def tree(**more: Any) -> dict[str, Any]:
    return {
        "group": {"name": "g", "kind": "table"},
        "kafka": {"bootstrap_servers": ["localhost:9092"], "topics": ["t"]},
        "store": {"kind": "local", "local": {"directory": "/tmp/x"}},
        "tables": [ROUTE],
        **more,
    }


def loaded(**more: Any) -> Config:
    config, faults = validate(tree(**more))
    assert config is not None, faults
    return config


@pytest.mark.parametrize(
    ("more", "key", "words"),
    [
        ({"tables": []}, "tables", "at least one"),
        (
            {"tables": [{**ROUTE, "decimal_handling_mode": "string"}]},
            "tables.0.decimal_handling_mode",
            'is for encodings = "debezium"',
        ),
        (
            {"tables": [{**ROUTE, "encodings": "debezium", "time_units": {"at": "h"}}]},
            "tables.0.time_units",
            "at: 'h': give ms, us or ns",
        ),
        (
            {"catalog": {"properties": {"type": "dynamodb"}}},
            "catalog.properties",
            'cannot commit to a catalog of type "dynamodb"',
        ),
        (
            {"catalog": {"properties": {"type": "sqll"}}},
            "catalog.properties",
            'no type of catalog is called "sqll": use "rest", "sql"',
        ),
        (
            {"tables": [{**ROUTE, "auto_create": True, "partition_by": ["week(ts)"]}]},
            "tables.0.partition_by",
            "no such partition transform",
        ),
        (
            {"tables": [{**MADE, "topics": "a"}, ROUTE, {**MADE, "partition_by": "day(ts)"}]},
            "tables.2.partition_by",
            "another [[tables]] creates db.t with another partition_by",
        ),
        (
            {
                "commit": {"coordinator": "alone"},
                "tables": [
                    {**MADE, "mode": "upsert", "key": ["id"]},
                    {**MADE, "mode": "upsert", "key": ["id2"]},
                ],
            },
            "tables.1.key",
            "another [[tables]] creates db.t with another key",
        ),
        (
            {
                "commit": {"coordinator": "alone"},
                "tables": [MADE, {**MADE, "mode": "upsert", "key": ["id"]}],
            },
            "tables.1.mode",
            "another [[tables]] creates db.t with another mode",
        ),
        (
            {"tables": [{**MADE, "table": "db.{topic}", "partition_by": "day(ts)"}, MADE]},
            "tables.1.partition_by",
            "another [[tables]] creates db.t with another partition_by",
        ),
        (
            {
                "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["a-b", "a_b"]},
                "tables": [{"table": "db.{topic}"}],
            },
            "tables",
            "topics a-b and a_b would both be rows of db.a_b",
        ),
        ({"rows": {"metadata_columns": ["_partition"]}}, "rows.metadata_columns", "for itself"),
        ({"tables": [{"table": "t"}]}, "tables.0.table", 'write "namespace.table"'),
        ({"tables": [{"table": "db.{key}"}]}, "tables.0.table", "braces may hold"),
        ({"tables": [{"table": "db.{fields.a..b}"}]}, "tables.0.table", "names no field"),
        ({"tables": [{"table": "db.{topic"}]}, "tables.0.table", "expected '}'"),
        ({"tables": [{"table": "db.a b"}]}, "tables.0.table", "no name of a table"),
        ({"tables": [{**ROUTE, "equals": 5}]}, "tables.0.field", "name the field"),
        ({"tables": [{**ROUTE, "topics": "("}]}, "tables.0.topics", "no regular expression"),
        (
            {"tables": [{**ROUTE, "field": "a", "equals": 5, "matches": "x"}]},
            "tables.0.field",
            "give one of",
        ),
        (
            {"tables": [{**ROUTE, "partition_by": ["day(ts)"]}]},
            "tables.0.partition_by",
            "set auto_create",
        ),
        ({"rows": {"metadata_columns": ["_ky"]}}, "rows.metadata_columns", "no column '_ky'"),
        ({"output": {"format": "text"}}, "output.format", "the table's properties"),
        ({"parser": {"layout": "x"}}, "parser.layout", "partition spec"),
        (
            {"parser": {"transforms": [{"kind": "route", "to": "other"}]}},
            "parser.transforms",
            "say where messages go",
        ),
        ({"finalize": {"delay": "2h"}}, "finalize", "only group.kind"),
        ({"commit": {"control": "none", "control_topic": "x"}}, "commit.control_topic", "no topic"),
        ({"commit": {"interval": 0}}, "commit.interval", "more than 0"),
    ],
)
def test_what_cannot_be_is_a_fault_at_its_key(more: dict[str, Any], key: str, words: str) -> None:
    config, faults = validate(tree(**more))
    assert config is None
    assert words in faults[key]


def test_a_coordinator_that_cannot_merge_is_the_only_fault() -> None:
    """Without the faulty mode, its key would be a fault, too."""
    _, faults = validate(tree(tables=[{**MADE, "mode": "upsert", "key": ["id"]}]))
    assert list(faults) == ["commit.coordinator"]
    assert "db.t: rows are merged by Spark" in faults["commit.coordinator"]


@pytest.mark.parametrize("kind", ["backup", "partition"])
@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("tables", [ROUTE]),
        ("catalog", {"name": "x"}),
        ("rows", {"unrouted": "skip"}),
        ("commit", {"interval": 5}),
    ],
)
def test_other_groups_have_no_tables(kind: str, section: str, value: object) -> None:
    given = {**tree(), "group": {"name": "g", "kind": kind}, "tables": [], section: value}
    config, faults = validate(given)
    assert config is None
    assert 'only group.kind "table"' in faults[section]


def test_partition_terms_may_be_one_text() -> None:
    route = {**ROUTE, "auto_create": True, "partition_by": "day(ts), bucket(16, id),x"}
    assert loaded(tables=[route]).tables[0].partition_by == ("day(ts)", "bucket(16, id)", "x")


def test_properties_are_text_whatever_they_were() -> None:
    config = loaded(catalog={"properties": {"s3.ssl": True, "pool": 5, "uri": "x"}})
    assert config.catalog.properties == {"s3.ssl": "true", "pool": "5", "uri": "x"}


def test_secrets_of_catalogs_are_not_shown() -> None:
    properties = {
        "credential": "id:secret",
        "s3.secret-access-key": "secret",
        "uri": "postgresql://user:secret@host/db",
        "token": "secret",
        "warehouse": "s3://plain",
    }
    config = loaded(catalog={"properties": properties})
    shown = next(row for row in settings(config) if row.key == "catalog.properties").text()
    assert "secret@" not in shown
    assert '"secret"' not in shown
    assert "id:secret" not in shown
    assert "s3://plain" in shown
    assert "secret" not in str(config.model_dump(mode="json")["catalog"]["properties"]["token"])


def test_the_prefix_is_the_group_s_own() -> None:
    assert loaded().output.prefix == "table"
    assert loaded(output={"prefix": "mine"}).output.prefix == "mine"


@pytest.mark.parametrize(
    ("kafka", "commit", "read", "left_out"),
    [
        ({}, {}, "secor-other", "secor-control-g"),
        ({"topics_exclude": "_.*"}, {"control_topic": "mine.x"}, "mine_x", "mine.x"),
        ({"topics_exclude": "none"}, {}, "secor-control-h", "secor-control-g"),
    ],
)
def test_a_pattern_does_not_read_the_control_topic(
    kafka: dict[str, str], commit: dict[str, str], read: str, left_out: str
) -> None:
    servers = {"bootstrap_servers": ["localhost:9092"], "topics_pattern": ".*", **kafka}
    pattern = loaded(kafka=servers, commit=commit).kafka.topics_exclude or ""
    assert re.fullmatch(pattern, left_out)
    assert not re.fullmatch(pattern, read)
    assert bool(re.fullmatch(pattern, "_internal")) == ("_.*" in kafka.values())


def test_without_a_control_topic_nothing_is_left_out() -> None:
    servers = {"bootstrap_servers": ["localhost:9092"], "topics_pattern": ".*"}
    assert loaded(kafka=servers, commit={"control": "none"}).kafka.topics_exclude is None


def test_the_control_topic_is_not_one_of_the_topics() -> None:
    servers = {"bootstrap_servers": ["localhost:9092"], "topics": ["a", "secor-control-g"]}
    config, faults = validate(tree(kafka=servers))
    assert config is None
    assert "control topic" in faults["kafka.topics"]


def test_a_catalog_without_compare_and_set_is_warned_of() -> None:
    (warning,) = loaded(catalog={"properties": {"type": "hive"}}).warnings
    assert "without a compare-and-set" in warning
    assert loaded(catalog={"properties": {"type": "glue"}}).warnings == ()


@pytest.mark.parametrize(
    ("table", "warned"),
    [
        ("lake.{fields.db}_{fields.table}", True),
        ("lake.{fields.db}{fields.table}", True),
        ("{fields.db}.{fields.table}", False),
        ("lake.{topic}_{fields.kind}", True),
        ("lake.{topic}-{fields.kind}", False),
        ("lake.{fields.db}-{fields.table}", False),
        ("lake.{fields.kind}", False),
    ],
)
def test_a_name_that_different_values_may_share_is_warned_of(table: str, warned: bool) -> None:
    warnings = loaded(tables=[{"table": table}], rows={"names": "replace"}).warnings
    assert [("different values" in warning) for warning in warnings] == [True] * warned


@pytest.mark.parametrize(
    ("table", "topics", "shared"),
    [
        ("lake.{topic}_{fields.kind}", ["clicks", "clicks_de", "views"], True),
        ("lake.{fields.kind}_{topic}", ["clicks", "old-clicks"], True),
        ("lake.{topic}_{fields.kind}", ["clicks", "clicksde", "views"], False),
        ("lake.{topic}-{fields.kind}", ["clicks", "clicks_de"], False),
        ("{topic}.{fields.kind}", ["clicks", "clicks_de"], False),
    ],
)
def test_topics_and_values_that_make_one_name_are_refused(
    table: str, topics: list[str], shared: bool
) -> None:
    servers = {"bootstrap_servers": ["localhost:9092"], "topics": topics}
    more: dict[str, Any] = {"kafka": servers, "tables": [{"table": table}]}
    _, faults = validate(tree(**more))
    assert list(faults) == ["tables"] * shared
    if shared:
        assert f"topics {' and '.join(topics[:2])} would" in str(faults["tables"])
        assert 'put "-" or "."' in str(faults["tables"])
        config = loaded(**more, rows={"names": "replace"})
        assert any("different values" in warning for warning in config.warnings)
        own = [{"topics": topic, "table": f"{topic[:2]}.{{fields.kind}}"} for topic in topics]
        assert loaded(**{**more, "tables": own})


def test_a_topic_among_fields_makes_no_name() -> None:
    _, faults = validate(tree(tables=[{"table": "lake.{fields.a}_{topic}_{fields.b}"}]))
    assert "on both sides of {topic}" in str(faults["tables.0.table"])
    assert loaded(tables=[{"table": "lake.{fields.a}-{topic}_{fields.b}"}])


def test_a_thousand_topics_are_compared_in_a_moment() -> None:
    """Every pair of them would be 50 million comparisons."""
    rows, routes = Rows(), [TableRoute(table="lake.{fields.kind}_{topic}")]
    topics = [f"topic-{number:05}" for number in range(10_000)]
    assert not list(shared_by_topics(routes, topics, rows))
    [(names, _)] = shared_by_topics(routes, [*topics, "new-topic-00007"], rows)
    assert names == ["new-topic-00007", "topic-00007"]


@pytest.mark.parametrize("between", ["", "x", "_x002E_"])
def test_fields_that_no_underscore_tells_apart_make_no_name(between: str) -> None:
    route = {"table": f"lake.{{fields.db}}{between}{{fields.table}}"}
    config, faults = validate(tree(tables=[route]))
    assert config is None
    assert list(faults) == ["tables.0.table"]
    assert "different values would make one name" in str(faults)
    assert loaded(tables=[{"table": "lake.{fields.db}__{fields.table}"}]).warnings == ()
