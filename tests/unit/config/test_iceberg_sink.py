"""What becomes of the configuration of the Iceberg sink for Kafka Connect."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from secor.config.connect.connector_file import is_connector, read
from secor.config.connect.settings import CONNECT_SETTINGS, SinkSetting
from secor.config.connect.settings import row_of as row_among
from secor.config.connect.sinks import convert as convert_sink
from secor.config.iceberg_sink.convert import convert
from secor.config.iceberg_sink.routes import partition_terms
from secor.config.iceberg_sink.sink_settings import (
    SINK_SETTINGS,
    page_rows,
    transform_rows,
)
from secor.config.load import load
from secor.config.translation.draft import Draft, PropertyOutcome
from secor.core.errors import ConfigurationError

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"

LEAST = {
    "name": "lake",
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": "events",
    "iceberg.tables": "db.events",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "https://catalog",
    "iceberg.catalog.warehouse": "s3a://lake/warehouse",
    "iceberg.kafka.bootstrap.servers": "kafka-1:9092,kafka-2:9092",
}


UNITS = {"units": {"*": "milliseconds"}}
"""The sink reads integers of times and timestamps as milliseconds."""


def row_of(name: str) -> SinkSetting | None:
    return row_among(name, (*SINK_SETTINGS, *CONNECT_SETTINGS))


def imported(folder: Path, more: dict[str, Any]) -> tuple[dict[str, Any], Draft]:
    path = folder / "sink.json"
    path.write_text(json.dumps({"name": "lake", "config": {**LEAST, **more}}))
    text, draft = convert(read(str(path), {}), path.name)
    return tomllib.loads(text), draft


def test_the_page_has_the_table_of_the_importer() -> None:
    page = PAGE.read_text()
    table = page.partition("<!-- settings of the sink -->\n")[2].partition("\n<!-- end")[0]
    assert table.splitlines() == page_rows()


def test_the_page_has_the_transforms_of_the_sink() -> None:
    page = PAGE.read_text()
    table = page.partition("<!-- transforms of the sink -->\n")[2].partition("\n<!-- end")[0]
    assert table.splitlines() == transform_rows()


def test_a_transform_of_the_sink_is_told_with_what_stands_for_it(tmp_path: Path) -> None:
    own = "org.apache.iceberg.connect.transforms.KafkaMetadataTransform"
    more = {
        "transforms": "meta,other",
        "transforms.meta.type": own,
        "transforms.other.type": "org.apache.kafka.connect.transforms.Cast$Value",
    }
    _, draft = imported(tmp_path, more)
    outcome, here = draft.outcomes["transforms.meta.type"]
    assert outcome is PropertyOutcome.UNSUPPORTED
    assert here.startswith("rows.metadata_columns: _topic")
    assert draft.outcomes["transforms.other.type"] == (PropertyOutcome.UNSUPPORTED, "as above")


def test_each_setting_stands_there_once() -> None:
    names = [row.name for row in (*SINK_SETTINGS, *CONNECT_SETTINGS)]
    assert len(set(names)) == len(names)


def test_a_least_connector_becomes_a_table_group(tmp_path: Path) -> None:
    config, draft = imported(tmp_path, {})
    assert config["group"] == {"name": "lake", "kind": "table"}
    assert config["kafka"]["bootstrap_servers"] == ["kafka-1:9092", "kafka-2:9092"]
    assert config["kafka"]["topics"] == ["events"]
    assert config["catalog"]["name"] == "iceberg"
    assert config["catalog"]["properties"]["warehouse"] == "s3://lake/warehouse"
    assert config["commit"]["interval"] == "5m", "the sink's default"
    assert config["tables"] == [{"table": "db.events", **UNITS}]
    assert {outcome for outcome, _ in draft.outcomes.values()} == {PropertyOutcome.MAPPED}


def test_kafkas_default_mechanism_is_taken_where_none_is_given(tmp_path: Path) -> None:
    more = {
        "iceberg.kafka.security.protocol": "SASL_SSL",
        "iceberg.kafka.sasl.kerberos.service.name": "brokers",
    }
    config, _ = imported(tmp_path, more)
    assert config["kafka"]["sasl_mechanism"] == "GSSAPI"
    assert config["kafka"]["sasl_kerberos_service_name"] == "brokers"


def test_a_converter_that_only_the_worker_names_is_for_a_person(tmp_path: Path) -> None:
    _, draft = imported(tmp_path, {})
    assert any("names no value.converter" in todo for todo in draft.todos)
    more = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    for enveloped in ("false", "true"):
        _, draft = imported(tmp_path, {**more, "value.converter.schemas.enable": enveloped})
        assert not any("value.converter" in todo for todo in draft.todos)


CONFLUENT = {
    "io.confluent.connect.avro.AvroConverter": "avro",
    "io.confluent.connect.json.JsonSchemaConverter": "json",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf",
}


@pytest.mark.parametrize("converter", CONFLUENT)
def test_a_converter_of_confluent_is_a_decoder_with_its_registry(
    converter: str, tmp_path: Path
) -> None:
    registry = "value.converter.schema.registry."
    more = {
        "value.converter": converter,
        f"{registry}url": "https://one:8081, https://two:8081",
        f"{registry}basic.auth.credentials.source": "USER_INFO",
        f"{registry}basic.auth.user.info": "reader:s3cret",
        f"{registry}ssl.truststore.type": "PEM",
        f"{registry}ssl.truststore.location": "/etc/ca.pem",
        f"{registry}ssl.keystore.location": "/etc/client.jks",
        "value.converter.enhanced.avro.schema.support": "true",
    }
    config, draft = imported(tmp_path, more)
    assert config["parser"] == {
        "decoder": CONFLUENT[converter],
        "framing": "confluent",
        "registry_url": "https://one:8081",
        "registry_username": "reader",
        "registry_cafile": "/etc/ca.pem",
    }
    assert "s3cret" not in json.dumps(config)
    assert any("SECOR_PARSER__REGISTRY_PASSWORD" in todo for todo in draft.todos)
    assert any("several addresses" in todo for todo in draft.todos)
    outcomes = {name: outcome for name, (outcome, _) in draft.outcomes.items()}
    assert outcomes[f"{registry}basic.auth.credentials.source"] is PropertyOutcome.UNNEEDED
    assert outcomes[f"{registry}ssl.truststore.type"] is PropertyOutcome.UNNEEDED
    assert "in PEM" in draft.outcomes[f"{registry}ssl.keystore.location"][1]
    assert outcomes["value.converter.enhanced.avro.schema.support"] is PropertyOutcome.UNSUPPORTED


@pytest.mark.parametrize(
    ("converter", "decoder"),
    [
        ("AWSKafkaAvroConverter", "avro"),
        ("jsonschema.JsonSchemaConverter", "json"),
        ("protobuf.ProtobufSchemaConverter", "protobuf"),
    ],
)
def test_a_converter_of_glue_is_a_decoder_with_its_registry(
    converter: str, decoder: str, tmp_path: Path
) -> None:
    name = f"com.amazonaws.services.schemaregistry.kafkaconnect.{converter}"
    more = {"value.converter": name, "value.converter.region": "eu-west-1"}
    config, draft = imported(tmp_path, more)
    expected = {"decoder": decoder, "framing": "glue"}
    assert config["parser"] == {
        **expected,
        "registry_url": "https://glue.eu-west-1.amazonaws.com",
    }
    assert draft.outcomes["value.converter.region"][0] is PropertyOutcome.MAPPED
    own = {"value.converter.endpoint": "https://vpce-1.glue.eu-west-1.vpce.amazonaws.com"}
    config, draft = imported(tmp_path, {**more, **own})
    assert config["parser"] == {**expected, "registry_url": own["value.converter.endpoint"]}
    assert draft.outcomes["value.converter.region"][0] is PropertyOutcome.UNNEEDED


def test_a_token_for_the_registry_is_left_to_the_environment(tmp_path: Path) -> None:
    registry = "value.converter.schema.registry."
    more = {
        "value.converter": "io.confluent.connect.json.JsonSchemaConverter",
        f"{registry}url": "https://registry",
        f"{registry}bearer.auth.credentials.source": "STATIC_TOKEN",
        f"{registry}bearer.auth.token": "s3cret",
    }
    config, draft = imported(tmp_path, more)
    assert "s3cret" not in json.dumps(config)
    assert any("SECOR_PARSER__REGISTRY_TOKEN" in todo for todo in draft.todos)


CHANGES = {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.default-id-columns": "id"}
AVRO = "io.confluent.connect.avro.AvroConverter"
KEYS = "key.converter.schema.registry."
VALUES = "value.converter.schema.registry."


def test_keys_of_rows_that_change_are_read_as_their_converter_does(tmp_path: Path) -> None:
    more = {
        **CHANGES,
        "key.converter": "io.confluent.connect.protobuf.ProtobufConverter",
        f"{KEYS}url": "https://registry",
        f"{KEYS}basic.auth.user.info": "me:s3cret",
        "key.converter.enhanced.protobuf.schema.support": "true",
    }
    config, draft = imported(tmp_path, more)
    assert config["parser"]["key"] == {
        "decoder": "protobuf",
        "framing": "confluent",
        "field": "none",
        "registry_url": "https://registry",
        "registry_username": "me",
    }
    assert any("SECOR_PARSER__KEY__REGISTRY_PASSWORD" in todo for todo in draft.todos)
    name = "key.converter.enhanced.protobuf.schema.support"
    assert "[parser.key]" in draft.outcomes[name][1]
    json_keys = {"key.converter": "org.apache.kafka.connect.json.JsonConverter"}
    config, _ = imported(tmp_path, {**CHANGES, **json_keys})
    assert config["parser"]["key"] == {"decoder": "json", "field": "none"}
    long_keys = {"key.converter": "org.apache.kafka.connect.converters.LongConverter"}
    config, _ = imported(tmp_path, {**CHANGES, **long_keys})
    assert config["parser"]["key"] == {"decoder": "integer", "field": "none"}


def test_keys_and_values_of_one_registry_name_it_once(tmp_path: Path) -> None:
    more = {
        **CHANGES,
        "key.converter": AVRO,
        "value.converter": AVRO,
        f"{KEYS}url": "https://registry",
        f"{VALUES}url": "https://registry",
        f"{VALUES}basic.auth.user.info": "me:s3cret",
    }
    config, draft = imported(tmp_path, more)
    keys = {"decoder": "avro", "framing": "confluent", "field": "none"}
    assert config["parser"]["key"] == keys
    path = tmp_path / "table.toml"
    path.write_text(convert(read(str(tmp_path / "sink.json"), {}), "sink.json")[0])
    secret = {"SECOR_PARSER__REGISTRY_PASSWORD": "s3cret"}
    key = load(path, {**secret}).parser.key
    assert (key.registry_url, key.registry_username) == ("https://registry", "me")
    assert {outcome for outcome, _ in draft.outcomes.values()} == {PropertyOutcome.MAPPED}
    del more[f"{KEYS}url"]
    assert imported(tmp_path, more)[0]["parser"]["key"] == keys
    more[f"{KEYS}url"] = "https://other"
    assert imported(tmp_path, more)[0]["parser"]["key"]["registry_url"] == "https://other"
    with pytest.raises(
        ConfigurationError, match=r"key\.converter\.schema\.registry\.url: is empty"
    ):
        imported(tmp_path, {**CHANGES, "key.converter": AVRO})


@pytest.mark.parametrize(
    ("changes", "converter", "outcome"),
    [
        ({}, AVRO, PropertyOutcome.UNNEEDED),
        (CHANGES, "org.apache.kafka.connect.storage.StringConverter", PropertyOutcome.UNNEEDED),
        (
            CHANGES,
            "org.apache.kafka.connect.converters.DoubleConverter",
            PropertyOutcome.UNSUPPORTED,
        ),
    ],
)
def test_keys_that_need_no_decoder_or_have_none(
    changes: dict[str, str], converter: str, outcome: PropertyOutcome, tmp_path: Path
) -> None:
    config, draft = imported(tmp_path, {**changes, "key.converter": converter})
    assert "key" not in config["parser"]
    assert draft.outcomes["key.converter"][0] is outcome


EVERYTHING: dict[str, Any] = {
    "tasks.max": 2,
    "topics": "events",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": False,
    "key.converter": "x.Y",
    "errors.deadletterqueue.topic.name": "dead",
    "consumer.override.auto.offset.reset": "latest",
    "consumer.override.client.rack": "eu-1a",
    "consumer.override.group.instance.id": "sink-1",
    "iceberg.tables.route-field": "type",
    "iceberg.table.db.events.route-regex": "e.*",
    "iceberg.table.db.events.partition-by": "day(ts), bucket(id, 16)",
    "iceberg.table.db.events.commit-branch": "audit",
    "iceberg.tables.auto-create-enabled": "true",
    "iceberg.tables.evolve-schema-enabled": "true",
    "iceberg.tables.schema-force-optional": "true",
    "iceberg.tables.schema-case-insensitive": "true",
    "iceberg.tables.auto-create-props.format-version": "2",
    "iceberg.tables.write-props.write.format.default": "orc",
    "iceberg.control.commit.interval-ms": 60000,
    "iceberg.control.commit.timeout-ms": 20000,
    "iceberg.control.commit.threads": 4,
    "iceberg.catalog": "prod",
    "iceberg.catalog.s3.endpoint": "http://minio:9000",
    "iceberg.catalog.s3.path-style-access": "true",
}


def test_everything_with_a_counterpart_is_in_the_configuration(tmp_path: Path) -> None:
    config, draft = imported(tmp_path, EVERYTHING)
    assert config["tables"] == [
        {
            "table": "db.events",
            "field": "type",
            "matches": "e.*",
            "partition_by": ["day(ts)", "bucket(16, id)"],
            "auto_create": True,
            "evolve": True,
            "optional_columns": True,
            **UNITS,
            "properties": {"format-version": "2", "write.format.default": "orc"},
        }
    ]
    assert config["commit"] == {
        "branch": "audit",
        "interval": "60000ms",
        "timeout": "20000ms",
        "threads": 4,
    }
    assert config["catalog"]["name"] == "prod"
    assert config["rows"] == {"case_sensitive": False}
    assert config["kafka"]["reset"] == "latest"
    assert config["kafka"]["client_rack"] == "eu-1a"
    assert config["kafka"]["group_instance_id"] == "sink-1"
    assert config["parser"] == {"decoder": "json", "dead_letter_topic": "dead"}
    assert config["store"]["s3"]["endpoint_url"] == "http://minio:9000"
    given = {**LEAST, **EVERYTHING}
    for name in given:
        row = row_of(name)
        assert row is not None, name
        if row.outcome is not None:
            assert draft.outcomes[name][0] is row.outcome, name
        elif name not in ("value.converter.schemas.enable", "key.converter"):
            assert draft.outcomes[name][0] is PropertyOutcome.MAPPED, (name, draft.outcomes[name])


@pytest.mark.parametrize(
    ("warehouse", "io", "store"),
    [
        ("gs://lake/w", "gcp.gcs.GCSFileIO", {"kind": "gcs", "gcs": {"bucket": "lake"}}),
        (
            "abfss://lake@acme.dfs.core.windows.net/w",
            "azure.adlsv2.ADLSFileIO",
            {"kind": "azure", "azure": {"account": "acme", "container": "lake"}},
        ),
        ("hdfs://lake/w", "hadoop.HadoopFileIO", {"s3": {"bucket": "change-me"}}),
    ],
)
def test_the_group_s_own_objects_are_in_the_cloud_of_the_warehouse(
    warehouse: str, io: str, store: dict[str, Any], tmp_path: Path
) -> None:
    given = {"warehouse": warehouse, "io-impl": f"org.apache.iceberg.{io}"}
    config, draft = imported(tmp_path, {f"iceberg.catalog.{key}": it for key, it in given.items()})
    assert config["store"] == store
    assert draft.outcomes["iceberg.catalog.io-impl"][0] is PropertyOutcome.UNNEEDED


@pytest.mark.parametrize(
    "name", [row.name for row in (*SINK_SETTINGS, *CONNECT_SETTINGS) if row.outcome is not None]
)
def test_what_has_no_counterpart_is_told_with_the_reason(name: str, tmp_path: Path) -> None:
    given = name.replace("<table>", "db.events").replace("*", "some.thing")
    _, draft = imported(tmp_path, {given: "x"})
    row = row_of(given)
    assert row is not None
    assert draft.outcomes[given] == (row.outcome, row.here.replace("`", ""))


@pytest.mark.parametrize(
    "name",
    ["iceberg.tables.colour", "icebreg.catalog", "iceberg.catalog.cache-enabled", "colour"],
)
def test_unknown_settings_are_named(name: str, tmp_path: Path) -> None:
    _, draft = imported(tmp_path, {name: "red"})
    assert draft.outcomes[name][0] is PropertyOutcome.UNKNOWN


def test_a_table_that_is_not_in_the_list_is_named(tmp_path: Path) -> None:
    _, draft = imported(tmp_path, {"iceberg.table.db.other.partition-by": "ts"})
    assert draft.outcomes["iceberg.table.db.other.partition-by"][0] is PropertyOutcome.UNKNOWN


def test_dynamic_tables_are_a_template(tmp_path: Path) -> None:
    more = {
        "iceberg.tables": "",
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "db_table",
    }
    config, draft = imported(tmp_path, more)
    assert config["tables"] == [{"table": "{fields.db_table}", **UNITS}]
    assert any("lower case" in todo for todo in draft.todos)


def test_rows_that_are_changed_have_keys_and_a_process_that_merges(tmp_path: Path) -> None:
    more = {
        "iceberg.tables": "db.a, db.b",
        "iceberg.tables.upsert-mode-enabled": "true",
        "iceberg.tables.default-id-columns": "id, day",
        "iceberg.table.db.b.id-columns": "number",
    }
    config, draft = imported(tmp_path, more)
    assert config["commit"]["coordinator"] == "alone"
    assert config["tables"] == [
        {"table": "db.a", "mode": "upsert", "key": ["id", "day"], **UNITS},
        {"table": "db.b", "mode": "upsert", "key": ["number"], **UNITS},
    ]
    assert {outcome for outcome, _ in draft.outcomes.values()} == {PropertyOutcome.MAPPED}
    assert [todo for todo in draft.todos if "secor tables run" in todo]

    more |= {"iceberg.tables": "db.a", "iceberg.tables.cdc-field": "_cdc.op"}
    more["iceberg.tables.upsert-mode-enabled"] = "false"
    table = imported(tmp_path, more)[0]["tables"][0]
    assert (table["mode"], table["operation_field"], "D" in table["deletes"]) == (
        *("upsert", "_cdc.op"),
        True,
    )

    del more["iceberg.tables.cdc-field"]
    config, draft = imported(tmp_path, more)
    assert config["tables"] == [{"table": "db.a", **UNITS}]
    assert draft.outcomes["iceberg.tables.default-id-columns"][0] is PropertyOutcome.UNNEEDED


def test_several_branches_are_not_one(tmp_path: Path) -> None:
    more = {
        "iceberg.tables": "db.a, db.b",
        "iceberg.table.db.a.commit-branch": "x",
        "iceberg.tables.default-commit-branch": "y",
    }
    config, draft = imported(tmp_path, more)
    assert config["commit"]["branch"] == "y"
    assert draft.outcomes["iceberg.table.db.a.commit-branch"][0] is PropertyOutcome.UNSUPPORTED


@pytest.mark.parametrize(
    ("catalog", "kind"),
    [
        ({"iceberg.catalog.type": "hive"}, "hive"),
        ({"iceberg.catalog.catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}, "glue"),
        ({"iceberg.catalog.catalog-impl": "org.apache.iceberg.nessie.NessieCatalog"}, None),
        ({"iceberg.catalog.type": "hadoop"}, None),
        ({"iceberg.catalog.type": "dynamodb"}, None),
    ],
)
def test_catalogs(catalog: dict[str, str], kind: str | None, tmp_path: Path) -> None:
    config, draft = imported(tmp_path, catalog)
    assert config["catalog"]["properties"].get("type") == kind
    if kind is None:
        (name,) = catalog
        assert draft.outcomes[name][0] is PropertyOutcome.UNSUPPORTED


def test_a_jdbc_catalog_is_a_sql_one(tmp_path: Path) -> None:
    more = {
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": "jdbc:postgresql://db/catalog?user=me&password=geheim&sslmode=require",
        "iceberg.catalog.jdbc.user": "me",
        "iceberg.catalog.jdbc.password": "geheim",
    }
    config, _ = imported(tmp_path, more)
    uri = config["catalog"]["properties"]["uri"]
    assert uri == "postgresql+psycopg2://db/catalog?sslmode=require"
    assert "geheim" not in str(config)


def test_secrets_are_left_to_the_environment(tmp_path: Path) -> None:
    more = {
        "iceberg.catalog.credential": "id:geheim",
        "iceberg.catalog.header.Authorization": "Bearer geheim",
        "iceberg.catalog.header.X-Tenant": "blue",
        "iceberg.catalog.s3.secret-access-key": "geheim",
        "iceberg.kafka.sasl.jaas.config": 'x required username="me" password="geheim";',
    }
    config, draft = imported(tmp_path, more)
    assert "geheim" not in str(config)
    assert "geheim" not in str(draft.outcomes)
    assert config["kafka"]["sasl_plain_username"] == "me"
    properties = config["catalog"]["properties"]
    assert properties["credential"] == "${ICEBERG_CREDENTIAL:-}"
    assert properties["header.Authorization"] == "${ICEBERG_HEADER_AUTHORIZATION:-}"
    assert properties["header.X-Tenant"] == "blue"
    assert any("SECOR_STORE__S3__SECRET_KEY" in todo for todo in draft.todos)


def test_properties_are_read_as_java_does(tmp_path: Path) -> None:
    path = tmp_path / "sink.properties"
    lines = [f"{name}={value}" for name, value in LEAST.items()]
    path.write_text("\n".join(["# of the sink", *lines, "topics = a,b", ""]))
    assert is_connector(str(path))
    config = tomllib.loads(convert(read(str(path), {"name": "other"}), path.name)[0])
    assert config["kafka"]["topics"] == ["a", "b"], "the last line of a name counts"
    assert config["group"]["name"] == "other"


def test_java_secors_file_is_no_connectors(tmp_path: Path) -> None:
    path = tmp_path / "secor.properties"
    path.write_text("secor.kafka.group=backup\n")
    assert not is_connector(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"connector.class": "x.JdbcSink"}', "connector.class is x.JdbcSink"),
        ('{"name": "x"}', "there is no connector.class"),
        ("{", "is no JSON"),
        ('{"a": ' * 100_000, "nested too deep"),
        ("[1, 2]", "no JSON object of a connector"),
        ('\ufeff{"name": "x"}', "there is no connector.class"),
        ('{"a": {"b": 1}}', "a: a connector's settings are texts"),
    ],
)
def test_other_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sink.json"
    path.write_text(text)
    assert is_connector(str(path))
    with pytest.raises(ConfigurationError, match=message):
        convert_sink(read(str(path), {}), path.name)


def test_what_makes_no_configuration_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        imported(tmp_path, {"topics": "", "iceberg.tables": ""})
    assert "topics (sink.json): neither topics nor topics.regex" in str(raised.value)
    assert "iceberg.tables (sink.json): names no table" in str(raised.value)


def test_partition_terms_have_the_number_first() -> None:
    assert partition_terms("year(ts), truncate(name, 4),country") == [
        *("year(ts)", "truncate(4, name)", "country"),
    ]
