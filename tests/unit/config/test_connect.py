"""What becomes of the configurations of Kafka Connect's S3 sinks and of Hudi's sink."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from secor.cli.config.commands import command
from secor.config.connect import aiven_s3, confluent_s3, hudi_sink
from secor.config.connect.connector_file import read
from secor.config.connect.partitioners import date_layout
from secor.config.connect.settings import CONNECT_SETTINGS, STRAY
from secor.config.connect.sinks import convert
from secor.config.translation.draft import Draft, PropertyOutcome
from secor.config.translation.report import report
from secor.core.errors import ConfigurationError

VECTORS = Path(__file__).parents[2] / "vectors" / "kafka-connect" / "connectors.jsonl"
"""Configurations of public repositories, names and hosts replaced, and what each key becomes."""

CONFLUENT = {
    "name": "clicks-to-s3",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "clicks",
    "s3.bucket.name": "lake",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "flush.size": "10000",
}
AIVEN = {
    "name": "clicks-to-s3",
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "topics": "clicks",
    "aws.s3.bucket.name": "lake",
}


def imported(folder: Path, settings: dict[str, Any]) -> tuple[dict[str, Any], Draft]:
    path = folder / "sink.json"
    path.write_text(json.dumps(settings))
    text, draft = convert(read(str(path), {}), path.name)
    return tomllib.loads(text), draft


def test_every_key_of_real_configurations_has_its_outcome(tmp_path: Path) -> None:
    vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    assert len(vectors) >= 60
    for vector in vectors:
        settings = vector["config"]
        if "fault" in vector:
            with pytest.raises(ConfigurationError) as caught:
                imported(tmp_path, settings)
            assert vector["fault"] in str(caught.value)
            continue
        _, draft = imported(tmp_path, settings)
        left = {
            outcome.value: sorted(key for key, it in draft.outcomes.items() if it[0] is outcome)
            for outcome in PropertyOutcome
        }
        expected = {key: value for key, value in vector.items() if key != "config"}
        mapped = left.pop("mapped")
        assert {key: it for key, it in left.items() if it} == expected, settings
        given = {aiven_s3.OLD_NAMES.get(key, key) for key in settings} | set(settings)
        assert set(mapped) <= given
        assert set(draft.outcomes) == given
        assert list(report(draft))


def test_no_setting_of_a_sink_is_in_its_table_twice() -> None:
    for rows in (confluent_s3.SETTINGS, aiven_s3.SETTINGS, hudi_sink.SETTINGS):
        names = [row.name for row in (*rows, *CONNECT_SETTINGS, *STRAY)]
        assert len(set(names)) == len(names)


def test_confluents_sink_goes_on_in_its_own_group(tmp_path: Path) -> None:
    more = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.HourlyPartitioner",
        "timestamp.extractor": "RecordField",
        "timestamp.field": "event.time",
        "timezone": "Europe/Berlin",
        "rotate.interval.ms": "600000",
        "rotate.schedule.interval.ms": "60000",
        "s3.compression.type": "gzip",
        "topics.dir": "raw/",
    }
    config, _ = imported(tmp_path, {**CONFLUENT, **more})
    assert config["group"] == {"name": "connect-clicks-to-s3", "kind": "partition"}
    assert config["ledger"] == {"kind": "kafka"}
    assert config["output"] == {
        "prefix": "raw",
        "naming": "confluent",
        "format": "jsonlines",
        "codec": "gzip",
        "json_types": "connect",
    }
    numeric, _ = imported(tmp_path, {**CONFLUENT, "json.decimal.format": "NUMERIC"})
    assert numeric["output"]["json_types"] == "connect-numeric"
    assert (
        config["parser"]["layout"] == "year={time:%Y}/month={time:%m}/day={time:%d}/hour={time:%H}"
    )
    assert config["parser"]["time_field"] == "event.time"
    assert config["parser"]["time_zone"] == "Europe/Berlin"
    assert config["policy"] == {"max_messages": 10000, "max_age": "60000ms"}


@pytest.mark.parametrize(
    ("pattern", "layout"),
    [
        ("'year'=YYYY/'month'=MM/'day'=dd", "year={time:%Y}/month={time:%m}/day={time:%d}"),
        ("YYYY/MM/dd/HH", "{time:%Y}/{time:%m}/{time:%d}/{time:%H}"),
        ("'anomesdia'=yyyyMMdd", "anomesdia={time:%Y%m%d}"),
        ("'dt'=yyyy-MM-dd/'it''s'=DDD", None),
        ("'open=YYYY", None),
        ("MMM", None),
    ],
)
def test_patterns_of_dates_are_layouts_or_are_refused(pattern: str, layout: str | None) -> None:
    if layout is None:
        with pytest.raises(ConfigurationError):
            date_layout(pattern)
    else:
        assert date_layout(pattern) == layout


def test_transforms_become_steps_in_their_order(tmp_path: Path) -> None:
    before = "org.apache.kafka.connect.transforms."
    more = {
        "transforms": "a,b,c,d",
        "transforms.a.type": f"{before}ReplaceField$Value",
        "transforms.a.exclude": "secret,token",
        "transforms.a.renames": "ts:time",
        "transforms.b.type": f"{before}MaskField$Value",
        "transforms.b.fields": "email",
        "transforms.b.replacement": "***",
        "transforms.c.type": f"{before}InsertField$Value",
        "transforms.c.offset.field": "kafka_offset!",
        "transforms.d.type": f"{before}ExtractField$Key",
        "transforms.d.field": "id",
        "store.kafka.keys": "true",
    }
    config, draft = imported(tmp_path, {**CONFLUENT, **more})
    assert config["parser"]["transforms"] == [
        {"kind": "drop", "field": "secret"},
        {"kind": "drop", "field": "token"},
        {"kind": "rename", "field": "ts", "to": "time"},
        {"kind": "mask", "field": "email", "value": "***"},
    ]
    assert config["output"]["metadata_columns"] == ["_key", "_offset"]
    assert draft.outcomes["transforms.d.type"][0] is PropertyOutcome.UNNEEDED
    assert "readers of the field kafka_offset read the column _offset" in draft.todos


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("ReplaceField", {"exclude": "user.name"}),
        ("ReplaceField", {"renames": "user.name:user"}),
        ("MaskField", {"fields": "user.name", "replacement": "***"}),
    ],
)
def test_a_field_with_a_dot_in_its_name_is_not_taken_for_a_path(
    kind: str, settings: dict[str, str], tmp_path: Path
) -> None:
    more = {f"transforms.a.{name}": value for name, value in settings.items()}
    more["transforms.a.type"] = f"org.apache.kafka.connect.transforms.{kind}$Value"
    config, draft = imported(tmp_path, {**CONFLUENT, "transforms": "a", **more})
    assert "transforms" not in config["parser"]
    assert draft.outcomes["transforms.a.type"][0] is PropertyOutcome.UNSUPPORTED


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"s3.proxy.user": "ann", "s3.proxy.password": "geheim"}, "the value of s3.proxy.password"),
        ({"s3.proxy.url": "http://ann:geheim@proxy:3128"}, "the password in s3.proxy.url"),
    ],
)
def test_a_proxys_password_is_left_to_the_environment(
    settings: dict[str, str], where: str, tmp_path: Path
) -> None:
    more = {"s3.proxy.url": "http://proxy:3128", **settings}
    path = tmp_path / "sink.json"
    path.write_text(json.dumps({**CONFLUENT, **more}))
    text, draft = convert(read(str(path), {}), path.name)
    assert "geheim" not in text
    proxies = tomllib.loads(text)["store"]["s3"]["proxies"]
    assert proxies["https"] == "http://ann:${S3_PROXY_PASSWORD}@proxy:3128"
    assert f"put {where} into the environment as S3_PROXY_PASSWORD" in draft.todos


def test_aivens_template_gives_prefix_and_directories(tmp_path: Path) -> None:
    more = {
        "file.name.template": "raw/{{topic}}/dt={{timestamp:unit=yyyy}}-{{timestamp:unit=MM}}"
        "/{{ partition }}-{{start_offset:padding=true}}.gz",
        "format.output.type": "jsonl",
        "format.output.fields": "key,value",
        "format.output.envelope": "false",
    }
    config, _ = imported(tmp_path, {**AIVEN, **more})
    assert config["output"]["prefix"] == "raw"
    assert "naming" not in config["output"]  # these names have no topic
    assert config["output"]["metadata_columns"] == ["_key"]
    assert config["parser"]["layout"] == "dt={time:%Y}-{time:%m}"
    assert config["policy"]["max_age"] == "60s"


@pytest.mark.parametrize(
    ("settings", "naming", "prefix"),
    [
        (
            {"file.name.template": "a/{{topic}}/x/{{topic}}-{{ partition }}-{{start_offset}}"},
            *("{topic}-{partition}-{offset}", "a"),
        ),
        (
            {
                "file.name.template": "{{topic}}/{{topic}}_{{partition:padding=true}}_"
                "{{start_offset:padding=true}}.jsonl.gz",
            },
            *("{topic}_{partition:010}_{offset:020}.jsonl.gz", ""),
        ),
        ({}, "{topic}-{partition}-{offset}.gz", ""),
        ({"aws.s3.prefix": "a/b/"}, "{topic}-{partition}-{offset:020}.gz", "a/b"),
        (
            {"aws_s3_prefix": "a/{{topic}}/", "file.compression.type": "none"},
            *("{topic}-{partition}-{offset:020}", "a"),
        ),
        ({"file.compression.type": "snappy"}, "{topic}-{partition}-{offset}", ""),
        ({"file.name.template": "{{key}}"}, None, ""),
        ({"file.name.template": "{{topic}}/{{partition}}-{{start_offset}}"}, None, ""),
    ],
)
def test_aivens_names_are_kept(
    tmp_path: Path, settings: dict[str, str], naming: str | None, prefix: str
) -> None:
    plain = {"format.output.type": "jsonl", "format.output.envelope": "false"}
    config, draft = imported(tmp_path, {**AIVEN, **plain, **settings})
    assert config["output"].get("naming") == naming
    assert config["output"]["prefix"] == prefix
    if naming is None:
        assert draft.outcomes["file.name.template"][0] is PropertyOutcome.UNSUPPORTED
    # Secor has a directory for each topic, and the import says where the sink has none.
    said = any(sentence.startswith("objects go to ") for sentence in draft.todos)
    beside = {**settings, "aws.s3.prefix": settings.get("aws_s3_prefix", "")}
    named = beside["aws.s3.prefix"] + settings.get("file.name.template", "")
    assert said is not ("{{topic}}/" in named and naming is not None)
    if not said and "/x/" not in named:
        assert config["parser"]["layout"] == ""


@pytest.mark.parametrize(
    ("settings", "outcome"),
    [
        (
            {"file.name.template": "{{topic}}/{{partition:padding=true}}/{{topic}}-{{partition}}"},
            PropertyOutcome.UNSUPPORTED,
        ),
        ({"file.max.records": "0"}, PropertyOutcome.UNNEEDED),
        ({"aws.s3.prefix.template": "a/{{topic}}/"}, PropertyOutcome.UNSUPPORTED),
    ],
)
def test_odd_settings_of_aivens_have_an_outcome(
    tmp_path: Path, settings: dict[str, str], outcome: PropertyOutcome
) -> None:
    _, draft = imported(tmp_path, {**AIVEN, **settings})
    for name in settings:
        assert draft.outcomes[name][0] is outcome


@pytest.mark.parametrize(
    ("pattern", "here"),
    [
        (r"(?<env>dev|prod)\.orders", r"(?P<env>dev|prod)\.orders"),
        (r"(?<!x)a(?<=a)b", r"(?<!x)a(?<=a)b"),
        (r"a(?i)b", r"(?i)ab"),
        (r"[a-z&&[^b]]+", None),
    ],
)
def test_javas_patterns_of_topics_mean_the_same(
    tmp_path: Path, pattern: str, here: str | None
) -> None:
    settings = {**CONFLUENT, "topics": "", "topics.regex": pattern}
    if here is None:
        with pytest.raises(ConfigurationError, match="no counterpart"):
            imported(tmp_path, settings)
    else:
        assert imported(tmp_path, settings)[0]["kafka"]["topics_pattern"] == here


@pytest.mark.parametrize(
    ("settings", "naming"),
    [
        ({"filename.offset.zero.pad.width": "10"}, "confluent"),
        (
            {"file.delim": "-", "filename.offset.zero.pad.width": "0"},
            "{topic}-{partition}-{offset:01}",
        ),
        ({"file.delim": "."}, "confluent"),
    ],
)
def test_confluents_names_are_kept(tmp_path: Path, settings: dict[str, str], naming: str) -> None:
    config, draft = imported(tmp_path, {**CONFLUENT, **settings})
    assert config["output"]["naming"] == naming
    if "." in settings.values():
        assert draft.outcomes["file.delim"][0] is PropertyOutcome.UNSUPPORTED


def test_values_as_bytes_keep_the_extension_of_the_sink(tmp_path: Path) -> None:
    kind = {"format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat"}
    config, _ = imported(tmp_path, {**CONFLUENT, **kind})
    assert config["output"]["naming"] == "{topic}+{partition}+{offset:010}.bin"
    more = {"format.bytearray.extension": ".log", "s3.compression.type": "gzip"}
    config, _ = imported(tmp_path, {**CONFLUENT, **kind, **more})
    assert config["output"]["naming"] == "{topic}+{partition}+{offset:010}.log.gz"


def test_aivens_files_of_avro_are_compressed_within(tmp_path: Path) -> None:
    avro = {"format.output.type": "avro", "format.output.envelope": "false"}
    config, draft = imported(tmp_path, {**AIVEN, **avro, "file.compression.type": "zstd"})
    assert config["output"]["codec"] == "deflate"
    assert config["output"]["naming"] == "{topic}-{partition}-{offset}"  # and .avro, the format's
    assert draft.outcomes["file.compression.type"][0] is PropertyOutcome.UNSUPPORTED
    plain = {"file.compression.type": "none", "avro.codec": "snappy"}
    config, _ = imported(tmp_path, {**AIVEN, **avro, **plain})
    assert config["output"]["codec"] == "snappy"
    assert config["output"]["naming"] == "{topic}-{partition}-{offset}.avro"


def test_a_hudi_sink_becomes_a_table_group(tmp_path: Path) -> None:
    settings = {
        "name": "hudi",
        "connector.class": "org.apache.hudi.connect.HoodieSinkConnector",
        "topics": "clicks",
        "bootstrap.servers": "kafka-1:9092",
        "hoodie.table.name": "clicks",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.base.path": "s3a://lake/hudi/clicks",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.cleaner.commits.retained": 6,
    }
    config, draft = imported(tmp_path, settings)
    [table] = config["tables"]
    assert (table["format"], table["mode"], table["key"]) == ("hudi", "upsert", ["id"])
    assert table["location"] == "s3://lake/hudi/clicks"
    assert table["properties"] == {
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.cleaner.commits.retained": "6",
    }
    assert {outcome for outcome, _ in draft.outcomes.values()} == {PropertyOutcome.MAPPED}


def test_what_connect_would_look_up_is_asked_for(tmp_path: Path) -> None:
    secret = {**CONFLUENT, "aws.secret.access.key": "${file:/etc/secret:key}"}
    _, draft = imported(tmp_path, secret)
    assert draft.outcomes["aws.secret.access.key"][0] is PropertyOutcome.MAPPED
    config, _ = imported(tmp_path, {**CONFLUENT, "s3.region": "${env:REGION}"})
    assert config["store"]["s3"]["region"] == "${REGION}"
    with pytest.raises(ConfigurationError, match=r"s3.bucket.name.*-D s3.bucket.name="):
        imported(tmp_path, {**CONFLUENT, "s3.bucket.name": "${file:/etc/names:bucket}"})


class Worker(BaseHTTPRequestHandler):
    """Answers as a worker's REST interface."""

    def do_GET(self) -> None:
        """Know one connector."""
        known = self.path == "/connectors/clicks-to-s3"
        body = json.dumps({"name": "clicks-to-s3", "config": CONFLUENT, "tasks": []})
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def worker() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Worker)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://user:secret@127.0.0.1:{server.server_port}/connectors"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_worker_is_asked_for_the_settings(worker: str, tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(
        "bootstrap.servers=kafka-1:9092\nconsumer.security.protocol=SSL\nplugin.path=/opt\n"
        "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
        "key.converter=org.apache.kafka.connect.json.JsonConverter\n"
    )
    assert "key.converter" in read(f"{worker}/clicks-to-s3", {}, file)
    arguments = ["import", f"{worker}/clicks-to-s3", "--worker", str(file)]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert not result.exception, result.exception
    config = tomllib.loads(result.stdout)
    assert config["kafka"]["bootstrap_servers"] == ["kafka-1:9092"]
    assert config["kafka"]["security_protocol"] == "SSL"
    assert "secret" not in result.output
    with pytest.raises(ConfigurationError, match="answers 404"):
        read(f"{worker}/other", {})
    with pytest.raises(ConfigurationError, match="cannot be asked"):
        read("http://127.0.0.1:1/connectors/x", {})
