"""Lint and render the Helm chart: ``python -m tools.helm_chart``, after every change of it.

Helm is the one on the PATH; ``go install helm.sh/helm/v3/cmd/helm@v3.19.0`` makes one.  What it
renders is kept in ``tests/vectors/helm``, with a digest of the chart, so that the tests need no
Helm and fail when the chart has changed since.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "config" / "helm" / "secor"
KUBERNETES = ROOT / "config" / "kubernetes"
RENDERED = ROOT / "tests" / "vectors" / "helm"
DIGEST = RENDERED / "chart.sha256"
VERSION_OF_KUBERNETES = "1.33.0"

REFUSED: list[dict[str, Any]] = [
    {"replica": 2},
    {"replicas": 0},
    {"mode": "daemon"},
    {"config": ""},
    {"secret": {"values": {"a-b": "c"}}},
    {"secret": {"value": {}}},
    {"image": {"repository": ""}},
    {"cache": {"size": "much"}},
]
"""Values that the chart's schema has to refuse."""


def example(name: str) -> dict[str, dict[str, Any]]:
    """Return the objects of an example in ``config/kubernetes``, by kind."""
    text = (KUBERNETES / name).read_text()
    return {described["kind"]: described for described in yaml.safe_load_all(text)}


def cases() -> dict[str, dict[str, Any]]:
    """Return values by the name of the file in ``RENDERED``, which is also the release's."""
    backup = {
        "secret": {"values": example("secor.yaml")["Secret"]["stringData"]},
        "serviceMonitor": {"enabled": True},
    }
    restore = example("restore.yaml")
    return {
        "backup": backup,
        "other-config": {**backup, "config": '[group]\nname = "other"\n'},
        "other-secret": {**backup, "secret": {"values": {"SECOR_STORE__S3__ACCESS_KEY": "a"}}},
        "no-secret": {"podDisruptionBudget": {"enabled": False}},
        "restore": {
            "mode": "restore",
            "config": restore["ConfigMap"]["data"]["restore.toml"],
            "secret": {"values": restore["Secret"]["stringData"]},
            "terminationGracePeriodSeconds": 90,
        },
        "everything": {
            "image": {"repository": "registry.example/secor", "tag": "2", "pullPolicy": "Always"},
            "imagePullSecrets": [{"name": "registry"}],
            "secret": {"existing": "keys"},
            "finalize": {"enabled": True, "schedule": "5 * * * *"},
            "serviceMonitor": {"enabled": True, "basicAuth": False, "labels": {"release": "ops"}},
            "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:x"}},
            "extraVolumes": [{"name": "tls", "secret": {"secretName": "kafka-tls"}}],
            "extraVolumeMounts": [{"name": "tls", "mountPath": "/etc/tls", "readOnly": True}],
            "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
            "tolerations": [{"key": "logs", "operator": "Exists"}],
            "nodeSelector": {"disk": "nvme"},
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "high",
            "podLabels": {"team": "logs"},
            "podAnnotations": {"note": "x"},
        },
    }


def digest() -> str:
    """Return the SHA-256 over all files of the chart and the values of the cases."""
    sum_ = hashlib.sha256(json.dumps([cases(), REFUSED], sort_keys=True).encode())
    for path in sorted(CHART.rglob("*")):
        if path.is_file():
            sum_.update(f"\n{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    return sum_.hexdigest()


def helm(command: str, *arguments: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run ``helm`` on the chart, with ``values``."""
    options = ["--kube-version", VERSION_OF_KUBERNETES, "--values", "-"]
    return subprocess.run(
        ["helm", command, *arguments, str(CHART), *options],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )


def accepted(command: str, *arguments: str, values: dict[str, Any]) -> str:
    """Return what ``helm`` prints for the chart; end with its error."""
    ended = helm(command, *arguments, values=values)
    if ended.returncode:
        sys.exit(f"helm {command} refuses {values}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def main() -> None:
    """Lint, try what must be refused, render, and write the digest."""
    RENDERED.mkdir(parents=True, exist_ok=True)
    for values in REFUSED:
        if helm("template", "refused", values=values).returncode == 0:
            sys.exit(f"the schema of the chart takes {values}")
    accepted("lint", "--strict", values={})
    for name, values in cases().items():
        accepted("lint", "--strict", values=values)
        (RENDERED / f"{name}.yaml").write_text(accepted("template", name, values=values))
    DIGEST.write_text(digest() + "\n")
    print(
        f"linted; {len(REFUSED)} cases refused, "
        f"{len(cases())} rendered into {RENDERED.relative_to(ROOT)}"
    )


if __name__ == "__main__":
    main()
