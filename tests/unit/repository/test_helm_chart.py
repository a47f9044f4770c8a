"""The Helm chart makes what config/kubernetes has, and refuses values that it does not know.

What Helm makes of the chart is in ``tests/vectors/helm``; ``python -m tools.helm_chart`` writes it,
after Helm has accepted and refused what it should.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from secor.config.load import load, load_as
from secor.config.restore import RestoreConfig
from tools import helm_chart

ADDED_BY_THE_CHART = {"annotations", "imagePullPolicy", "labels", "matchLabels", "selector"}

Objects = dict[str, dict[str, Any]]


def rendered(name: str) -> Objects:
    text = (helm_chart.RENDERED / f"{name}.yaml").read_text()
    described = [it for it in yaml.safe_load_all(text) if it]
    assert len({it["kind"] for it in described}) == len(described)
    return {it["kind"]: it for it in described}


def without_additions(described: Any) -> Any:
    """Return the object without the keys that the chart adds to."""
    if isinstance(described, dict):
        kept = described.keys() - ADDED_BY_THE_CHART
        return {key: without_additions(described[key]) for key in kept}
    if isinstance(described, list):
        return [without_additions(entry) for entry in described]
    return described


def defaults() -> Any:
    return yaml.safe_load((helm_chart.CHART / "values.yaml").read_text())


def test_what_is_kept_was_rendered_from_this_chart() -> None:
    kept = helm_chart.DIGEST.read_text().strip()
    assert kept == helm_chart.digest(), "the chart has changed: python -m tools.helm_chart"
    names = {path.stem for path in helm_chart.RENDERED.glob("*.yaml")}
    assert names == helm_chart.cases().keys()


def test_the_chart_is_of_the_version_of_secor() -> None:
    chart = yaml.safe_load((helm_chart.CHART / "Chart.yaml").read_text())
    image = helm_chart.example("secor.yaml")["StatefulSet"]["spec"]["template"]["spec"]
    assert image["containers"][0]["image"] == f"secor:{chart['appVersion']}"
    assert chart["version"].replace("-", "") == chart["appVersion"]


def test_a_release_is_what_the_example_for_kubernetes_has() -> None:
    release = rendered("backup")
    expected = helm_chart.example("secor.yaml")
    assert release.keys() == expected.keys()
    for kind, described in expected.items():
        assert without_additions(release[kind]) == without_additions(described), kind


def test_what_selects_pods_selects_those_of_the_group_alone() -> None:
    release = rendered("everything")
    pod = release["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    other = release["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        release["StatefulSet"]["spec"]["selector"]["matchLabels"],
        release["Service"]["spec"]["selector"],
        rendered("backup")["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
        | {"app.kubernetes.io/instance": "everything"},
    ):
        assert selector.items() <= pod.items()
        assert not selector.items() <= other.items()
    monitored = release["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= release["Service"]["metadata"]["labels"].items()


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("name", helm_chart.cases())
def test_the_objects_are_what_kubernetes_knows(name: str, version: str) -> None:
    for kind, described in rendered(name).items():
        if kind != "ServiceMonitor":
            kubernetes_validate.validate(described, version, strict=True)


def test_the_configuration_arrives_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "secor.toml"
    release = rendered("backup")
    path.write_text(release["ConfigMap"]["data"]["secor.toml"])
    assert load(path, release["Secret"]["stringData"]).group.name == "backup"
    release = rendered("restore")
    path.write_text(release["ConfigMap"]["data"]["secor.toml"])
    assert path.read_text() == helm_chart.cases()["restore"]["config"]
    load_as(RestoreConfig, path, release["Secret"]["stringData"])


def test_a_restore_is_a_job() -> None:
    release = rendered("restore")
    assert release.keys() == {"ConfigMap", "Secret", "ServiceAccount", "Job"}
    expected = helm_chart.example("restore.yaml")["Job"]["spec"]
    assert release["Job"]["spec"]["podFailurePolicy"] == expected["podFailurePolicy"]
    assert release["Job"]["spec"]["completions"] == expected["completions"]


def test_a_secret_that_is_there_is_used_and_none_is_made() -> None:
    release = rendered("everything")
    assert "Secret" not in release
    (container,) = release["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    (container,) = rendered("no-secret")["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert "envFrom" not in container


def test_another_configuration_or_secret_restarts_the_pods() -> None:
    def annotations(name: str) -> Any:
        return rendered(name)["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]

    before = annotations("backup")
    assert annotations("other-config")["checksum/config"] != before["checksum/config"]
    assert annotations("other-config")["checksum/secret"] == before["checksum/secret"]
    assert annotations("other-secret")["checksum/secret"] != before["checksum/secret"]


def test_the_schema_has_every_value() -> None:
    schema = json.loads((helm_chart.CHART / "values.schema.json").read_text())
    assert schema["properties"].keys() - {"global"} == defaults().keys()
