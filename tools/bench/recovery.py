"""How long rows are late after ``kill -9``: from the kill until what was produced afterwards is in
the table.

Two processes, a commit every 5 s; the one that coordinates is killed, and started again as a
supervisor would.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from secor.config.load import load
from secor.core.errors import NotFound, SecorError, Unavailable
from secor.sandbox import Sandbox
from secor.tables.commit.group_record import GroupRecord
from secor.wiring.table_catalogs import open_tables
from tools.bench.cases import CASES, settings_of, table_of, write_config
from tools.bench.fill import Producer, create_topic, encode_batch, values

TOPIC, PARTITIONS, KILLS = "recovery", 4, 5
INTERVAL = "5s"
WITHIN = 300.0
_PRODUCE_EVERY = 0.5
_BATCH = 100


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds after a kill.

    ``coordinating``: another process coordinates; ``committed``: the table has rows that were
    produced afterwards.
    """

    coordinating: float
    committed: float

    def line(self) -> str:
        """Return it in one line."""
        return (
            f"{self.committed:5.1f} s from kill -9 until later rows are in the table;"
            f" another process coordinates after {self.coordinating:.1f} s"
        )


def summary(recoveries: Sequence[Recovery]) -> str:
    """Return least, median and greatest of several."""
    seconds = sorted(recovery.committed for recovery in recoveries)
    return (
        f"recovery after kill -9, {len(seconds)} times: {seconds[0]:.1f} s at least,"
        f" {seconds[len(seconds) // 2]:.1f} s in the middle, {seconds[-1]:.1f} s at most"
    )


class _Daemon:
    """``secor run``, which logs when it coordinates."""

    def __init__(self, config: Path, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            code = "from secor.cli.main import main; main()"
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, "run", str(config)], stdout=output, stderr=output
            )

    def coordinates_since(self) -> str:
        """Return when it last began to coordinate, for comparison; empty if it never did."""
        return max(self._coordinating(), default="")

    def coordinates_after(self, when: datetime) -> datetime | None:
        """Return when it first began to coordinate after ``when``."""
        began = (datetime.fromisoformat(text) for text in self._coordinating())
        return min((at for at in began if at > when), default=None)

    def _coordinating(self) -> list[str]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]
        return [it["timestamp"] for it in lines if it["event"] == "coordinating"]

    def end(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()


class _Recovery:
    """A group at work."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self._folder = folder
        self._group = "recovery"
        self._config = write_config(_settings(sandbox, folder, self._group), folder / "table.toml")
        self._producer = Producer(sandbox.kafka)
        self._catalog, _ = open_tables(load(self._config, {}))
        self._batch = encode_batch(values(_BATCH, seed=1)).data
        self._produced = 0
        self._at = 0.0
        self._started = 0

    def start(self) -> _Daemon:
        """Start a daemon."""
        self._started += 1
        return _Daemon(self._config, self._folder / f"daemon-{self._started}.log")

    def produce(self) -> int:
        """Produce a batch to each partition, if it is time; return the offset after the last."""
        if time.monotonic() - self._at >= _PRODUCE_EVERY:
            self._at = time.monotonic()
            for partition in range(PARTITIONS):
                self._producer.send(TOPIC, partition, self._batch)
            self._produced += _BATCH
        else:
            time.sleep(0.05)
        return self._produced

    def in_table(self) -> int:
        """Return up to which offset the table has every partition."""
        try:
            table = self._catalog.load_table(table_of(self._group))
        except NotFound:
            return 0
        offsets = [it for _, _, it in GroupRecord.of(table, self._group).vector.offsets()]
        return min(offsets) if len(offsets) == PARTITIONS else 0

    def wait(self, offset: int, daemons: list[_Daemon]) -> float:
        """Produce until the table has everything before ``offset``; return the seconds."""
        began = time.monotonic()
        while self.in_table() < offset:
            self.produce()
            if time.monotonic() - began > WITHIN:
                raise Unavailable(f"rows are not in the table after {WITHIN:.0f} s")
            if any(daemon.process.poll() is not None for daemon in daemons):
                raise SecorError(f"a daemon has ended; see {self._folder}")
        return time.monotonic() - began

    def close(self) -> None:
        """End the connection."""
        self._producer.close()


def measure(sandbox: Sandbox, folder: Path) -> Iterator[Recovery]:
    """Kill the coordinator several times."""
    create_topic(sandbox.kafka, TOPIC, PARTITIONS)
    with ExitStack() as running, closing(_Recovery(sandbox, folder)) as group:
        daemons = [group.start(), group.start()]
        running.callback(_end_all, daemons)
        group.wait(_BATCH, daemons)
        for _ in range(KILLS):
            victim = max(daemons, key=lambda daemon: daemon.coordinates_since())
            victim.end()
            daemons.remove(victim)
            killed, killed_at = time.monotonic(), datetime.now(UTC)
            daemons.append(group.start())
            afterwards = group.produce() + _BATCH
            while group.produce() < afterwards:
                pass
            group.wait(afterwards, daemons)
            committed = time.monotonic() - killed
            began = [it for daemon in daemons if (it := daemon.coordinates_after(killed_at))]
            coordinating = (min(began) - killed_at).total_seconds() if began else committed
            yield Recovery(coordinating, committed)
            group.wait(group.produce() + 20 * _BATCH, daemons)  # both are at work again


def _end_all(daemons: list[_Daemon]) -> None:
    for daemon in daemons:
        daemon.end()


def _settings(sandbox: Sandbox, folder: Path, group: str) -> dict[str, dict[str, object]]:
    (case,) = [case for case in CASES if case.name == "json-iceberg-1"]
    settings = settings_of(
        case, sandbox, group=group, topic=TOPIC, directory=folder / "local", port=0
    )
    more: dict[str, dict[str, object]] = {
        "kafka": {"session_timeout": "6s", "heartbeat_interval": "2s"},
        "ledger.zookeeper": {"session_timeout": "5s"},
        "commit": {"interval": INTERVAL, "timeout": "5s"},
        "policy": {"max_age": "1m"},
        "logs": {"level": "info"},
    }
    return {name: {**keys, **more.get(name, {})} for name, keys in settings.items()}
