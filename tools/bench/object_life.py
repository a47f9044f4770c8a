"""The life of an object by its steps: the daemon with a clock around each, CPU of its thread.

The process ends as it does without, and leaves what it counted in a file of JSON: threads with
their CPU seconds, steps with calls and CPU seconds.  A step contains those that it calls.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STEPS = {
    "first position and ledger entry": "secor.consume.positioning PositionFinder find",
    "local file: open, seal": "secor.batch.batch Batch seal",
    "local file: delete": "secor.batch.local_file LocalFile delete",
    "upload, whole": "secor.commit.uploader Uploader upload",
    "ledger: lease and entry": "secor.adapters.zookeeper.ledger ZooKeeperLedger lease",
    "ledger: intent": "secor.adapters.zookeeper.ledger ZooKeeperLease record",
    "ledger: commit": "secor.adapters.zookeeper.ledger ZooKeeperLease finish",
    "put, with reading the file": "secor.commit.uploader _CommitAttempts _put",
    "put: signature": "secor.adapters.s3.small_puts PutConnections _signed",
    "put: metadata": "secor.core.object_info ObjectInfo metadata",
    "metrics of a put": "secor.service.monitoring.telemetry Telemetry put",
    "metrics and log line of an upload": "secor.service.monitoring.telemetry Telemetry uploaded",
    "loop: outcome of an upload": "secor.consume.consumer Consumer _handle_outcome",
    "loop: round": "secor.consume.consumer Consumer run_once",
    "loop: messages of a round": "secor.consume.consumer Consumer _receive",
    "loop: limits of a round": "secor.consume.consumer Consumer _apply_limits",
    "loop: report of a second": "secor.consume.consumer Consumer status",
    "fetch request": "secor.adapters.kafka.fetch_requests FetchRequests _create",
    "fetch request: validation": "secor.adapters.kafka.fetch_requests FetchRequests validate",
}
"""What people call them: module, class and method."""

PROGRAM = """
import sys
from tools.bench import object_life
object_life.run(sys.argv.pop(1))
"""
"""What the process is started with: the file to write, then the command."""


class Clocks:
    """Calls and CPU seconds by step; threads share it."""

    def __init__(self) -> None:
        self.calls = dict.fromkeys(STEPS, 0)
        self.seconds = dict.fromkeys(STEPS, 0.0)
        self._lock = threading.Lock()

    def around(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a clock."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.thread_time() - began
                with self._lock:
                    self.calls[step] += 1
                    self.seconds[step] += took

        return timed


def run(path: str) -> None:
    """Run the command of ``sys.argv`` with clocks; write what they say."""
    from secor.cli.main import run as run_command

    clocks = Clocks()
    for step, place in STEPS.items():
        module, kind, method = place.split()
        holder = getattr(importlib.import_module(module), kind)
        setattr(holder, method, clocks.around(step, getattr(holder, method)))
    threads: dict[str, float] = {}
    watcher = threading.Thread(target=_watch, args=(threads,), daemon=True, name="clocks")
    watcher.start()
    code = run_command(sys.argv[1:])
    steps = {step: (clocks.calls[step], clocks.seconds[step]) for step in STEPS}
    Path(path).write_text(json.dumps({"threads": threads, "steps": steps}))
    sys.exit(code)


def _watch(threads: dict[str, float]) -> None:
    """Look twice a second: a thread that has ended cannot be asked any more."""
    while True:
        used: dict[str, float] = {}
        for thread in threading.enumerate():
            name = thread.name.partition("(")[2].rstrip(")") or thread.name
            used.setdefault(name.rstrip("_-0123456789"), 0.0)
            used[name.rstrip("_-0123456789")] += _cpu_of(thread.native_id)
        threads.update({name: max(threads.get(name, 0.0), took) for name, took in used.items()})
        time.sleep(0.5)


def _cpu_of(thread: int | None) -> float:
    try:
        nanoseconds = Path(f"/proc/{os.getpid()}/task/{thread}/schedstat").read_text().split()[0]
    except OSError:
        return 0.0
    return int(nanoseconds) / 1e9


def life_of(path: Path) -> Iterator[str]:
    """Give the lines of a table."""
    counted = json.loads(path.read_text())
    yield "  CPU s by thread: " + ", ".join(
        f"{name} {seconds:.2f}"
        for name, seconds in sorted(counted["threads"].items(), key=lambda item: -item[1])
        if seconds >= 0.05
    )
    for step, (calls, seconds) in counted["steps"].items():
        if calls:
            yield f"  {step:36}{calls:8} calls{1e6 * seconds / calls:10.0f} us{seconds:8.2f} s"
