"""``secor schema fetch`` asks a registry over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secor.cli.parsing.schema import command
from secor.core.errors import ConfigurationError, NotFound
from tests.fakes.registry import running_registry

CONFIG = """
[group]
name = "g"
kind = "partition"
[kafka]
bootstrap_servers = ["127.0.0.1:1"]
topics = ["clicks"]
[store]
kind = "local"
[store.local]
directory = "/nowhere"
[parser]
"""
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}


def fetch(path: Path, schema_id: int, parser: str) -> Result:
    path.write_text(CONFIG + parser)
    given = ["fetch", str(path), "clicks", str(schema_id)]
    return CliRunner().invoke(command, given, catch_exceptions=False, standalone_mode=False)


def test_a_registered_schema_is_printed_as_the_setting_takes_it(tmp_path: Path) -> None:
    with running_registry() as registry:
        registry.register(17, SCHEMA)
        registry.register(18, "message M {}", kind="PROTOBUF")
        parser = f'decoder = "avro"\nregistry_url = "{registry.url}"\n'
        assert json.loads(fetch(tmp_path / "c", 17, parser).stdout) == SCHEMA
        with pytest.raises(ConfigurationError, match="18 is of kind PROTOBUF"):
            fetch(tmp_path / "c", 18, parser)
        with pytest.raises(NotFound, match="schema id 19"):
            fetch(tmp_path / "c", 19, parser)


def test_without_a_registry_the_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"parser\.registry_url"):
        fetch(tmp_path / "c", 17, "")
