from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secor.cli.config.commands import command
from secor.cli.run import command as service
from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.wiring.check_references import unusable_references

CONFIG = """
[group]
name = "g"
[kafka]
bootstrap_servers = ["k:9092"]
topics = ["clicks"]
[store.s3]
bucket = "b"
access_key = "k"
proxies = {https = "http://me:hush@proxy:3128"}
[output]
keys = "legacy"
generation = 2
[[topics]]
match = "orders"
output.format = "parquet"
"""
ENVIRONMENT = {"SECOR_STORE__S3__SECRET_KEY": "hush"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(CONFIG)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, env=ENVIRONMENT, catch_exceptions=False)


def test_check_says_valid_and_warns_of_what_is_lost(path: Path) -> None:
    result = run("check", str(path))
    assert result.exit_code == 0
    assert result.stdout == f"{path}: valid\n"
    assert "legacy" in result.stderr


def test_check_of_a_faulty_file_ends_with_the_error_for_the_shell(path: Path) -> None:
    path.write_text("[group]\n")
    with pytest.raises(ConfigurationError, match=r"group\.name"):
        run("check", str(path))


PARSED = """
[group]
name = "g"
kind = "partition"
[kafka]
bootstrap_servers = ["k:9092"]
topics = ["clicks", "orders"]
[store.s3]
bucket = "b"
access_key = "k"
[parser]
decoder = "avro"
schema_file = "clicks.avsc"
transforms = [{kind = "plugin", plugin = "no.where:Upper"}]
[[topics]]
match = "orders"
parser = {decoder = "protobuf", message = "shop.Order", descriptor_set = "orders.desc"}
[[topics]]
match = "views"
parser.decoder = "json"
output = {format = "parquet", schema_file = "views.json"}
[[topics]]
match = "places"
parser = {plugin = "sys:exit", decoder = "none", transforms = []}
"""


def test_check_names_every_file_and_class_that_cannot_be_used(path: Path) -> None:
    path.write_text(PARSED)
    with pytest.raises(ConfigurationError) as raised:
        run("check", str(path))
    first, *found, last = str(raised.value).splitlines()
    assert first == f"{path}: what the configuration names cannot be used on this machine"
    assert "--without-files" in last
    told = dict(line.strip().split(": ", 1) for line in found)
    assert list(told) == [
        "parser.schema_file",
        "parser.transforms.0.plugin",
        "topics.0.parser.descriptor_set",
        "topics.2.parser.plugin",
    ]
    assert "clicks.avsc" in told["parser.schema_file"]
    assert "No module named 'no'" in told["parser.transforms.0.plugin"]
    assert "orders.desc" in told["topics.0.parser.descriptor_set"]
    assert "SystemExit" in told["topics.2.parser.plugin"]


def test_check_looks_at_declared_schemas_and_at_what_they_are_written_in(path: Path) -> None:
    schema = path.parent / "views.json"
    text = PARSED.replace('"views.json"', f'"{schema}"')
    path.write_text(text.replace('transforms = [{kind = "plugin", plugin = "no.where:Upper"}]', ""))
    with pytest.raises(
        ConfigurationError, match=r"topics\.1\.output: output.schema_file .*cannot be"
    ):
        run("check", str(path))
    schema.write_text("[]")
    with pytest.raises(ConfigurationError, match=r"topics\.1\.output: output.schema_file"):
        run("check", str(path))
    schema.write_text('{"type": "record", "name": "V", "fields": [{"name": "a", "type": "long"}]}')
    with pytest.raises(ConfigurationError) as raised:
        run("check", str(path))
    assert "topics.1" not in str(raised.value)


def test_a_service_does_not_start_without_what_its_configuration_names(path: Path) -> None:
    path.write_text(PARSED)
    with pytest.raises(ConfigurationError, match=r"topics\.0\.parser\.descriptor_set: .*orders"):
        CliRunner().invoke(service, [str(path)], env=ENVIRONMENT, catch_exceptions=False)


