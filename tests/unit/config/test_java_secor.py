from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.cli.config.commands import command
from secor.config.java_secor.convert import DEFAULTS, UNNEEDED, UNSUPPORTED, convert
from secor.config.java_secor.decoders import named_group
from secor.config.java_secor.formats import WRITERS
from secor.config.java_secor.parsers import PARSERS, template_of
from secor.config.load import validate
from secor.config.model import Config
from secor.config.translation.draft import Draft, PropertyOutcome
from secor.config.translation.properties import Properties
from secor.config.translation.report import needs_a_person, report
from secor.core.errors import ConfigurationError

PARSER = "com.pinterest.secor.parser."
IMPL = "com.pinterest.secor.io.impl."
NEW = "kafka.new.consumer."
BACKUP = {
    "secor.kafka.group": "backup",
    "secor.kafka.topic_filter": "clicks|orders",
    "kafka.seed.broker.host": "kafka-1",
    "zookeeper.quorum": "zk-1:2181,zk-2:2181",
    "secor.s3.bucket": "logs",
    "secor.s3.path": "raw_logs/backup",
    "secor.message.parser.class": PARSER + "OffsetMessageParser",
}
JSON = {"secor.message.parser.class": PARSER + "JsonMessageParser"}


def converted(more: dict[str, str]) -> tuple[str, Draft]:
    """Import the backup's properties with ``more`` over them."""
    properties = Properties()
    for name, value in {**BACKUP, **more}.items():
        properties.replace(name, value)
    return convert(properties, "x.properties")


def imported(more: dict[str, str] | None = None) -> tuple[Config, Draft, str]:
    """Return what comes out as a configuration, too."""
    text, draft = converted(more or {})
    config, faults = validate(tomllib.loads(text))
    assert config is not None, faults
    return config, draft, text


def parser_of(more: dict[str, str]) -> dict[str, Any]:
    config, _, _ = imported(more)
    assert config.group.kind == "partition"
    return config.parser.model_dump(exclude_defaults=True)


def named(parser: str, **settings: str) -> dict[str, str]:
    own = {name.replace("__", "."): value for name, value in settings.items()}
    return {"secor.message.parser.class": PARSER + parser, **own}


def test_a_backup_keeps_group_offsets_names_and_format() -> None:
    config, draft, text = imported(
        {
            "kafka.zookeeper.path": "/kafka/",
            "secor.generation": "3",
            "secor.offsets.per.partition": "25",
        }
    )
    assert (config.group.kind, config.group.name) == ("backup", "backup")
    assert config.ledger.zookeeper.hosts == ("zk-1:2181", "zk-2:2181")
    assert config.ledger.zookeeper.root == "/kafka"
    assert config.kafka.bootstrap_servers == ("kafka-1:9092",)
    assert config.kafka.topics_pattern == "clicks|orders"
    assert (config.output.prefix, config.output.generation) == ("raw_logs/backup", 3)
    assert (config.output.keys, config.output.codec) == ("legacy", "default")
    assert config.output.offsets_per_partition == 25
    assert config.policy.age == "youngest"
    assert 'prefix = "raw_logs/backup"  # secor.s3.path' in text.splitlines()
    assert not needs_a_person(draft)


