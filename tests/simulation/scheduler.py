"""Several processes in one thread: greenlets that give way at every call that crosses a port.

A hub chooses who runs next.  The same choices give the same run.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Protocol

import greenlet

FOREVER = float("inf")


class Crash(greenlet.GreenletExit):
    """The process ends here: no handler of the program may swallow it."""


class Host:
    """What a crash ends and a stall stops: a process, or the world around (never stopped)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.stalled_until = 0.0


class Choices(Protocol):
    """Decides whatever is open in a run."""

    def pick(self, many: int) -> int:
        """Return a number below ``many``."""

    def leap(self) -> bool:
        """Tell whether time goes on although somebody could run."""


class FirstComeChoices:
    """Whoever has waited longest runs next; time goes on when nobody can run."""

    def pick(self, many: int) -> int:
        return 0

    def leap(self) -> bool:
        return False


class RandomChoices:
    """Seeded."""

    def __init__(self, seed: int | str, leaps: float = 0.02) -> None:
        self.rng = random.Random(f"schedule {seed}")
        self.leaps = leaps

    def pick(self, many: int) -> int:
        return int(self.rng.random() * many)

    def leap(self) -> bool:
        return self.rng.random() < self.leaps


class Task:
    """One greenlet: a loop, a client's own thread, a commit."""

    def __init__(
        self, host: Host, name: str, body: Callable[[], None], parent: greenlet.greenlet
    ) -> None:
        self.host = host
        self.name = name
        self.greenlet = greenlet.greenlet(body, parent)
        self.ready: Callable[[], bool] | None = None
        self.wake = 0.0
        self.stalled_until = 0.0
        self.deadline = FOREVER
        self.turn = 0

    def stopped_until(self) -> float:
        """When neither it nor its process is stalled any more."""
        return max(self.stalled_until, self.host.stalled_until)

    def runnable(self, now: float) -> bool:
        """Tell whether it may be switched to."""
        if self.stalled_until > now or self.host.stalled_until > now:
            return False
        return self.wake <= now or (self.ready is not None and self.ready())

    def next_time(self) -> float:
        """When time alone makes it runnable."""
        return max(self.wake, self.stopped_until())


class Hub:
    """Runs tasks one at a time and owns the time."""

    def __init__(self, choices: Choices, start: float = 1_000_000.0) -> None:
        self.choices = choices
        self.now = start
        self.steps = 0
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self.trace: list[str] = []
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._count = count()
        self._main = greenlet.getcurrent()

    # ---------------------------------------------------------- from outside

    def spawn(self, host: Host, name: str, body: Callable[[], None]) -> Task:
        """Begin a task; it runs when it is chosen."""
        task = Task(host, name, body, self._main)
        task.turn = next(self._count)
        self.tasks.append(task)
        return task

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Do ``action``, outside of any task, when time has come to ``when``."""
        heapq.heappush(self._timers, (when, next(self._count), action))

    def step(self) -> bool:
        """Run one task until it gives way, or let time pass; False if nothing can happen."""
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()
        ready = [task for task in self.tasks if task.runnable(self.now)]
        if not ready or (self.choices.leap() and self._may_leap(ready)):
            return self._advance(ready)
        if len(ready) > 1:
            ready.sort(key=lambda task: task.turn)
        self._switch(ready[self.choices.pick(len(ready))])
        return True

    def _may_leap(self, ready: list[Task]) -> bool:
        horizon = self._horizon()
        return horizon < FOREVER and all(task.deadline > horizon for task in ready)

    def _horizon(self) -> float:
        times = [task.next_time() for task in self.tasks]
        if self._timers:
            times.append(self._timers[0][0])
        return min((time for time in times if time > self.now), default=FOREVER)

    def _advance(self, ready: list[Task]) -> bool:
        horizon = self._horizon()
        if horizon == FOREVER:
            return False
        self.now = horizon
        return True

    def _switch(self, task: Task) -> None:
        self.steps += 1
        self.current = task
        try:
            task.greenlet.switch()
        finally:
            self.current = None
        task.turn = next(self._count)
        if task.greenlet.dead and task in self.tasks:
            self.tasks.remove(task)

    def kill(self, host: Host) -> None:
        """End all tasks of a host; what its ``finally`` blocks call has no effect."""
        host.alive = False
        mine = [task for task in self.tasks if task.host is host]
        self.tasks = [task for task in self.tasks if task.host is not host]
        for task in mine:
            if task is not self.current:
                task.greenlet.parent = greenlet.getcurrent()
                task.greenlet.throw(Crash)

    def close(self) -> None:
        """End everything, so that no greenlet is left to be collected at some later moment."""
        for host in {task.host for task in self.tasks}:
            self.kill(host)

    def tell(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now - 1_000_000:9.2f}  {text}")

    # --------------------------------------------------------- from a task

    def give_way(self) -> None:
        """Let others run."""
        self._park(self.now, None)

    def sleep(self, seconds: float) -> None:
        """Wait for time to pass."""
        self._park(self.now + seconds, None)

    def wait(self, ready: Callable[[], bool], timeout: float = FOREVER) -> None:
        """Wait for a condition, at most ``timeout`` seconds."""
        if not ready():
            self._park(self.now + timeout, ready)

    def _park(self, wake: float, ready: Callable[[], bool] | None) -> None:
        task = self.current
        if task is None or greenlet.getcurrent() is not task.greenlet:
            return  # a dying greenlet, or the test itself: nothing to schedule
        task.wake, task.ready = wake, ready
        self._main.switch()
        task.ready = None
        if not task.host.alive:
            raise Crash