def test_check_on_another_machine_than_the_services_leaves_files_aside(path: Path) -> None:
    path.write_text(PARSED)
    result = run("check", "--without-files", str(path))
    assert result.stdout == f"{path}: valid\n"


def test_show_needs_no_files_either(path: Path) -> None:
    path.write_text(PARSED)
    assert "clicks.avsc" in run("show", str(path)).stdout


def test_show_names_every_value_and_its_source_and_no_secret(path: Path) -> None:
    result = run("show", str(path))
    lines = {line.split(" = ")[0]: line for line in result.stdout.splitlines()}
    assert lines["group.name"].split() == ["group.name", "=", '"g"', "#", "file"]
    assert lines["policy.minute_mark"].endswith("# default")
    assert lines["store.s3.secret_key"].endswith("# environment SECOR_STORE__S3__SECRET_KEY")
    assert lines["topics.0.output.format"].startswith('topics.0.output.format = "parquet"')
    assert "hush" not in result.stdout
    assert "proxy:3128" in result.stdout


def test_show_as_json_is_for_scripts(path: Path) -> None:
    rows = json.loads(run("show", str(path), "--json").stdout)
    assert {"key": "kafka.topics", "value": ["clicks"], "source": "file"} in rows
    assert {"key": "policy.minute_mark", "value": None, "source": "default"} in rows


def test_show_of_a_topic_tells_which_rule_says_what(path: Path) -> None:
    rows = json.loads(run("show", str(path), "--json", "--topic", "orders").stdout)
    shown = {row["key"]: (row["value"], row["source"]) for row in rows}
    assert shown["output.format"] == ("parquet", "file (topics.0)")
    assert shown["output.codec"] == ("zstd", "default")
    assert shown["output.keys"] == ("messagepack", "default")
    assert shown["output.generation"] == (2, "file")
    assert all(key.startswith(("output.", "policy.")) for key in shown)


@pytest.mark.parametrize(
    ("name", "form", "refused"),
    [
        ("OfTheMessage", "text", True),
        ("ForTheLayout", "text", False),
        ("OfTheMessage", "jsonlines", False),
    ],
)
def test_a_plugin_whose_fields_would_not_show_is_a_fault(
    tmp_path: Path, name: str, form: str, refused: bool
) -> None:
    plugin = f"tests.unit.parsing.plugins_for_tests:{name}"
    transforms = [{"kind": "plugin", "plugin": plugin}]
    tree = {
        "group": {"name": "g", "kind": "partition"},
        "kafka": {"bootstrap_servers": ["k:9092"], "topics": ["t"]},
        "store": {"kind": "local", "local": {"directory": str(tmp_path)}},
        "output": {"format": form, "codec": "none"},
        "parser": {"decoder": "none", "transforms": transforms},
    }
    faults = unusable_references(Config.model_validate(tree))
    assert list(faults) == (["parser.transforms.0.plugin"] if refused else [])
    assert all("for_layout_only = True" in why for why in faults.values())


JOB = """
[group]
name = "flights"
kind = "restore"
[source]
prefix = "raw_logs/backup"
topics = ["flights"]
[kafka]
bootstrap_servers = ["k:9092"]
[store.s3]
bucket = "b"
"""


def test_check_reads_the_job_of_a_restore(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    assert CliRunner().invoke(command, ["check", str(path)]).stdout == f"{path}: valid\n"
    path.write_text(JOB.replace("topics =", "topicks ="))
    checked = CliRunner().invoke(command, ["check", str(path)])
    assert "source.topicks: unknown key; did you mean source.topics?" in str(checked.exception)


def test_commands_of_other_groups_say_what_reads_the_job_of_a_restore(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    for result in (
        CliRunner().invoke(command, ["show", str(path)]),
        CliRunner().invoke(service, [str(path)]),
    ):
        assert isinstance(result.exception, ConfigurationError)
        assert "'secor restore'" in str(result.exception)
