"""Settings document themselves: every one has a text, and pages and answers are made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from secor.cli import main
from secor.cli.exit_codes import Exit
from secor.cli.reference_page import generated
from secor.config import schema
from secor.config.load import validate, validate_as
from secor.config.model import Config
from secor.config.reference import KINDS, SettingDescription, explain, settings
from secor.config.restore import RestoreConfig
from secor.config.values import Section
from secor.core.errors import ConfigurationError

ROOT = Path(__file__).parents[3]
KAFKA = {"bootstrap_servers": ["kafka-1:9092"], "topics": ["a"]}
COMPLETED = ("topics",)
"""Examples that get the rest of their keys from other sections."""


def models(base: type[Section] = Section) -> Iterator[type[Section]]:
    for model in base.__subclasses__():
        if model.__module__.startswith("secor."):
            yield model
            yield from models(model)


FIELDS = {
    f"{model.__name__}.{name}": field
    for model in models()
    for name, field in model.model_fields.items()
}


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_has_a_description(name: str) -> None:
    text = FIELDS[name].description
    assert text, f"{name}: give it a Field(description=...) that says what it does, in sentences"
    assert text.endswith("."), f"{name}: its description is to end with a full stop"
    assert "  " not in text, f"{name}: its description has two spaces in a row"


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.key)
def test_every_setting_shows_a_value(setting: SettingDescription) -> None:
    defaults = [value for value in setting.defaults.values() if value not in (None, "", [], {})]
    assert defaults or setting.examples or setting.key.startswith("topics."), (
        f"{setting.key}: give it a Field(examples=[...]), its default shows nothing"
    )


def check(field: FieldInfo, value: object) -> object:
    annotation: Any = field.annotation
    for validator in field.metadata:
        annotation = Annotated[annotation, validator]
    return TypeAdapter(annotation).validate_python(value)


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.examples])
def test_every_example_is_a_value_of_its_setting(name: str) -> None:
    field = FIELDS[name]
    if name.partition(".")[2] not in COMPLETED:
        for example in field.examples or ():
            check(field, example)


def minimal(kind: str) -> dict[str, Any]:
    tree: dict[str, Any] = {"group": {"name": "g", "kind": kind}, "kafka": {**KAFKA}}
    tree["store"] = {"s3": {"bucket": "b"}}
    return tree | ({"tables": [{"table": "a.b"}]} if kind == "table" else {})


@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_key_that_a_group_lacks_is_refused_and_no_other(kind: str) -> None:
    for setting in settings():
        if setting.variable is None or not set(setting.kinds) & set(KINDS[:3]):
            continue
        tree = minimal(kind)
        *steps, last = setting.key.split(".")
        here = tree
        for step in steps:
            here = here.setdefault(step, {})
        default = next(iter(setting.defaults.values()))
        others = [example for example in setting.examples if example != default]
        here[last] = others[0] if others else another(default)
        if setting.key == "group.kind":
            continue
        faults = " ".join(validate(tree)[1].values())
        belongs_to_others = any(
            part in faults
            for part in ("only group.kind", 'only "backup"', "nothing is parsed", "take this away")
        )
        belongs_to_others |= "the table's properties and [rows] say" in faults
        needs_more = setting.key in ("parser.time_format", "parser.plugin_settings")
        if kind not in setting.kinds:
            assert faults, setting.key
        elif not needs_more:
            assert not belongs_to_others, (setting.key, faults)


def another(default: Any) -> Any:
    return f"{default}x" if isinstance(default, str) else default + 1


def test_the_defaults_are_those_of_a_group_of_the_kind() -> None:
    (fetched,) = explain("kafka.max_partition_fetch_bytes")
    assert fetched.default == {"": '"1MiB"', "partition": '"4MiB"'}
    (prefix,) = explain("output.prefix")
    assert prefix.default == {kind: f'"{kind}"' for kind in KINDS[:3]}
    assert explain("group.name")[0].default == {}
    assert explain("tables.equals")[0].default == {"": "not set"}


def test_every_key_is_in_the_reference() -> None:
    known = {setting.key for setting in settings()}
    for root in (Config, RestoreConfig):
        assert {".".join(key) for key in schema.every_key(root)} <= known


@pytest.mark.parametrize("path", generated())
def test_files_made_of_the_code_are_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text() == generated()[path], f"run scripts/format: it writes {path}"


def test_the_page_has_every_setting() -> None:
    page = generated()["docs/configuration.md"]
    for setting in settings():
        assert f"| `{setting.key.rpartition('.')[2]}` |" in page or not setting.section


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("policy.max_ages", "policy.max_age"),
        ("max_age", "policy.max_age"),
        ("kafka.topic", "kafka.topics"),
        ("writing.intervall", "writing.interval"),
        ("quite.another", "the sections are"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest(key: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=meant):
        explain(key)


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("tables.0.mode", "tables.mode"),
        ("SECOR_POLICY__MAX_AGE", "policy.max_age"),
        ("[policy]", "policy.max_files"),
        ("source.ranges.end", "source.ranges.end"),
    ],
)
def test_a_key_may_be_written_as_in_other_places(key: str, shown: str) -> None:
    assert shown in {setting.key for setting in explain(key)}


def test_a_setting_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config", "explain", "limits.record_batch"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "limits.record_batch"
    assert lines[-5:] == [
        '  type: size or "none" (bytes, or text such as "64MiB")',
        '  default: "none"',
        '  example: record_batch = "64MiB"',
        "  groups: backup, partition, table",
        "  environment: SECOR_LIMITS__RECORD_BATCH",
    ]
    assert main.run(["config", "explain", "policy"]) == 0
    shown = capsys.readouterr().out
    assert "policy.max_bytes           Upload a batch when it has this size on disk\n" in shown
    assert main.run(["config", "explain", "polizy.max_age"]) == Exit.CONFIGURATION
    assert "did you mean policy.max_age?" in capsys.readouterr().err


def test_a_setting_is_explained_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config", "explain", "metrics.port", "--json"]) == 0
    daemon, restore = json.loads(capsys.readouterr().out)
    assert daemon["defaults"] == {"backup": 9878, "partition": 9878, "table": 9878}
    assert (restore["groups"], restore["defaults"]) == (["restore"], {"restore": None})
    assert main.run(["config", "explain", "", "--json"]) == Exit.CONFIGURATION


def test_an_example_does_not_become_a_fault_of_a_neighbour() -> None:
    tree = minimal("backup")
    tree["store"]["s3"]["kms_key"] = 5
    tree["kafka"]["ssl_cafile"] = False
    assert set(validate(tree)[1]) == {"store.s3.kms_key", "kafka.ssl_cafile"}
    job: dict[str, Any] = {**minimal("restore"), "source": {"topics_pattern": "("}}
    del job["kafka"]["topics"]
    assert set(validate_as(RestoreConfig, job)[1]) == {"source.topics_pattern"}
