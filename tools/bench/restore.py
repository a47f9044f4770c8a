"""A restore of an archive, and producers of others over the same messages, by turns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from secor.core.errors import SecorError
from secor.sandbox import Sandbox
from tools.bench import archive
from tools.bench.archive import TOPIC, Stored

GOAL_US = 1.5
"""CPU in microseconds a message, where what is written is not compressed."""
GOAL_RECOVERY = 10.0
CODECS = ("none", "lz4", "zstd")
FORMATS = ("sequencefile", "parquet")
_DONE_WITHIN = 900.0
_LOOK_EVERY = 0.02

_JOB = """
[group]
name = "{name}"
kind = "restore"
[kafka]
bootstrap_servers = ["{kafka}"]
[store]
kind = "local"
[store.local]
directory = "{bucket}"
[source]
prefix = "{prefix}"
topics = ["{topic}"]
[target]
topic = "{name}-{{topic}}"
[writing]
{writing}
[logs]
format = "json"
level = "debug"
"""


@dataclass(frozen=True, slots=True)
class Restored:
    """One way to write the messages; CPU in microseconds a message, the start left out."""

    name: str
    codec: str
    cpu_us: float
    messages_per_second: float
    transactions_per_second: float
    peak_megabytes: float
    goal_us: float | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds from ``kill -9`` to the first commit of the daemon that is started instead."""

    seconds: float


def measure(folder: Path, *, messages: int, partitions: int) -> Iterator[Restored | Recovery]:
    """Give each case as soon as it is known.  Raises ``SecorError``."""
    stored = {name: _archive(folder, name, messages, partitions) for name in FORMATS}
    with Sandbox.up(folder / "servers", services=("kafka",)) as sandbox:
        for codec in CODECS:
            for name in FORMATS:
                yield _restore(folder, sandbox, stored[name], f"{name}-{codec}", codec=codec)
            for client in ("kafka-python", "librdkafka"):
                yield _produce(sandbox, stored["parquet"], client, codec)
        yield _transactions(folder, sandbox, stored["parquet"])
        yield _recovery(folder, sandbox, stored["parquet"])


def line_of(result: Restored | Recovery) -> str:
    """Return a result in one line."""
    if isinstance(result, Recovery):
        return f"recovery after kill -9: {result.seconds:.1f} s (goal {GOAL_RECOVERY:g})"
    goal = f" (goal {result.goal_us})" if result.goal_us else ""
    return (
        f"{result.name:24} {result.codec:5} {result.cpu_us:6.2f} µs CPU a message{goal},"
        f" {result.messages_per_second / 1e6:.3f} M messages/s,"
        f" {result.transactions_per_second:.1f} transactions/s,"
        f" peak {result.peak_megabytes:.0f} MB"
    )


def _archive(folder: Path, log_format: str, messages: int, partitions: int) -> Stored:
    bucket = folder / log_format
    config = archive.group("bench", bucket, {"format": log_format})
    return archive.store(
        config, bucket, folder / "making", partitions=partitions, messages=messages
    )


# ------------------------------------------------------------------------ Secor


def _job(folder: Path, sandbox: Sandbox, stored: Stored, name: str, **writing: object) -> Path:
    path = folder / f"{name}.toml"
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in writing.items())
    path.write_text(
        _JOB.format(
            name=name,
            kafka=sandbox.kafka,
            bucket=stored.bucket,
            prefix=stored.config.output.prefix,
            topic=TOPIC,
            writing=lines,
        )
    )
    return path


