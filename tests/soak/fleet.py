"""The daemons: started, ended in every way, watched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.integration.daemons import secor
from tests.soak.story import Story

UNAVAILABLE = 4
_LEAVES_WITHIN = 300.0
_AGAIN_AFTER = 2.0
_WRONG = {"stopped", "messages_lost", "table_stopped", "table_partition_stopped"}


@dataclass(frozen=True, slots=True)
class Kind:
    """What runs: a command of ``secor``, and the events of its log once it has joined its group."""

    command: tuple[str, ...]
    joins_with: tuple[str, ...]


DAEMON = Kind(("run",), ("running",))
RESTORE = Kind(("restore", "run"), ("assigned",))
COORDINATOR = Kind(("tables", "run"), ("coordinating", "stands_by"))


class Member:
    """One process.  ``expected`` are the exit codes that it may end with; none: it lives on.

    ``older`` is the checkout that it runs the code of; None: this one.  ``environment`` is added
    to that of this process.
    """

    def __init__(
        self,
        name: str,
        kind: Kind,
        config: Path,
        log: Path,
        now: float,
        older: Path | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.log = log
        self.older = older
        self.began = now
        self.leaving_since: float | None = None
        self.expected: frozenset[int] = frozenset()
        self.settled = False
        self._joins_with = [f'"event": "{event}"' for event in kind.joins_with]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SECOR_")}
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                secor(*kind.command, str(config)),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**inherited, **environment},
                cwd=older,  # python -c imports from there first
            )

    @property
    def alive(self) -> bool:
        """The process has not ended."""
        return self.process.poll() is None

    @property
    def joined(self) -> bool:
        """It has been given partitions at some time."""
        log = self.log.read_text(errors="replace")
        return any(event in log for event in self._joins_with)

    def kill(self) -> None:
        """SIGKILL."""
        self.expected = frozenset({-signal.SIGKILL})
        self.process.kill()
        self.process.wait()

    def leave(self, now: float) -> None:
        """SIGTERM.  One that is still starting has no handler yet."""
        starting = set() if self.joined else {-signal.SIGTERM, UNAVAILABLE}
        self.expected = frozenset({0, *starting})
        self.leaving_since = now
        self.process.terminate()

    def stall(self) -> None:
        """SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        if self.alive:
            self.process.send_signal(signal.SIGCONT)


class Fleet:
    """``size`` slots with a member each, and guests beside them.  Threads may share it."""

    def __init__(
        self,
        config: Path,
        logs: Path,
        size: int,
        story: Story,
        kind: Kind = DAEMON,
        coordinators: int = 0,
        older: Path | None = None,
    ) -> None:
        """There are slots for ``coordinators`` behind the ``size`` slots of ``kind``.

        Until ``upgrade``, members run the code of the checkout ``older`` where one is given.
        """
        logs.mkdir(parents=True, exist_ok=True)
        self.size = size + coordinators
        self._daemons = size
        self.members: list[Member] = []
        self.restarted: Counter[str] = Counter()
        self._kind = kind
        self._older = older
        self._config = config
        self._logs = logs
        self._story = story
        self._lock = threading.RLock()
        self._slots: dict[int, Member] = {}
        self._vacant: dict[int, float] = {}

    def fill(self, slot: int) -> Member:
        """Start a member in a slot, unless one is there that stays."""
        with self._lock:
            self._vacant.pop(slot, None)
            there = self._slots.get(slot)
            if there is not None and there.alive and there.leaving_since is None:
                return there
            if slot < self._daemons:
                self._slots[slot] = self._start(f"daemon {slot}")
            else:
                self._slots[slot] = self._start(f"coordinator {slot}", COORDINATOR)
            return self._slots[slot]

    def guest(self) -> Member:
        """Start a member beside the slots."""
        with self._lock:
            return self._start("guest")

    def of(self, slot: int) -> Member:
        """Return the latest member of a slot."""
        with self._lock:
            return self._slots[slot]

    def living(self) -> list[Member]:
        """Return all members that run, guests and leaving ones too."""
        with self._lock:
            return [member for member in self.members if member.alive]

    def upgrade(self) -> bool:
        """Run this checkout's code from now on: ``check`` replaces the others one by one.

        False where all members do so already.
        """
        with self._lock:
            older, self._older = self._older, None
        return older is not None

    def check(self) -> None:
        """Look who has ended, and whether that was right; fill slots as a service manager does."""
        now = self._story.now()
        with self._lock:
            for member in self.members:
                if not member.settled:
                    self._settle(member, now)
            for slot in [slot for slot, at in self._vacant.items() if now >= at]:
                self.fill(slot)
            if self._older is None:
                self._replace_older(now)

    def _replace_older(self, now: float) -> None:
        """End the first slot's member of the older version, or start its successor."""
        for slot, member in self._slots.items():
            if member.older is None:
                continue
            if not member.alive:
                self._story.say(f"{member.name} is upgraded")
                self.fill(slot)
            elif member.leaving_since is None:
                member.leave(now)
            return

    def end(self, patience: float) -> None:
        """SIGTERM to all; each must end with 0 in time."""
        for member in self.living():
            member.wake()
            if member.leaving_since is None:
                member.leave(self._story.now())
        for member in self.living():
            try:
                member.process.wait(patience)
            except subprocess.TimeoutExpired:
                self._story.violated(f"{member.name} does not end: {member.log}")
        with self._lock:
            self._vacant.clear()
            for member in self.members:
                if not member.settled and not member.alive:
                    self._settle(member, self._story.now())
            self._vacant.clear()

    def kill(self) -> None:
        """Leave nothing running."""
        for member in self.living():
            member.process.kill()
            member.process.wait()

    def _start(self, name: str, kind: Kind | None = None) -> Member:
        log = self._logs / f"{len(self.members):03d}-{name.replace(' ', '-')}.log"
        now = self._story.now()
        member = Member(name, kind or self._kind, self._config, log, now, self._older)
        self.members.append(member)
        return member

    def _settle(self, member: Member, now: float) -> None:
        code = member.process.poll()
        if code is None:
            late = member.leaving_since is not None and now - member.leaving_since > _LEAVES_WITHIN
            if late:
                self._story.violated(f"{member.name} does not end after SIGTERM: {member.log}")
            return
        member.settled = True
        if code in member.expected:
            return
        slot = next((slot for slot, one in self._slots.items() if one is member), None)
        if slot is not None:
            self._vacant[slot] = now + _AGAIN_AFTER
        if code == UNAVAILABLE and not member.joined:
            self.restarted["a server was unavailable at the start"] += 1
            again = "" if slot is None else ": once more"
            self._story.say(f"{member.name} found a server unavailable at its start{again}")
            return
        self._story.violated(f"{member.name} ended with {code} by itself: {member.log}")


def events(logs: Iterable[Path]) -> tuple[Counter[str], list[str]]:
    """Count what the logs tell, as ``event`` or ``event kind``; and what must not be in them."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                if "Traceback" in line:
                    faults.append(f"a traceback in {log}")
                continue
            if isinstance(event, dict):
                counts[" ".join(_name(event))] += 1
                if event.get("event") in _WRONG:
                    faults.append(f"{event['event']} in {log}: {line}")
    return counts, faults


def _name(event: Mapping[str, object]) -> Iterable[str]:
    return (str(event[part]) for part in ("event", "kind", "reason") if part in event)
