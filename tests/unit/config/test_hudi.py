"""``format = "hudi"``: what is taken, and what is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest

from secor.config.load import validate
from secor.core.errors import ConfigurationError
from secor.tables.catalog import PartitionField
from secor.tables.hudi import HudiSettings, partition_column, write_options
from secor.wiring.hudi import hudi_settings_of
from secor.wiring.table_routes import route_of, row_settings
from tests.unit.config.test_tables import loaded, tree

HUDI = {"table": "db.t", "format": "hudi", "auto_create": True}
UPSERT = {**HUDI, "mode": "upsert", "key": ["id"]}
MORE = {"commit": {"coordinator": "alone"}, "hudi": {"warehouse": "s3://bucket/hudi"}}


@pytest.mark.parametrize(
    ("more", "key", "words"),
    [
        ({"tables": [{**HUDI, "format": "iceberg", "type": "merge-on-read"}]}, "type", "is for"),
        ({"tables": [HUDI, {"table": "db.u"}]}, "format", "a group of their own"),
        ({"hudi": {}}, "location", r"[hudi] warehouse"),
        ({"hudi": {"warehouse": "bucket"}}, "hudi.warehouse", "s3://bucket/path"),
        ({"tables": [{**HUDI, "location": "/tmp/t"}]}, "location", "file:///path"),
        (
            {"tables": [{**HUDI, "table": "db.{topic}", "location": "s3://b/t"}]},
            "location",
            "in one place",
        ),
        ({"catalog": {"name": "other"}}, "catalog", "in no catalog"),
        ({"commit": {"coordinator": "alone", "branch": "b"}}, "commit.branch", "no branches"),
        ({"commit": {}}, "commit.coordinator", "rows are merged by Spark"),
        ({"tables": [{**HUDI, "precombine": "at"}]}, "precombine", "not compared"),
        ({"tables": [{**HUDI, "properties": {"write.x": "1"}}]}, "properties", "begin with hoodie"),
        (
            {"tables": [{**HUDI, "properties": {"hoodie.table.name": "x"}}]},
            "properties",
            "follows from the other keys",
        ),
        ({"tables": [{**UPSERT, "partition_by": ["day(at)"]}]}, "partition_by", "not in key"),
        ({"tables": [{**HUDI, "partition_by": ["bucket(4, id)"]}]}, "partition_by", "use a column"),
        ({"tables": [{"table": "db.t"}]}, "hudi", "no [[tables]]"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(more: dict[str, Any], key: str, words: str) -> None:
    config, faults = validate(tree(**{"tables": [HUDI], **MORE, **more}))
    assert config is None
    assert [it for it, why in faults.items() if key in it and words in why], faults


def test_a_global_index_lets_rows_leave_their_partition() -> None:
    index = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    table = {**UPSERT, "partition_by": ["day(at)"], "properties": index}
    assert loaded(tables=[table], **MORE).tables[0].partition_by == ("day(at)",)


def test_inserted_rows_are_told_apart_by_their_place_in_kafka() -> None:
    config = loaded(tables=[HUDI], **MORE)
    place = ("_topic", "_kafka_partition", "_offset")
    assert route_of(config.tables[0]).settings.changes.key == place
    assert row_settings(config).metadata_columns == place
    assert row_settings(loaded(tables=[UPSERT], **MORE)).metadata_columns == ()
    assert config.changes_rows


def test_a_table_is_written_as_the_first_route_that_leads_to_it_says() -> None:
    named = {**UPSERT, "precombine": "at", "type": "merge-on-read"}
    template = {**HUDI, "table": "logs.{fields.kind}"}
    config = loaded(tables=[named, template], **MORE)
    assert hudi_settings_of(config, "db.t") == HudiSettings("upsert", "merge-on-read", "at", {})
    assert hudi_settings_of(config, "logs.clicks").mode == "insert"


def test_the_options_of_hudis_writer() -> None:
    own = {"hoodie.index.type": "BLOOM"}
    upsert = write_options(HudiSettings("upsert", "merge-on-read", "at", own), "a.b.t", ["id"], [])
    assert upsert["hoodie.table.name"] == "t"
    assert upsert["hoodie.database.name"] == "a.b"
    assert upsert["hoodie.index.type"] == "BLOOM"
    assert upsert["hoodie.datasource.write.operation"] == "upsert"
    assert upsert["hoodie.record.merge.mode"] == "EVENT_TIME_ORDERING"
    assert upsert["hoodie.compact.inline"] == "true"
    insert = write_options(HudiSettings("insert"), "a.t", ["x", "y"], ["day"])
    assert insert["hoodie.datasource.write.operation"] == "insert"
    assert insert["hoodie.datasource.insert.dup.policy"] == "drop"
    assert insert["hoodie.datasource.write.recordkey.field"] == "x,y"
    assert insert["hoodie.datasource.write.partitionpath.field"] == "day"
    assert insert["hoodie.metadata.enable"] == "false"


def test_partitions_become_columns() -> None:
    def of(transform: str) -> str:
        return partition_column(PartitionField(1, 1000, transform, "p"))[1].format("`at`")

    assert of("identity") == "`at`"
    assert of("day") == "date_format(`at`, 'yyyy-MM-dd')"
    assert of("truncate[3]") == "substring(`at`, 1, 3)"
    with pytest.raises(ConfigurationError, match="makes no path"):
        of("bucket[4]")
