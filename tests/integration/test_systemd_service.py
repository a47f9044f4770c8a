"""The service's own command line, confined as the unit says, on real servers."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from secor.cli.exit_codes import Exit
from secor.sandbox import Sandbox
from tests.integration.daemons import (
    PATIENCE,
    committed,
    create_topic,
    produce,
    run_secor,
    wait_until,
    write_config,
)
from tests.unit.service.test_systemd import SERVICE, UNITS

PARTITIONS = 2

pytestmark = pytest.mark.slow


class Systemd:
    """What systemd gives a process of ``secor@.service``, below a folder instead of ``/``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.etc = root / "etc"
        self.etc.mkdir()
        self.heard: list[str] = []
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(root / "notify"))
        self._notify.setblocking(False)
        self.started: list[subprocess.Popen[bytes]] = []
        program = root / "bin" / "secor"
        program.parent.mkdir()
        # pytest runs in the checkout, whose package this is.
        lines = ["#!" + sys.executable, "import sys", f"sys.path.insert(0, {str(Path.cwd())!r})"]
        program.write_text("\n".join([*lines, "from secor.cli.main import main", "main()", ""]))
        program.chmod(0o755)

    def command(self, instance: str) -> list[str]:
        (line,) = SERVICE["ExecStart"]
        line = line.replace("/opt/secor/bin", str(self.root / "bin"))
        line = line.replace("/etc/secor", str(self.etc))
        words = shlex.split(line.replace("%%", "\0").replace("%i", instance).replace("\0", "%"))
        return [word.replace("$$", "$") for word in words]

    def environment(self, instance: str) -> dict[str, str]:
        """Nothing of ours: systemd starts services with next to nothing."""
        given = dict(value.split("=", 1) for value in SERVICE["Environment"])
        cache = str(self.root / "cache")
        own = {
            name: value.replace("%C", cache).replace("%i", instance)
            for name, value in given.items()
        }
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "NOTIFY_SOCKET": str(self.root / "notify"), **own}

    def start(self, instance: str) -> subprocess.Popen[bytes]:
        confined = [sys.executable, str(Path(__file__).parent / "confined.py")]
        with (self.root / "log").open("ab") as log:
            process = subprocess.Popen(
                [*confined, str(UNITS / "secor@.service"), *self.command(instance)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(instance),
            )
        self.started.append(process)
        return process

    def states(self) -> list[str]:
        while True:
            try:
                self.heard.append(self._notify.recv(4096).decode())
            except BlockingIOError:
                return self.heard

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait(PATIENCE)
        self._notify.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("output", ["sequencefile", "parquet"])
def test_the_service_works_confined_as_its_unit_says(
    output: str, sandbox: Sandbox, systemd: Systemd
) -> None:
    group = f"service-{output}"
    create_topic(sandbox, group, PARTITIONS)
    produce(sandbox, group, PARTITIONS, range(2000))
    config = write_config(
        systemd.etc,
        sandbox,
        group=group,
        topic=group,
        ledger="zookeeper",
        settings={"output": {"format": output}},
    )
    process = systemd.start(f"{group}-1")
    wait_until(lambda: committed(config, group, PARTITIONS) == 2000, "everything committed")
    wait_until(lambda: systemd.states().count("WATCHDOG=1") > 2, "signs of life")
    assert "READY=1" in systemd.states()
    assert any(state.startswith(f"STATUS={PARTITIONS} topic") for state in systemd.states())
    assert (systemd.root / "cache" / "secor" / f"{group}-1" / group).is_dir()
    assert os.waitpid(process.pid, os.WNOHANG) == (0, 0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, (systemd.root / "log").read_text()
    assert "STOPPING=1" in systemd.states()
    checked = run_secor("verify", str(config))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "2,000 messages" in checked.stdout


def test_a_wrong_configuration_ends_the_service_for_good(systemd: Systemd) -> None:
    (systemd.etc / "wrong.toml").write_text("[group]\nnam = 'x'\n")
    code = systemd.start("wrong-1").wait(PATIENCE)
    assert code == Exit.CONFIGURATION
    assert str(code) in SERVICE["RestartPreventExitStatus"][0].split()
    said = (systemd.root / "log").read_text()
    assert "group.name" in said
    assert "Traceback" not in said
