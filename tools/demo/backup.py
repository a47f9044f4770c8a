"""The processes of the demonstration, and the configuration of its backup group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from secor.core.errors import Unavailable
from secor.sandbox import Sandbox
from secor.sandbox.first_steps import Settings, configuration
from tools.demo.flights import TOPIC

_STOP_WITHIN = 120.0


def write_configuration(folder: Path, sandbox: Sandbox) -> Path:
    """Write ``backup.toml`` for the servers of ``sandbox``; return its path."""
    path = folder / "backup.toml"
    settings: Settings = {
        "group": {"name": "demo_backup"},
        "kafka": {"topics": [TOPIC], "session_timeout": "6s", "heartbeat_interval": "2s"},
        "ledger.zookeeper": {"session_timeout": "5s"},
        "policy": {"max_messages": 12000, "max_age": "3s"},
        "logs": {"format": "json"},
    }
    about = "Written by the demonstration; docs/configuration.md explains every setting."
    path.write_text(configuration(sandbox, folder / "local", settings, about=about))
    return path


def secor(*arguments: str) -> list[str]:
    """Return the command line ``secor ...`` of this very installation."""
    return [sys.executable, "-c", "from secor.cli.main import main; main()", *arguments]


def surroundings() -> Mapping[str, str]:
    """Return the environment without ``SECOR_...``, which would change the configuration."""
    return {name: text for name, text in os.environ.items() if not name.startswith("SECOR_")}


class SecorProcess:
    """``secor run``, or another command, with its log, by default beside the configuration."""

    def __init__(
        self, configuration: Path, log: Path | None = None, command: Sequence[str] = ("run",)
    ) -> None:
        self._command = " ".join(command)
        self.log = log or configuration.with_suffix(".log")
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                secor(*command, str(configuration)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=surroundings(),
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def check(self) -> None:
        """Raise ``Unavailable`` with the end of its log when it has ended by itself."""
        if self._process.poll() is not None:
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
            raise Unavailable(
                f"secor {self._command} ended with code {self._process.returncode}; "
                f"the end of {self.log}:\n{last}"
            )

    def pause(self) -> None:
        """SIGSTOP: it stands still where it is."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: no chance to clean up anything."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_STOP_WITHIN)

    def wait(self, timeout: float) -> int:
        """Return the exit code of a process that ends by itself.  Raises ``Unavailable``."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"secor {self._command} has not ended in {timeout:.0f} s; see {self.log}"
            ) from error

    def end(self) -> None:
        """Leave nothing running, whatever has happened."""
        if self._process.poll() is None:
            self.kill()
