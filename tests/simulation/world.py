"""The whole simulated world, and the order of a run: storm, then calm, then rest."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from crc32c import crc32c

from secor.consume.backpressure import BufferLimits
from secor.consume.consumer import ROUND
from secor.core.model import Intent, TopicPartition
from secor.core.ports import LogFormat
from tests.fakes.ledger import Kind as LedgerKind
from tests.fakes.ledger import LedgerServer
from tests.fakes.store import FakeStore
from tests.simulation.chaos import Call, Faults, NoFaults
from tests.simulation.encodings import Encoding
from tests.simulation.group import Group
from tests.simulation.invariants import Violated, Watch
from tests.simulation.log import Broker, Log, Message, plain_message
from tests.simulation.parsed import messages
from tests.simulation.process import Process, Setup
from tests.simulation.scheduler import FOREVER, Choices, FirstComeChoices, Host, Hub

TOPIC = "clicks"
SESSION = 10.0
IN_FLIGHT = 30.0
"""Seconds; of requests in a world in which configurations change."""
REQUEST_LIFETIME = SESSION + 2 * IN_FLIGHT
PLANTED = "planted"
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Scene:
    """What a world is made of.

    ``reshaping`` says that the log may come to make other objects of the same range: it is
    compacted, or its beginning deleted.  ``changing`` says that the configuration may; puts and
    deletions are then under way for ``IN_FLIGHT`` at most, and land ``IN_FLIGHT`` later at most,
    which is what the processes are told of requests.  ``restart_after`` is when a process that
    crashed is started again, in seconds.  With ``round_seconds`` 0 a process handles one fetch a
    round, and has the others in hand meanwhile.  With ``parsed`` messages have fields, in an
    ``encoding``, and setups have rules for them; with ``growing``, too, such as a schema has to
    grow for.
    """

    ledger: LedgerKind = "zookeeper"
    cooperative: bool = True
    partitions: int = 2
    release_wait: float = 0.0
    reshaping: bool = False
    changing: bool = False
    limits: BufferLimits | None = None
    poll: float = 1.0
    round_seconds: float = ROUND
    restart_after: float | None = None
    parsed: bool = False
    growing: bool = False
    encoding: Encoding = "json"

    @property
    def message(self) -> Message:
        """What its messages say."""
        if not self.parsed:
            return plain_message
        return messages(self.encoding, growing=self.growing)


class World:
    """Broker, group, ledger, store, processes; ``step`` lets one thing happen."""

    def __init__(
        self,
        directory: Path,
        scene: Scene,
        *,
        choices: Choices | None = None,
        faults: Faults | None = None,
        fetch_size: Callable[[], int] = lambda: 3,
    ) -> None:
        self.scene = scene
        self.session = SESSION
        self.request_lifetime = REQUEST_LIFETIME
        self.directory = directory
        self.wire = directory / "wire"
        self.wire.mkdir()
        self.hub = Hub(choices or FirstComeChoices())
        self.faults = faults or NoFaults()
        self.fetch_size = fetch_size
        self.broker = Broker(message=scene.message)
        self.broker.create(TOPIC, scene.partitions)
        self.group = Group(
            self.hub, lambda: self.broker.logs, cooperative=scene.cooperative, session=SESSION
        )
        self.ledger = LedgerServer(kind=scene.ledger, trust=SESSION / 2)
        self.store = FakeStore()
        self.processes: list[Process] = []
        self.started = 0
        self.calls: list[Call] = []
        self.successor: Callable[[Setup], Setup] = lambda setup: setup
        self.between: Callable[[], None] = lambda: None
        self.outside = Host("world")
        self._formats: dict[str, LogFormat] = {}
        self.watch = Watch(self.broker, self.ledger, self.store, self._formats)

    def log(self, partition: int = 0) -> Log:
        """A partition's log."""
        return self.broker.logs[TopicPartition(TOPIC, partition)]

    def start(self, setup: Setup | None = None) -> Process:
        """Start a process."""
        setup = setup or Setup()
        if setup.rules is not None:
            rules = replace(setup.rules, encoding=self.scene.encoding)
            setup = replace(setup, rules=rules)
        plan = setup.plan(TOPIC)  # of a kept schema the versions come when they are known
        self._formats[plan.log_format.extension] = plan.log_format
        for stream in plan.streams.values():
            self._formats[stream.log_format.extension] = stream.log_format
        self.watch.places[plan.fingerprint] = setup.place(TOPIC)
        process = Process(self, f"p{len(self.processes)}", setup, self.directory / "local")
        self.processes.append(process)
        self.started = self.hub.steps
        self.hub.tell(f"{process.name} starts")
        return process

    @property
    def living(self) -> list[Process]:
        """Processes that run or are stalled."""
        return [process for process in self.processes if process.alive]

    def crashed(self, process: Process) -> None:
        """Start it again if the scene says so, perhaps as ``successor``, after ``between``."""
        if self.scene.restart_after is None:
            return

        def restart() -> None:
            self.between()
            self.start(self.successor(process.setup))

        self.hub.at(self.hub.now + self.scene.restart_after, restart)

    def in_flight(self, name: str, phase: str) -> float:
        """Return how long a task may be kept at this call."""
        if self.scene.changing and phase == "before" and name in {"put", "delete"}:
            return IN_FLIGHT
        return FOREVER

    def late(self, seconds: float) -> float:
        """Return how long a request may take that nobody waits for any more."""
        return min(seconds, IN_FLIGHT) if self.scene.changing else seconds

    def call(self, process: str, port: str, name: str, phase: str, what: str) -> Call:
        """Number a call; polls have no number, because what they see is numbered elsewhere."""
        if name == "poll":
            return Call(-1, process, port, name, phase, what)
        call = Call(len(self.calls), process, port, name, phase, what)
        self.calls.append(call)
        return call

    def operator_sets(self, key: TopicPartition, offset: int, intent: Intent | None = None) -> None:
        """Move ``committed`` past all processes, as a person does."""
        self.ledger.put(key, b"%d" % offset, intent, self.broker.topic_ids[key.topic])
        self.watch.committed[key] = offset

    def plant(self, key: str) -> None:
        """Put an object that is not the group's."""
        body = self.wire / PLANTED
        body.write_bytes(b"a stranger's")
        self.watch.foreign.add(key)
        self.store.put(key, body, crc32c(b"a stranger's"), {})

    # ------------------------------------------------------------------ runs

    def step(self) -> bool:
        """Let one thing happen, and check the promises."""
        went = self.hub.step()
        self.watch.check()
        return went

    def run(self, seconds: float = FOREVER, *, until: Callable[[], bool] | None = None) -> None:
        """Go on for some time, or until a condition holds."""
        end = self.hub.now + seconds
        while self.hub.now < end and not (until is not None and until()):
            if not self.step():
                return

    def settle(self, seconds: float = 3000.0) -> None:
        """Let everything drain without further faults.  Raises ``Violated`` if it does not."""
        end = self.hub.now + seconds
        checked = 0
        while self.hub.now < end:
            if not self.step():
                break
            checked += 1
            if checked % 20 == 0 and not any(self._unfinished()):
                self.watch.check_all()
                return
        raise Violated(f"not at rest after {seconds:g} s: " + "; ".join(self.unfinished()))

    def unfinished(self) -> list[str]:
        """Return what keeps the world from rest."""
        return list(self._unfinished())

    def _unfinished(self) -> Iterator[str]:
        """Give what takes least time to find out first: mostly the first is all that is asked."""
        yield from self.watch.unfinished()
        late = (path.name for path in self.wire.iterdir() if path.name != PLANTED)
        yield from (f"the put {name} is on its way" for name in late)
        for process in self.living:
            yield from (f"{process.name} keeps {path.name}" for path in process.workspace.files)
        stays = {directory.name for directory in (self.directory / "local").iterdir()}
        for process in self.processes:
            if not process.alive and process.name in stays and process.died < self.started:
                yield f"the directory of {process.name} stays"

    def close(self) -> None:
        """End every greenlet."""
        living = self.living
        self.hub.close()
        for process in living:
            process.workspace.abandon()


@contextmanager
def new_world(
    scene: Scene,
    *,
    choices: Choices | None = None,
    faults: Faults | None = None,
    fetch_size: Callable[[], int] = lambda: 3,
) -> Iterator[World]:
    """Make a world on a directory of its own; a failure carries the trace."""
    place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place, prefix="secor-simulation-") as directory:
        world = World(Path(directory), scene, choices=choices, faults=faults, fetch_size=fetch_size)
        try:
            yield world
        finally:
            world.close()
