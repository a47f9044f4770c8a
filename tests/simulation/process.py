"""One daemon process of the simulated world: the real core over the fakes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from secor.archive.kept_schemas import GrowingPlans, KeptSchema, KeptSchemas
from secor.batch.plan import Plans, TopicPlan
from secor.batch.policy import Policy
from secor.commit.uploader import Uploader
from secor.consume.backpressure import BufferLimits
from secor.consume.consumer import Consumer
from secor.consume.positioning import PositionFinder
from secor.core.model import Chunk, Part, TopicPartition
from secor.core.naming import ConnectName, ObjectName, topic_root
from secor.core.ports import LogFormat, MessageParser
from secor.parsing.offset_layout import OffsetBuckets
from secor.schema.growth import Propose
from tests.fakes.format import PlainFormat
from tests.simulation.chaos import Kind
from tests.simulation.invariants import Place
from tests.simulation.parsed import Rules
from tests.simulation.ports import (
    Late,
    PatientLedger,
    SimulatedClock,
    SimulatedExecutor,
    SimulatedStore,
    SimulatedWorkspace,
    TracingObserver,
)
from tests.simulation.scheduler import FOREVER, Crash, Host
from tests.simulation.source import SimulatedSource

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class EvenAndOdd:
    """Two output partitions that every batch has, as a parser of messages would give."""

    identity: str = "even-and-odd"

    def split(self, chunk: Chunk) -> list[Part]:
        offsets = chunk.records.column("offset").to_numpy()
        parts = []
        for name, rest in (("even", 0), ("odd", 1)):
            records = chunk.records.filter(offsets % 2 == rest)
            if records.num_rows:
                parts.append(Part(f"part={name}", records))
        return parts


@dataclass(frozen=True)
class EarlierPlan(TopicPlan):
    """As the version before planned: objects are named by their first message."""

    def object_name(self, topic_partition: TopicPartition, start: int, part: Part) -> ObjectName:
        return super().object_name(topic_partition, part.records.column("offset")[0].as_py(), part)

    @property
    def fingerprint(self) -> str:
        return self.earlier_fingerprint


@dataclass(frozen=True)
class Setup:
    """The configuration of one process; with ``rules`` the partition group's parser.

    ``earlier`` is the version that named objects by their first message; with
    ``names_of_connect`` they are named as Confluent's S3 sink names them.
    """

    prefix: str = "backup"
    generation: int = 1
    parser: MessageParser = field(default_factory=lambda: OffsetBuckets(7))
    log_format: LogFormat = field(default_factory=PlainFormat)
    policy: Policy = field(default_factory=lambda: Policy(max_messages=3, max_age=60.0))
    upload_on_shutdown: bool = True
    upload_on_revoke: bool = False
    rules: Rules | None = None
    earlier: bool = False
    names_of_connect: ConnectName | None = None

    def plan(
        self, topic: str, schema: KeptSchema | None = None, propose: Propose | None = None
    ) -> TopicPlan:
        """Return how ``topic`` is stored; ``schema`` is the version of a kept one."""
        rules = self.rules
        return (EarlierPlan if self.earlier else TopicPlan)(
            group="backup",
            root=topic_root(self.prefix, topic),
            generation=self.generation,
            parser=self.parser if rules is None else rules.parser(schema, propose),
            streams={} if rules is None else rules.streams(self.prefix, topic, self.log_format),
            log_format=self.log_format,
            policy=self.policy,
            upload_on_shutdown=self.upload_on_shutdown,
            upload_on_revoke=self.upload_on_revoke,
            names_of_connect=self.names_of_connect,
        )

    def place(self, topic: str, schema: KeptSchema | None = None) -> Place | None:
        """Return what says where a message belongs, None where the offset decides."""
        rules = self.rules
        if rules is None:
            return None
        return lambda value: rules.place(self.prefix, topic, value, schema)


class Process(Host):
    """Its loop, its client's thread, its commits; all end with it."""

    def __init__(self, world: World, name: str, setup: Setup, directory: Path) -> None:
        super().__init__(name)
        self._world = world
        self._hub = world.hub
        self.setup = setup
        self.stopping = False
        self.died = 0
        self.clock = SimulatedClock(world.hub)
        self.observer = TracingObserver(lambda text: self._hub.tell(f"{name} {text}"))
        self.ledger = world.ledger.client(
            name, before=self._ledger_hook("before"), after=self._ledger_hook("after")
        )
        self.store = SimulatedStore(
            world.hub,
            world.store,
            world.wire,
            lambda call, key: self.point("store", call, "before", key),
            lambda call, key: self.point("store", call, "after", key),
        )
        self.source = SimulatedSource(
            world.hub,
            world.broker,
            world.group,
            self.ledger,
            lambda port, call, phase: self.point(port, call, phase, ""),
            name=name,
            release_wait=world.scene.release_wait,
            most=world.fetch_size,
        )
        self.workspace = SimulatedWorkspace(directory, name)
        self.consumer = self._consumer()
        self._hub.spawn(self, "client", self.source.stay_member)
        self._hub.spawn(self, "loop", self._loop)

    def _ledger_hook(self, phase: str) -> Callable[[str, TopicPartition], None]:
        return lambda call, key: self.point("ledger", call, phase, str(key))

    def _plans(self) -> Plans:
        setup = self.setup
        if setup.rules is None or not setup.rules.growing:
            return lambda topic, _: setup.plan(topic)

        @cache
        def growing(topic: str) -> GrowingPlans:
            def make(schema: KeptSchema, propose: Propose | None) -> TopicPlan:
                plan = setup.plan(topic, schema, propose)
                self._world.watch.places[plan.fingerprint] = setup.place(topic, schema)
                return plan

            root = topic_root(setup.prefix, topic)
            kept = KeptSchemas(self.store, root, setup.generation)
            return GrowingPlans(kept, make, self._listener(topic))

        return lambda topic, tried: growing(topic).plan(tried)

    def _listener(self, topic: str) -> Callable[[int, list[str], list[str]], None]:
        return lambda *grown: self.observer.schema_grew(topic, *grown)

    def _consumer(self) -> Consumer:
        rng = random.Random(f"retries {self.name}")
        ledger = PatientLedger(self.ledger, self._hub)
        return Consumer(
            source=self.source,
            positioning=PositionFinder(
                ledger=ledger,
                source=self.source,
                store=self.store,
                plans=self._plans(),
                clock=self.clock,
                observer=self.observer,
                rng=rng,
                lease_timeout=20.0,
            ),
            uploader=Uploader(
                ledger=ledger,
                store=self.store,
                clock=self.clock,
                owner=self.name,
                observer=self.observer,
                rng=rng,
                request_lifetime=self._world.request_lifetime,
                lease_timeout=20.0,
            ),
            executor=SimulatedExecutor(self._hub, self),
            workspace=self.workspace,
            limits=self._world.scene.limits or BufferLimits(memory=1 << 20, local=1 << 20),
            clock=self.clock,
            observer=self.observer,
            round_seconds=self._world.scene.round_seconds,
        )

    # ------------------------------------------------------------------ life

    def _loop(self) -> None:
        while not self.stopping:
            self.consumer.run_once(self._world.scene.poll)
        self.consumer.drain()
        while not self.consumer.drained:
            self.consumer.run_once(self._world.scene.poll)
        self.source.close()
        self.ledger.close()
        self.workspace.close()
        self.died = self._hub.steps
        self._hub.kill(self)

    def stop(self) -> None:
        """SIGTERM: upload what is open, leave the group, end."""
        if not self.stopping:
            self._hub.tell(f"{self.name} is asked to stop")
            self.stopping = True

    def crash(self) -> None:
        """SIGKILL: nothing is said to anybody; the servers find out in their own time."""
        if not self.alive:
            return
        self._hub.tell(f"{self.name} CRASHES")
        self.died = self._hub.steps
        self._hub.kill(self)
        self.workspace.abandon()
        self._unheard()
        self._world.crashed(self)

    def stall(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        if self.stalled_until > self._hub.now or not self.alive:
            return
        deadlines = [task.deadline for task in self._hub.tasks if task.host is self]
        seconds = min([seconds, *(deadline - self._hub.now for deadline in deadlines)])
        self._hub.tell(f"{self.name} STALLS for {seconds:g} s")
        self.stalled_until = self._hub.now + seconds
        self._unheard()

    def cut(self, seconds: float) -> None:
        """The ledger does not hear it for ``seconds``; it knows that it is cut off."""
        if not self.ledger.available:
            return
        self._hub.tell(f"{self.name} is CUT OFF from the ledger for {seconds:g} s")
        self.ledger.available = False
        expires = self._world.ledger.kind == "zookeeper" and seconds >= self._world.session

        def reconnect() -> None:
            if expires:
                self.ledger.learn()
            self.ledger.available = True
            self.ledger._sweep()  # as the real one does: locks that it could not give back

        def back() -> None:
            if self.alive:
                self._hub.spawn(self, "session", reconnect)

        if expires:
            ends = self._hub.now + self._world.session
            self._hub.at(ends, lambda: self._world.ledger.expire(self.ledger, told=False))
        self._hub.at(self._hub.now + seconds, back)

    def _unheard(self) -> None:
        """Its session ends at the servers, unless it comes back in time."""
        ends = self._hub.now + self._world.session
        member = self.source.member

        def give_up() -> None:
            if self.alive and self.stalled_until <= ends:
                return
            if self._world.ledger.kind == "zookeeper":
                self._world.ledger.expire(self.ledger, told=False)
                if self.alive:
                    self._hub.spawn(self, "session", self.ledger.learn)
            if member is not None:
                self._world.group.leave(member)

        self._hub.at(ends, give_up)

    # ---------------------------------------------------------------- faults

    def point(self, port: str, name: str, phase: str, what: str) -> None:
        """Let others run, and perhaps fail, at a call that crosses a port."""
        if not self.alive:
            raise Crash
        task = self._hub.current
        if task is None:
            return
        # By hand: this is called half a million times, and a context manager takes as long.
        task.deadline = self._hub.now + self._world.in_flight(name, phase)
        try:
            self._hub.give_way()
            call = self._world.call(self.name, port, name, phase, what)
            fault = self._world.faults.at(call)
            if fault is None:
                return
            self._hub.tell(f"{call}: {fault}")
            if fault.kind is Kind.CRASH:
                self.crash()
                raise Crash
            if fault.kind is Kind.FAIL:
                raise fault.error(f"simulated at {call}")
            if fault.kind is Kind.LATE:
                raise Late(self._world.late(fault.seconds))
            if fault.kind is Kind.STALL_PROCESS:
                self.stall(fault.seconds)
            else:
                task.stalled_until = min(self._hub.now + fault.seconds, task.deadline)
            self._hub.give_way()
        finally:
            task.deadline = FOREVER
