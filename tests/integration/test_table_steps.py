"""A table group on real servers, killed or stopped at each step of its cycle.

Proxies before the store and the catalog hold a process at a step: while its request is on the
way, or done and not answered.  What was held goes on after its sender's successor has finished.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from secor.config.load import load
from secor.core.model import TopicPartition
from secor.sandbox import Sandbox
from secor.wiring.clients import open_ledger_for_operator
from tests.faults.holding import Hold, HoldingProxy
from tests.faults.rest_catalog import RestCatalogServer
from tests.integration import daemons
from tests.integration.daemons import (
    Daemon,
    Start,
    create_topic,
    run_secor,
    write_config,
)
from tests.integration.test_table_group import PARTITIONS, ids, produce_rows

COORDINATE = ("tables", "run")

wait_until = partial(daemons.wait_until, patience=300.0)
"""Several sessions and takeovers follow each other, on a machine that may be busy."""

WORKER_STEPS = (
    ("data files are put, the manifest is not", signal.SIGKILL, False),
    ("the manifest is put, the ledger does not know", signal.SIGKILL, True),
    ("put by one that sleeps beyond its session", signal.SIGSTOP, False),
)
"""What has happened, what is sent, and whether the manifest's put is done."""

COMMIT_STEPS = (
    ("the commit is on its way", "catalog", "POST", "/tables/{}", False, signal.SIGKILL),
    ("it is done, its answer is awaited", "catalog", "POST", "/tables/{}", True, signal.SIGKILL),
    (
        "it is on its way, from one that sleeps",
        "catalog",
        "POST",
        "/tables/{}",
        False,
        signal.SIGSTOP,
    ),
    ("manifests are about to be deleted", "store", "DELETE", "/_staged/", False, signal.SIGKILL),
)
"""What has happened, and the request by which it is known."""


@dataclass
class Process:
    """A daemon, or ``secor tables run``, with proxies of its own."""

    daemon: Daemon
    store: HoldingProxy
    catalog: HoldingProxy

    def end_at(self, hold: Hold, step: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Wait until it is held at the step, then kill or stop it."""
        wait_until(hold.arrived.is_set, f"{step}\n{self.daemon.text()[-2000:]}")
        self.daemon.send(number)

    def let_go(self) -> None:
        """Let its requests go on."""
        self.store.let_go()
        self.catalog.let_go()

    def wake(self) -> None:
        """Let its requests go on, and itself if it was stopped."""
        self.let_go()
        if self.daemon.process.poll() is None:
            self.daemon.send(signal.SIGCONT)


@dataclass
class Scene:
    """A group whose workers do not coordinate; all read one topic."""

    sandbox: Sandbox
    folder: Path
    start: Start
    topic: str
    ledger: str
    control: str
    catalog: RestCatalogServer
    stack: ExitStack
    produced: int = 0
    processes: list[Process] = field(default_factory=list)

    @property
    def table(self) -> str:
        """The table of all rows."""
        return f"logs.{self.topic}"

    def config(self, name: str, store: str, catalog: str, session: float = 6.0) -> Path:
        """Write the configuration of a process that reaches store and catalog there.

        ``session`` is in seconds: one that is dead is followed after so long.
        """
        folder = self.folder / name
        folder.mkdir()
        s3 = self.sandbox.s3
        properties = {"type": "rest", "uri": catalog, "warehouse": f"s3://{s3.bucket}/{self.topic}"}
        asks = self.control == "kafka"
        return write_config(
            folder,
            self.sandbox,
            group=self.topic,
            topic=self.topic,
            ledger=self.ledger,
            endpoint_url=store,
            settings={
                "group": {"name": self.topic, "kind": "table"},
                "kafka": {
                    "session_timeout": f"{session}s",
                    "heartbeat_interval": f"{session / 6}s",
                },
                "parser": {"decoder": "json"},
                "policy": {"max_messages": 1000, "max_age": "1m" if asks else "1s"},
                "rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset"]},
                "commit": {
                    "interval": "1s",
                    "timeout": "5s",
                    "control": self.control,
                    "coordinator": "alone",
                    "keep_manifests": "1s",
                },
            },
            more="[catalog.properties]\n"
            + "\n".join(f"{key} = {json.dumps(it)}" for key, it in properties.items())
            + '\n[[tables]]\ntable = "logs.{topic}"\nauto_create = true\nevolve = true\n',
        )

    def open(self, command: tuple[str, ...] = ("run",)) -> Process:
        """Start a process."""
        name = f"process-{len(self.processes)}"
        store = self.stack.enter_context(HoldingProxy(self.sandbox.s3.endpoint_url))
        catalog = self.stack.enter_context(HoldingProxy(self.catalog.url))
        session = 3.0 if command == COORDINATE else 6.0
        config = self.config(name, store.url, catalog.url, session)
        daemon = self.start(config, self.folder / f"{name}.log", command)
        self.processes.append(Process(daemon, store, catalog))
        return self.processes[-1]

    def produce(self, count: int = 30) -> None:
        """Produce rows to all partitions."""
        produce_rows(self.sandbox, self.topic, range(self.produced, self.produced + count))
        self.produced += count

    def committed(self) -> list[int]:
        """Return the ledger's offset of each partition."""
        with open_ledger_for_operator(load(self.plain, {})) as ledger:
            keys = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
            return [ledger.read(key).committed or 0 for key in keys]

    def staged(self) -> bool:
        """Tell whether the ledger has all that was produced."""
        return sum(self.committed()) == self.produced

    def in_table(self) -> bool:
        """Tell whether the table has all that was produced, and nothing twice."""
        seen = ids(self.plain, self.table)
        assert len(seen) == len(set(seen)), "a row is there twice"
        return seen == list(range(self.produced))

    @property
    def plain(self) -> Path:
        """A configuration without proxies."""
        path = self.folder / "plain" / f"{self.topic}.toml"
        if not path.exists():
            self.config("plain", self.sandbox.s3.endpoint_url, self.catalog.url)
        return path


@contextmanager
def opened(
    sandbox: Sandbox, folder: Path, start: Start, ledger: str, control: str
) -> Iterator[Scene]:
    topic = f"steps_{ledger}"
    create_topic(sandbox, topic, PARTITIONS)
    s3 = sandbox.s3
    properties = {
        "s3.endpoint": s3.endpoint_url,
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": s3.secret_key,
        "s3.region": s3.region,
    }
    with ExitStack() as stack:
        catalog = stack.enter_context(
            RestCatalogServer(folder / "catalog.db", f"s3://{s3.bucket}/{topic}", properties)
        )
        yield Scene(sandbox, folder, start, topic, ledger, control, catalog, stack)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("ledger", "control"), [("zookeeper", "kafka"), ("kafka", "none")])
