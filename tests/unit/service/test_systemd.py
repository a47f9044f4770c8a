"""The service units: what they promise about our exit codes, and that systemd reads them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from secor.cli.exit_codes import Exit
from secor.config import environment, schema
from secor.config.model import Limits
from secor.service.daemon import READY_AFTER
from secor.wiring.service import DRAIN, STUCK

UNITS = Path(__file__).parents[3] / "systemd"


def directives(name: str) -> dict[str, list[str]]:
    """Return the values of each directive; systemd lets some be given several times."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


SERVICES = {
    name: directives(name)
    for name in (
        *("secor@.service", "secor-finalize@.service", "secor-compact@.service"),
        *("secor-backfill.service", "secor-tables@.service", "secor-restore@.service"),
        "secor-tables-maintain@.service",
        "secor-tables-spark@.service",
        "secor-expire@.service",
        "secor-drill@.service",
    )
}
SERVICE = SERVICES["secor@.service"]
ONESHOTS = [
    SERVICES[name]
    for name in (
        *("secor-finalize@.service", "secor-compact@.service", "secor-backfill.service"),
        "secor-tables-maintain@.service",
        "secor-expire@.service",
        "secor-drill@.service",
    )
]
CHECKED = (
    *SERVICES,
    "secor.target",
    "secor-finalize@.timer",
    "secor-compact@.timer",
    "secor-backfill.timer",
    "secor-tables-maintain@.timer",
    "secor-expire@.timer",
    "secor-drill@.timer",
)


def program(name: str) -> str:
    """Return where a program of systemd is; without it nothing here could be known."""
    found = shutil.which(name) or shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    assert found, f"{name} is not here: install systemd (apt-get install systemd; it need not run)"
    return found


def run(*arguments: str | Path) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# ----------------------------------------------------------------------- limits


def test_a_process_that_needs_too_much_memory_is_ended_before_its_neighbours() -> None:
    """The default of limits.memory, what is there besides, and one large message fit."""
    for name in ("secor@.service", "secor-finalize@.service"):
        [limit] = SERVICES[name]["MemoryMax"]
        gib = int(limit.removesuffix("G"))
        assert gib << 30 >= 8 * Limits().memory


# ------------------------------------------------------------------ exit codes


def test_a_wrong_configuration_is_not_tried_again() -> None:
    assert SERVICE["Restart"] == ["on-failure"]
    assert SERVICE["RestartPreventExitStatus"] == [str(int(Exit.CONFIGURATION))]


@pytest.mark.parametrize("unit", ONESHOTS)
def test_what_a_person_must_mend_is_not_tried_again(unit: dict[str, list[str]]) -> None:
    assert unit["Restart"] == ["on-failure"]
    assert int(unit["RestartSec"][0]) >= 30
    (codes,) = unit["RestartPreventExitStatus"]
    wanted = (Exit.CONFIGURATION, Exit.DENIED, Exit.DIFFERENT)
    assert [int(code) for code in codes.split()] == [int(code) for code in wanted]


# ---------------------------------------------------------------------- times


def test_the_process_tells_when_it_is_ready_and_that_it_is_alive() -> None:
    assert SERVICE["Type"] == ["notify"]
    assert int(SERVICE["WatchdogSec"][0]) >= 30
    assert int(SERVICE["WatchdogSec"][0]) >= STUCK


def test_a_start_that_waits_for_servers_is_no_failed_start() -> None:
    assert int(SERVICE["TimeoutStartSec"][0]) >= 3 * READY_AFTER


def test_systemd_waits_longer_than_the_drain() -> None:
    assert int(SERVICE["TimeoutStopSec"][0]) >= DRAIN + 30


# ---------------------------------------------------------------- the process


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


@pytest.mark.parametrize("name", SERVICES)
def test_everything_said_is_found_by_one_name_in_the_journal(name: str) -> None:
    # Else it would be that of the first program of ExecStart: the shell.
    assert SERVICES[name]["SyslogIdentifier"] == ["secor"]


# ------------------------------------------------------------------ hardening

OF_ONE_KIND = (
    "CacheDirectory",
    "Environment",
    "EnvironmentFile",
    "MemoryDenyWriteExecute",
    "RestrictAddressFamilies",
    "SystemCallFilter",
)


