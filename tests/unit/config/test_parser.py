"""``[parser]``: what goes together, what does nothing, and what becomes of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from secor.archive.kept_schemas import KeptSchema
from secor.cli.config.commands import command
from secor.config.load import load
from secor.config.model import Config
from secor.config.parser import Parser
from secor.core.errors import ConfigurationError
from secor.core.model import QUARANTINE
from secor.core.naming import topic_root
from secor.wiring.plans import plan_for
from tests.unit.parsing.parsing_cases import TP, json_chunk, places

LEAST = """
[group]
name = "g"
kind = "partition"
[kafka]
bootstrap_servers = ["k:9092"]
topics = ["clicks"]
[store.s3]
bucket = "b"
"""
RULE = """
[[topics]]
match = "o"
parser.decoder = "avro"
parser.registry_url = "http://r"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.toml"


def loaded(path: Path, text: str) -> Config:
    path.write_text(LEAST + text)
    return load(path, {})


def faults(path: Path, text: str) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as raised:
        loaded(path, text)
    lines = str(raised.value).splitlines()[1:]
    return dict(line.strip().split(": ", 1) for line in lines)


ROUTE = '[[topics]]\nmatch = "a"\nparser.transforms = [{kind = "route", to = "b"}]\n'


def test_directories_of_routes_are_nobody_elses(path: Path) -> None:
    layout = '[[topics]]\nmatch = "b"\nparser.layout = "from={country}"\n'
    assert loaded(path, layout).for_topic("b").parser.layout == "from={country}"
    [(key, why)] = faults(path, ROUTE + layout).items()
    assert key == "topics.1.parser.layout"
    assert "from= are theirs" in why


@pytest.mark.parametrize(
    "text",
    [
        'decoder = "avro"\nschema_file = "/nowhere"',
        'decoder = "protobuf"\nmessage = "a.B"\ndescriptor_set = "/nowhere"',
        'decoder = "protobuf"\nmessage_class = "no.where:Outer.Event"',
        'decoder = "thrift"\nmessage_class = "no.where:Event"',
        'plugin = "no.where:Place"',
        'transforms = [{kind = "plugin", plugin = "no.where:Upper"}]',
    ],
)
def test_what_is_only_named_is_not_looked_for(path: Path, text: str) -> None:
    loaded(path, f"[parser]\n{text}\n")


def test_a_step_may_make_a_field_that_the_pattern_does_not_give(path: Path) -> None:
    step = 'transforms = [{kind = "plugin", plugin = "ours:Upper"}]'
    loaded(path, f'[parser]\ndecoder = "regex"\npattern = "(?P<a>.)"\nlayout = "{{b}}"\n{step}')


def test_a_rule_may_leave_a_format_of_times_unused(path: Path) -> None:
    general = '[parser]\ntime_field = "at"\ntime_format = "iso8601"\n'
    rule = '[[topics]]\nmatch = "raw"\nparser = {decoder = "none", time_field = "none"}\n'
    assert loaded(path, general + rule).for_topic("raw").parser.time_field is None


def test_a_partition_group_needs_no_parser_section_and_has_a_prefix_of_its_own(path: Path) -> None:
    config = loaded(path, "")
    assert config.parser == Parser()
    assert config.output.prefix == "partition"
    assert config.for_topic("clicks").parser.layout == "dt={time:%Y-%m-%d}"


@pytest.mark.parametrize(
    ("text", "key", "word"),
    [
        ('layout = "{a"', "parser.layout", "no partner"),
        ('layout = "{time:%Q}"', "parser.layout", "%Q"),
        ('time_zone = "Europe/Amsterdm"', "parser.time_zone", "did you mean"),
        ('time_format = "iso"', "parser.time_format", "not supported"),
        ('layout = "{a}"\ntime_field = "at"', "parser.time_field", "take this away"),
        ('decoder = "none"\nlayout = "{a}"', "parser.layout", "reads no fields"),
        ('decoder = "none"\ntime_field = "a"', "parser.time_field", "reads no fields"),
        ('schema_file = "x"', "parser.schema_file", "only avro"),
        ('decoder = "avro"', "parser.registry_url", "schema_file"),
        ('decoder = "protobuf"', "parser.message", "descriptor_set"),
        ('decoder = "regex"', "parser.pattern", "groups"),
        ('decoder = "regex"\npattern = "("', "parser.pattern", "expression"),
        ('decoder = "thrift"\nnames = {a = "b"}', "parser.names", "no path"),
        (
            'decoder = "thrift"\nmessage_class = "a.b:C"\nnames = {1 = "b"}',
            "parser.names",
            "take one of them away",
        ),
        ('decoder = "thrift"\nmessage_class = "a.b"', "parser.message_class", "module:Class"),
        (
            'decoder = "regex"\npattern = "(?P<at>.*)"\ntime_field = "time"',
            "parser.time_field",
            "no group time; its groups: at",
        ),
        (
            'decoder = "regex"\npattern = "(?P<at>.*)"\nlayout = "{a}"',
            "parser.layout",
            "no group a; its groups: at",
        ),
        ('time_format = "iso8601"', "parser.time_format", "name the field"),
        ('time_field = ""', "parser.time_field", "names no field"),
        ('time_field = ".time"', "parser.time_field", "names no field"),
        ('time_field = "a..b"', "parser.time_field", "names no field"),
        (
            'decoder = "avro"\nregistry_url = "registry:8081"',
            "parser.registry_url",
            "such as http://registry:8081",
        ),
        ('decoder = "avro"\nregistry_url = "http://"', "parser.registry_url", "such as"),
        ('decoder = "avro"\nregistry_url = "http://h:x"', "parser.registry_url", "Port"),
        (
            'decoder = "avro"\nregistry_url = "http://u:hush@h"',
            "parser.registry_url",
            "settings of their own",
        ),
        (
            'decoder = "avro"\nregistry_url = "http://h"\nregistry_password = "hush"',
            "parser.registry_username",
            "is missing",
        ),
        (
            'decoder = "json"\nregistry_url = "http://h"\nregistry_cafile = "x"',
            "parser.registry_cafile",
            "registry_url begins with http:",
        ),
        (
            'decoder = "json"\nregistry_url = "https://h"\nregistry_keyfile = "x"',
            "parser.registry_certfile",
            "needs its certificate",
        ),
        (
            'registry_url = "http://h"\nregistry_username = "u"\nregistry_token = "t"',
            "parser.registry_token",
            "keep one",
        ),
        ('registry_token = "t"', "parser.registry_token", "give registry_url"),
        (
            'framing = "apicurio"\nregistry_url = "http://h/apis/ccompat/v7"',
            "parser.registry_url",
            "use framing",
        ),
        (
            'framing = "glue"\nregistry_url = "https://h"\nregistry_token = "t"',
            "parser.registry_token",
            "credentials",
        ),
        (
            'registry_url = "http://h"\nregistry_use_id = "globalId"',
            "parser.registry_use_id",
            "apicurio",
        ),
        (
            'decoder = "regex"\npattern = "(?P<a>.)"\nregistry_url = "http://h"',
            "parser.registry_url",
            "only avro, json",
        ),
        (
            'decoder = "protobuf"\nregistry_url = "http://h"\nmessage = "a.B"',
            "parser.message",
            "the registry has the types",
        ),
        (
            'decoder = "protobuf"\nregistry_url = "http://h"\nencoding = "json"',
            "parser.encoding",
            "are binary",
        ),
        (
            'decoder = "avro"\nschema_file = "x"\nregistry_username = "u"',
            "parser.registry_username",
            "give registry_url",
        ),
        (
            'decoder = "none"\ntransforms = [{kind = "filter", field = "a", equals = 1}]',
            "parser.transforms.0.field",
            "reads no fields",
        ),
        (
            'plugin = "a:B"\ntransforms = [{kind = "route", field = "a", topics = ["x"]}]',
            "parser.transforms.0.field",
            "reads no fields",
        ),
        (
            'decoder = "regex"\npattern = "."\ntransforms = [{kind = "drop", field = "a"}]',
            "parser.transforms.0.field",
            "no group a; its groups: (?P<name>...)",
        ),
        (
            'transforms = [{kind = "filter", field = "a..b", exists = true}]',
            "parser.transforms.0.field",
            "names no field",
        ),
        (
            'transforms = [{kind = "filter", field = "a", equals = 2026-11-21}]',
            "parser.transforms.0.equals",
            "must be text, a number, true or false",
        ),
        (
            'transforms = [{kind = "filter", field = "a", one_of = []}]',
            "parser.transforms.0.one_of",
            "name the values",
        ),
        ('transforms = {kind = "drop", field = "a"}', "parser.transforms", "an array of tables"),
        ("transforms = [5]", "parser.transforms.0", "must be a table"),
        ('plugin = "places"', "parser.plugin", "module:Class"),
        ('plugin = "/etc/places.py:Place"', "parser.plugin", "module:Class"),
        (
            'transforms = [{kind = "plugin", plugin = "upper"}]',
            "parser.transforms.0.plugin",
            "module:Class",
        ),
        ('decoder = "jsn"', "parser.decoder", "json"),
        ("max_bad_ratio = 1.5", "parser.max_bad_ratio", "1"),
        ('plugin = "a:B"\nlayout = "x"', "parser.layout", "plug-in decides"),
        ("plugin_settings = {a = 1}", "parser.plugin_settings", "no parser.plugin"),
        ('lay_out = "x"', "parser.lay_out", "did you mean parser.layout?"),
        ('transforms = [{kind = "drop"}]', "parser.transforms.0.field", "needs the field"),
        (
            'transforms = [{kind = "drop", field = "a", to = "b"}]',
            "parser.transforms.0.to",
            "only field",
        ),
        ('transforms = [{kind = "drp", field = "a"}]', "parser.transforms.0.kind", "drop"),
        (
            'transforms = [{kind = "filter", field = "a", equal = 1}]',
            "parser.transforms.0.equal",
            "did you mean parser.transforms.0.equals?",
        ),
        (
            'transforms = [{kind = "filter", field = "a"}]',
            "parser.transforms.0.exists",
            "give one of",
        ),
        (
            'transforms = [{kind = "filter", field = "a", matches = "("}]',
            "parser.transforms.0.matches",
            "no regular expression",
        ),
        (
            'transforms = [{kind = "filter", field = "a", matches = "(?=a)."}]',
            "parser.transforms.0.matches",
            "look-around",
        ),
        (
            'transforms = [{kind = "mask", field = "a"}]',
            "parser.transforms.0.salt",
            "either a constant",
        ),
        (
            'transforms = [{kind = "rename", field = "a", to = "b.c"}]',
            "parser.transforms.0.to",
            "without dots",
        ),
        (
            'transforms = [{kind = "route", to = "../x"}]',
            "parser.transforms.0.to",
            "no name of a topic",
        ),
        (
            'transforms = [{kind = "route", field = "a"}]',
            "parser.transforms.0.topics",
            "name the topics",
        ),
        (
            'transforms = [{kind = "route", to = "x"}, {kind = "route", to = "y"}]',
            "parser.transforms",
            "one route",
        ),
        ('transforms = [{kind = "plugin"}]', "parser.transforms.0.plugin", "package.module"),
        (
            'transforms = [{kind = "drop", field = "a"}]',
            "parser.transforms",
            "drop would not show",
        ),
    ],
)
def test_line_29_what_cannot_be_or_does_nothing_is_a_fault(
    text: str, key: str, word: str, path: Path
) -> None:
    of_messages = word.endswith("would not show") or 'decoder = "none"' in text
    format = "text" if of_messages or "plugin" in text else "parquet"
    found = faults(path, f'[output]\nformat = "{format}"\n[parser]\n{text}\n')
    assert list(found) == [key]
    assert word in found[key]


