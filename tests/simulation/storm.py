"""One random run: a world, faults at calls, accidents around; then calm, and everything drains."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from secor.batch.policy import Age, Policy
from secor.consume.backpressure import BufferLimits
from secor.core.naming import ConnectName
from secor.formats import make_format
from secor.parsing.offset_layout import OffsetBuckets
from tests.fakes.format import PlainFormat
from tests.simulation.chaos import RandomFaults, Rates
from tests.simulation.encodings import ENCODINGS, Encoding
from tests.simulation.log import Log
from tests.simulation.parsed import PARSED, other_extension
from tests.simulation.process import EvenAndOdd, Process, Setup
from tests.simulation.scheduler import RandomChoices
from tests.simulation.world import TOPIC, Scene, World, new_world

STORM_STEPS = 900
STORM_SECONDS = 400.0
PARSED_SEEDS = (2, 5)
"""Of eight seeds, those whose worlds belong to a partition group."""

GROWING_SEED = 5
"""Of those, the one in whose worlds messages come for which schemas have to grow."""

NAMED_SEEDS = (7, 10)
"""Of sixteen seeds, those in whose worlds a configuration names objects as Confluent's sink."""

CONFIGURATIONS: tuple[Callable[[], dict[str, object]], ...] = (
    dict,
    lambda: {"log_format": PlainFormat("changed")},
    lambda: {"log_format": other_extension()},
    lambda: {"parser": OffsetBuckets(4)},
    lambda: {"parser": EvenAndOdd()},
    lambda: {"prefix": "elsewhere"},
    lambda: {"generation": 2},
    lambda: {"log_format": make_format("sequencefile", keys="messagepack", codec="gzip")},
    lambda: {"earlier": True},
)


@dataclass
class Outcome:
    """How a run ended; ``faults`` are the ordinals of what happened."""

    seed: int
    failure: str | None
    trace: list[str]
    faults: list[int]
    calls: int
    messages: int
    counts: dict[str, int] = field(default_factory=dict)


def draw_scene(rng: random.Random, *, parsed: bool) -> Scene:
    """Return a world in which much may happen, or little."""
    ledger = rng.choice(("zookeeper", "kafka"))
    reshaping, changing = rng.random() < 0.5, rng.random() < 0.4
    waits = rng.choice((0.0, 0.0, 15.0))
    return Scene(
        ledger="kafka" if ledger == "kafka" else "zookeeper",
        cooperative=rng.random() < 0.5,
        partitions=rng.randint(1, 3),
        release_wait=waits,
        reshaping=reshaping,
        changing=changing,
        limits=rng.choice((None, None, BufferLimits(memory=120, local=400))),
        parsed=parsed,
    )


def _named_as_confluents(
    configuration: Callable[[], dict[str, object]],
) -> Callable[[], dict[str, object]]:
    # Such names have no generation, and the version before had none of them.
    names = {"generation": 1, "earlier": False, "names_of_connect": ConnectName()}
    return lambda: {**configuration(), **names}


