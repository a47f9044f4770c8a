"""The daemon as a process of its own, from its start to its end, and what it used."""

from __future__ import annotations

import compileall
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

import secor
from secor.core.errors import SecorError, Unavailable
from tools.bench import object_life

READY_WITHIN = 60.0
DONE_WITHIN = 900.0
END_WITHIN = 120.0
_LOOK_EVERY = 0.05
_TAIL_BYTES = 4000

_RUN = "from secor.cli.main import main; main()"
_RUN_PROFILED = """
import cProfile, sys, time
from secor.cli.main import run
# CPU time: by the wall clock, waiting for the other threads would be what takes longest.
profile = cProfile.Profile(time.thread_time)
code = profile.runcall(run, sys.argv[2:])
profile.dump_stats(sys.argv[1])
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process used, all its threads and its start included.

    ``cpu`` is user and system time in seconds, ``ready`` and ``ended`` are wall clocks in
    seconds since the epoch, ``peak`` is the greatest resident memory in bytes.
    """

    cpu: float
    ready: float
    ended: float
    peak: int


class Progress:
    """Reads from ZooKeeper how far a group has committed, at no cost to the daemon."""

    def __init__(self, hosts: str, group: str, topic: str, partitions: int) -> None:
        self._client = KazooClient(hosts)
        self._client.start()
        self._paths = [
            f"/consumers/{group}/offsets/{topic}/{partition}" for partition in range(partitions)
        ]

    def committed(self) -> tuple[int, float]:
        """Return the sum of the committed offsets, and when the last of them was written."""
        total, latest = 0, 0.0
        for path in self._paths:
            try:
                data, node = self._client.get(path)
            except NoNodeError:
                continue
            total += int(data)
            latest = max(latest, node.mtime / 1000)
        return total, latest

    def close(self) -> None:
        """End the connection."""
        self._client.stop()
        self._client.close()


class MeasuredProcess:
    """A process with its output in a file, watched until it ends; ``program`` is Python's."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable,),
    ) -> None:
        """Start it."""
        self._what = "secor run"
        self._log = log
        self._peak = 0
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [*program, *arguments], stdout=file, stderr=file, env=environment
            )

    def _wait(self, reached: Callable[[], bool], timeout: float, what: str) -> None:
        deadline = time.monotonic() + timeout
        while not reached():
            if self._process.poll() is not None:
                raise SecorError(f"{self._what} ended before it was {what}:\n{self._tail()}")
            if time.monotonic() > deadline:
                raise Unavailable(f"{self._what} is not {what} after {timeout} s:\n{self._tail()}")
            self._look_at_memory()
            time.sleep(_LOOK_EVERY)
        self._look_at_memory()

    def _ended(self, ready: float, within: float) -> Usage:
        deadline = time.monotonic() + within
        while True:
            # Not Popen.wait: this one tells of the CPU time of threads that are gone, too.
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                raise Unavailable(f"{self._what} does not end:\n{self._tail()}")
            self._look_at_memory()
            time.sleep(_LOOK_EVERY)
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        if code:
            raise SecorError(f"{self._what} ended with {code}:\n{self._tail()}")
        return Usage(used.ru_utime + used.ru_stime, ready, time.time(), self._peak)

    def _end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()

    def _look_at_memory(self) -> None:
        # Not rusage's maximum: that begins with what its parent had.
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self._peak = max(self._peak, 1024 * int(line.split()[1]))

    def _tail(self) -> str:
        return self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")


@cache
def compile_modules(package: Path) -> None:
    """Write the bytecode of a package, as an installation does.

    From a fresh checkout the first start would compile it too, and with
    ``PYTHONDONTWRITEBYTECODE`` each one: half of what a start takes.
    """
    compileall.compile_dir(package, quiet=1)


class DaemonProcess(MeasuredProcess):
    """``secor run`` with its log in a file; its metrics are served on ``port``."""

    def __init__(
        self,
        config: Path,
        *,
        port: int,
        log: Path,
        profile: Path | None = None,
        life: Path | None = None,
    ) -> None:
        """Start it; with a profile of the loop's functions, or the life of its objects."""
        compile_modules(Path(secor.__file__).parent)
        program = [_RUN] if profile is None else [_RUN_PROFILED, str(profile)]
        if life is not None:
            program = [object_life.PROGRAM, str(life)]
        super().__init__(["-c", *program, "run", str(config)], log=log)
        self._port = port

    def run(self, done: Callable[[], bool]) -> Usage:
        """Wait until it is ready, then until ``done``, then end it and return what it used.

        Raises ``Unavailable`` when one of them takes too long, ``SecorError`` when it ends
        before it should; then it is gone in any case.
        """
        try:
            self._wait(self._is_ready, READY_WITHIN, "ready")
            ready = time.time()
            self._wait(done, DONE_WITHIN, "done")
            self._process.send_signal(signal.SIGTERM)
            return self._ended(ready, END_WITHIN)
        finally:
            self._end()

    def _is_ready(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


class ProgramProcess(MeasuredProcess):
    """A program that ends by itself."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None,
        program: Sequence[str] = (sys.executable,),
    ) -> None:
        """Start it."""
        super().__init__(arguments, log=log, environment=environment, program=program)
        self._what = " ".join(arguments[:2])

    def run(self) -> Usage:
        """Wait until it has ended; return what it used, ``ready`` when it was started.

        Raises ``Unavailable`` when that takes too long or it fails.
        """
        try:
            return self._ended(time.time(), DONE_WITHIN)
        except SecorError as error:
            first, *rest = str(error).strip().splitlines()
            raise Unavailable(f"{first} {rest[-1] if rest else ''}".strip()) from error
        finally:
            self._end()


def free_ports(count: int) -> Sequence[int]:
    """Return ports of the loopback address that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [bound.getsockname()[1] for bound in sockets]
    finally:
        for bound in sockets:
            bound.close()
