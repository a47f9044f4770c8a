"""What may go wrong at a call that crosses a port, and when it does."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from secor.core.errors import AccessDenied, OutcomeUnknown, SecorError, Unavailable


@dataclass(frozen=True, slots=True)
class Call:
    """One side of one call: ``phase`` is before or after its effect.

    ``number`` counts all of them in a run, from 0; it is -1 for polls.
    """

    number: int
    process: str
    port: str
    name: str
    phase: str
    what: str

    def __str__(self) -> str:
        return f"{self.process} {self.phase} {self.port}.{self.name} {self.what}"


class Kind(StrEnum):
    """What happens at a call."""

    CRASH = "crash"
    STALL_TASK = "stall the task"
    STALL_PROCESS = "stall the process"
    FAIL = "fail"
    LATE = "land late"


@dataclass(frozen=True, slots=True)
class Fault:
    """``seconds`` for stalls and late landings, ``error`` for failures."""

    kind: Kind
    seconds: float = 0.0
    error: type[SecorError] = Unavailable

    def __str__(self) -> str:
        if self.kind is Kind.FAIL:
            return self.error.__name__
        return f"{self.kind} {self.seconds:g} s" if self.seconds else str(self.kind)


class Faults(Protocol):
    """Decides at each call."""

    def at(self, call: Call) -> Fault | None:
        """Return what goes wrong, if anything."""


class NoFaults:
    """All goes well."""

    def at(self, call: Call) -> Fault | None:
        return None


class ScriptedFaults:
    """Faults at numbered calls; ``happened`` are the numbers of those that took place."""

    def __init__(self, script: Mapping[int, Fault]) -> None:
        self.script = script
        self.happened: list[int] = []

    def at(self, call: Call) -> Fault | None:
        fault = self.script.get(call.number)
        if fault is not None:
            self.happened.append(call.number)
        return fault


WRITES = frozenset({"put", "record", "commit"})
MAY_LAND_LATE = frozenset({("put", "before"), ("delete", "before")})
NEVER_FAIL = frozenset({"release", "poll"})


def failures(call: Call) -> tuple[type[SecorError], ...]:
    """Return the errors that a client may raise on this side of this call."""
    if call.name in NEVER_FAIL or (call.name, call.phase) == ("lease", "after"):
        return ()
    if call.name in WRITES:
        if call.phase == "after":
            return (OutcomeUnknown,)
        return (Unavailable, OutcomeUnknown, *((AccessDenied,) if call.name == "put" else ()))
    return (Unavailable,)


@dataclass(frozen=True)
class Rates:
    """How often, for each side of each call; each seed has its own."""

    crash: float = 0.0
    stall_task: float = 0.0
    stall_process: float = 0.0
    fail: float = 0.0
    late: float = 0.0

    @classmethod
    def draw(cls, rng: random.Random) -> Rates:
        """Some kinds often, others never: runs differ more than with one mixture."""

        def rate(most: float) -> float:
            return rng.choice((0.0, 0.0, most / 10, most))

        return cls(rate(0.02), rate(0.05), rate(0.02), rate(0.1), rate(0.05))


class RandomFaults:
    """Seeded; those whose ordinal is in ``muted`` are drawn but do not happen."""

    def __init__(
        self, seed: int | str, rates: Rates, *, longest: float, muted: frozenset[int] = frozenset()
    ) -> None:
        """``longest`` bounds stalls and late landings, in seconds."""
        self.rng = random.Random(f"faults {seed}")
        self.rates = rates
        self.muted = muted
        self.happened: list[int] = []
        self.ceased = False
        self._longest = longest
        self._drawn = 0

    def at(self, call: Call) -> Fault | None:
        if self.ceased:
            return None
        fault = self._draw(call)
        if fault is None:
            return None
        self._drawn += 1
        if self._drawn - 1 in self.muted:
            return None
        self.happened.append(self._drawn - 1)
        return fault

    def _draw(self, call: Call) -> Fault | None:
        dice, rates = self.rng.random(), self.rates
        seconds = self.rng.choice((0.5, 4.0, 9.0, 12.0, 40.0, self._longest))
        which = self.rng.random()
        for kind, rate in (
            (Kind.CRASH, rates.crash),
            (Kind.STALL_TASK, rates.stall_task),
            (Kind.STALL_PROCESS, rates.stall_process),
            (Kind.FAIL, rates.fail),
            (Kind.LATE, rates.late),
        ):
            if dice < rate:
                return self._fault(kind, call, min(seconds, self._longest), which)
            dice -= rate
        return None

    def _fault(self, kind: Kind, call: Call, seconds: float, which: float) -> Fault | None:
        if kind is Kind.FAIL:
            errors = failures(call)
            return Fault(kind, error=errors[int(which * len(errors))]) if errors else None
        if kind is Kind.LATE and (call.name, call.phase) not in MAY_LAND_LATE:
            return None
        return Fault(kind, 0.0 if kind is Kind.CRASH else seconds)
