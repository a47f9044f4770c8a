"""Tables in AWS Glue, which moto plays; and catalogs to which the library cannot commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from moto import mock_aws
from pyiceberg.catalog.dynamodb import DynamoDbCatalog

from secor.adapters.iceberg.catalog import open_catalog
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.config.tables import CANNOT_COMMIT
from secor.tables.catalog import NewTable, Outcome, TableCommit
from tests.unit.adapters.iceberg_tables import SCHEMA, stage

EVENTS = "logs.events"


@pytest.fixture
def properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with mock_aws():
        yield {"type": "glue", "glue.region": "us-east-1", "warehouse": tmp_path.as_uri()}


def test_a_commit_to_glue_names_the_version_that_was_seen(
    properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = IcebergCatalog(open_catalog("lake", properties))
    table = catalog.create_table(EVENTS, NewTable(SCHEMA))
    glue: Any = cast(Any, catalog.library).glue
    update, versions = glue.update_table, []

    def update_table(**request: Any) -> Any:
        versions.append(request["VersionId"])
        return update(**request)

    monkeypatch.setattr(glue, "update_table", update_table)
    seen = glue.get_table(DatabaseName="logs", Name="events")["Table"]["VersionId"]
    files = (stage(table, [1]),)
    done = catalog.commit(table, TableCommit(None, files, {"secor.g.vector": "{}"}))
    assert done.outcome is Outcome.DONE
    assert versions == [seen], "Glue refuses what is no longer the version"
    late = IcebergCatalog(open_catalog("lake", properties)).commit(table, TableCommit(None, files))
    assert late.outcome is Outcome.REFUSED
    loaded = IcebergCatalog(open_catalog("lake", properties)).load_table(EVENTS)
    assert loaded.properties["secor.g.vector"] == "{}"
    assert len(loaded.snapshots) == 1


def test_the_library_cannot_commit_to_dynamodb() -> None:
    nothing: Any = None
    with pytest.raises(NotImplementedError):
        DynamoDbCatalog.commit_table(nothing, nothing, (), ())
    assert "dynamodb" in CANNOT_COMMIT
