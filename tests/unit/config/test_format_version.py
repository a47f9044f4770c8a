"""Tables of format version 3: what can be made, and what is refused with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from secor.config.load import validate
from secor.config.tables import why_no_growth
from tests.unit.config.test_tables import loaded, tree

NEW = {"table": "db.t", "auto_create": True, "mode": "upsert", "key": ["id"]}
VERSION_3 = {**NEW, "properties": {"format-version": 3}}
ALONE = {"coordinator": "alone"}
SQL = {"properties": {"type": "sql", "uri": "sqlite:////c.db"}}
REST = {"properties": {"type": "rest", "uri": "http://c"}}


@pytest.mark.parametrize(
    ("table", "catalog", "words"),
    [
        (VERSION_3, SQL, ("type 'sql'", "in Spark", "auto_create = false", "REST")),
        ({**VERSION_3, "mode": "append", "key": []}, REST, ("version 2 at most", "take this away")),
        ({**NEW, "properties": {"format-version": "4"}}, REST, ("'4'", "use 2, or 3")),
    ],
)
def test_what_cannot_be_made_is_refused_with_its_key(
    table: dict[str, Any], catalog: dict[str, Any], words: tuple[str, ...]
) -> None:
    config, faults = validate(tree(tables=[table], catalog=catalog, commit=ALONE))
    assert config is None
    assert all(word in faults["tables.0.properties"] for word in words), faults


def test_a_rest_catalog_makes_them_and_version_2_is_made_by_all() -> None:
    assert loaded(tables=[VERSION_3], catalog=REST, commit=ALONE)
    version_2 = {**NEW, "properties": {"format-version": 2}}
    assert loaded(tables=[version_2], catalog=SQL, commit=ALONE)


def test_columns_are_added_where_a_server_writes_the_metadata() -> None:
    assert why_no_growth("db.t", 2, SQL["properties"]) is None
    assert why_no_growth("db.t", 3, REST["properties"]) is None
    why = why_no_growth("db.t", 3, SQL["properties"])
    assert why is not None
    assert "db.t has format version 3" in why
    assert "evolve = false" in why
    assert "ADD COLUMN" in why