DATED = "dt={time:%Y-%m-%d}"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (named("JsonMessageParser", message__timestamp__name="at"), {"time_field": "at"}),
        (
            named(
                "JsonMessageParser",
                message__timestamp__name="a/b",
                message__timestamp__name__separator="/",
                partitioner__granularity__hour="true",
            ),
            {"time_field": "a.b", "layout": f"{DATED}/hr={{time:%H}}"},
        ),
        (
            named("JsonMessageParser", partitioner__granularity__minute="true"),
            {"time_field": "timestamp", "layout": f"{DATED}/hr={{time:%H}}/min={{time:%M}}"},
        ),
        (named("JsonMessageParser", kafka__useTimestamp="true"), {"decoder": "none"}),
        (
            named("Iso8601MessageParser"),
            {"time_field": "timestamp", "time_format": "iso8601"},
        ),
        (
            named(
                "DateMessageParser",
                message__timestamp__input__pattern="yyyy-MM-dd HH:mm:ss",
                partitioner__granularity__hour="true",
                secor__parser__timezone="Europe/Berlin",
            ),
            {
                "time_field": "timestamp",
                "time_format": "yyyy-MM-dd HH:mm:ss",
                "time_zone": "Europe/Berlin",
            },
        ),
        (
            named(
                "PatternDateMessageParser",
                message__timestamp__input__pattern="yyyyMMdd",
                secor__partition__output_dt_format="'day='yyyy/MM",
            ),
            {
                "time_field": "timestamp",
                "time_format": "yyyyMMdd",
                "layout": "day={time:%Y}/{time:%m}",
            },
        ),
        (
            named("RegexMessageParser", message__timestamp__input__pattern=r"^\S+ (\d+) (x|y)"),
            {"decoder": "regex", "pattern": r"^\S+ (?P<time>\d+) (?:x|y)", "time_field": "time"},
        ),
        (
            named("MessagePackParser"),
            {"decoder": "messagepack", "time_field": "timestamp"},
        ),
        (
            named(
                "ThriftMessageParser",
                message__timestamp__id="2",
                secor__thrift__protocol__class="org.apache.thrift.protocol.TCompactProtocol",
            ),
            {"decoder": "thrift", "time_field": "2", "protocol": "compact"},
        ),
        (
            named(
                "ProtobufMessageParser",
                **{"secor.protobuf.message.class.*": "com.example.Events$Click"},
                message__timestamp__name="at",
            ),
            {
                "decoder": "protobuf",
                "message": "com.example.Click",
                "descriptor_set": "messages.desc",
                "time_field": "at",
            },
        ),
        (
            named("AvroMessageParser", schema__registry__url="http://registry:8081"),
            {"decoder": "avro", "registry_url": "http://registry:8081", "time_field": "timestamp"},
        ),
        (
            named("ClasspathAvroMessageParser"),
            {"decoder": "avro", "schema_file": "schema.avsc", "time_field": "timestamp"},
        ),
        (
            named("AvroIso8601MessageParser", schema__registry__url="http://registry:8081"),
            {
                "decoder": "avro",
                "registry_url": "http://registry:8081",
                "time_field": "timestamp",
                "time_format": "iso8601",
            },
        ),
        (
            named("SplitByFieldMessageParser", message__split__field__name="$.type"),
            {"time_field": "timestamp", "layout": f"{{type}}/{DATED}"},
        ),
        (
            named(
                "AvroSplitByFieldMessageParser",
                message__split__field__name="topic",
                schema__registry__url="http://registry:8081",
            ),
            {
                "decoder": "avro",
                "registry_url": "http://registry:8081",
                "time_field": "timestamp",
                "layout": f"topic={{.topic}}/{DATED}",
            },
        ),
        (
            named("OffsetMessageParser", secor__offsets__prefix="from="),
            {"decoder": "none", "layout": "from={offset:10000000}"},
        ),
        (
            named("DailyOffsetMessageParser", secor__offsets__per__partition="100"),
            {"decoder": "none", "layout": f"{DATED}/offset={{offset:100}}"},
        ),
        (named("PartitionedMessageParser"), {"decoder": "none"}),
        (named("KafkaTimestampParser"), {"decoder": "none"}),
        (named("MyOwnParser"), {"decoder": "none", "plugin": "ours.parsers:MyOwnParser"}),
    ],
    ids=lambda value: value.get("secor.message.parser.class", "").rpartition(".")[2],
)
def test_parser_classes_have_their_counterparts(
    properties: dict[str, str], expected: dict[str, Any]
) -> None:
    assert parser_of({"secor.parser.timezone": "UTC", **properties}) == expected


