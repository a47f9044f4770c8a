"""Partitions of a table in AWS Glue."""

from __future__ import annotations

from collections.abc import Iterator
from socket import socket
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from secor.adapters.glue import GlueSchemas, GlueTable
from secor.core.errors import (
    AccessDenied,
    ActionFailed,
    ConfigurationError,
    NotFound,
    Unavailable,
)

KEYS = {"access_key": "a", "secret_key": "b", "region": "us-east-1"}


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with mock_aws():
        client = boto3.client("glue", region_name="us-east-1")
        client.create_database(DatabaseInput={"Name": "logs"})
        client.create_table(
            DatabaseName="logs",
            TableInput={
                "Name": "clicks",
                "PartitionKeys": [{"Name": "dt", "Type": "string"}],
                "StorageDescriptor": {
                    "Columns": [{"Name": "user", "Type": "string"}],
                    "Location": "s3://logs/p/clicks",
                },
            },
        )
        yield client


def test_a_partition_gets_its_place_and_the_tables_columns_once(glue: Any) -> None:
    table = GlueTable("logs", "clicks", **KEYS)
    for _ in range(2):
        table.add([("dt", "2026-11-21")], "s3://logs/p/clicks/dt=2026-11-21/")
    [found] = glue.get_partitions(DatabaseName="logs", TableName="clicks")["Partitions"]
    assert found["Values"] == ["2026-11-21"]
    assert found["StorageDescriptor"]["Location"] == "s3://logs/p/clicks/dt=2026-11-21/"
    assert found["StorageDescriptor"]["Columns"] == [{"Name": "user", "Type": "string"}]


def test_a_table_partitioned_by_something_else_is_refused(glue: Any) -> None:
    del glue
    with pytest.raises(ConfigurationError, match="partitioned by dt, the layout by day"):
        GlueTable("logs", "clicks", **KEYS).add([("day", "2026-11-21")], "s3://x/")


def test_a_table_that_does_not_exist_is_named(glue: Any) -> None:
    del glue
    with pytest.raises(ConfigurationError, match=r"no table logs\.views"):
        GlueTable("logs", "views", **KEYS).add([("dt", "2026-11-21")], "s3://x/")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"profile": "nobody"}, r"profile \(nobody\) could not be found"),
        ({**KEYS, "region": None}, r"finalize\.glue\.region"),
        ({**KEYS, "endpoint_url": "nowhere"}, "nowhere"),
    ],
)
def test_settings_that_cannot_work_are_told_as_such(
    settings: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match=expected):
        GlueTable("logs", "clicks", **settings)


def test_a_catalogue_that_does_not_answer_leaves_the_day_for_the_next_time() -> None:
    with socket() as taken:  # nobody listens there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        table = GlueTable("logs", "clicks", **KEYS, endpoint_url=url)
        with pytest.raises(ActionFailed, match=r"Glue: logs\.clicks"):
            table.add([("dt", "2026-11-21")], "s3://x/")


def test_refused_credentials_are_told_as_such() -> None:
    table = GlueTable("logs", "clicks", **KEYS)
    with Stubber(table._client) as stubbed:
        stubbed.add_client_error("get_table", "AccessDeniedException", "no")
        with pytest.raises(AccessDenied, match=r"logs\.clicks"):
            table.add([("dt", "2026-11-21")], "s3://x/")


ADDRESS = "https://glue.eu-west-1.amazonaws.com"


def test_a_schema_is_found_by_the_guid_of_its_version(glue: Any) -> None:
    del glue
    text = '{"type": "record", "name": "R", "fields": []}'
    client = boto3.client("glue", region_name="eu-west-1")
    client.create_registry(RegistryName="r")
    made = client.create_schema(
        RegistryId={"RegistryName": "r"},
        SchemaName="s",
        DataFormat="AVRO",
        Compatibility="NONE",
        SchemaDefinition=text,
    )
    schemas = GlueSchemas(ADDRESS, access_key="a", secret_key="b")
    assert schemas.schema(made["SchemaVersionId"]) == ("AVRO", text)
    with pytest.raises(NotFound):
        schemas.schema("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")


@pytest.mark.parametrize(
    ("code", "error"), [("AccessDeniedException", AccessDenied), ("InternalService", Unavailable)]
)
def test_errors_of_glues_registry_are_not_final(code: str, error: type[Exception]) -> None:
    schemas = GlueSchemas(ADDRESS, access_key="a", secret_key="b")
    with Stubber(schemas._client) as stub:
        stub.add_client_error("get_schema_version", code, http_status_code=400)
        with pytest.raises(error, match="glue"):
            schemas.schema("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")


def test_a_registry_without_a_region_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(ConfigurationError, match=r"parser\.registry_url, such as"):
        GlueSchemas("https://proxy.example")