def _restore(
    folder: Path, sandbox: Sandbox, stored: Stored, name: str, *, codec: str, **writing: object
) -> Restored:
    """Run a job to its end, then once more: that costs what a start costs."""
    job = _job(folder, sandbox, stored, name, codec=codec, **writing)
    used = _ended(_secor(job, folder / f"{name}.log"))
    idle = _ended(_secor(job, folder / f"{name}-idle.log"))
    events = _events(folder / f"{name}.log")
    began = _time(next(it for it in events if it["event"] == "assigned"))
    ended = next(it for it in events if it["event"] == "ended")
    seconds = _time(ended) - began
    return Restored(
        name=f"secor {name.rpartition('-')[0]}",
        codec=codec,
        cpu_us=round((used.cpu - idle.cpu) / stored.messages * 1e6, 3),
        messages_per_second=round(stored.messages / seconds),
        transactions_per_second=round(int(str(ended["transactions"])) / seconds, 1),
        peak_megabytes=round(used.peak / 1e6, 1),
        goal_us=GOAL_US if codec == "none" and not writing else None,
    )


def _transactions(folder: Path, sandbox: Sandbox, stored: Stored) -> Restored:
    """Write as many transactions as it can: each has a thousand messages."""
    return _restore(
        folder, sandbox, stored, "transactions-of-1000", codec="none", max_messages=1000
    )


def _recovery(folder: Path, sandbox: Sandbox, stored: Stored) -> Recovery:
    rate = stored.messages // 60
    job = _job(
        folder, sandbox, stored, "killed", interval="200ms", messages_per_second=rate, workers=4
    )
    logs = folder / "killed-0.log", folder / "killed-1.log"
    first = _secor(job, logs[0])
    _commit_after(logs[0], first, 0.0)
    first.send_signal(signal.SIGKILL)
    killed = time.time()
    first.wait()
    second = _secor(job, logs[1])
    try:
        return Recovery(round(_commit_after(logs[1], second, killed) - killed, 2))
    finally:
        second.kill()
        second.wait()


def _commit_after(log: Path, process: subprocess.Popen[bytes], after: float) -> float:
    """Wait for the first commit that a log tells of; return its time."""
    until = time.monotonic() + _DONE_WITHIN
    while time.monotonic() < until and process.poll() is None:
        times = [_time(event) for event in _events(log) if event["event"] == "committed"]
        if any(at > after for at in times):
            return min(at for at in times if at > after)
        time.sleep(_LOOK_EVERY)
    raise SecorError(f"secor restore run has committed nothing: see {log}")


def _secor(job: Path, log: Path) -> subprocess.Popen[bytes]:
    program = "import sys; from secor.cli.main import run; sys.exit(run(sys.argv[1:]))"
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-c", program, "restore", "run", str(job)], stdout=file, stderr=file
        )


def _events(log: Path) -> list[Mapping[str, object]]:
    events = []
    for line in log.read_text().splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue  # the summary for a person, or half a line
    return [event for event in events if isinstance(event, dict) and "event" in event]


def _time(event: Mapping[str, object]) -> float:
    return datetime.fromisoformat(str(event["timestamp"])).timestamp()


@dataclass(frozen=True, slots=True)
class _Used:
    """CPU in seconds, of all threads; the greatest resident memory in bytes."""

    cpu: float
    peak: int


def _ended(process: subprocess.Popen[bytes]) -> _Used:
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SecorError(f"{process.args!r} ended with {process.returncode}")
    return _Used(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


# ----------------------------------------------------------------------- others


def _produce(sandbox: Sandbox, stored: Stored, client: str, codec: str) -> Restored:
    """Let another client write the same messages, in one transaction for 100,000 of them."""
    topic = f"{client}-{codec}"
    counts: Sequence[int] = (stored.messages, 0)
    used, seconds = [], 0.0
    for count in counts:
        program = [sys.executable, "-m", "tools.bench.producers", client, sandbox.kafka, topic]
        process = subprocess.Popen(
            [*program, codec, str(count), str(stored.partitions)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        output = process.stdout.read()
        used.append(_ended(process))
        if count:
            seconds = float(output)
    return Restored(
        name=client,
        codec=codec,
        cpu_us=round((used[0].cpu - used[1].cpu) / stored.messages * 1e6, 3),
        messages_per_second=round(stored.messages / seconds),
        transactions_per_second=round(-(-stored.messages // 100_000) / seconds, 1),
        peak_megabytes=round(used[0].peak / 1e6, 1),
    )
