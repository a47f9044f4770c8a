"""Settings of the Iceberg library for Python, as Spark wants them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from secor.config.load import load
from secor.core.errors import ConfigurationError
from secor.tables.spark_catalog import spark_catalog


def options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the catalog's own settings, without their prefix."""
    prefix = "spark.sql.catalog.lake."
    settings = spark_catalog("lake", properties).settings
    return {
        key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)
    }


def test_a_session_gets_the_catalog_by_its_name_and_the_extensions() -> None:
    settings = spark_catalog("lake", {"type": "rest", "uri": "http://localhost:8181"}).settings
    assert settings["spark.sql.catalog.lake"] == "org.apache.iceberg.spark.SparkCatalog"
    assert settings["spark.sql.extensions"].endswith("IcebergSparkSessionExtensions")


@pytest.mark.parametrize(
    ("uri", "jdbc"),
    [
        ("sqlite:////var/lib/secor/catalog.db", "jdbc:sqlite:/var/lib/secor/catalog.db"),
        ("sqlite:///catalog.db", "jdbc:sqlite:catalog.db"),
        ("postgresql+psycopg2://db.example/lake", "jdbc:postgresql://db.example/lake"),
        (
            "postgresql://[::1]:5433/lake?sslmode=require",
            "jdbc:postgresql://[::1]:5433/lake?sslmode=require",
        ),
    ],
)
def test_a_sql_catalog_is_the_same_database_by_jdbc(uri: str, jdbc: str) -> None:
    given = options({"type": "sql", "uri": uri, "warehouse": "s3://lake/warehouse"})
    assert given["type"] == "jdbc"
    assert given["jdbc.schema-version"] == "V1"
    assert given["uri"] == jdbc
    assert given["warehouse"] == "s3://lake/warehouse"


def test_the_login_of_a_database_is_no_part_of_its_address() -> None:
    given = options({"uri": "postgresql+psycopg2://me:p%40ss@db:5432/lake"})
    assert given["uri"] == "jdbc:postgresql://db:5432/lake"
    assert (given["jdbc.user"], given["jdbc.password"]) == ("me", "p@ss")


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"type": "in-memory"}, "Spark cannot use it; it knows sql"),
        ({"py-catalog-impl": "mine.Catalog"}, "mine.Catalog"),
        ({}, "a catalog without a type"),
        ({"uri": "sqlite:///:memory:"}, "in memory"),
        ({"type": "sql", "uri": "mysql://db/lake"}, "not of mysql"),
        ({"uri": "postgresql:///lake?host=/run/postgresql"}, "by TCP only"),
    ],
)
def test_what_spark_cannot_reach_is_told(properties: Mapping[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        spark_catalog("lake", properties)


def test_a_rest_catalog_gets_its_credentials_and_everything_else_as_it_is() -> None:
    properties = {
        "uri": "https://catalog.example/v1",
        "credential": "id:secret",
        "scope": "PRINCIPAL_ROLE:ALL",
        "oauth2-server-uri": "https://login.example/token",
        "header.X-Iceberg-Access-Delegation": "vended-credentials",
        "rest.sigv4-enabled": "true",
    }
    given = options(properties)
    assert given["type"] == "rest"
    assert {key: given[key] for key in properties} == properties


def test_glue_takes_region_by_one_name_and_credentials_from_the_environment() -> None:
    catalog = spark_catalog(
        "lake",
        {
            "type": "glue",
            "warehouse": "s3://lake",
            "glue.region": "eu-west-1",
            "glue.access-key-id": "id",
            "glue.secret-access-key": "key",
            "glue.endpoint": "http://localhost:5000",
        },
    )
    prefix = "spark.sql.catalog.lake."
    assert catalog.settings[f"{prefix}type"] == "glue"
    assert catalog.settings[f"{prefix}client.region"] == "eu-west-1"
    assert catalog.settings[f"{prefix}glue.endpoint"] == "http://localhost:5000"
    assert catalog.environment == {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}
    assert "key" not in catalog.settings.values()


def test_a_role_is_assumed_with_the_keys_that_are_given() -> None:
    catalog = spark_catalog(
        "lake",
        {
            "uri": "thrift://hive:9083",
            "s3.role-arn": "arn:aws:iam::1:role/lake",
            "s3.access-key-id": "id",
            "s3.secret-access-key": "key",
            "s3.region": "eu-west-1",
        },
    )
    given = {key.rpartition("lake.")[2]: value for key, value in catalog.settings.items()}
    assert given["client.assume-role.arn"] == "arn:aws:iam::1:role/lake"
    assert given["client.assume-role.region"] == "eu-west-1"
    assert given["client.factory"].endswith("AssumeRoleAwsClientFactory")
    assert catalog.environment["AWS_SECRET_ACCESS_KEY"] == "key"


def test_what_is_given_in_java_s_words_has_the_last_word() -> None:
    given = options(
        {
            "type": "hive",
            "uri": "thrift://hive:9083",
            "s3.endpoint": "http://localhost:9000",
            "s3.path-style-access": "false",
            "cache-enabled": "true",
        }
    )
    assert given["s3.path-style-access"] == "false"
    assert given["cache-enabled"] == "true"
    assert given["client.region"] == "us-east-1"


def test_the_store_of_a_group_is_reached_as_the_daemon_reaches_it(tmp_path: object) -> None:
    from pathlib import Path

    from secor.wiring.table_catalogs import spark_catalog_of

    config = Path(str(tmp_path)) / "table.toml"
    config.write_text(Path(__file__).parents[3].joinpath("config/table.toml").read_text())
    environment = {
        "SECOR_STORE__S3__ENDPOINT_URL": "http://localhost:9000",
        "SECOR_STORE__S3__ACCESS_KEY": "id",
        "SECOR_STORE__S3__SECRET_KEY": "key",
        "SECOR_STORE__S3__SSE": "AES256",
    }
    settings = spark_catalog_of(load(config, environment)).settings
    prefix = "spark.sql.catalog.secor."
    assert settings[f"{prefix}s3.endpoint"] == "http://localhost:9000"
    assert settings[f"{prefix}s3.secret-access-key"] == "key"
    assert settings[f"{prefix}s3.path-style-access"] == "true"
    assert settings[f"{prefix}s3.sse.type"] == "s3"