class Storm:
    """The accidents around the processes, as a task of the world."""

    def __init__(self, world: World, seed: int, muted: frozenset[int]) -> None:
        self._world = world
        self._rng = random.Random(f"storm {seed}")
        self._muted = muted
        self.happened: list[int] = []
        self._drawn = 0
        self.over = False
        self._changing = world.scene.changing
        # Few, so that one comes back after another has superseded it.
        all_of_them = PARSED if world.scene.parsed else CONFIGURATIONS
        self._configurations = self._rng.sample(all_of_them, self._rng.randint(2, 3))
        if seed % 16 in NAMED_SEEDS:
            self._configurations[0] = _named_as_confluents(self._configurations[0])
        self._configuration = all_of_them[0 if self._rng.random() < 0.8 else -2]
        self._reshaped = False
        accidents: list[Callable[[], None]] = [
            self._produce,
            self._transact,
            self._replace,
            self._stop_one,
            self._rebalance,
            self._skew,
            self._poison,
            self._fill_disk,
            self._cut,
            self._grow,
        ]
        if world.scene.reshaping:
            accidents += [self._compact, self._retain, self._compact]
        self._accidents = [
            accident for accident in accidents if self._rng.random() < 0.6
        ] or accidents
        self._accidents += [self._produce, self._produce, self._replace]

    def begin(self) -> None:
        """Some messages, one to three processes."""
        for log in self._world.broker.logs.values():
            log.append(self._rng.randint(0, 9))
        for _ in range(self._rng.randint(1, 3)):
            self._start()
        self._world.hub.spawn(self._world.outside, "storm", self._blow)

    def calm(self) -> None:
        """Mend what is broken; what was delayed stays delayed."""
        self.over = True
        for log in self._world.broker.logs.values():
            log.poisoned.clear()
            if log.open:
                log.decide(commit=True)
        for process in self._world.living:
            process.workspace.full = False
        self._start()

    def _blow(self) -> None:
        while not self.over:
            self._world.hub.sleep(self._rng.choice((0.0, 0.5, 2.0, 7.0, 15.0)))
            accident = self._rng.choice(self._accidents)
            state = self._rng.random()
            self._drawn += 1
            if self.over or -self._drawn in self._muted:
                continue
            self.happened.append(-self._drawn)
            self._rng.seed(f"{self._drawn} {state}")
            accident()

    # ------------------------------------------------------------- accidents

    def _one_log(self) -> Log:
        return self._rng.choice(list(self._world.broker.logs.values()))

    def _one_process(self) -> Process | None:
        living = self._world.living
        return self._rng.choice(living) if living else None

    def _setup(self) -> Setup:
        rng = self._rng
        max_messages = rng.randint(2, 5)
        policy = Policy(
            max_messages=max_messages,
            max_age=rng.choice((15.0, 40.0, 90.0)),
            age=rng.choice((Age.OLDEST, Age.YOUNGEST)),
            minute_mark=rng.choice((None, None, 7)),
            max_files=max_messages - 2 or None,
        )
        if self._changing and rng.random() < 0.8:
            self._configuration = rng.choice(self._configurations)
        settings = self._configuration()
        if self._reshaped:
            settings.pop("earlier", None)  # what it cannot bear is why there is a later version
        return Setup(
            policy=policy,
            upload_on_shutdown=rng.random() < 0.7,
            upload_on_revoke=rng.random() < 0.3,
            **settings,  # type: ignore[arg-type]
        )

    def _start(self) -> None:
        self._world.start(self._setup())

    def _produce(self) -> None:
        log = self._one_log()
        if not log.open:
            log.append(self._rng.randint(1, 6))

    def _transact(self) -> None:
        log = self._one_log()
        if log.open:
            log.decide(commit=self._rng.random() < 0.5)
        else:
            log.begin(self._rng.randint(1, 4))

    def _may_reshape(self) -> bool:
        """Tell whether the version lives that cannot bear that; from now on it is not started."""
        if any(process.setup.earlier for process in self._world.living):
            return False
        self._reshaped = True
        return True

    def _compact(self) -> None:
        log = self._one_log()
        if not self._may_reshape():
            return
        self._world.hub.tell(f"{log.topic_partition} is compacted")
        log.compact(self._rng)

    def _retain(self) -> None:
        log = self._one_log()
        if self._rng.random() < 0.3 and self._may_reshape():
            start = self._rng.randint(log.start, log.end)
            self._world.hub.tell(f"{log.topic_partition} begins at {start}")
            log.retain(start)

    def _replace(self) -> None:
        if len(self._world.living) < 3:
            self._start()

    def _stop_one(self) -> None:
        process = self._one_process()
        if process is not None:
            process.stop()

    def _rebalance(self) -> None:
        self._world.group.rebalance()

    def _skew(self) -> None:
        process = self._one_process()
        if process is not None:
            process.clock.skew = self._rng.choice((0.0, -5000.0, 3600.0, 1e7))

    def _poison(self) -> None:
        log = self._one_log()
        if log.records:
            log.poisoned.add(self._rng.choice(sorted(log.records)))
            self._world.hub.at(
                self._world.hub.now + self._rng.choice((5.0, 80.0)), log.poisoned.clear
            )

    def _fill_disk(self) -> None:
        process = self._one_process()
        if process is not None:
            workspace = process.workspace
            workspace.full = True
            self._world.hub.at(
                self._world.hub.now + 20.0, lambda: setattr(workspace, "full", False)
            )

    def _cut(self) -> None:
        """The ledger does not hear one process for a while, perhaps for longer than a session."""
        process = self._one_process()
        if process is not None:
            process.cut(self._rng.choice((2.0, 8.0, 14.0, 60.0)))

    def _grow(self) -> None:
        if len(self._world.broker.logs) < 4:
            self._world.broker.create(TOPIC, len(self._world.broker.logs) + 1)
            self._world.group.rebalance()


def run(seed: int, muted: frozenset[int] = frozenset()) -> Outcome:
    """One schedule.  Never raises for a broken promise: the outcome tells."""
    rng = random.Random(f"scene {seed}")
    growing = seed % 8 == GROWING_SEED
    scene = draw_scene(rng, parsed=seed % 8 in PARSED_SEEDS)
    if seed % 3 == 0:
        scene = replace(scene, round_seconds=0.0)
    encoding: Encoding = "json" if growing else ENCODINGS[seed // 8 % len(ENCODINGS)]
    scene = replace(scene, growing=growing, encoding=encoding)
    rates = Rates.draw(rng)
    longest = rng.choice((15.0, 100.0))
    if scene.reshaping or scene.changing:
        # Crashes between intent and commit are what brings successors into play.
        crash = max(rates.crash, 0.01)
        rates = replace(rates, crash=crash)
    faults = RandomFaults(seed, rates, longest=longest, muted=muted)
    sizes = random.Random(f"sizes {seed}")
    choices = RandomChoices(seed, rng.choice((0.0, 0.02, 0.1)))
    with new_world(
        scene, choices=choices, faults=faults, fetch_size=lambda: sizes.randint(1, 4)
    ) as world:
        storm = Storm(world, seed, muted)
        failure = None
        try:
            storm.begin()
            end = world.hub.now + STORM_SECONDS
            while world.hub.steps < STORM_STEPS and world.hub.now < end:
                world.step()
            world.hub.tell("calm")
            faults.ceased = True
            choices.leaps = 0.0
            storm.calm()
            world.settle()
        except Exception as error:  # noqa: BLE001 - whatever the program raises ends the run
            failure = f"{type(error).__name__}: {error}"
        counts: dict[str, int] = {}
        for process in world.processes:
            for name, many in process.observer.counts.items():
                counts[name] = counts.get(name, 0) + many
        return Outcome(
            seed,
            failure,
            [f"{scene}", f"{rates}", *world.hub.trace],
            [*faults.happened, *storm.happened],
            len(world.calls),
            sum(log.produced for log in world.broker.logs.values()),
            counts,
        )


def smallest(outcome: Outcome, tries: int = 60) -> Outcome:
    """Leave out faults, as long as the run still fails in the same way."""
    kind = (outcome.failure or "").partition(":")[0]
    best, muted = outcome, frozenset[int]()
    for fault in sorted(outcome.faults, reverse=True)[:tries]:
        again = run(outcome.seed, muted | {fault})
        if again.failure is not None and again.failure.startswith(kind):
            best, muted = again, muted | {fault}
    return best
