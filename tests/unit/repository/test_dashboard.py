"""The dashboard without a Prometheus: it asks for what exists, and is whole."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from secor.service.metrics import Metrics
from secor.service.monitoring.last_run import BACKFILL, COMPACT, EXPIRE, FINALIZE
from secor.service.restore_metrics import RestoreMetrics
from tests.monitoring.dashboard import Query, dashboard, panels, queries

OF_TARGETS = {"job", "instance", "group"}
"""The labels that the scrape configuration gives to every series."""


def labels_of_metrics() -> dict[str, set[str]]:
    metrics = Metrics()
    known = {"up": OF_TARGETS}
    for family in metrics.registry.collect():
        known |= {sample.name: OF_TARGETS for sample in family.samples}
    for it in (
        *metrics.definitions,
        *RestoreMetrics().definitions,
        *FINALIZE,
        *COMPACT,
        *BACKFILL,
        *EXPIRE,
    ):
        labels = OF_TARGETS | set(it.labels)
        if it.kind == "histogram":
            known[f"{it.name}_bucket"] = labels | {"le"}
            known |= {f"{it.name}_{part}": labels for part in ("sum", "count")}
        else:
            known[it.name] = labels
    return known


KNOWN = labels_of_metrics()
LEFT_BEHIND = {it.name for it in (*FINALIZE, *COMPACT, *BACKFILL, *EXPIRE)}


@pytest.mark.parametrize("query", queries(), ids=lambda query: f"{query.panel}: {query.legend}")
def test_every_query_asks_for_metrics_and_labels_that_exist(query: Query) -> None:
    selected = list(query.selected())
    assert {name for name, _ in selected} == set(
        re.findall(r"\b(?:secor_\w+|process_\w+|up)\b", query.expression)
    ), "a metric without a selector ignores the variables"
    left = query.grouped()
    for name, labels in selected:
        assert labels <= KNOWN[name]
        assert left is None or left <= KNOWN[name]
        assert query.told() <= (KNOWN[name] if left is None else left)
        wanted = {"group", "instance", "topic"} & KNOWN[name]
        # What a timer's command leaves has the instance of whoever hands it to Prometheus.
        assert labels >= wanted - ({"instance"} if name in LEFT_BEHIND else set())


def test_every_metric_of_a_process_is_on_it() -> None:
    used = {name for query in queries() for name, _ in query.selected()}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    definitions = (*Metrics().definitions, *RestoreMetrics().definitions)
    assert {definition.name for definition in definitions} <= shown


def test_variables_are_defined_and_used() -> None:
    defined = {it["name"]: it for it in dashboard()["templating"]["list"]}
    used = set().union(*(query.variables() for query in queries()))
    assert used == {"group", "topic", "instance", "__rate_interval", "__range"}
    assert set(defined) == {"datasource", "group", "topic", "instance"}
    for name in ("group", "topic", "instance"):
        asked = re.fullmatch(r"label_values\((\w+).*, (\w+)\)", defined[name]["query"]["query"])
        assert asked is not None
        assert asked[2] == name
        assert name in KNOWN[asked[1]]
        # Also where no target has the label "group".
        assert defined[name]["allValue"] == ".*"


def test_every_panel_asks_the_chosen_prometheus_and_says_what_it_shows() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels():
        assert panel["datasource"] == chosen
        assert all(target["datasource"] == chosen for target in panel["targets"])
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0


def test_panels_have_names_of_their_own_and_do_not_overlap() -> None:
    everything = dashboard()["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in everything)
    for one, other in itertools.combinations(everything, 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )
