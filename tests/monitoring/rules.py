"""The alert rules as data, and made quick for tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).parents[2] / "config" / "prometheus" / "secor.rules.yml"

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"\b(\d+)([smhd])\b")
_THRESHOLD = re.compile(r"(_seconds\w*[^<>]*[<>] )(\d+)")


def rules() -> list[dict[str, Any]]:
    """Return the rules of the file, recording rules as well."""
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def quicker(rule: dict[str, Any], factor: int) -> dict[str, Any]:
    """Return the rule with all times divided by ``factor``, and nothing else changed.

    Times are: ``for``; durations in the expression (ranges, offsets); and numbers that
    something is compared with whose name ends in ``_seconds``.
    """

    def duration(match: re.Match[str]) -> str:
        return f"{int(match[1]) * _UNITS[match[2]] * 1000 // factor}ms"

    def threshold(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) / factor:g}"

    expression = _THRESHOLD.sub(threshold, _DURATION.sub(duration, rule["expr"]))
    changed = rule | {"expr": expression}
    if "for" in rule:
        changed["for"] = _DURATION.sub(duration, rule["for"])
    return changed


def write_quicker(path: Path, factor: int) -> Path:
    """Write the rules with their times divided by ``factor``."""
    group = {"name": "secor", "rules": [quicker(rule, factor) for rule in rules()]}
    path.write_text(yaml.safe_dump({"groups": [group]}, width=1000))
    return path
