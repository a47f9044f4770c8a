"""How flights become messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from secor.demo.flights import flight_of
from secor.demo.story import Demonstration, clear
from secor.errors import ConfigurationError

ROW = {
    "time_hour": "2013-01-01T10:00:00Z",
    "minute": 15,
    "carrier": "UA",
    "origin": "EWR",
    "tailnum": "N14228",
    "dep_time": 517.0,
}


def test_a_flight_has_key_headers_and_the_time_at_which_it_was_to_leave() -> None:
    flight = flight_of(ROW)
    assert flight.key == b"N14228"
    assert flight.headers == [("carrier", b"UA"), ("origin", b"EWR")]
    left = datetime.fromtimestamp(flight.timestamp / 1000, UTC)
    assert left.isoformat() == "2013-01-01T10:15:00+00:00"
    assert json.loads(flight.value) == ROW


def test_what_is_not_known_is_null_and_a_flight_without_tail_number_has_no_key() -> None:
    flight = flight_of({**ROW, "tailnum": float("nan"), "dep_time": float("nan")})
    assert flight.key is None
    assert json.loads(flight.value)["dep_time"] is None


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
