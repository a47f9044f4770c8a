"""Hypothesis chooses what happens next; it shrinks what it finds."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from secor.batch.policy import Policy
from secor.core.errors import OutcomeUnknown, SecorError, Unavailable
from tests.simulation.chaos import MAY_LAND_LATE, Call, Fault, Kind, failures
from tests.simulation.encodings import ENCODINGS, Encoding
from tests.simulation.parsed import PARSED
from tests.simulation.process import Process, Setup
from tests.simulation.storm import CONFIGURATIONS
from tests.simulation.world import TOPIC, Scene, World, new_world

SECONDS = st.sampled_from([0.5, 3.0, 9.0, 20.0])
PARTITIONS = st.integers(0, 1)


class NextCall:
    """A fault that waits for the next call that it fits."""

    def __init__(self) -> None:
        self.waiting: Fault | None = None
        self.name: str | None = None

    def at(self, call: Call) -> Fault | None:
        fault = self.waiting
        if fault is None or call.name != self.name:
            return None
        if fault.kind is Kind.FAIL and fault.error not in failures(call):
            return None
        if fault.kind is Kind.LATE and (call.name, call.phase) not in MAY_LAND_LATE:
            return None
        self.waiting = None
        return fault


class Backup(RuleBasedStateMachine):
    """The world's operations; the promises are checked at every step between them."""

    parsed = False

    @initialize(
        kafka=st.booleans(),
        cooperative=st.booleans(),
        reshaping=st.booleans(),
        changing=st.booleans(),
        many=PARTITIONS,
        encoding=st.sampled_from(ENCODINGS),
    )
    def begin(
        self,
        kafka: bool,
        cooperative: bool,
        reshaping: bool,
        changing: bool,
        many: int,
        encoding: Encoding,
    ) -> None:
        self.stack = ExitStack()
        self.faults = NextCall()
        scene = Scene(
            ledger="kafka" if kafka else "zookeeper",
            cooperative=cooperative,
            reshaping=reshaping,
            changing=changing,
            restart_after=20.0,
            parsed=self.parsed,
            encoding=encoding,
        )
        self.world: World = self.stack.enter_context(new_world(scene, faults=self.faults))
        for _ in range(many + 1):
            self.start(0, 3)

    @rule(configuration=st.integers(0, len(CONFIGURATIONS) - 1), messages=st.integers(2, 5))
    def start(self, configuration: int, messages: int) -> None:
        if len(self.world.living) < 3:
            self.world.start(self.setup(configuration, messages))

    def setup(self, configuration: int, messages: int) -> Setup:
        configurations = PARSED if self.parsed else CONFIGURATIONS
        setup = Setup(policy=Policy(max_messages=messages, max_age=15.0))
        chosen = configuration if self.world.scene.changing else 0
        return replace(setup, **configurations[chosen]())  # type: ignore[arg-type]

    @rule(partition=PARTITIONS, messages=st.integers(1, 6))
    def produce(self, partition: int, messages: int) -> None:
        if not self.world.log(partition).open:
            self.world.log(partition).append(messages)

    @rule(partition=PARTITIONS, commit=st.booleans())
    def transact(self, partition: int, commit: bool) -> None:
        log = self.world.log(partition)
        if log.open:
            log.decide(commit=commit)
        else:
            log.begin(2)

    @rule(seconds=SECONDS)
    def go_on(self, seconds: float) -> None:
        self.world.run(seconds)

    @rule(steps=st.integers(1, 40))
    def go_on_a_little(self, steps: int) -> None:
        for _ in range(steps):
            self.world.step()

    @rule(
        name=st.sampled_from(["lease", "lease.read", "record", "put", "commit", "delete", "list"]),
        kind=st.sampled_from(list(Kind)),
        error=st.sampled_from([Unavailable, OutcomeUnknown]),
        seconds=SECONDS,
    )
    def break_the_next(
        self, name: str, kind: Kind, error: type[SecorError], seconds: float
    ) -> None:
        self.faults.name = name
        self.faults.waiting = Fault(kind, 0.0 if kind is Kind.CRASH else seconds, error)

    @rule(number=st.integers(0, 2), seconds=SECONDS)
    def stall(self, number: int, seconds: float) -> None:
        process = self.process(number)
        if process is not None:
            process.stall(seconds)

    @rule(number=st.integers(0, 2))
    def stop(self, number: int) -> None:
        process = self.process(number)
        if process is not None:
            process.stop()

    @rule(number=st.integers(0, 2), seconds=SECONDS)
    def cut(self, number: int, seconds: float) -> None:
        process = self.process(number)
        if process is not None:
            process.cut(seconds)

    @rule()
    def rebalance(self) -> None:
        self.world.group.rebalance()

    @rule(partition=PARTITIONS, seed=st.integers(0, 9))
    def compact(self, partition: int, seed: int) -> None:
        if self.world.scene.reshaping:
            self.world.log(partition).compact(random.Random(seed))

    @rule(partition=PARTITIONS, share=st.integers(0, 4))
    def retain(self, partition: int, share: int) -> None:
        log = self.world.log(partition)
        if self.world.scene.reshaping:
            log.retain(log.start + (log.end - log.start) * share // 4)

    def process(self, number: int) -> Process | None:
        living = self.world.living
        return living[number % len(living)] if living else None

    def teardown(self) -> None:
        if not hasattr(self, "stack"):
            return
        with self.stack:
            self.faults.waiting = None
            for log in self.world.broker.logs.values():
                if log.open:
                    log.decide(commit=True)
            self.world.start(self.setup(0, 3))
            self.world.settle()
            for key, log in self.world.broker.logs.items():
                assert key.topic == TOPIC
                assert self.world.ledger.entry(key).committed == log.end


class Partition(Backup):
    """The same with messages that are parsed: several days, quarantine, routes, or nowhere."""

    parsed = True


SETTINGS = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
Backup.TestCase.settings = SETTINGS
Partition.TestCase.settings = SETTINGS
TestBackup = Backup.TestCase
TestPartition = Partition.TestCase
