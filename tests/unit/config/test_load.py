from __future__ import annotations

from pathlib import Path

import pytest

from secor.config.environment import JAVA_SECOR, variable_name
from secor.config.load import load
from secor.config.model import Config
from secor.config.schema import every_key
from secor.core.errors import ConfigurationError

LEAST = """
[group]
name = "g"
[kafka]
bootstrap_servers = ["k:9092"]
topics = ["clicks"]
[store.s3]
bucket = "b"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.toml"


def loaded(path: Path, text: str, **environment: str) -> Config:
    path.write_text(text)
    return load(path, environment)


def faults(path: Path, text: str, **environment: str) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as raised:
        loaded(path, text, **environment)
    lines = str(raised.value).splitlines()[1:]
    return dict(line.strip().split(": ", 1) for line in lines)


def test_the_least_configuration_is_valid_and_the_rest_is_default(path: Path) -> None:
    config = loaded(path, LEAST)
    assert config.kafka.topics == ("clicks",)
    assert config.output.codec == "gzip"
    assert config.source("group.name") == "file"
    assert config.source("policy.max_age") == "default"


def test_all_faults_are_told_at_once_each_with_its_key(path: Path) -> None:
    found = faults(
        path,
        """
        [group]
        nam = "b"
        [kafka]
        topic = "x"
        heartbeat_interval = "1 hour"
        bootstrap_servers = "a:1,b:2"
        [output]
        codec = "bzip2"
        format = "text"
        max_bytes = 5
        keys = "legacy"
        prefix = "a//b"
        [policy]
        minute_mark = 60
        [[topics]]
        match = "("
        output.codec = "zst"
        [[topics]]
        match = "b"
        policy.max_agee = 1
        """,
        SECOR_KAFKA__TOPICS="a",
        SECOR_KAFKA__TOPIX="d",
        SECOR_POLICY__MAX_AGE="5x",
    )
    assert found == {
        "SECOR_KAFKA__TOPIX": "unknown variable; did you mean SECOR_KAFKA__TOPICS?",
        "group.nam": "unknown key; did you mean group.name?",
        "group.name": 'is missing; write it as name = "backup"',
        "kafka.heartbeat_interval": "'1 hour' is no duration: write seconds, or text such as "
        '"500ms", "1h30m"',
        "kafka.topic": "unknown key; did you mean kafka.topics?",
        "output.codec": "text offers gzip, none, zstd",
        "output.keys": "text has no such setting, only sequencefile",
        "output.max_bytes": "unknown key here; did you mean policy.max_bytes?",
        "output.prefix": 'must be a path such as "raw_logs/backup", without "..", ".", "//"',
        "policy.max_age": "'5x' is no duration: write seconds, or text such as "
        '"500ms", "1h30m" (from the environment SECOR_POLICY__MAX_AGE)',
        "policy.minute_mark": "must be at most 59; it is 60",
        "store.s3.bucket": "name the bucket",
        "topics.0.match": "'(' is no regular expression: missing ), unterminated subpattern "
        "at position 0",
        "topics.0.output.codec": 'must be "none", "gzip", "default", "snappy", "lz4", "bzip2", '
        '"zstd" or "deflate"; it is "zst"; did you mean "zstd"?',
        "topics.1.policy.max_agee": "unknown key; did you mean topics.1.policy.max_age?",
    }


def test_names_as_confluents_have_no_generation_no_routes_and_no_backup(path: Path) -> None:
    kept = 'kafka.bootstrap_servers = ["a:1"]\nkafka.topics = ["a"]\nstore.s3.bucket = "b"\n'
    naming = 'output.naming = "confluent"\n'
    partition = 'group = {name = "g", kind = "partition"}\n'
    assert "output.naming" in faults(path, f'group.name = "g"\n{kept}{naming}')
    assert "output.generation" in faults(path, f"{partition}{kept}{naming}output.generation = 2\n")
    route = 'parser.transforms = [{kind = "route", to = "c"}]\n'
    assert "output.naming" in faults(path, f"{partition}{kept}{naming}{route}")
    assert loaded(path, partition + kept + naming).output.naming == "confluent"
    other = 'output.naming = "{topic}-{partition}-{offset}.gz"\n'
    assert loaded(path, partition + kept + other).output.naming.endswith(".gz")
    wrong = 'output.naming = "{topic}-{offset}"\n'
    assert "output.naming" in faults(path, f"{partition}{kept}{wrong}")


def test_an_empty_file_names_all_that_is_needed(path: Path) -> None:
    assert set(faults(path, "")) == {
        "the file is empty",
        "group.name",
        "kafka.bootstrap_servers",
        "kafka.topics",
        "store.s3.bucket",
    }


@pytest.mark.parametrize(
    ("addition", "key"),
    [
        ('[ledger]\nkind = "kafka"\n[policy]\nupload_on_revoke = true', "policy.upload_on_revoke"),
        (
            '[ledger]\nkind = "kafka"\n[[topics]]\nmatch = "x"\npolicy.upload_on_revoke = true',
            "topics.0.policy.upload_on_revoke",
        ),
        ('[output]\nformat = "parquet"\nkeys = "legacy"', "output.keys"),
        ('[output]\nformat = "parquet"\ncodec = "bzip2"', "output.codec"),
        ('[output]\nformat = "parquet"\ndelimiter = ";"', "output.delimiter"),
        ('[output]\nprefix = "a/../b"', "output.prefix"),
        ('[output]\nprefix = "/a"', "output.prefix"),
        ("[policy]\nmax_bytes = 0", "policy.max_bytes"),
        ("[policy]\nmax_bytes = true", "policy.max_bytes"),
        ('[policy]\nmax_age = "0s"', "policy.max_age"),
        ("[policy]\nmax_age = nan", "policy.max_age"),
        ("[policy]\nmax_messages = 0", "policy.max_messages"),
        ("[metrics]\nport = 65536", "metrics.port"),
        ('[metrics]\nusername = "ada"', "metrics.password"),
        ('[metrics]\npassword = "p"', "metrics.username"),
        ('[metrics]\nusername = "a:b"\npassword = "p"', "metrics.username"),
        ('[metrics]\ntls_keyfile = "key.pem"', "metrics.tls_certfile"),
        ('[store]\nkind = "local"', "store.local.directory"),
        ('[store]\nkind = "gcs"', "store.gcs.bucket"),
        ('[store]\ngcs.bucket = "gs://logs/raw"', "store.gcs.bucket"),
        ('[store]\ngcs.token = "t"\ngcs.service_account = "k.json"', "store.gcs.token"),
        ('[store]\ngcs.verify_tls = false\ngcs.ca_bundle = "ca.pem"', "store.gcs.ca_bundle"),
        ('[store]\nkind = "azure"\nazure.container = "logs"', "store.azure.account"),
        ('[store]\nkind = "azure"\nazure.account = "acme"', "store.azure.container"),
        ('[store]\nazure.account = "A-cme"', "store.azure.account"),
        ('[store]\nazure.container = "logs/raw"', "store.azure.container"),
        ('[store]\nazure.account_key = "k"\nazure.sas_token = "s"', "store.azure.sas_token"),
        ('[store]\nazure.client_secret = "s"', "store.azure.client_secret"),
        ('[store]\ns3.kms_key = "k"', "store.s3.kms_key"),
        ('[store]\ns3.part_size = "1MiB"', "store.s3.part_size"),
        ('[store]\ns3.access_key = "k"', "store.s3.secret_key"),
        ('[ledger.zookeeper]\nacl = "creator"', "ledger.zookeeper.acl"),
        ('[ledger.zookeeper]\nchroot = "secor"', "ledger.zookeeper.chroot"),
        ('[ledger.zookeeper]\nusername = "u"', "ledger.zookeeper.password"),
        ('[ledger.zookeeper]\ntls_ca = "ca.pem"', "ledger.zookeeper.tls_ca"),
        (
            '[ledger.zookeeper]\nuse_tls = true\ntls_keyfile = "key.pem"',
            "ledger.zookeeper.tls_certfile",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_faults(addition: str, key: str, path: Path) -> None:
    base = LEAST.replace("[store.s3]\nbucket", "[store]\ns3.bucket")
    text = base + addition.removeprefix("[store]\n")
    assert list(faults(path, text)) == [key]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('topics_pattern = "c.*"', "kafka.topics_pattern"),
        ('heartbeat_interval = "20s"', "kafka.heartbeat_interval"),
        ('security_protocol = "SASL_SSL"', "kafka.sasl_mechanism"),
        ('sasl_mechanism = "PLAIN"', "kafka.sasl_mechanism"),
        ('sasl_plain_password = ["hidden"]', "kafka.sasl_plain_password"),
        ('security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"', "kafka.sasl_plain_username"),
        (
            (
                'security_protocol = "SASL_SSL"\nsasl_mechanism = "SCRAM-SHA-512"\n'
                'sasl_plain_username = "a=b"'
            ),
            "kafka.sasl_plain_username",
        ),
        (
            'security_protocol = "SASL_SSL"\nsasl_mechanism = "OAUTHBEARER"',
            "kafka.sasl_oauth_token_provider",
        ),
        ('sasl_oauth_token_provider = "m:C"', "kafka.sasl_oauth_token_provider"),
        ('ssl_cafile = "ca.pem"', "kafka.ssl_cafile"),
        ('security_protocol = "SSL"\nssl_keyfile = "key.pem"', "kafka.ssl_certfile"),
    ],
)
def test_faults_in_what_is_said_of_kafka_name_the_key(line: str, key: str, path: Path) -> None:
    found = faults(path, LEAST.replace("[store", line + "\n[store"))
    assert list(found) == [key]
    assert "hidden" not in found[key]


def test_what_is_no_toml_and_what_is_no_file_are_configuration_errors(path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"c\.toml: cannot be read \(No such file"):
        load(path, {})
    with pytest.raises(ConfigurationError, match=r"c\.toml: is not TOML: .*line 2"):
        loaded(path, "[group]\nname = b\n")


def test_a_fault_of_the_general_tables_is_not_repeated_for_each_topic(path: Path) -> None:
    text = LEAST + '[output]\ncodec = "no"\n[[topics]]\nmatch = "a"\n[[topics]]\nmatch = "b"\n'
    assert list(faults(path, text)) == ["output.codec"]


def test_the_environment_goes_over_the_file_and_is_named_as_the_source(path: Path) -> None:
    config = loaded(
        path,
        LEAST,
        SECOR_KAFKA__TOPICS="a, b",
        SECOR_STORE__S3__TAGS='{team = "x"}',
        SECOR_POLICY__MAX_BYTES="64MiB",
        SECOR_POLICY__MINUTE_MARK="none",
        SECOR_METRICS__PORT="none",
        SECOR_OUTPUT__HASH_PREFIX="true",
        SECOR_TOPICS='[{match = "a", output = {format = "text"}}]',
        PATH="/bin",
    )
    assert config.kafka.topics == ("a", "b")
    assert config.store.s3.tags == {"team": "x"}
    assert config.policy.max_bytes == 64 * 1024 * 1024
    assert (config.policy.minute_mark, config.metrics.port) == (None, None)
    assert config.output.hash_prefix is True
    assert config.for_topic("a").output.format == "text"
    assert config.source("kafka.topics") == "environment SECOR_KAFKA__TOPICS"
    assert config.source("topics.0.output.format") == "environment SECOR_TOPICS"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("0123", "0123"),
        ("true", "true"),
        ("1e5", "1e5"),
        ("2020-01-01", "2020-01-01"),
        ('"quoted"', "quoted"),
        ('x"\nother = 1', 'x"\nother = 1'),
    ],
)
def test_text_from_the_environment_is_never_read_as_a_number(
    text: str, secret: str, path: Path
) -> None:
    config = loaded(path, LEAST, SECOR_STORE__S3__ACCESS_KEY="k", SECOR_STORE__S3__SECRET_KEY=text)
    assert config.store.s3.secret_key is not None
    assert config.store.s3.secret_key.get_secret_value() == secret
    assert secret not in repr(config)
    assert secret not in config.store.model_dump_json(include={"s3": {"secret_key"}})


def test_the_first_rule_that_matches_the_whole_name_wins(path: Path) -> None:
    config = loaded(
        path,
        LEAST
        + """
        [output]
        codec = "snappy"
        keys = "legacy"
        generation = 3
        [policy]
        max_bytes = "1MiB"
        [[topics]]
        match = "click"
        policy.max_age = 1
        [[topics]]
        match = "clicks-.*"
        output.format = "text"
        [[topics]]
        match = "clicks.*"
        output.codec = "lz4"
        """,
    )
    text, last, none = (config.for_topic(name) for name in ("clicks-a", "clicks", "orders"))
    assert (text.output.format, text.output.codec, text.output.generation) == ("text", "gzip", 3)
    assert text.policy.max_bytes == 1024 * 1024
    assert (last.output.codec, last.output.keys) == ("lz4", "legacy")
    assert none.output == config.output
    assert config.rule_of("clicks") == 2
    assert config.rule_of("orders") is None


def test_what_is_lost_is_said_aloud(path: Path) -> None:
    text = LEAST + '[output]\nkeys = "legacy"\ncodec = "zstd"\n[[topics]]\nmatch = "a"\n'
    legacy, zstd = loaded(path, text).warnings
    assert legacy.startswith("output: keys")
    assert "headers" in legacy
    assert "native Hadoop" in zstd


def test_the_security_settings_are_as_the_client_names_them(path: Path) -> None:
    lines = """
    security_protocol = "SASL_SSL"
    ssl_cafile = "ca.pem"
    sasl_mechanism = "PLAIN"
    sasl_plain_username = "u"
    sasl_plain_password = "p"
    """
    config = loaded(path, LEAST.replace("[store", lines + "\n[store"))
    assert config.kafka.security() == {
        "security_protocol": "SASL_SSL",
        "ssl_check_hostname": True,
        "ssl_cafile": "ca.pem",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
        "sasl_kerberos_service_name": "kafka",
    }


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ("", False),
        ('address = "0.0.0.0"', True),
        ('address = "::1"', False),
        ('address = "0.0.0.0"\nport = "none"', False),
        ('address = "0.0.0.0"\ntls_certfile = "cert.pem"', False),
    ],
)
def test_a_password_that_others_may_read_on_its_way_is_warned_of(
    path: Path, more: str, warned: bool
) -> None:
    path.write_text(f'{LEAST}\n[metrics]\nusername = "a"\npassword = "p"\n{more}\n')
    found = [warning for warning in load(path, {}).warnings if warning.startswith("metrics")]
    assert bool(found) is warned


@pytest.mark.parametrize(
    ("section", "lines", "words"),
    [
        ("kafka", 'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "PLAIN"', "unencrypted"),
        ("kafka", 'security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"', None),
        ("ledger.zookeeper", 'acl = "creator"', "unencrypted"),
        ("ledger.zookeeper", "use_tls = true", "everybody"),
        ("ledger.zookeeper", 'use_tls = true\nacl = "creator"', None),
    ],
)
def test_a_password_that_is_shown_or_protects_nothing_is_warned_of(
    path: Path, section: str, lines: str, words: str | None
) -> None:
    if section == "kafka":
        credentials = 'sasl_plain_username = "u"\nsasl_plain_password = "p"'
        text = LEAST.replace("[store", f"{lines}\n{credentials}\n[store")
    else:
        text = f'{LEAST}\n[{section}]\nusername = "u"\npassword = "p"\n{lines}\n'
    found = [warning for warning in loaded(path, text).warnings if warning.startswith(section)]
    assert [words in warning for warning in found if words] == ([True] if words else [])
    assert bool(found) is (words is not None)


@pytest.mark.parametrize(
    ("lines", "key", "words"),
    [
        ('store.s3.endpoint_url = "minio:9000"', "store.s3.endpoint_url", "http://host:port"),
        ('store.s3.endpoint_url = "ftp://minio"', "store.s3.endpoint_url", "http://host:port"),
        ('store.s3.endpoint_url = "http://"', "store.s3.endpoint_url", "http://host:port"),
        ('store.s3.endpoint_url = "http://h:x"', "store.s3.endpoint_url", "http://host:port"),
        ('finalize.glue.endpoint_url = "glue"', "finalize.glue.endpoint_url", "http://host:port"),
        ('store.s3.bucket = "s3://logs/raw"', "store.s3.bucket", "write 'logs', and 'raw' as outp"),
        ('store.s3.bucket = "logs/"', "store.s3.bucket", "write 'logs'"),
        ('store.s3.proxies = {socks = "h:1"}', "store.s3.proxies", "'socks'"),
        (
            'kafka.bootstrap_servers = ["kafka://a:1"]',
            "kafka.bootstrap_servers",
            "without a protocol",
        ),
        ('kafka.bootstrap_servers = ["a:99999"]', "kafka.bootstrap_servers", "'a:99999'"),
        ('kafka.bootstrap_servers = "a 1"', "kafka.bootstrap_servers", "'a 1' is no server"),
        ('ledger.zookeeper.hosts = ["a:2181/secor"]', "ledger.zookeeper.hosts", "path"),
        ('limits.memory = "1KiB"', "limits.memory", "16MiB"),
        ('limits.record_batch = "1GiB"', "limits.record_batch", "limits.memory"),
        ("parser.max_bad_ratio = 0.5", "parser", "nothing is parsed"),
    ],
)
def test_what_a_server_or_library_would_stumble_over_is_told_before(
    path: Path, lines: str, key: str, words: str
) -> None:
    least = "group.name = 'g'\nkafka.topics = ['t']\n"
    given = {
        "kafka.bootstrap_servers": "kafka.bootstrap_servers = ['k:9092']\n",
        "store.s3.bucket": "store.s3.bucket = 'b'\n",
    }
    rest = "".join(line for name, line in given.items() if not lines.startswith(name))
    found = faults(path, least + rest + lines)
    assert list(found) == [key]
    assert words in found[key]


@pytest.mark.parametrize(
    "given",
    ['["a:9092,b:9092"]', '"a:9092, b:9092"', '["a:9092", "b:9092"]', '["a:9092", " b:9092,"]'],
)
def test_servers_may_be_separated_by_commas_wherever_they_stand(path: Path, given: str) -> None:
    config = loaded(path, LEAST.replace('["k:9092"]', given))
    assert config.kafka.bootstrap_servers == ("a:9092", "b:9092")


@pytest.mark.parametrize("server", ["k:9092", "[::1]:9092", "10.0.0.1:1", "my_host:2"])
def test_brokers_may_be_names_and_addresses_with_a_port(path: Path, server: str) -> None:
    assert loaded(path, LEAST.replace("k:9092", server)).kafka.bootstrap_servers == (server,)


@pytest.mark.parametrize("server", ["zk", "zk:2181", "[::1]", "[::1]:2181"])
def test_zookeepers_port_may_be_left_out(path: Path, server: str) -> None:
    text = f'{LEAST}\n[ledger.zookeeper]\nhosts = ["{server}"]'
    assert loaded(path, text).ledger.zookeeper.hosts == (server,)


@pytest.mark.parametrize("bucket", ["b", "my.logs_1", "arn:aws:s3:eu-1:123:accesspoint/my"])
def test_buckets_and_access_points_are_taken(path: Path, bucket: str) -> None:
    assert loaded(path, LEAST.replace('"b"', f'"{bucket}"')).store.s3.bucket == bucket


@pytest.mark.parametrize("key", ["store.s3.endpoint_url", "finalize.glue.endpoint_url"])
def test_a_password_in_an_address_is_refused_and_not_shown(path: Path, key: str) -> None:
    path.write_text(
        LEAST
        + f"""[{key.rpartition(".")[0]}]\nendpoint_url = "http://u:gehe/im@h"\n""".replace(
            "[store.s3]\n", ""
        )
    )
    with pytest.raises(ConfigurationError, match="no user and password") as raised:
        load(path, {})
    assert "gehe" not in str(raised.value)


def test_a_byte_order_mark_and_other_line_ends_are_taken(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + LEAST.strip().replace("\n", "\r\n").encode())
    assert load(path, {}).group.name == "g"
    path.write_bytes(LEAST.encode("utf-16"))
    with pytest.raises(ConfigurationError, match="save it as UTF-8"):
        load(path, {})


REFERENCES = """
group.name = "${GROUP}"
kafka.bootstrap_servers = ["${KAFKA}:9092", "k:1"]
kafka.topics = ["${TOPIC:-clicks}"]
kafka.client_id = "$${literal}"
store.s3.bucket = "logs-${GROUP}"
store.s3.secret_key = "${SECRET}"
store.s3.access_key = "a"
"""


def test_variables_of_the_environment_may_stand_in_texts(path: Path) -> None:
    config = loaded(path, REFERENCES, GROUP="g", KAFKA="k:2,b", SECRET="${GROUP}")
    assert config.group.name == "g"
    assert config.kafka.bootstrap_servers == ("k:2", "b:9092", "k:1")
    assert config.kafka.topics == ("clicks",)
    assert config.kafka.client_id == "${literal}"
    assert config.store.s3.bucket == "logs-g"
    assert config.store.s3.secret_key is not None
    # What a variable holds is not read again.
    assert config.store.s3.secret_key.get_secret_value() == "${GROUP}"


def test_a_variable_that_is_not_set_is_a_fault_of_its_key_unless_another_value_is_given(
    path: Path,
) -> None:
    found = faults(path, REFERENCES, KAFKA="k", SECOR_GROUP__NAME="g")
    assert set(found) == {"store.s3.bucket", "store.s3.secret_key"}
    assert "no variable GROUP" in found["store.s3.bucket"]
    found = faults(path, REFERENCES, GROUP="g", SECRET="s")
    assert set(found) == {"kafka.bootstrap_servers.0"}
    loaded(path, REFERENCES, GROUP="g", SECRET="s", SECOR_KAFKA__BOOTSTRAP_SERVERS="b:1")


@pytest.mark.parametrize(
    "text", ["${A:-${B}}", "${A:-", "${}", "${ A }", "${A-x}", "${A.b}", "a ${A} ${"]
)
def test_what_begins_as_a_variable_and_is_none_is_never_taken_as_it_stands(
    path: Path, text: str
) -> None:
    written = LEAST.replace("[kafka]", f'[kafka]\nclient_id = "{text}"')
    found = faults(path, written, A="secret", B="secret")
    assert [*found] == ["kafka.client_id"]
    assert "${NAME} or ${NAME:-default} is one" in found["kafka.client_id"]
    assert "secret" not in found["kafka.client_id"]
    config = loaded(path, LEAST.replace("[kafka]", '[kafka]\nclient_id = "$${} $${"'))
    assert config.kafka.client_id == "${} ${"


@pytest.mark.parametrize(
    ("limits", "bytes_"),
    [("", 128 << 20), ("memory = '64MiB'", 64 << 20), ("record_batch = '1MiB'", 1 << 20)],
)
def test_the_largest_record_batch_counts_in_the_memory(
    path: Path, limits: str, bytes_: int
) -> None:
    assert loaded(path, f"{LEAST}\n[limits]\n{limits}\n").limits.largest_record_batch == bytes_


def test_values_that_are_nested_without_end_are_told(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nested too deep"):
        loaded(path, "a = " + "[" * 100_000)


def test_a_stray_variable_is_a_warning_with_the_nearest_name(path: Path) -> None:
    path.write_text(LEAST)
    given = {
        "SECOR_HOME": "/opt/secor",
        "SECOR_GROUP": "backup",
        "SECOR_GROUP_NAME": "other",
        "SECOR_HELM__X": "1",
        "PATH": "/bin",
    }
    stray = [warning for warning in load(path, given).warnings if "sets nothing" in warning]
    assert [warning.split()[0] for warning in stray] == sorted(it for it in given if "SEC" in it)
    [java] = [it for it in stray if it.startswith("SECOR_GROUP ")]
    assert java.endswith("of Java Secor and sets nothing; here it is SECOR_GROUP__NAME")
    assert any(
        "SECOR_GROUP_NAME sets nothing" in it and it.endswith("did you mean SECOR_GROUP__NAME?")
        for it in stray
    )
    assert load(path, given).group.name != "other"


def test_java_secors_variables_lead_to_settings() -> None:
    known = {variable_name(key) for key in every_key(Config)}
    assert {it for it in JAVA_SECOR.values() if it.startswith("SECOR_")} <= known