def test_killed_or_stopped_at_any_step_each_row_is_there_once(
    sandbox: Sandbox, tmp_path: Path, start: Start, ledger: str, control: str
) -> None:
    with opened(sandbox, tmp_path, start, ledger, control) as scene:
        end_workers(scene)
        end_coordinators_that_commit(scene)
        verified = run_secor("verify", str(scene.plain))
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert "each is there once" in verified.stdout


def end_workers(scene: Scene) -> None:
    """Each worker has one partition and ends at a step of its first batch; one takes over.

    Who asked them ends, too, when two partitions of three have answered: nothing is in the
    table yet.
    """
    workers = [scene.open() for _ in WORKER_STEPS]
    wait_until(lambda: all(len(partitions_of(it.daemon)) == 1 for it in workers), "one for each")
    # Of the first worker's batch the successor puts the manifest; others' it may just adopt.
    (last_partition,) = partitions_of(workers[0].daemon)
    holds = [
        worker.store.hold("PUT", "/_staged/", answer=done)
        for worker, (_, _, done) in zip(workers, WORKER_STEPS, strict=True)
    ]
    scene.produce()
    asks = scene.control == "kafka"
    coordinator = scene.open(COORDINATE) if asks else None
    for worker, hold, (step, number, _) in zip(workers, holds, WORKER_STEPS, strict=True):
        worker.end_at(hold, step, number)
    successor = scene.open()
    if coordinator is not None:
        last = successor.store.hold("PUT", f"/_staged/{scene.topic}/{last_partition}/")
        wait_until(last.arrived.is_set, "its last manifest is on its way")
        each = scene.produced // PARTITIONS
        expected = [0 if number == last_partition else each for number in range(PARTITIONS)]
        wait_until(lambda: scene.committed() == expected, "two answers")
        coordinator.daemon.kill()
        successor.let_go()
    wait_until(scene.staged, "the successor's ledger entries")
    for worker in workers:
        worker.wake()


def end_coordinators_that_commit(scene: Scene) -> None:
    """One after the other ends at a step; then all that was held goes on at once."""
    ended = []
    for step, where, method, target, done, number in COMMIT_STEPS:
        coordinator = scene.open(COORDINATE)
        proxy = coordinator.catalog if where == "catalog" else coordinator.store
        hold = proxy.hold(method, target.format(scene.topic), answer=done)
        scene.produce()
        coordinator.end_at(hold, step, number)
        ended.append((coordinator, hold))
    last = scene.open(COORDINATE)
    wait_until(scene.in_table, f"the successor's commit\n{last.daemon.text()[-2000:]}")
    for coordinator, _ in ended:
        coordinator.wake()
    wait_until(lambda: all(hold.status is not None for _, hold in ended), "late answers")
    statuses = [hold.status for _, hold in ended]
    assert statuses == [409, 200, 409, 204], statuses
    scene.produce()
    wait_until(scene.in_table, f"all go on\n{last.daemon.text()[-2000:]}")


def partitions_of(daemon: Daemon) -> set[int]:
    """Return which partitions a daemon has, as its log says."""
    running: set[int] = set()
    for line in daemon.text().splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == "running":
            running.add(event["partition"])
        elif event.get("event") == "left":
            running.discard(event["partition"])
    return running
