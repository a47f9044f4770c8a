"""The dashboard as data: its panels and queries, and what Grafana makes of its variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parents[2] / "config" / "grafana" / "secor.json"

_SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
_BY = re.compile(r"\bby \(([^)]*)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel."""

    panel: str
    expression: str
    legend: str

    def selected(self) -> Iterator[tuple[str, set[str]]]:
        """Give each metric with the labels that it is chosen by."""
        for name, matchers in _SELECTOR.findall(self.expression):
            yield name, set(re.findall(r"(\w+)=", matchers))

    def grouped(self) -> set[str] | None:
        """Return the labels that are left by aggregations; None without any."""
        found = _BY.findall(self.expression)
        return {name.strip() for each in found for name in each.split(",")} if found else None

    def told(self) -> set[str]:
        """Return the labels that the legend names."""
        return set(_LEGEND.findall(self.legend))

    def variables(self) -> set[str]:
        """Return the variables that it uses."""
        return set(_VARIABLE.findall(self.expression))

    def filled(self, chosen: Mapping[str, str]) -> str:
        """Return what Prometheus is asked when a person has ``chosen`` these."""
        given = {"__rate_interval": "1m", "__range": "5m"} | dict(chosen)
        return _VARIABLE.sub(lambda match: given.get(match[1], ".*"), self.expression)


def dashboard() -> dict[str, Any]:
    """Return the file's content."""
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def panels() -> list[dict[str, Any]]:
    """Return the panels, rows left out."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> list[Query]:
    """Return all queries of all panels."""
    return [
        Query(panel["title"], target["expr"], target["legendFormat"])
        for panel in panels()
        for target in panel["targets"]
    ]