def test_the_table_of_the_documentation_has_the_same_parser_classes() -> None:
    text = (Path(__file__).parents[3] / "docs/parsing.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`(\w+Parser)`", row)}
    assert told == set(PARSERS)


@pytest.mark.parametrize(
    ("factory", "codec", "expected"),
    [
        ("SequenceFileReaderWriterFactory", "GzipCodec", ("sequencefile", "legacy", "gzip")),
        (
            "MessagePackSequenceFileReaderWriterFactory",
            "",
            ("sequencefile", "messagepack", "default"),
        ),
        ("DelimitedTextFileReaderWriterFactory", "GzipCodec", ("text", "messagepack", "gzip")),
        ("DelimitedTextFileReaderWriterFactory", "", ("text", "messagepack", "none")),
        ("JsonORCFileReaderWriterFactory", "SnappyCodec", ("orc", "messagepack", "snappy")),
        ("AvroFileReaderWriterFactory", "GzipCodec", ("avro", "messagepack", "deflate")),
        ("AvroParquetFileReaderWriterFactory", "SnappyCodec", ("parquet", "messagepack", "snappy")),
        ("ProtobufParquetFileReaderWriterFactory", "", ("parquet", "messagepack", "none")),
        ("ThriftParquetFileReaderWriterFactory", "GzipCodec", ("parquet", "messagepack", "gzip")),
        ("OrcProtoReaderWriterFactory", "DefaultCodec", ("orc", "messagepack", "gzip")),
    ],
)
def test_formats_and_codecs_have_their_counterparts(
    factory: str, codec: str, expected: tuple[str, str, str]
) -> None:
    more = {"secor.file.reader.writer.factory": IMPL + factory}
    if codec:
        more["secor.compression.codec"] = f"org.apache.hadoop.io.compress.{codec}"
    config, _, _ = imported(more)
    output = config.output
    assert (output.format, output.keys, output.codec) == expected
    assert config.group.kind == ("partition" if WRITERS[factory].decoder else "backup")
    if WRITERS[factory].decoder:
        assert config.parser.decoder == WRITERS[factory].decoder
        assert config.parser.layout == "offset={offset:10000000}"


def test_a_codec_that_the_format_lacks_is_told_and_replaced() -> None:
    more = {
        "secor.file.reader.writer.factory": IMPL + "DelimitedTextFileReaderWriterFactory",
        "secor.compression.codec": "com.hadoop.compression.lzo.LzopCodec",
    }
    config, draft, _ = imported(more)
    assert config.output.codec == "gzip"
    assert draft.outcomes["secor.compression.codec"][0] is PropertyOutcome.UNSUPPORTED


def test_a_writer_class_of_ones_own_is_not_supported() -> None:
    config, draft, _ = imported({"secor.file.reader.writer.factory": "com.example.OwnFactory"})
    assert (config.output.format, config.output.keys) == ("sequencefile", "messagepack")
    outcome, why = draft.outcomes["secor.file.reader.writer.factory"]
    assert outcome is PropertyOutcome.UNSUPPORTED
    assert "sequencefile instead" in why


def test_a_delimiter_is_that_of_the_flexible_writer_only() -> None:
    more = {"secor.file.writer.Delimiter": "|", "secor.file.reader.Delimiter": "|"}
    flexible = IMPL + "FlexibleDelimitedFileReaderWriterFactory"
    assert (
        imported({**more, "secor.file.reader.writer.factory": flexible})[0].output.delimiter == "|"
    )
    plain = IMPL + "DelimitedTextFileReaderWriterFactory"
    assert imported({**more, "secor.file.reader.writer.factory": plain})[0].output.delimiter == "\n"


