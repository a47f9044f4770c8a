"""Rows that are changed, their committer killed or stopped at each step of its commit.

``python -m tests.integration.row_change_steps iceberg|hudi``: real servers and a real
Spark; some minutes.  Two ``secor tables run`` are always there, with Spark started: one leads, and
the other follows when the first is held at a step by a proxy and then killed or stopped.  What was
held goes on when the successor has committed.  After each step every row must be as the messages
say, seen by readers that are not ours.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click
import psutil
import pyarrow as pa

from secor.sandbox import Sandbox
from tests.faults.holding import Hold, HoldingProxy
from tests.integration import daemons
from tests.integration.daemons import Daemon, create_topic, secor, write_config
from tests.integration.test_row_changes import MERGING, Rows, produce
from tests.programs import spark_35
from tests.soak.changed_tables import HudiTable, KeyTwice, ReadTable, RestTable
from tests.soak.row_changes import rest_server, with_spark_35

ROOT = Path(__file__).parents[2]
TOPIC = "changed_rows"
TABLE = "rows.flights"
FOREIGN = 999
"""The key of a row that another writer appends; no message has it."""
CONFLICT = 409
CHANGES = 100
"""Messages for each step."""
ROUNDS = 12
"""Of changes while two lead."""

wait_until = partial(daemons.wait_until, patience=MERGING)

ROUTE = """
[[tables]]
table = "rows.flights"
mode = "upsert"
key = ["id"]
auto_create = true
evolve = true
"""
SPARK = """
[spark]
timeout = "{timeout:g}s"
[spark.settings]
"spark.master" = "{master}"
"spark.driver.memory" = "640m"
"spark.executor.memory" = "512m"
"spark.sql.shuffle.partitions" = "2"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A request by which a step is known; see ``Hold``.  ``stops``: SIGSTOP instead of SIGKILL."""

    name: str
    server: str
    method: str
    contains: str
    end: str = ""
    skip: int = 0
    answer: bool = False
    stops: bool = False


_PUBLISH = ("catalog", "POST", "/tables/flights", "/tables/flights", 1)
"""The first such request is Spark's, which stages the snapshot."""
_COMPLETE = ("store", "PUT", "/.hoodie/timeline/", ".commit")

STEPS: Mapping[str, tuple[Step, ...]] = {
    "iceberg": (
        Step("before staging", "store", "GET", "/_changes/"),
        Step("while Spark writes", "store", "PUT", "/data/", ".parquet"),
        Step("staged, not published", *_PUBLISH),
        Step("published, no answer", *_PUBLISH, answer=True),
        Step("published, manifests not deleted", "store", "DELETE", "/_staged/"),
        Step("asleep before it publishes", *_PUBLISH, stops=True),
        Step("asleep while Spark writes", "store", "PUT", "/data/", ".parquet", stops=True),
    ),
    "hudi": (
        Step("before an instant", "store", "GET", "/_changes/"),
        Step("while Spark writes", "store", "PUT", "/rows/flights/", ".parquet"),
        Step("written, not completed", *_COMPLETE),
        Step("completed, no answer", *_COMPLETE, answer=True),
        Step("completed, manifests not deleted", "store", "DELETE", "/_staged/"),
        Step("asleep before it completes", *_COMPLETE, stops=True),
        Step("asleep while Spark writes", "store", "PUT", "/rows/flights/", ".parquet", stops=True),
    ),
}


class Committer(Daemon):
    """``secor tables run`` as a process, with proxies of its own."""

    def __init__(
        self,
        config: Path,
        log: Path,
        environment: Mapping[str, str],
        proxies: Mapping[str, HoldingProxy],
    ) -> None:
        """Start it."""
        self.log = log
        self.proxies = proxies
        with log.open("ab") as file:
            command = secor("tables", "run", str(config))
            self.process = subprocess.Popen(
                command, stdout=file, stderr=file, env={**os.environ, **environment}
            )

    def hold(self, step: Step) -> Hold:
        """Hold its next request of a step."""
        proxy = self.proxies[step.server]
        return proxy.hold(
            step.method, step.contains, answer=step.answer, end=step.end, skip=step.skip
        )

    def let_go(self) -> None:
        """Let its requests go on."""
        for proxy in self.proxies.values():
            proxy.let_go()

    def signal_all(self, number: signal.Signals) -> None:
        """Signal it and its JVM."""
        process = psutil.Process(self.process.pid)
        for each in [process, *process.children(recursive=True)]:
            each.send_signal(number)

    def count(self, event: str) -> int:
        """Return how often its log has an event."""
        return self.text().count(f'"event": "{event}"')

    def said(self, event: str) -> bool:
        """Tell whether its log has an event."""
        return self.count(event) > 0


