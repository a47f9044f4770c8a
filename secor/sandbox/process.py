"""One server process that outlives the command that started it."""

from __future__ import annotations

import json
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from secor.core.errors import Unavailable

READY_WITHIN = 120.0
"""Seconds; a busy machine takes ten times what an idle one does."""
STOP_WITHIN = 30.0
_TAIL_LINES = 30
_SAME_PROCESS = 2.0
"""Seconds by which two readings of a process's start may differ; ids are not reused so soon."""


class Server(ABC):
    """A server with a port, a folder of data and a log, all kept over a restart.

    Subclasses say what to run and how to see that it serves.  All methods may be called
    by another process than the one that started it: ``process.json`` names it.
    """

    stop_signal = signal.SIGTERM
    """What asks it to end."""

    def __init__(self, *, name: str, folder: Path, log: Path, port: int) -> None:
        self.name = name
        self.folder = folder
        self.log = log
        self.port = port
        self._log_from = 0

    @property
    def address(self) -> str:
        """Its address: ``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

    @abstractmethod
    def command(self) -> list[str]:
        """Return the program and its arguments; write the files they name."""

    def environment(self) -> Mapping[str, str]:
        """Return the variables that its environment has besides ours."""
        return {}

    @abstractmethod
    def serves(self) -> bool:
        """Return whether it answers requests now."""

    # -------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Start it unless it runs, and wait until it serves.  Raises ``Unavailable``."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start its process unless it runs."""
        if self.running():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = self.command()
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        # Not a child to look after: in a session of its own, so that neither Ctrl-C nor
        # the end of the terminal reaches it.
        pid = os.posix_spawn(
            command[0],
            command,
            {**os.environ, **self.environment()},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log), flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGINT],
        )
        # With the time of its start: after a restart of the machine the id may be another
        # process's.
        record = {"pid": pid, "created": psutil.Process(pid).create_time()}
        self._record.write_text(json.dumps(record))

    def wait(self, timeout: float = READY_WITHIN) -> None:
        """Wait until it serves.  Raises ``Unavailable`` with the end of its log."""
        deadline = time.monotonic() + timeout
        while not self.serves():
            if not self.running():
                raise Unavailable(f"{self.name} ended while it started; {self._log_tail()}")
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{self.name} at {self.address} does not serve after {timeout:.0f} s; "
                    f"{self._log_tail()}"
                )
            time.sleep(0.05)

    def stop(self, timeout: float = STOP_WITHIN) -> bool:
        """Ask it to end; kill it after ``timeout`` seconds and return False then."""
        process = self._process()
        if process is None:
            return True
        with suppress(psutil.NoSuchProcess):
            process.send_signal(self.stop_signal)
            process.resume()  # a paused one cannot hear
        if self._gone(process, timeout):
            return True
        self.kill()
        return False

    def kill(self) -> None:
        """End it at once (SIGKILL), as a power cut would."""
        process = self._process()
        if process is not None:
            with suppress(psutil.NoSuchProcess):
                process.kill()
            self._gone(process, STOP_WITHIN)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open and nothing answers."""
        process = self._process()
        if process is not None:
            process.suspend()
            # The signal is only sent: on a busy machine a thread may still answer.
            deadline = time.monotonic() + STOP_WITHIN
            while process.status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:
                time.sleep(0.01)

    def resume(self) -> None:
        """Let it go on after ``pause``."""
        process = self._process()
        if process is not None:
            process.resume()

    def running(self) -> bool:
        """Return whether its process is there (perhaps paused, perhaps not serving yet)."""
        return self._process() is not None

    @property
    def pid(self) -> int | None:
        """The id of its process, None where there is none."""
        process = self._process()
        return None if process is None else process.pid

    # -------------------------------------------------------------- inside

    @property
    def _record(self) -> Path:
        return self.folder / "process.json"

    def _process(self) -> psutil.Process | None:
        try:
            record = json.loads(self._record.read_text())
            process = psutil.Process(record["pid"])
            if abs(process.create_time() - record["created"]) > _SAME_PROCESS:
                return None  # the id went to another process
            if process.status() == psutil.STATUS_ZOMBIE:
                # It is our own child: waiting for it takes the zombie away.
                self._gone(process, 0.0)
                return None
        except (FileNotFoundError, psutil.NoSuchProcess):
            return None
        return process

    @staticmethod
    def _gone(process: psutil.Process, timeout: float) -> bool:
        try:
            process.wait(timeout)
        except psutil.TimeoutExpired:
            return False
        return True

    def logged(self, text: str) -> bool:
        """Return whether its log holds ``text`` since it was last launched from here."""
        if not self.log.exists():
            return False
        with self.log.open("rb") as file:
            file.seek(self._log_from)
            return text.encode() in file.read()

    def _log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        last = "\n".join(lines[-_TAIL_LINES:])
        return f"the end of {self.log}:\n{last}" if last else f"{self.log} is empty"
