"""The service units: what they promise about our exit codes, and that systemd reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from secor.cli.exits import Exit
from secor.config import environment, schema
from secor.wiring.service import DRAIN

UNITS = Path(__file__).parents[2] / "systemd"


def directives(name: str) -> dict[str, list[str]]:
    """Return the values of each directive; systemd lets some be given several times."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


SERVICE = directives("secor@.service")
CHECKED = (
    "secor@.service",
    "secor.target",
    "secor-finalize@.service",
    "secor-finalize@.timer",
    "secor-backfill.service",
    "secor-backfill.timer",
)


def test_a_wrong_configuration_is_not_tried_again() -> None:
    assert SERVICE["Restart"] == ["on-failure"]
    assert SERVICE["RestartPreventExitStatus"] == [str(int(Exit.CONFIGURATION))]


def test_the_process_tells_when_it_is_ready_and_that_it_is_alive() -> None:
    assert SERVICE["Type"] == ["notify"]
    assert int(SERVICE["WatchdogSec"][0]) >= 30


def test_systemd_waits_longer_than_the_drain() -> None:
    assert int(SERVICE["TimeoutStopSec"][0]) > DRAIN


def test_every_variable_in_the_unit_is_a_setting() -> None:
    known = {environment.variable_name(key) for key in schema.every_key()}
    given = {value.partition("=")[0] for value in SERVICE["Environment"]}
    assert given
    assert given <= known


def test_the_configuration_is_named_by_the_instance_up_to_its_last_dash() -> None:
    script = SERVICE["ExecStart"][0].split("'")[1].replace("$$", "$").replace("%%", "%")
    script = script.replace("exec /opt/secor/bin/secor run", "echo")
    for instance, named in {
        "backup-1": "/etc/secor/backup.toml",
        "raw-logs-12": "/etc/secor/raw-logs.toml",
        "backup": "/etc/secor/backup.toml",
    }.items():
        answer = subprocess.run(
            ["/bin/sh", "-c", script, instance], capture_output=True, text=True, check=True
        )
        assert answer.stdout.strip() == named


if shutil.which("systemd-analyze"):  # present wherever the units could be used

    def test_systemd_reads_the_units_without_complaint() -> None:
        answer = subprocess.run(
            ["systemd-analyze", "verify", *(UNITS / name for name in CHECKED)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.stdout + answer.stderr == ""
        assert answer.returncode == 0
