"""How flights become messages."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from secor.cli.restore.options import load_job
from secor.config.load import load
from secor.core.errors import ConfigurationError, Unavailable
from secor.sandbox import S3Access
from secor.tables.catalog import Catalog
from secor.tables.commit.commit_history import CommitObject
from secor.wiring.table_routes import check_new_table
from tools.demo import tables
from tools.demo.flights import flight_of
from tools.demo.mending import mend, wrong_months
from tools.demo.partition import latest, write_configurations
from tools.demo.restoring import write_job
from tools.demo.story import Demonstration, clear, has_open_file

AIRLINES = {"UA": "United Air Lines Inc."}
ROW = {
    "month": 1,
    "time_hour": "2013-01-01T10:00:00Z",
    "minute": 15,
    "carrier": "UA",
    "origin": "EWR",
    "tailnum": "N14228",
    "dep_time": 517.0,
}


def test_a_flight_has_key_headers_and_the_time_at_which_it_was_to_leave() -> None:
    flight = flight_of(ROW, AIRLINES)
    assert flight.key == b"N14228"
    assert flight.headers == [("carrier", b"UA"), ("origin", b"EWR")]
    left = datetime.fromtimestamp(flight.timestamp / 1000, UTC)
    assert left.isoformat() == "2013-01-01T10:15:00+00:00"
    assert json.loads(flight.value) == ROW


def test_what_is_not_known_is_null_and_a_flight_without_tail_number_has_no_key() -> None:
    flight = flight_of({**ROW, "tailnum": float("nan"), "dep_time": float("nan")}, AIRLINES)
    assert flight.key is None
    assert json.loads(flight.value)["dep_time"] is None


def test_files_that_vanish_while_they_are_looked_for_hold_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "local" / "process"
    folder.mkdir(parents=True)
    for name in ("000000001", "000000002"):
        (folder / name).write_bytes(b"")
    assert not has_open_file(tmp_path / "local")
    (folder / "000000002").write_bytes(b"message")
    assert has_open_file(tmp_path / "local")
    stat = Path.stat

    def delete_first(self: Path, **options: bool) -> os.stat_result:
        self.unlink()
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", delete_first)
    assert not has_open_file(tmp_path / "local")


def test_a_commit_that_was_stopped_in_its_transaction_is_interrupted() -> None:
    """It locks a SQLite catalog; one of few rows is not worth it."""

    def load_table(identifier: str) -> None:
        raise Unavailable(f"table {identifier}: (sqlite3.OperationalError) database is locked")

    def commit(rows: int) -> CommitObject:
        files = [SimpleNamespace(files=[SimpleNamespace(records=rows)])]
        return cast(CommitObject, SimpleNamespace(table="demo.flights", id="c", files=files))

    locked = cast(Catalog, SimpleNamespace(load_table=load_table))
    assert tables.is_interrupted(locked, commit(10_000))
    assert not tables.is_interrupted(locked, commit(9_999))


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "mine"
    kept.write_text("mine")
    with pytest.raises(ConfigurationError, match="holds other things"):
        Demonstration(tmp_path).run(down=True)
    assert kept.read_text() == "mine"


def test_what_an_earlier_demonstration_left_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "local").mkdir(parents=True)
    (folder / "backup.toml").touch()
    clear(folder)
    assert not folder.exists()


def test_the_groups_that_parse_are_configured_as_their_formats_take_it(tmp_path: Path) -> None:
    access = S3Access("http://127.0.0.1:9000")
    sandbox = SimpleNamespace(kafka="127.0.0.1:9092", zookeeper="127.0.0.1:2181", s3=access)
    paths = write_configurations(tmp_path, cast("Any", sandbox))
    outputs = {name: load(path, {}).output for name, path in paths.items()}
    assert outputs["parquet"].schema_file == str(tmp_path / "flights.json")
    assert {name: output.format for name, output in outputs.items()} == {
        "parquet": "parquet",
        "lines": "jsonlines",
    }
    assert {output.prefix for output in outputs.values()} == set(paths)


def test_the_carriers_that_were_late_most_come_first() -> None:
    answer = {"A": (2, 10.0), "B": (1, 9.0), "C": (10, 10.0)}
    assert [carrier for carrier, _ in latest(answer)] == ["B", "A", "C"]


def test_months_that_differ_are_wrong_also_when_one_side_has_none() -> None:
    stored, left = {"2013-01": 3, "2013-02": 4, "2014-01": 1}, {"2013-01": 4, "2013-02": 4}
    assert wrong_months(stored, left) == ["2013-01", "2014-01"]
    assert wrong_months(left, left) == []


def test_the_mended_parser_has_the_zone_of_the_flights(tmp_path: Path) -> None:
    access = S3Access("http://127.0.0.1:9000")
    sandbox = SimpleNamespace(kafka="127.0.0.1:9092", zookeeper="127.0.0.1:2181", s3=access)
    parquet = write_configurations(tmp_path, cast("Any", sandbox))["parquet"]
    assert load(parquet, {}).parser.time_zone == "UTC"
    mend(parquet)
    assert load(parquet, {}).parser.time_zone == "America/New_York"


def test_messages_have_the_name_of_the_airline_from_july_on() -> None:
    assert "airline" not in json.loads(flight_of({**ROW, "month": 6}, AIRLINES).value)
    july = json.loads(flight_of({**ROW, "month": 7}, AIRLINES).value)
    assert july["airline"] == "United Air Lines Inc."


def test_the_table_group_of_the_demonstration_can_be_loaded(tmp_path: Path) -> None:
    access = S3Access("http://127.0.0.1:9000")
    sandbox = SimpleNamespace(kafka="127.0.0.1:9092", zookeeper="127.0.0.1:2181", s3=access)
    inferred = tmp_path / "flights.json"
    inferred.write_text(json.dumps({"fields": [{"name": "time_hour", "type": "string"}]}))
    schema = tables.write_schema(inferred, tmp_path)
    config = load(tables.write_configuration(tmp_path, cast("Any", sandbox)), {})
    assert [route.table for route in config.tables] == [tables.ALL, tables.LATE]
    assert config.tables[0].schema_file == str(schema)
    check_new_table(config.tables[0])


@pytest.mark.parametrize(
    ("delay", "late"), [("60.0", False), ("61.0", True), ("99", True), ("1301.0", True)]
)
def test_the_route_of_late_flights_takes_more_than_an_hour(delay: str, late: bool) -> None:
    assert (re.fullmatch(tables.MORE_THAN_AN_HOUR, delay) is not None) == late
    assert re.fullmatch(tables.MORE_THAN_AN_HOUR, f"-{delay}") is None


def test_the_job_of_the_restore_is_one_that_the_command_takes(tmp_path: Path) -> None:
    access = S3Access("http://127.0.0.1:9000")
    sandbox = SimpleNamespace(kafka="127.0.0.1:9092", s3=access)
    job = load_job(write_job(tmp_path, cast("Any", sandbox)))
    assert (job.group.name, job.source.topics, job.target.topic) == (
        "demo",
        ("flights",),
        "{topic}",
    )
    assert job.writing.messages_per_second == 60_000
