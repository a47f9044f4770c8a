"""The example in ``config/`` is complete and tells the truth."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from secor.config import schema
from secor.config.load import load
from secor.config.model import Config

EXAMPLE = Path(__file__).parents[2] / "config" / "backup.toml"
KEY = re.compile(r"#?([a-z_0-9]+) = ")
RULES = ("topics",)


def uncommented(text: str) -> str:
    return re.sub(r"^#(?=[a-z_0-9]+ = )", "", text, flags=re.MULTILINE)


def keys_in(text: str) -> list[tuple[str, ...]]:
    found, table = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif match := KEY.match(line):
            found.append((*table.split("."), match[1]))
    return found


def test_the_example_loads_without_a_warning() -> None:
    config = load(EXAMPLE, {})
    assert config.group.kind == "backup"
    assert config.warnings == ()


def test_the_example_names_every_key_once_and_in_the_order_of_the_model() -> None:
    assert keys_in(EXAMPLE.read_text()) == [key for key in schema.every_key() if key != RULES]


def test_every_commented_value_is_the_default(tmp_path: Path) -> None:
    whole = tmp_path / "whole.toml"
    whole.write_text(uncommented(EXAMPLE.read_text()))
    shown = load(whole, {})
    assert shown.model_dump() == load(EXAMPLE, {}).model_dump()
    assert shown.source("policy.max_age") == "file"


def test_every_key_of_the_example_has_a_comment_above_it_or_above_its_neighbours() -> None:
    paragraph_has_words = False
    for line in EXAMPLE.read_text().splitlines():
        if line.startswith("# "):
            paragraph_has_words = True
        elif not line or line.startswith("["):
            paragraph_has_words = False
        elif KEY.match(line):
            assert paragraph_has_words, line


@pytest.mark.parametrize("rule", ["audit-1"])
def test_the_rule_in_the_closing_comment_works(rule: str, tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    closing = text[text.index("# [[topics]]") :].replace("# ", "")
    path = tmp_path / "rules.toml"
    path.write_text(text + closing)
    chosen = load(path, {}).for_topic(rule)
    assert (chosen.output.format, chosen.output.codec) == ("parquet", "zstd")
    assert chosen.policy.max_age == 3600
    assert isinstance(load(path, {}), Config)