def hardening(name: str) -> dict[str, list[str]]:
    """Return what stands from ``User=`` on."""
    keys = list(SERVICES[name])
    return {
        key: values
        for key, values in SERVICES[name].items()
        if keys.index(key) >= keys.index("User") and key not in OF_ONE_KIND and key != "WantedBy"
    }


@pytest.mark.parametrize("name", SERVICES)
def test_all_services_are_hardened_alike(name: str) -> None:
    assert len(hardening(name)) > 20
    assert hardening(name) == hardening("secor@.service")


EXPOSURE = {
    "secor@.service": 1.1,
    "secor-finalize@.service": 1.1,
    "secor-compact@.service": 1.1,
    "secor-backfill.service": 1.2,
    "secor-tables@.service": 1.1,
    "secor-tables-spark@.service": 1.2,
    "secor-restore@.service": 1.1,
    "secor-tables-maintain@.service": 1.2,
    "secor-expire@.service": 1.1,
    "secor-drill@.service": 1.2,
}
"""At most, from 0 (exposed to nothing) to 10; docs/deploy.md tells them."""


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_exposed_to_no_more_than_it_was(name: str) -> None:
    limit = str(round(EXPOSURE[name] * 10))
    said = run(
        program("systemd-analyze"),
        "security",
        "--offline=true",
        "--no-pager",
        f"--threshold={limit}",
        UNITS / name,
    )
    measured = re.search(r"exposure level for .*: (\d+\.\d)", said)
    assert measured, said
    assert float(measured[1]) > 0.5, "stricter than what a client of servers can do with"
    documented = (UNITS.parent / "docs" / "deploy.md").read_text()
    assert f"| `{name}` | {measured[1]} |" in documented


def test_systemd_reads_the_units_without_complaint() -> None:
    units = [UNITS / name for name in CHECKED]
    assert run(program("systemd-analyze"), "verify", *units) == ""


# --------------------------------------------------------- the user, the files


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file system with nothing but our configuration, as an administrator may have left it."""
    made = tmp_path_factory.mktemp("root")
    etc = made / "etc"
    (etc / "secor" / "backfill").mkdir(parents=True)
    for name in ("secor/backup.toml", "secor/backup-1.env", "secor/backfill/plan.json"):
        (etc / name).write_text("")
        (etc / name).chmod(0o666)
    run(program("systemd-sysusers"), f"--root={made}", UNITS / "sysusers.d" / "secor.conf")
    return made


def test_the_user_of_the_services_can_be_made(root: Path) -> None:
    users = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    (user,) = [one for one in users if one[0] == SERVICE["User"][0]]
    assert int(user[2]) < 1000
    assert user[5] == "/var/cache/secor"
    assert user[6].endswith("nologin")
    groups = [line.split(":") for line in (root / "etc/group").read_text().splitlines()]
    assert [SERVICE["Group"][0]] == [one[0] for one in groups if one[2] == user[3]]


def test_nobody_else_may_read_the_configuration() -> None:
    lines = (UNITS / "tmpfiles.d" / "secor.conf").read_text().splitlines()
    rules = {line.split()[1]: line.split()[2:5] for line in lines if not line.startswith("#")}
    assert rules["/etc/secor"] == ["0750", "root", "secor"]
    assert rules["/etc/secor/*.toml"] == ["0640", "root", "secor"]
    assert rules["/etc/secor/*.env"] == ["0600", "root", "root"]
    assert all(mode[-1] == "0" for mode, _, _ in rules.values())


def test_the_rules_for_files_are_read(root: Path) -> None:
    """As root they are applied; another user may not give files away, and sees them parsed."""
    rules = UNITS / "tmpfiles.d" / "secor.conf"
    done = subprocess.run(
        [program("systemd-tmpfiles"), f"--root={root}", "--create", rules],
        capture_output=True,
        text=True,
        check=False,
    )
    denied = [line for line in done.stderr.splitlines() if "Operation not permitted" not in line]
    assert denied == []
    modes = {
        str(path.relative_to(root)): oct(path.stat().st_mode & 0o777)
        for path in sorted((root / "etc" / "secor").rglob("*"))
    }
    assert modes == {
        "etc/secor/backfill": "0o750",
        "etc/secor/backfill/plan.json": "0o640",
        "etc/secor/backup-1.env": "0o600",
        "etc/secor/backup.toml": "0o640",
    }, json.dumps(modes)
