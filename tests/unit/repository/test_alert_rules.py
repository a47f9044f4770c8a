"""The alert rules: what they name exists, and the runbook has a section for each."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from secor.cli.main import cli
from secor.service.metrics import Metrics
from secor.service.monitoring.last_run import BACKFILL, COMPACT, DRILL, EXPIRE, FINALIZE
from secor.service.restore_metrics import RestoreMetrics

ROOT = Path(__file__).parents[3]
METRICS = (ROOT / "config" / "METRICS.md").read_text()
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
LEADS = ("**Means**", "**Data", "**Look**", "**Do**", "**Clears**")

TARGET = {"job", "group", "instance"}
"""Labels that a scrape gives, beside those of the metric."""


def alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((ROOT / "config/prometheus/secor.rules.yml").read_text())["groups"]
    return [rule for rule in group["rules"] if "alert" in rule]


def sections() -> dict[str, str]:
    parts = re.split(r"^#+ (.+)$", RUNBOOK, flags=re.MULTILINE)[1:]
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    return {name: text for name, text in found.items() if re.fullmatch(r"Secor\w+", name)}


def named(rule: dict[str, Any]) -> set[str]:
    """Return the names of metrics in a rule's expression."""
    found = re.findall(r"\b(?:secor|process)_\w+|\bup\b", rule["expr"])
    return {re.sub(r"_(?:bucket|sum|count)$", "", name) for name in found}


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    texts = rule["annotations"]
    assert set(texts) == {"summary", "action", "runbook_url"}
    assert "{{" in texts["summary"]
    assert texts["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_names_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    definitions = (
        *Metrics().definitions,
        *RestoreMetrics().definitions,
        *FINALIZE,
        *COMPACT,
        *BACKFILL,
        *EXPIRE,
        *DRILL,
    )
    known = {definition.name: definition for definition in definitions}
    names = named(rule)
    assert names
    for name in names:
        assert f"`{name}`" in METRICS
    labels = {label for name in names if name in known for label in known[name].labels} | TARGET
    texts = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= labels
    assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", rule["expr"])) <= labels


def test_every_alert_has_a_section_of_the_runbook_and_every_section_an_alert() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(names) > 20
    assert list(sections()) == names


@pytest.mark.parametrize(("name", "text"), list(sections().items()), ids=list(sections()))
def test_a_section_tells_all_that_a_person_on_call_wants_to_know(name: str, text: str) -> None:
    places = [text.find(lead) for lead in LEADS]
    assert -1 not in places, name
    assert places == sorted(places)


def test_every_reason_to_stop_is_in_the_runbook() -> None:
    from secor.core import errors

    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.StopPartition)
    ]
    assert len(kinds) > 10
    text = sections()["SecorPartitionStopped"]
    for kind in kinds:
        assert f"`{kind.reason}`" in text or kind.reason == "topic_recreated"


def commands() -> list[str]:
    lines = re.findall(r"^    (secor .+?)(?: +#.*)?$", RUNBOOK, flags=re.MULTILINE)
    return sorted({*lines, *re.findall(r"`(secor [a-z]+ [^`]+)`", RUNBOOK)})


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_runbook_is_understood(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(cli, info_name="secor")
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    if words:  # else only its name is said
        command.make_context(command.name, words)


def test_the_runbook_s_other_names_of_alerts_exist() -> None:
    names = {rule["alert"] for rule in alerts()}
    assert set(re.findall(r"\bSecor[A-Z]\w+", RUNBOOK)) <= names
