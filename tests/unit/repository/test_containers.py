"""The image and the example for Kubernetes, as far as can be said without an engine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from dockerfile_parse import DockerfileParser

from secor.cli.exit_codes import Exit
from secor.config import environment, schema
from secor.config.load import load, load_as
from secor.config.model import Config
from secor.config.restore import RestoreConfig
from secor.core.clock import SystemClock
from secor.service.monitoring.health import Health, HealthServer
from secor.wiring.service import DRAIN, STUCK

ROOT = Path(__file__).parents[3]
EXAMPLES = [ROOT / "config" / "kubernetes" / name for name in ("secor.yaml", "table.yaml")]
SETTINGS = {environment.variable_name(key) for key in schema.every_key()}
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


# ------------------------------------------------------------------ the image


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    with (ROOT / "Dockerfile").open("rb") as file:
        parsed = DockerfileParser(fileobj=file).structure
    return [(one["instruction"], one["value"]) for one in parsed if one["instruction"] != "COMMENT"]


def last(steps: list[tuple[str, str]], name: str) -> str:
    return [value for instruction, value in steps if instruction == name][-1]


def test_the_image_is_made_in_two_stages_of_one_python(steps: list[tuple[str, str]]) -> None:
    bases = [value for instruction, value in steps if instruction == "FROM"]
    base = "python:${PYTHON}-slim${DIGEST:+@${DIGEST}}"
    assert bases == [f"{base} AS build", base]
    (python,) = re.findall(r"^PYTHON=3\.(\d+)$", last(steps[:1], "ARG"))
    assert int(python) >= 11


def test_the_image_runs_without_rights_and_obeys_signals(steps: list[tuple[str, str]]) -> None:
    assert last(steps, "USER") == "10001:10001"
    assert json.loads(last(steps, "ENTRYPOINT"))[:2] == ["/usr/bin/tini", "--"]
    assert json.loads(last(steps, "CMD")) == ["run", "/etc/secor/secor.toml"]
    after_user = [name for name, _ in steps[steps.index(("USER", "10001:10001")) :]]
    assert "RUN" not in after_user
    assert "COPY" not in after_user
    assert not [value for name, value in steps if name in {"ENV", "ARG"} and "SECRET" in value]


def test_what_is_copied_into_the_image_is_there_and_not_ignored(
    steps: list[tuple[str, str]],
) -> None:
    kept = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    copied = [value.split()[:-1] for name, value in steps if name == "COPY"]
    ours = {Path(name).name for names in copied for name in names if not name.startswith("-")}
    ours.discard("secor")  # also what the second stage takes from the first
    expected = {"setup.py", "pyproject.toml", "README.md", "LICENSE", "config", "systemd"}
    assert expected == ours == kept - {"secor"}
    assert all((ROOT / name).exists() for name in kept)


def test_every_variable_of_the_image_is_a_setting(steps: list[tuple[str, str]]) -> None:
    given = set(re.findall(r"\b(SECOR_\w+)=", last(steps, "ENV")))
    assert given
    assert given <= SETTINGS


@pytest.fixture
def server() -> Iterator[tuple[HealthServer, list[float]]]:
    limit = [STUCK]

    class Slow(Health):
        def alive(self) -> Any:
            self._limit = limit[0]
            return super().alive()

    made = HealthServer(
        "127.0.0.1", 0, health=Slow(SystemClock(), limit=STUCK), metrics=lambda: b""
    )
    made.start()
    yield made, limit
    made.close()


def test_the_health_check_sees_a_loop_that_stands_still(
    steps: list[tuple[str, str]], server: tuple[HealthServer, list[float]]
) -> None:
    running, limit = server
    command = json.loads(last(steps, "HEALTHCHECK").partition("CMD ")[2])
    assert command[0] == "/opt/secor/bin/python"

    def check() -> int:
        environment = {"SECOR_METRICS__PORT": str(running.port)}
        done = subprocess.run(
            [sys.executable, *command[1:]], env=environment, capture_output=True, check=False
        )
        return done.returncode

    assert check() == 0
    limit[0] = -1.0
    assert check() == 1


# ----------------------------------------------------------------- Kubernetes


@pytest.fixture(scope="module", params=EXAMPLES, ids=[path.stem for path in EXAMPLES])
def objects(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(request.param.read_text())}


@pytest.fixture(scope="module")
def config(objects: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Config:
    path = tmp_path_factory.mktemp("etc") / "secor.toml"
    path.write_text(objects["ConfigMap"]["data"]["secor.toml"])
    return load(path, objects["Secret"]["stringData"])


@pytest.fixture(scope="module")
def pod(objects: dict[str, Any]) -> Any:
    return objects["StatefulSet"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> Any:
    (only,) = pod["containers"]
    return only


def bytes_of(quantity: str) -> int:
    return int(quantity[:-2]) * UNITS[quantity[-2:]]


BUILT_IN = (
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "Service",
    "StatefulSet",
    "PodDisruptionBudget",
)


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("kind", BUILT_IN)
def test_the_objects_are_what_kubernetes_knows(
    kind: str, version: str, objects: dict[str, Any]
) -> None:
    assert set(objects) == {*BUILT_IN, "ServiceMonitor"}
    kubernetes_validate.validate(objects[kind], version, strict=True)


def test_the_check_by_schema_finds_what_is_wrong(objects: dict[str, Any]) -> None:
    wrong = {**objects["StatefulSet"], "spec": {**objects["StatefulSet"]["spec"], "replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_the_example_is_a_configuration(objects: dict[str, Any], config: Config) -> None:
    assert config.metrics.username == "prometheus"
    references = set(re.findall(r"\$\{(\w+)\}", objects["ConfigMap"]["data"]["secor.toml"]))
    assert set(objects["Secret"]["stringData"]) <= SETTINGS | references
    assert config.group.name == objects["ConfigMap"]["metadata"]["name"].removeprefix("secor-")


def test_every_object_means_the_same_pods(objects: dict[str, Any]) -> None:
    labels = objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert objects["StatefulSet"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    monitored = objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= objects["Service"]["metadata"]["labels"].items()
    name = objects["StatefulSet"]["spec"]["serviceName"]
    assert name == objects["Service"]["metadata"]["name"]


def test_ports_are_called_alike(objects: dict[str, Any], container: dict[str, Any]) -> None:
    (port,) = container["ports"]
    (offered,) = objects["Service"]["spec"]["ports"]
    (scraped,) = objects["ServiceMonitor"]["spec"]["endpoints"]
    assert offered["targetPort"] == port["name"]
    assert scraped["port"] == offered["name"]
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[kind]["httpGet"]["port"] == port["name"]
    image = (ROOT / "Dockerfile").read_text()
    assert f"SECOR_METRICS__PORT={port['containerPort']}" in image
    for key in scraped["basicAuth"].values():
        assert key["name"] == objects["Secret"]["metadata"]["name"]
        assert key["key"] in objects["Secret"]["stringData"]


def test_kubernetes_waits_longer_than_the_drain(pod: dict[str, Any]) -> None:
    assert pod["terminationGracePeriodSeconds"] >= DRAIN + 30


def test_only_a_loop_that_stands_still_is_restarted(container: dict[str, Any]) -> None:
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    start = container["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 60


def test_the_cache_has_room_for_what_the_configuration_allows(
    config: Config, pod: dict[str, Any], container: dict[str, Any]
) -> None:
    (room,) = [one["emptyDir"]["sizeLimit"] for one in pod["volumes"] if "emptyDir" in one]
    assert bytes_of(room) > config.limits.local_bytes
    assert bytes_of(container["resources"]["limits"]["ephemeral-storage"]) > bytes_of(room)
    # Python, Arrow and the clients take some 200 MiB beside the batches, the Iceberg library 70.
    needed = config.limits.memory + ((384 if config.group.kind == "table" else 256) << 20)
    assert bytes_of(container["resources"]["requests"]["memory"]) >= needed


def test_the_pods_have_no_rights(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"USER {pod['securityContext']['runAsUser']}:" in (ROOT / "Dockerfile").read_text()
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container["securityContext"]
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    mounted = {one["mountPath"] for one in container["volumeMounts"]}
    assert mounted == {"/etc/secor", "/var/cache/secor"}


# -------------------------------------------------------------------- a restore


@pytest.fixture(scope="module")
def restore() -> dict[str, Any]:
    text = (ROOT / "config" / "kubernetes" / "restore.yaml").read_text()
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_the_objects_of_a_restore_are_what_kubernetes_knows(
    version: str, restore: dict[str, Any]
) -> None:
    assert set(restore) == {"ConfigMap", "Secret", "Job"}
    for described in restore.values():
        kubernetes_validate.validate(described, version, strict=True)


def test_the_job_of_a_restore_is_one_and_fits_its_pod(
    restore: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "restore.toml"
    path.write_text(restore["ConfigMap"]["data"]["restore.toml"])
    job, _ = load_as(RestoreConfig, path, restore["Secret"]["stringData"])
    spec = restore["Job"]["spec"]
    pod = spec["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > job.writing.transaction_timeout
    (container,) = pod["containers"]
    assert container["args"] == ["restore", "run", f"/etc/secor/{path.name}"]
    # The image gives the port; the job's own default is to serve nothing.
    image = (ROOT / "Dockerfile").read_text()
    assert f"SECOR_METRICS__PORT={container['ports'][0]['containerPort']}" in image
    (rule,) = spec["podFailurePolicy"]["rules"]
    fatal = [Exit.CONFIGURATION, Exit.DENIED, Exit.DIFFERENT]
    assert rule["onExitCodes"]["values"] == fatal