@pytest.mark.parametrize(
    ("pattern", "template"),
    [
        ("yyyy-MM-dd", "{time:%Y-%m-%d}"),
        ("yyyyMMdd", "{time:%Y%m%d}"),
        ("'dt='yyyy-MM-dd", "dt={time:%Y-%m-%d}"),
        ("yyyy/MM/dd", "{time:%Y}/{time:%m}/{time:%d}"),
        ("HH'h'", "{time:%H}h"),
        ("MMM", None),
        ("M-d", None),
    ],
)
def test_patterns_of_dates_become_templates(pattern: str, template: str | None) -> None:
    assert template_of(pattern) == template


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"(\d+)", (r"(?P<time>\d+)", "time")),
        (r"(?<at>\d+)-(?<b>x)", (r"(?P<at>\d+)-(?:x)", "at")),
        (r"\((?:a|b)[(](\d+)", (r"\((?:a|b)[(](?P<time>\d+)", "time")),
    ],
)
def test_the_first_group_is_the_time(pattern: str, expected: tuple[str, str]) -> None:
    assert named_group(pattern) == expected


def test_secrets_go_to_the_environment_and_nowhere_else() -> None:
    hush = "hush-hush"
    _, draft, text = imported(
        {
            "aws.access.key": "AKIA",
            "aws.secret.key": hush,
            "aws.session.token": hush,
            f"{NEW}security.protocol": "SASL_SSL",
            f"{NEW}sasl.mechanism": "PLAIN",
            f"{NEW}sasl.jaas.config": f'x.Plain required username="me" password="{hush}";',
            f"{NEW}ssl.key.password": hush,
            f"{NEW}ssl.truststore.password": hush,
        }
    )
    told = "\n".join(report(draft))
    assert hush not in text + told
    assert 'sasl_plain_username = "me"' in text
    for name in ("S3__SECRET_KEY", "S3__ACCESS_KEY", "S3__SESSION_TOKEN"):
        assert f"SECOR_STORE__{name}" in told
    assert "SECOR_KAFKA__SASL_PLAIN_PASSWORD" in told
    assert "SECOR_KAFKA__SSL_PASSWORD" in told


def test_a_password_in_the_registrys_address_is_not_copied_either() -> None:
    more = named("AvroMessageParser", schema__registry__url="https://me:hush@registry:8081/x")
    config, draft, text = imported(more)
    assert config.parser.registry_url == "https://registry:8081/x"
    assert config.parser.registry_username == "me"
    told = "\n".join(report(draft))
    assert "hush" not in text + told
    assert "SECOR_PARSER__REGISTRY_PASSWORD" in told


def test_pem_files_are_taken_and_others_have_to_be_converted() -> None:
    tls = {f"{NEW}security.protocol": "SSL", f"{NEW}ssl.truststore.location": "/etc/trust"}
    config, _, _ = imported({**tls, f"{NEW}ssl.truststore.type": "PEM"})
    assert config.kafka.ssl_cafile == "/etc/trust"
    config, draft, _ = imported(tls)
    assert config.kafka.ssl_cafile is None
    assert draft.outcomes[f"{NEW}ssl.truststore.location"][0] is PropertyOutcome.UNSUPPORTED
    assert any("keytool" in todo for todo in draft.todos)


def test_the_consumer_that_was_used_says_which_settings_count() -> None:
    resets = {"kafka.consumer.auto.offset.reset": "smallest", f"{NEW}auto.offset.reset": "latest"}
    iterator = "kafka.message.iterator.className"
    assert imported(resets)[0].kafka.reset == "latest"
    old = {iterator: "com.pinterest.secor.reader.LegacyKafkaMessageIterator"}
    assert imported({**resets, **old})[0].kafka.reset == "earliest"
    listed = {f"{NEW}topic.list": "a,b"}
    assert imported(listed)[0].kafka.topics == ("a", "b")
    assert imported({**listed, **old})[0].kafka.topics_pattern == "clicks|orders"
    escaped = {"secor.kafka.topic_filter": r"a\,b"}
    assert imported({**escaped, **old})[0].kafka.topics_pattern == "a|b"
    black = {"secor.kafka.topic_filter": "", "secor.kafka.topic_blacklist": "noise"}
    kafka = imported(black)[0].kafka
    assert (kafka.topics_pattern, kafka.topics_exclude) == (".*", "noise")