@dataclass
class Scene:
    """A group with one worker; ``state`` is what its table must hold."""

    kind: str
    sandbox: Sandbox
    folder: Path
    stack: ExitStack
    catalog: str
    read: ReadTable
    environment: Mapping[str, str]
    master: str = "local[2]"
    timeout: float = 300.0
    """Of Spark: ``spark.timeout``, in seconds."""
    state: Rows = field(default_factory=dict)
    committers: list[Committer] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def config(self, name: str, store: str, catalog: str, *, control: str = "kafka") -> Path:
        """Write the configuration of a process that reaches store and catalog there."""
        folder = self.folder / name
        folder.mkdir()
        section = f'[catalog.properties]\ntype = "rest"\nuri = "{catalog}"\n'
        route = ROUTE
        if self.kind == "hudi":
            warehouse = f"s3://{self.sandbox.s3.bucket}/rows/hudi-tables"
            section = f'[hudi]\nwarehouse = "{warehouse}"\n'
            route += 'format = "hudi"\nproperties = {"hoodie.bucket.index.num.buckets" = "2"}\n'
        return write_config(
            folder,
            self.sandbox,
            group="changed",
            topic=TOPIC,
            ledger="zookeeper",
            endpoint_url=store,
            settings={
                "group": {"name": "changed", "kind": "table"},
                "logs": {"level": "debug"},
                "kafka": {"session_timeout": "3s", "heartbeat_interval": "500ms"},
                "parser": {"decoder": "json"},
                "policy": {"max_messages": 1000, "max_age": "1s"},
                "commit": {
                    "interval": "1s",
                    "timeout": "4s",
                    "coordinator": "alone",
                    "control": control,
                    "keep_manifests": "1s",
                },
            },
            more=section + SPARK.format(master=self.master, timeout=self.timeout) + route,
        )

    def open(self, *, control: str = "kafka") -> Committer:
        """Start a committer."""
        name = f"committer-{len(self.committers)}"
        upstream = {"store": self.sandbox.s3.endpoint_url, "catalog": self.catalog}
        proxies = {
            server: self.stack.enter_context(HoldingProxy(url)) for server, url in upstream.items()
        }
        config = self.config(name, proxies["store"].url, proxies["catalog"].url, control=control)
        log = self.folder / f"{name}.log"
        self.committers.append(Committer(config, log, self.environment, proxies))
        self.stack.callback(self.committers[-1].kill)
        return self.committers[-1]

    @property
    def plain(self) -> Path:
        """A configuration without proxies."""
        path = self.folder / "plain" / "changed.toml"
        if not path.exists():
            self.config("plain", self.sandbox.s3.endpoint_url, self.catalog)
        return path

    def produce(self) -> None:
        """Send changes."""
        produce(self.sandbox, self.rng, CHANGES, self.state)

    def is_right(self) -> bool:
        """Tell whether the table has the last state of each key; once, unless somebody is about
        to delete what another has left.
        """
        try:
            return self.read() == self.state
        except KeyTwice:
            return False


def take_steps(scene: Scene, steps: Sequence[Step]) -> Committer:
    """End a leader at each step; prints how long its successor took to commit, and returns it."""
    leader = scene.open()
    wait_until(lambda: leader.said("coordinating"), f"a leader: {leader.log}")
    scene.produce()
    wait_until(scene.is_right, f"the first commit: {leader.log}")
    standby = scene.open()
    for step in steps:
        wait_until(partial(standby.said, "stands_by"), f"a standby: {standby.log}")
        ended, leader = leader, standby
        hold = ended.hold(step)
        scene.produce()
        wait_until(hold.arrived.is_set, f"{step.name}: {ended.log}")
        began = time.monotonic()
        if step.stops:
            ended.signal_all(signal.SIGSTOP)
        else:
            ended.send(signal.SIGKILL)
        if "manifests" in step.name:
            scene.produce()  # else nothing would be left to do
        wait_until(scene.is_right, f"{step.name}, its successor: {leader.log}")
        took = time.monotonic() - began
        ended.let_go()
        standby = wake(ended) if step.stops else scene.open()
        scene.produce()
        wait_until(scene.is_right, f"{step.name}, what was held goes on: {leader.log}")
        print(f"{scene.kind}: {step.name}: followed after {took:.1f} s, all right", flush=True)
    return leader


def wake(slept: Committer) -> Committer:
    """Let one that slept go on: it finds that another leads."""
    stood_by = slept.count("stands_by")
    slept.signal_all(signal.SIGCONT)
    wait_until(lambda: slept.count("stands_by") > stood_by, f"it stands by: {slept.log}")
    return slept


def commit_at_once(scene: Scene, leader: Committer) -> None:
    """Two lead: one was not asked, and both try to commit the same rows."""
    other = scene.open(control="none")
    wait_until(lambda: other.said("coordinating"), f"another leader: {other.log}")

    before = leader.count("table_stopped")

    def stopped() -> bool:
        return leader.count("table_stopped") > before or other.said("table_stopped")

    for _ in range(ROUNDS):
        scene.produce()
        wait_until(lambda: scene.is_right() or stopped(), f"of both: {leader.log} {other.log}")
    other.kill()
    # Hudi: commits that one has completed and the other rolled back are there again.
    wait_until(scene.is_right, f"after both: {leader.log} {other.log}")
    both = [it.count("committed") for it in (leader, other)]
    assert not stopped(), f"a person was needed: {leader.log} {other.log}"
    print(f"{scene.kind}: two at once: all right; {both} commits", flush=True)