def test_kinds_of_groups_refuse_each_others_settings(path: Path) -> None:
    assert list(faults(path, "[output]\noffsets_per_partition = 5\n")) == [
        "output.offsets_per_partition"
    ]
    backup = LEAST.replace('kind = "partition"', "") + '[parser]\nlayout = "x"\n'
    path.write_text(backup)
    with pytest.raises(
        ConfigurationError, match=r'parser: nothing is parsed where group\.kind is "b'
    ):
        load(path, {})


def test_a_rule_goes_over_the_general_parser_and_leaves_another_decoders_settings(
    path: Path,
) -> None:
    text = '[parser]\ndecoder = "regex"\npattern = "(?P<at>.*)"\ntime_field = "at"\n'
    parser = loaded(path, text + RULE).for_topic("o").parser
    assert (parser.decoder, parser.pattern, parser.time_field) == ("avro", None, "at")
    assert loaded(path, text + RULE).for_topic("x").parser.pattern == "(?P<at>.*)"


def test_the_registrys_settings_are_as_the_decoder_names_them() -> None:
    given: dict[str, Any] = {"registry_url": "http://r", "registry_username": "u"}
    parser = Parser.model_validate({"decoder": "avro", "registry_password": "p", **given})
    assert parser.settings_of_decoder() == {
        "registry": "http://r",
        "username": "u",
        "password": "p",
        "wait": 60.0,
    }
    given = {"registry_url": "https://r", "registry_token": "t", "registry_cafile": "c"}
    parser = Parser.model_validate({"decoder": "json", "framing": "confluent", **given})
    assert parser.settings_of_decoder() | {"token": "t", "cafile": "c"} == {
        "registry": "https://r",
        "framing": "confluent",
        "max_elements": 1_000_000,
        "token": "t",
        "cafile": "c",
        "wait": 60.0,
    }
    assert "'p'" not in repr(parser)