def test_a_path_behind_the_quorum_is_its_chroot() -> None:
    config, _, _ = imported(
        {"zookeeper.quorum": "a:2181,b:2181/secor", "kafka.zookeeper.path": "/k"}
    )
    zookeeper = config.ledger.zookeeper
    assert zookeeper.hosts == ("a:2181", "b:2181")
    assert (zookeeper.chroot, zookeeper.root) == ("/secor", "/k")


def test_a_minute_mark_is_for_its_topics() -> None:
    mark = {
        "secor.upload.minute_mark": "5",
        "secor.kafka.upload_at_minute_mark.topic_filter": "ord.*",
    }
    config, _, _ = imported(mark)
    assert config.policy.minute_mark is None
    assert config.for_topic("orders").policy.minute_mark == 5
    everywhere = {**mark, "secor.kafka.upload_at_minute_mark.topic_filter": ".*"}
    assert imported(everywhere)[0].policy.minute_mark == 5
    assert imported({"secor.upload.minute_mark": "5"})[0].policy.minute_mark is None


def test_the_limits_of_deterministic_uploads_take_the_place_of_the_others() -> None:
    given = {
        "secor.max.file.size.bytes": "1000",
        "secor.max.file.age.seconds": "60",
        "secor.max.input.payload.size.bytes": "5000",
        "secor.max.file.timestamp.range.millis": "7000",
    }
    policy = imported(given)[0].policy
    assert (policy.max_bytes, policy.max_age) == (1000, 60.0)
    policy = imported({**given, "secor.upload.deterministic": "true"})[0].policy
    assert (policy.max_bytes, policy.max_age) == (5000, 7.0)


def test_s3_settings_have_their_counterparts() -> None:
    config, _, _ = imported(
        {
            "aws.endpoint": "minio:9000",
            "aws.client.pathstyleaccess": "true",
            "aws.role": "arn:aws:iam::1:role/secor",
            "aws.proxy.isEnabled": "true",
            "aws.proxy.http.host": "proxy",
            "aws.proxy.http.port": "3128",
            "aws.sse.type": "KMS",
            "aws.sse.kms.key": "k",
            "secor.s3.prefix.md5hash": "true",
        }
    )
    s3 = config.store.s3
    assert (s3.endpoint_url, s3.path_style) == ("https://minio:9000", True)
    assert (s3.sse, s3.kms_key) == ("aws:kms", "k")
    assert s3.role_arn == "arn:aws:iam::1:role/secor"
    assert s3.proxies == {"http": "http://proxy:3128", "https": "http://proxy:3128"}
    assert config.output.hash_prefix
    region = imported({"aws.endpoint": "s3.eu-west-1.amazonaws.com"})[0].store.s3
    assert (region.endpoint_url, region.region) == (None, "eu-west-1")


def test_google_and_azure_are_stores_of_their_own() -> None:
    google = {"cloud.service": "GS", "secor.gs.bucket": "g", "secor.gs.path": "data"}
    config, draft, _ = imported({**google, "secor.gs.credentials.path": "/key.json"})
    assert (config.store.kind, config.store.place, config.output.prefix) == ("gcs", "g", "data")
    assert config.store.gcs.service_account == "/key.json"
    assert any("pip install '.[clouds]'" in todo for todo in draft.todos)
    azure = {
        "secor.upload.manager.class": "com.pinterest.secor.uploader.AzureUploadManager",
        "secor.azure.container.name": "logs",
        "secor.azure.account.name": "acme",
        "secor.azure.account.key": "hidden",
        "secor.azure.path": "raw",
    }
    config, draft, text = imported(azure)
    assert (config.store.kind, config.store.place) == ("azure", "acme/logs")
    assert config.output.prefix == "raw"
    assert "hidden" not in text
    assert any("SECOR_STORE__AZURE__ACCOUNT_KEY" in todo for todo in draft.todos)
    for name in azure:
        assert draft.outcomes[name][0] is PropertyOutcome.MAPPED


