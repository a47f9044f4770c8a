"""The rules in promtool: each alert fires when it should, and does not when it should not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from secor.sandbox.sandbox import quiet
from tests.monitoring.rules import RULES, alerts, quicker, write_quicker
from tests.programs import program

CASES = sorted((Path(__file__).parent / "alerts").glob("*.yml"))
ALIKE = ("action", "runbook_url")
LABEL = r"{{ \$labels\.(\w+) }}"


def promtool(*arguments: object) -> str:
    """Return its output; fails the test where it finds fault."""
    command = [str(program("promtool", quiet)), *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def checks(path: Path) -> list[dict[str, Any]]:
    tests = yaml.safe_load(path.read_text())["tests"]
    return [check for test in tests for check in test["alert_rule_test"]]


def completed(path: Path) -> dict[str, Any]:
    """Return a file of tests with what every alert of a rule says alike."""
    file = yaml.safe_load(path.read_text()) | {"rule_files": [str(RULES)]}
    known = alerts()
    for test in file["tests"]:
        for check in test["alert_rule_test"]:
            rule = known[check["alertname"]]
            check["exp_alerts"] = [_completed(one, rule) for one in check["exp_alerts"]]
    return file


def _completed(alert: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    labels = alert["exp_labels"]

    def label(match: re.Match[str]) -> str:
        return str(labels[match[1]])

    texts = {key: re.sub(LABEL, label, rule["annotations"][key]) for key in ALIKE}
    return {
        "exp_labels": labels | rule["labels"],
        "exp_annotations": alert["exp_annotations"] | texts,
    }


def test_prometheus_takes_the_example_configuration_and_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", RULES.parent / "prometheus.yml")
    assert "lint" not in promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)


@pytest.mark.parametrize("path", CASES, ids=lambda path: str(path.stem))
def test_alerts_fire_and_clear_as_they_should(path: Path, tmp_path: Path) -> None:
    file = tmp_path / path.name
    file.write_text(yaml.safe_dump(completed(path)))
    assert "SUCCESS" in promtool("test", "rules", file)


def test_every_alert_is_tested_firing_and_not_firing() -> None:
    found = [check for path in CASES for check in checks(path)]
    for wanted in (True, False):
        tested = {check["alertname"] for check in found if bool(check["exp_alerts"]) is wanted}
        assert tested == set(alerts())


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    file = completed(CASES[0])
    file["tests"][0]["alert_rule_test"][0]["exp_alerts"] = [{"exp_labels": {"job": "secor"}}]
    path = tmp_path / "wrong.yml"
    path.write_text(yaml.safe_dump(file))
    with pytest.raises(AssertionError, match="FAILED"):
        promtool("test", "rules", path)


@pytest.mark.parametrize(
    ("rule", "quick"),
    [
        (
            {"expr": "secor_lag_seconds > 900 and deriv(secor_lag_seconds[15m]) > 0", "for": "15m"},
            {"expr": "secor_lag_seconds > 15 and deriv(secor_lag_seconds[15000ms]) > 0"},
        ),
        (
            {"expr": "increase(secor_restarts_total[1h]) > 60 or x offset 1h", "for": "3m"},
            {"expr": "increase(secor_restarts_total[60000ms]) > 60 or x offset 60000ms"},
        ),
        (
            {"expr": "time() - max(secor_x_timestamp_seconds) > 86400", "for": "5m"},
            {"expr": "time() - max(secor_x_timestamp_seconds) > 1440"},
        ),
    ],
)
def test_quicker_rules_have_other_times_and_the_same_rest(
    rule: dict[str, Any], quick: dict[str, Any]
) -> None:
    seconds = int(rule["for"].removesuffix("m"))
    assert quicker(rule, 60) == rule | quick | {"for": f"{seconds * 1000}ms"}


def test_prometheus_takes_the_quicker_rules(tmp_path: Path) -> None:
    path = write_quicker(tmp_path / "quick.yml", 60)
    assert "[15m]" in RULES.read_text()
    assert "[15m]" not in path.read_text()
    assert "SUCCESS" in promtool("check", "rules", path)