def replay(scene: Scene) -> None:
    """Commit again what was rolled back."""
    command = ("tables", "replay", str(scene.plain), TABLE)
    replayed = subprocess.run(
        secor(*command),
        env={**os.environ, **scene.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=MERGING,
    )
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def change_in_between(scene: Scene, leader: Committer, table: RestTable) -> None:
    """Another writer commits while a snapshot is staged; then somebody rolls the table back."""
    hold = leader.hold(Step("", *_PUBLISH))
    scene.produce()
    wait_until(hold.arrived.is_set, f"about to publish: {leader.log}")
    foreign: dict[str, object] = {"id": FOREIGN, "version": 1}
    loaded = table.load()
    loaded.append(pa.Table.from_pylist([foreign], loaded.schema().as_arrow()))
    scene.state[FOREIGN] = foreign
    leader.let_go()
    wait_until(scene.is_right, f"merged again on what another has written: {leader.log}")
    assert hold.status == CONFLICT, hold.status
    print(f"{scene.kind}: another writer in between: merged again, all right", flush=True)

    loaded = table.load()
    before = loaded.metadata.snapshot_by_id(loaded.metadata.current_snapshot_id or 0)
    assert before is not None
    loaded.manage_snapshots().rollback_to_snapshot(before.parent_snapshot_id or 0).commit()
    scene.produce()
    wait_until(partial(leader.said, "table_stopped"), f"it notices: {leader.log}")
    assert not scene.is_right()
    replay(scene)
    wait_until(scene.is_right, f"after the replay: {leader.log}")
    table.load().delete(f"id == {FOREIGN}")
    del scene.state[FOREIGN]
    print(f"{scene.kind}: rolled back, stopped, replayed: all right", flush=True)


def verify(scene: Scene) -> None:
    """Let ``secor verify`` compare, too.

    Readers may see rows of a commit that was taken back, until it is committed again.
    """
    wait_until(lambda: compare(scene)["rows"] == len(scene.state), "verify: all is committed")
    print(f"{scene.kind}: verify: {compare(scene)}", flush=True)


def compare(scene: Scene) -> dict[str, object]:
    """Return what ``secor verify`` says of the table's rows, up to the offsets that it has."""
    finished = subprocess.run(
        secor("verify", "--json", str(scene.plain)),
        env={**os.environ, **scene.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=MERGING,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    [compared] = json.loads(finished.stdout)["states"]
    return dict(compared)


@contextmanager
def scene_of(kind: str, folder: Path) -> Iterator[Scene]:
    """Start the servers and a worker."""
    with ExitStack() as stack:
        servers = ("kafka", "zookeeper", "s3")
        sandbox = stack.enter_context(Sandbox.up(folder / "servers", services=servers))
        create_topic(sandbox, TOPIC, 2)
        catalog, environment = "http://127.0.0.1:1", {"SPARK_LOCAL_IP": "127.0.0.1"}
        bucket = sandbox.s3.bucket
        if kind == "hudi":
            environment = with_spark_35(spark_35(print))
            read: ReadTable = HudiTable(sandbox, f"{bucket}/rows/hudi-tables/rows/flights")
        else:
            rest = rest_server(folder, sandbox)
            stack.callback(rest.stop)
            rest.start()
            catalog, read = rest.uri, RestTable(sandbox, rest.uri, TABLE)
        scene = Scene(kind, sandbox, folder, stack, catalog, read, environment)
        worker = Daemon(scene.config("worker", sandbox.s3.endpoint_url, catalog), folder / "w.log")
        stack.callback(worker.kill)
        yield scene


@click.command()
@click.argument("kind", type=click.Choice(sorted(STEPS)))
@click.option("--folder", type=click.Path(path_type=Path), help="For logs and servers.")
@click.option("--step", "words", multiple=True, help="Only steps with these words in their names.")
@click.option("--others/--no-others", default=True, help="Also what is no step.")
def main(kind: str, folder: Path | None, words: tuple[str, ...], others: bool) -> None:
    """Go through all steps, and compare."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and end what runs
    steps = [it for it in STEPS[kind] if not words or any(word in it.name for word in words)]
    with scene_of(kind, folder or Path(tempfile.mkdtemp())) as scene:
        leader = take_steps(scene, steps)
        if others and isinstance(scene.read, RestTable):
            change_in_between(scene, leader, scene.read)
        if others:
            commit_at_once(scene, leader)
        verify(scene)


if __name__ == "__main__":
    main()
