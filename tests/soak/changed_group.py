"""A group that changes rows: one daemon and a committer, killed and stalled at random."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.soak.fleet import COORDINATOR, DAEMON, Kind, Member
from tests.soak.story import Story

_FIRST = {DAEMON: 20.0, COORDINATOR: 45.0}
_NEXT = {DAEMON: (20.0, 75.0), COORDINATOR: (30.0, 100.0)}
"""Seconds: when a process is first harmed, and how long until the next time."""
_STALLED = (15.0, 45.0)
_BOTH = 15.0
"""Seconds that two committers live beside each other after the stalled one woke."""
_AGAIN_AFTER = 2.0
_LET_START = 0.97
"""How probable it is, at each look, that one that is still starting is left alone."""
_LOOK_AGAIN = 2.0
_ENDED_RIGHT = (-signal.SIGKILL, 4)
"""Exit codes; 4: a server was out as it started, or Spark has ended."""


@dataclass(slots=True)
class _Stalled:
    """A committer that was stopped at some step: when it wakes, and when it is killed."""

    member: Member
    wakes: float
    ends: float
    awake: bool = False


class ChangedGroup:
    """Daemon and committer of one configuration; ``step`` is called all the time."""

    def __init__(
        self,
        name: str,
        config: Path,
        logs: Path,
        story: Story,
        rng: random.Random,
        environment: Mapping[str, str],
    ) -> None:
        """``environment`` is the committer's, beside that of this process."""
        logs.mkdir(parents=True, exist_ok=True)
        self.config = config
        self._name, self._logs, self._story, self._rng = name, logs, story, rng
        self._environment = environment
        self._members: dict[Kind, Member] = {}
        self._next = dict(_FIRST)
        self._stalled: list[_Stalled] = []
        self._started = 0
        self._done: Counter[str] = Counter()

    def step(self) -> None:
        """Harm somebody when it is time, and start who is not there."""
        now = self._story.now()
        for kind, at in self._next.items():
            if now >= at:
                self._next[kind] = now + self._rng.uniform(*_NEXT[kind])
                self._harm(kind)
        self._wake()
        self.check()

    def _harm(self, kind: Kind) -> None:
        member = self._members.get(kind)
        if member is None or not member.alive:
            return
        if not member.joined and self._rng.random() < _LET_START:
            self._next[kind] = self._story.now() + _LOOK_AGAIN
            return
        if kind is COORDINATOR and self._rng.random() < 0.4:
            now = self._story.now()
            wakes = now + self._rng.uniform(*_STALLED)
            whole = self._rng.random() < 0.7
            self._say(f"SIGSTOP: {member.name}{' and its Spark' if whole else ''}")
            _send(member, signal.SIGSTOP, whole=whole)
            self._stalled.append(_Stalled(member, wakes, wakes + _BOTH))
            del self._members[kind]  # another takes over
            self._done["stalls"] += 1
        else:
            self._say(f"SIGKILL: {member.name}")
            member.kill()
            self._done["kills"] += 1

    def _wake(self) -> None:
        now = self._story.now()
        for stalled in list(self._stalled):
            if not stalled.awake and now >= stalled.wakes:
                self._say(f"SIGCONT: {stalled.member.name}")
                _send(stalled.member, signal.SIGCONT, whole=True)
                stalled.awake = True
            if now >= stalled.ends or not stalled.member.alive:
                self._end(stalled.member)
                self._stalled.remove(stalled)

    def check(self) -> None:
        """See who ended by itself, and start who is not there."""
        for kind in (DAEMON, COORDINATOR):
            member = self._members.get(kind)
            if member is not None and member.alive:
                continue
            if member is not None:
                code = member.process.returncode
                if code not in _ENDED_RIGHT:
                    self._story.violated(f"{member.name} ended with {code}: {member.log}")
                if self._story.now() - member.began < _AGAIN_AFTER:
                    continue
            self._members[kind] = self._start(kind)

    def _start(self, kind: Kind) -> Member:
        name = f"{self._name} {'daemon' if kind is DAEMON else 'committer'} {self._started}"
        log = self._logs / f"rows-{self._started:03d}-{name.replace(' ', '-')}.log"
        self._started += 1
        environment = self._environment if kind is COORDINATOR else {}
        return Member(name, kind, self.config, log, self._story.now(), environment=environment)

    def settle(self) -> None:
        """End the mischief: nobody is stalled, and no second committer runs."""
        for stalled in self._stalled:
            self._end(stalled.member)
        self._stalled.clear()

    def kill(self) -> None:
        """Leave nothing running."""
        self.settle()
        for member in self._members.values():
            self._end(member)

    def summary(self) -> str:
        """Return what was done."""
        return ", ".join(f"{count} {name}" for name, count in sorted(self._done.items()))

    def _say(self, text: str) -> None:
        self._story.say(f"{text} of changed rows")

    @staticmethod
    def _end(member: Member) -> None:
        if member.alive:
            _send(member, signal.SIGCONT, whole=True)  # a stopped JVM would outlive its parent
            member.kill()


def _send(member: Member, number: signal.Signals, *, whole: bool) -> None:
    """Signal a process; ``whole``: with all that it has started."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(member.process.pid)
        for each in [process, *(process.children(recursive=True) if whole else ())]:
            each.send_signal(number)