def test_swift_is_not_offered() -> None:
    swift = {"cloud.service": "Swift", "secor.swift.container": "c"}
    _, draft, _ = imported(swift)
    for name in swift:
        assert draft.outcomes[name][0] is PropertyOutcome.UNSUPPORTED


def test_topics_with_classes_of_their_own_have_rules() -> None:
    config, _, _ = imported(
        named(
            "ProtobufMessageParser",
            **{
                "secor.protobuf.message.class.clicks": "a.Click",
                "secor.protobuf.message.class.orders": "a.Order",
                "secor.topic.message.format.orders": "JSON",
            },
        )
    )
    assert config.for_topic("clicks").parser.message == "a.Click"
    assert config.for_topic("orders").parser.message == "a.Order"
    assert config.for_topic("orders").parser.encoding == "json"
    assert config.for_topic("clicks").parser.encoding == "binary"


@pytest.mark.parametrize("base", [{}, JSON], ids=["backup", "partition"])
@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_every_property_is_mapped_or_its_absence_explained(name: str, base: dict[str, str]) -> None:
    values = {
        "aws.sse.type": "S3",
        f"{NEW}security.protocol": "SSL",
        "kafka.consumer.auto.offset.reset": "largest",
        f"{NEW}auto.offset.reset": "latest",
        "kafka.offsets.storage": "kafka",
        "secor.message.parser.class": PARSER + "JsonMessageParser",
        "secor.parser.timezone": "Europe/Berlin",
        "partitioner.granularity.date.format": "yyyyMMdd",
        "secor.file.reader.writer.factory": IMPL + "DelimitedTextFileReaderWriterFactory",
        "secor.compression.codec": "org.apache.hadoop.io.compress.GzipCodec",
        "zookeeper.quorum": "zk:2181",
        "secor.kafka.group": "g",
    }
    truths = ("minute", "hour", "isEnabled", "enable", "hash", "shutdown", "youngest", "access")
    fallback = (
        "true"
        if name.endswith(truths) or name.endswith(("Timestamp", "qubole", "deterministic"))
        else "7"
    )
    _, draft = converted({**base, name: values.get(name, fallback)})
    outcome, why = draft.outcomes[name]
    assert outcome in (
        PropertyOutcome.MAPPED,
        PropertyOutcome.UNNEEDED,
        PropertyOutcome.UNSUPPORTED,
    )
    assert why
    assert any(name in line for line in report(draft))


def test_no_property_is_in_two_places() -> None:
    listed = [*UNNEEDED.values(), *UNSUPPORTED.values()]
    assert sum(len(names.split()) for names in listed) == len(DEFAULTS)


def test_an_unknown_property_is_told_with_the_nearest_name() -> None:
    _, draft, _ = imported({"secor.max.file.age.secs": "5", "something": "else"})
    assert draft.outcomes["secor.max.file.age.secs"] == (
        PropertyOutcome.UNKNOWN,
        "did you mean secor.max.file.age.seconds?",
    )
    assert draft.outcomes["something"] == (PropertyOutcome.UNKNOWN, "")
    assert needs_a_person(draft)


def test_what_makes_a_configuration_impossible_is_told_at_once_by_javas_names() -> None:
    gone = {"kafka.seed.broker.host": "", "zookeeper.quorum": "", "secor.s3.bucket": ""}
    wrong = {"secor.generation": "two", "secor.upload.on.shutdown": "maybe"}
    with pytest.raises(ConfigurationError) as caught:
        imported({**gone, **wrong})
    for name in (*gone, *wrong):
        assert name in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"group\.name \(from secor\.kafka\.group\)"):
        imported({"secor.kafka.group": "a b"})
    with pytest.raises(ConfigurationError, match=r"secor\.gs\.bucket: is empty"):
        converted({"cloud.service": "GS"})
    with pytest.raises(ConfigurationError, match=r"schema\.registry\.url .* is no address"):
        imported(named("AvroMessageParser", schema__registry__url="http://[x"))
    with pytest.raises(ConfigurationError, match="OAUTHBEARER is not translated"):
        imported({f"{NEW}security.protocol": "SASL_SSL", f"{NEW}sasl.mechanism": "OAUTHBEARER"})
    with pytest.raises(ConfigurationError, match=r"topics\.0\.match .*minute_mark"):
        imported(
            {
                "secor.kafka.upload_at_minute_mark.topic_filter": "ord(",
                "secor.upload.minute_mark": "5",
            }
        )


