from __future__ import annotations

import re
from pathlib import Path

import pytest

from secor.config.load import load
from secor.core.errors import ConfigurationError

GROUP = 'group.name = "g"\n'
BROKERS = 'kafka.bootstrap_servers = ["k:9092"]\n'
TOPICS = 'kafka.topics = ["clicks"]\n'
BUCKET = 'store.s3.bucket = "b"\n'
LEAST = GROUP + BROKERS + TOPICS + BUCKET
TABLES = LEAST + 'group.kind = "table"\n'

JARGON = re.compile(
    r"Input|valid (string|integer|number|boolean|tuple|dictionary)|String|Value error|pathlib"
    r"|datetime\.|greater than|less than|parse |interpret|instance|True|False"
)
"""Words of the library, which knows neither TOML nor our reader."""

SERVERS = 'write "host:9092", or "[::1]:9092" for an IPv6 address, without a protocol, user or path'

WRONG = {
    # Servers
    GROUP + TOPICS + BUCKET + 'kafka.bootstrap_servers = ["a:1", "host"]': {
        "kafka.bootstrap_servers": "'host' has no port: write \"host:9092\", if that is its port"
    },
    GROUP + TOPICS + BUCKET + 'kafka.bootstrap_servers = ["[::1]"]': {
        "kafka.bootstrap_servers": "'[::1]' has no port: write \"[::1]:9092\", if that is its port"
    },
    GROUP + TOPICS + BUCKET + 'kafka.bootstrap_servers = ["host:"]': {
        "kafka.bootstrap_servers": f"'host:' is no server: {SERVERS}"
    },
    GROUP + TOPICS + BUCKET + 'kafka.bootstrap_servers = ["host:99999"]': {
        "kafka.bootstrap_servers": f"'host:99999' is no server: {SERVERS}"
    },
    GROUP + TOPICS + BUCKET + 'kafka.bootstrap_servers = ["http://host:9092"]': {
        "kafka.bootstrap_servers": f"'http://host:9092' is no server: {SERVERS}"
    },
    GROUP + TOPICS + BUCKET + 'kafka.bootstrap_servers = ["::1:9092"]': {
        "kafka.bootstrap_servers": f"'::1:9092' is no server: {SERVERS}"
    },
    GROUP + TOPICS + BUCKET + 'kafka.bootstrap_servers = ["a :9092"]': {
        "kafka.bootstrap_servers": f"'a :9092' is no server: {SERVERS}"
    },
    GROUP + TOPICS + BUCKET + 'kafka.bootstrap_servers = ["a:9092", ""]': {
        "kafka.bootstrap_servers": f"'' is no server: {SERVERS}"
    },
    GROUP + TOPICS + BUCKET + "kafka.bootstrap_servers = [9092]": {
        "kafka.bootstrap_servers": f"9092 is no server: {SERVERS}"
    },
    GROUP + TOPICS + BUCKET + "kafka.bootstrap_servers = []": {
        "kafka.bootstrap_servers": 'name one server at least, such as ["kafka-1:9092"]'
    },
    LEAST + 'ledger.zookeeper.hosts = ["zk:x"]': {
        "ledger.zookeeper.hosts": '\'zk:x\' is no server: write "host:2181", or "[::1]:2181" for '
        "an IPv6 address, without a protocol, user or path"
    },
    # Numbers
    LEAST + 'policy.max_files = "many"': {
        "policy.max_files": 'must be a whole number, such as 1000; it is "many"'
    },
    LEAST + "policy.max_files = 1.5": {
        "policy.max_files": "must be a whole number, such as 1000; it is 1.5"
    },
    LEAST + "policy.max_files = [1]": {"policy.max_files": "must be a whole number, such as 1000"},
    LEAST + "policy.max_files = -1": {"policy.max_files": "must be at least 1; it is -1"},
    LEAST + "metrics.port = 70000": {"metrics.port": "must be at most 65535; it is 70000"},
    LEAST + 'group.kind = "partition"\nparser.max_bad_ratio = "few"': {
        "parser.max_bad_ratio": 'must be a number, such as 0.5; it is "few"'
    },
    # Sizes and durations
    LEAST + "policy.max_bytes = -1": {"policy.max_bytes": "must be more than 0; it is -1"},
    LEAST + "policy.max_bytes = 1.5": {
        "policy.max_bytes": '1.5 is no size: write bytes, or text such as "64MiB", "1.5GiB", "10MB"'
    },
    LEAST + "policy.max_bytes = [1]": {
        "policy.max_bytes": 'not a size: write bytes, or text such as "64MiB", "1.5GiB", "10MB"'
    },
    LEAST + "policy.max_age = -0.5": {"policy.max_age": "must be more than 0; it is -0.5"},
    LEAST + "policy.max_age = inf": {"policy.max_age": "must be finite; it is inf"},
    LEAST + "policy.max_age = {m = 5}": {
        "policy.max_age": 'not a duration: write seconds, or text such as "500ms", "1h30m"'
    },
    # Text, words, switches
    LEAST + "output.prefix = 5": {"output.prefix": "must be text, in quotes; it is 5"},
    LEAST + "output.prefix = true": {"output.prefix": "must be text, in quotes; it is true"},
    LEAST + "output.prefix = 2024-01-31": {
        "output.prefix": "must be text, in quotes; it is 2024-01-31"
    },
    LEAST + "output.prefix = {a = 1}": {"output.prefix": "must be text, in quotes"},
    LEAST + "local.directory = 5": {"local.directory": "must be text, in quotes; it is 5"},
    LEAST + "store.s3.secret_key = 5": {"store.s3.secret_key": "must be text, in quotes"},
    BROKERS + TOPICS + BUCKET + 'group.name = ""': {"group.name": "must not be empty"},
    BROKERS + TOPICS + BUCKET + 'group.name = "g h"': {
        "group.name": 'may have letters, digits, ".", "_" and "-" only; it is "g h"'
    },
    LEAST + 'finalize.scheme = "S3:"': {
        "finalize.scheme": 'may have small letters and digits only, such as "s3"; it is "S3:"'
    },
    LEAST + 'group.kind = "tabel"': {
        "group.kind": 'must be "backup", "partition" or "table"; it is "tabel"; did you mean'
        ' "table"?'
    },
    LEAST + 'kafka.security_protocol = "sasl_ssl"': {
        "kafka.security_protocol": 'must be "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL"; '
        'it is "sasl_ssl"; did you mean "SASL_SSL"?'
    },
    LEAST + "ledger.kind = 5": {"ledger.kind": 'must be "zookeeper" or "kafka"; it is 5'},
    LEAST + 'store.s3.path_style = "perhaps"': {
        "store.s3.path_style": 'must be true or false; it is "perhaps"'
    },
    # Arrays and tables
    GROUP + BROKERS + BUCKET + "kafka.topics = 5": {
        "kafka.topics": 'must be an array, such as ["a", "b"]; it is 5'
    },
    GROUP + BROKERS + BUCKET + 'kafka.topics = ["a", 5]': {
        "kafka.topics.1": "must be text, in quotes; it is 5"
    },
    LEAST + "policy = 5": {"policy": "must be a table: write its keys below [policy]; it is 5"},
    LEAST + "[[policy]]\nmax_age = 1": {"policy": "must be a table: write its keys below [policy]"},
    LEAST + 'topics = ["clicks"]': {
        "topics.0": 'must be a table: write its keys below [[topics]]; it is "clicks"'
    },
    LEAST + '[topics]\nmatch = "x"': {
        "topics": "must be an array of tables: write [[topics]] above the keys of each"
    },
    LEAST + "store.s3.tags = 5": {
        "store.s3.tags": 'must be a table, such as {name = "value"}; it is 5'
    },
    GROUP + BROKERS + BUCKET + 'kafka.topics_pattern = "*"': {
        "kafka.topics_pattern": "'*' is no regular expression: nothing to repeat at position 0"
    },
    # Missing keys
    BROKERS + TOPICS + BUCKET: {"group.name": 'is missing; write it as name = "backup"'},
    GROUP + TOPICS + BUCKET: {
        "kafka.bootstrap_servers": "is missing; write it as bootstrap_servers = "
        '["kafka-1:9092", "kafka-2:9092"]'
    },
    LEAST + '[[topics]]\noutput.prefix = "x"': {
        "topics.0.match": 'is missing; write it as match = "clicks|views"'
    },
    TABLES + '[[tables]]\nmode = "append"': {
        "tables.0.table": 'is missing; write it as table = "shop.orders"'
    },
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_values_are_told_in_plain_words(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load(path, {})
    lines = str(raised.value).splitlines()[1:]
    assert dict(line.strip().split(": ", 1) for line in lines) == WRONG[text]
    assert not JARGON.search(str(raised.value))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"[output\n", "(at line 1, column 8)"),
        (b"a = 1\noutput.prefix = backup\n", "(at line 2, column 17): text needs quotes"),
        (b'output.prefix = "backup\n', "(at line 1, column 24): a text ends with its quote"),
        (b"a = 1\na = 2\n", "a key is there twice"),
        (
            b"[policy]\na = 1\n[policy]\n",
            "the table [policy] is there twice: put its keys together",
        ),
        (b'a = 1\nb = "\xff"\n', "is not TOML, which is UTF-8 text (see line 2): save it as UTF-8"),
    ],
)
def test_what_is_not_toml_is_told_with_its_line(text: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(text)
    with pytest.raises(ConfigurationError) as raised:
        load(path, {})
    assert told in str(raised.value)


def test_an_empty_file_is_called_so_with_where_to_begin(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("# nothing yet\n")
    with pytest.raises(ConfigurationError, match=r"the file is empty: .*secor config init") as told:
        load(path, {})
    assert "group.name: is missing" in str(told.value)
    assert "group: " not in str(told.value), "told by its keys"


def test_a_directory_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is a directory; name a configuration file"):
        load(tmp_path, {})
