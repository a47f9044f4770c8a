"""What is done to the servers and the daemons, drawn from a seed."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from secor.sandbox.process import Server
from tests.faults.proxy import Fault, Rule
from tests.integration.daemons import run_secor
from tests.soak.audit import AuditingProxy
from tests.soak.fleet import Fleet
from tests.soak.load import COMPACTED_TOPIC
from tests.soak.rewrites import Rewrites
from tests.soak.story import Story
from tests.soak.table_mischief import Deed, TableMischief

SESSION = 6.0
"""Seconds of the daemons' session with the broker; that with ZooKeeper is shorter."""

_PUTS_HELD = 5.0
"""Seconds in which the daemons have begun puts that are held up."""

PAUSE = 4.0
"""Seconds between the beginnings of two acts, on average."""
_WEATHER_LASTS = 20.0


@dataclass(frozen=True, slots=True)
class Act:
    """``begin``, ``seconds`` later ``end``.  Two acts on one ``target`` never overlap."""

    target: str
    detail: str
    seconds: float
    begin: Callable[[], object]
    end: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where it happens; ``disk`` is the small file system of the daemons, None for none.

    ``session`` is theirs with the broker, in seconds; ``job`` the file of a restore, whose
    daemons read the store and take a person's commands.
    """

    servers: Mapping[str, Server]
    proxy: AuditingProxy
    fleet: Fleet
    disk: Path | None
    session: float = SESSION
    pause: float = PAUSE
    job: Path | None = None
    tables: TableMischief | None = None
    rewrites: Rewrites | None = None


class Mischief:
    """Does one act after the other, overlapping, until it is told to cease."""

    def __init__(self, stage: Stage, story: Story, seed: int, longest: float) -> None:
        """``longest`` bounds an outage of the store, in seconds."""
        self._stage = stage
        self._story = story
        self._rng = random.Random(seed)
        self._longest = longest
        self._over = threading.Event()
        self._threads = ThreadPoolExecutor(16, thread_name_prefix="mischief")
        self._busy: dict[str, Future[None]] = {}
        self._kinds = self._table()
        self._next = self._story.now() + stage.pause
        self._weather_until = 0.0
        self._weather: list[Rule] = []
        self._rules: dict[str, list[Rule]] = {}
        self._lock = threading.Lock()
        self.done: Counter[str] = Counter()

    def step(self) -> None:
        """Begin what is due; called often."""
        now = self._story.now()
        self._busy = {k: v for k, v in self._busy.items() if not self._ended(v)}
        if now >= self._weather_until:
            self._weather_until = now + _WEATHER_LASTS
            self._change_weather()
        if now < self._next:
            return
        self._next = now + self._rng.expovariate(1 / self._stage.pause)
        kinds = list(self._kinds)
        kind = self._rng.choices(kinds, [self._kinds[k][0] for k in kinds])[0]
        act = self._kinds[kind][1]()
        if act.target not in self._busy:
            self._busy[act.target] = self._threads.submit(self._play, kind, act)

    def cease(self) -> None:
        """End everything and let all be well; returns when it is."""
        self._over.set()
        for future in self._busy.values():
            future.result()
        self._threads.shutdown()
        self._rules, self._weather = {}, []
        self._apply()

    @staticmethod
    def _ended(future: Future[None]) -> bool:
        if future.done():
            future.result()
            return True
        return False

    def _play(self, kind: str, act: Act) -> None:
        happening = self._story.begin(kind, act.detail)
        self.done[kind] += 1
        act.begin()
        self._over.wait(act.seconds)
        act.end()
        self._story.end(happening)

    # ------------------------------------------------------------- the kinds

    def _table(self) -> dict[str, tuple[int, Callable[[], Act]]]:
        kinds = {
            "killed": (8, self._kill),
            "stalled": (6, self._stall),
            "left": (4, self._leave),
            "joined": (4, self._join),
            "broker restarted": (2, lambda: self._restart("kafka")),
            "broker stalled": (2, lambda: self._freeze("kafka")),
            "store out": (3, self._outage),
            "store stalled": (1, lambda: self._freeze("s3")),
            "slow down": (2, self._slow_down),
            "late puts": (3, self._late_puts),
            "late and taken over": (5, self._late_and_taken_over),
            "lost answers": (2, self._lost_answers),
        }
        if "zookeeper" in self._stage.servers:
            kinds["ZooKeeper restarted"] = (2, lambda: self._restart("zookeeper"))
            kinds["ZooKeeper stalled"] = (2, lambda: self._freeze("zookeeper"))
        if self._stage.disk is not None:
            kinds["disk full"] = (2, self._full_disk)
        if self._stage.job is not None:
            for puts in ("late puts", "late and taken over", "lost answers"):
                del kinds[puts]
            kinds["fenced by a person"] = (2, self._fence)
            kinds["paused by a person"] = (1, self._pause)
        for more in (self._stage.tables, self._stage.rewrites):
            if more is not None:
                kinds |= {
                    name: (weight, partial(_act_of, make))
                    for name, (weight, make) in more.kinds().items()
                }
        return kinds

    def _slot(self) -> int:
        """Choose a daemon; the first of several lives to the end, to see what it gathers.

        Not in a table group: there the first one would coordinate to the end.
        """
        last = self._stage.fleet.size - 1
        first = 0 if self._stage.tables is not None else min(1, last)
        return self._rng.randrange(first, last + 1)

    def _kill(self) -> Act:
        slot, fleet = self._slot(), self._stage.fleet
        return Act(
            f"daemon {slot}",
            f"daemon {slot} by SIGKILL",
            self._rng.uniform(0, 6),
            lambda: fleet.of(slot).kill(),
            lambda: fleet.fill(slot),
        )

    def _stall(self) -> Act:
        slot, fleet = self._rng.randrange(self._stage.fleet.size), self._stage.fleet
        long = self._rng.random() < 0.7
        seconds = (
            self._rng.uniform(1.2, 3) * self._stage.session if long else self._rng.uniform(1, 4)
        )
        member = fleet.of(slot)
        detail = f"daemon {slot} for {seconds:.1f} s"
        return Act(f"daemon {slot}", detail, seconds, member.stall, member.wake)

    def _leave(self) -> Act:
        slot, fleet = self._slot(), self._stage.fleet
        return Act(
            f"daemon {slot}",
            f"daemon {slot} by SIGTERM",
            self._rng.uniform(0, 10),
            lambda: fleet.of(slot).leave(self._story.now()),
            lambda: fleet.fill(slot),
        )

    def _join(self) -> Act:
        guests, fleet = [], self._stage.fleet
        seconds = self._rng.uniform(10, 30)
        return Act(
            "guest",
            f"another daemon for {seconds:.0f} s",
            seconds,
            lambda: guests.append(fleet.guest()),
            lambda: guests[0].leave(self._story.now()),
        )

    def _restart(self, name: str) -> Act:
        server, kill = self._stage.servers[name], self._rng.random() < 0.5
        seconds = self._rng.uniform(0, 10)
        how = "killed" if kill else "stopped"
        return Act(
            name,
            f"{how}, down for {seconds:.0f} s",
            seconds,
            server.kill if kill else server.stop,
            server.start,
        )

    def _freeze(self, name: str) -> Act:
        server, seconds = self._stage.servers[name], self._rng.uniform(2, 12)
        return Act(name, f"for {seconds:.0f} s", seconds, server.pause, server.resume)

    def _outage(self) -> Act:
        seconds = self._rng.uniform(self._longest / 4, self._longest)
        return Act(
            "outage",
            f"every request is reset, for {seconds:.0f} s",
            seconds,
            lambda: self._out(True),
            lambda: self._out(False),
        )

    def _out(self, out: bool) -> None:
        self._stage.proxy.outage = out

    def _slow_down(self) -> Act:
        return self._rule("most requests get 503", 15, Rule(Fault.SLOW_DOWN, probability=0.9))

    def _lost_answers(self) -> Act:
        return self._rule("half of the puts", 12, Rule(Fault.LOST, "PUT", probability=0.5))

    def _late_puts(self) -> Act:
        seconds = self._rng.uniform(6, 25)
        late = Rule(Fault.DELAY, "PUT", probability=0.4, seconds=seconds)
        return self._rule(f"many puts take effect {seconds:.0f} s later", 12, late)

    def _late_and_taken_over(self) -> Act:
        """Puts of the compacted topic are held up, and their daemon is killed or stopped.

        Its successor reads the same range of a log that has been compacted since; then the
        puts take effect.
        """
        slot, fleet = self._slot(), self._stage.fleet
        name, held = "rule taken over", self._rng.uniform(2, 5) * SESSION
        kill = self._rng.random() < 0.5
        late = Rule(Fault.DELAY, "PUT", COMPACTED_TOPIC, seconds=held)

        def begin() -> None:
            self._apply(name, [late])
            self._over.wait(_PUTS_HELD)
            self._apply(name, [])
            member = fleet.of(slot)
            member.kill() if kill else member.stall()

        def end() -> None:
            fleet.fill(slot) if kill else fleet.of(slot).wake()

        how = "killed" if kill else "stopped"
        detail = f"daemon {slot} is {how} while its puts take effect {held:.0f} s later"
        return Act(f"daemon {slot}", detail, self._rng.uniform(1.5, 3) * SESSION, begin, end)

    def _rule(self, detail: str, longest: float, rule: Rule) -> Act:
        name = f"rule {rule.fault}"
        return Act(
            name,
            detail,
            self._rng.uniform(4, longest),
            lambda: self._apply(name, [rule]),
            lambda: self._apply(name, []),
        )

    def _fence(self) -> Act:
        return Act("job", "every id of the job", 0.0, lambda: self._tell("fence"), lambda: None)

    def _pause(self) -> Act:
        seconds = self._rng.uniform(1, 10)
        return Act(
            "job",
            f"for {seconds:.0f} s",
            seconds,
            lambda: self._tell("pause"),
            lambda: self._tell("resume"),
        )

    def _tell(self, command: str) -> None:
        """Give a command of ``secor restore``, again while the broker is down."""
        while run_secor("restore", command, str(self._stage.job)).returncode:
            time.sleep(1)

    def _full_disk(self) -> Act:
        disk = self._stage.disk
        assert disk is not None
        ballast = disk / "ballast"
        return Act(
            "disk",
            "the daemons' disk",
            self._rng.uniform(3, 12),
            lambda: fill_up(ballast),
            ballast.unlink,
        )

    # ----------------------------------------------------------- the weather

    def _change_weather(self) -> None:
        """Let every request fail in its own way with a small probability, now and then."""
        level = self._rng.choice([0.0, 0.01, 0.04])
        self._weather = [
            Rule(fault, None, self._where(fault), level, seconds=self._rng.uniform(0.1, 3))
            for fault in Fault
        ]
        self._story.say(f"store: each of {len(Fault)} faults in {level:.0%} of the requests")
        self._apply()

    def _where(self, fault: Fault) -> str:
        """The server does not look at the checksums that the Iceberg library's client sends."""
        spoiled = fault is Fault.SPOIL and self._stage.tables is not None
        return "/_staged/" if spoiled else ""

    def _apply(self, name: str | None = None, rules: list[Rule] | None = None) -> None:
        with self._lock:
            if name is not None:
                self._rules[name] = rules or []
            acts = [rule for of_act in self._rules.values() for rule in of_act]
            self._stage.proxy.set(*acts, *self._weather)


def _act_of(make: Callable[[], Deed]) -> Act:
    deed = make()
    return Act(deed.target, deed.detail, deed.seconds, deed.begin, deed.end)


def fill_up(ballast: Path) -> None:
    """Write zeros until nothing more fits."""
    piece = bytes(1 << 20)
    with ballast.open("wb", buffering=0) as file:
        while piece:
            try:
                file.write(piece)
            except OSError:
                piece = piece[: len(piece) // 2]
        os.fsync(file.fileno())