hostile = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["-1", "0", "9" * 30, "1e9", "none", "${x}", '"\\\n', "{a}", "(", "[[", "\x7f\x00"]
    ),
)


@given(
    st.dictionaries(st.sampled_from(sorted(DEFAULTS)), hostile, max_size=4),
    st.sampled_from(sorted(PARSERS)),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_whatever_properties_hold_is_imported_or_refused(more: dict[str, str], parser: str) -> None:
    more = {"secor.message.parser.class": PARSER + parser, **more}
    try:
        text, _ = converted(more)
    except ConfigurationError:
        return
    config, faults = validate(tomllib.loads(text))
    assert config is not None, faults


def run(*arguments: str) -> Result:
    arguments = ("import", *arguments)
    return CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "secor.prod.backup.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in BACKUP.items()))
    return path


def test_the_command_prints_a_file_and_tells_beside_it(path: Path) -> None:
    done = run(str(path), "-D", "secor.s3.bucket=other")
    assert done.return_value == 0
    assert tomllib.loads(done.stdout)["store"]["s3"]["bucket"] == "other"
    assert "mapped (7)" in done.stderr
    assert 'secor.s3.bucket (-D): store.s3.bucket = "other"' in done.stderr


def test_the_command_writes_a_file_once(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "backup.toml"
    assert run(str(path), "-o", str(made)).return_value == 0
    checked = CliRunner().invoke(command, ("check", str(made)), catch_exceptions=False)
    assert checked.exit_code == 0
    with pytest.raises(ConfigurationError, match="exists"):
        run(str(path), "-o", str(made))
    with pytest.raises(ConfigurationError, match="cannot be written"):
        run(str(path), "-o", str(tmp_path / "no" / "x.toml"))


def test_the_command_ends_with_five_when_a_person_is_needed(path: Path) -> None:
    assert run(str(path), "-D", "statsd.hostport=s:8125").return_value == 5
    assert run(str(path), "-D", "statsd.hostport=").return_value == 0


def test_an_option_without_a_value_is_refused(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="-D name=value"):
        run(str(path), "-D", "secor.s3.bucket")


THRIFT = {
    "secor.file.reader.writer.factory": (
        "com.pinterest.secor.io.impl.ThriftParquetFileReaderWriterFactory"
    ),
    "secor.message.parser.class": "com.pinterest.secor.parser.ThriftMessageParser",
    "secor.thrift.message.class.*": "com.example.Click",
}


def test_columns_of_thrift_in_parquet_have_to_be_named() -> None:
    _, draft, _ = imported(THRIFT)
    assert any("parser.names" in todo and "message_class" in todo for todo in draft.todos)
    _, told = draft.outcomes["secor.thrift.message.class.*"]
    assert "class of Java" in told
    _, draft, _ = imported({name: THRIFT[name] for name in list(THRIFT)[1:]})
    assert not any("parser.names" in todo for todo in draft.todos)


def test_what_is_not_uploaded_at_the_end_is_read_again_and_that_is_said() -> None:
    config, _, text = imported({"secor.upload.on.shutdown": "false"})
    assert config.policy.upload_on_shutdown is False
    assert "read again" in text
    _, _, text = imported({"secor.upload.on.shutdown": "true"})
    assert "read again" not in text