def test_show_has_the_transforms_without_their_salt(path: Path) -> None:
    path.write_text(
        LEAST
        + '[output]\nformat = "parquet"\n'
        + '[[parser.transforms]]\nkind = "mask"\nfield = "mail"\nsalt = "pepper"\n'
    )
    for arguments in (["show", str(path)], ["show", str(path), "--json"]):
        shown = CliRunner().invoke(command, arguments, catch_exceptions=False).stdout
        assert "mail" in shown
        assert "pepper" not in shown
    rows = json.loads(shown)
    assert {"key": "parser.decoder", "value": "json", "source": "default"} in rows


def test_a_plan_of_the_partition_group_parses_and_has_output_streams(path: Path) -> None:
    config = loaded(
        path,
        '[parser]\ntime_field = "at"\n'
        '[[parser.transforms]]\nkind = "route"\nfield = "t"\ntopics = ["clicks", "views"]\n'
        '[output]\nformat = "text"\n',
    )
    plan = plan_for(config, TP.topic)
    items = [{"at": 1_772_366_706}, {"at": 1_772_366_706, "t": "views"}, {}]
    parts = plan.parser.split(json_chunk(items))
    assert places(parts) == {
        "dt=2026-03-01": [0],
        "topic=views:dt=2026-03-01": [1],
        "quarantine:": [2],
    }
    roots = {part.stream: plan.stream(part.stream).root for part in parts}
    assert roots["topic=views"] == topic_root("partition", "views") + "/from=clicks"
    assert roots[QUARANTINE] == "partition/_quarantine/clicks"
    other = loaded(path, '[parser]\ntime_field = "other"\n[output]\nformat = "text"\n')
    assert plan_for(other, TP.topic).fingerprint != plan.fingerprint


def test_parquet_of_a_partition_group_holds_the_decoded_fields(path: Path) -> None:
    config = loaded(path, '[parser]\ntime_field = "at"\n[output]\nformat = "parquet"\n')
    kept = KeptSchema(1, pa.array([{"at": 1, "u": {"c": "x"}}]).type)
    plan = plan_for(config, TP.topic, kept=kept)
    [part] = plan.parser.split(json_chunk([{"at": 1_772_366_706, "u": {"c": "NL"}}] * 3))
    sink = io.BytesIO()
    writer = plan.log_format.create(sink, b"seed")
    writer.append(part.records)
    writer.close()
    rows = pq.read_table(io.BytesIO(sink.getvalue())).to_pylist()
    assert rows == [{"at": 1_772_366_706, "u": {"c": "NL"}, "_extra": None}] * 3
