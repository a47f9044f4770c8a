"""A proxy that holds up one request at a named step of whoever sends it, until it is let go."""

from __future__ import annotations

import http.client
import threading
from dataclasses import dataclass, field
from email.message import Message
from types import TracebackType

from tests.faults.proxy import FaultProxy, Rule

LONGEST = 240.0
"""Seconds after which a request goes on by itself."""


@dataclass
class Hold:
    """Holds the first request of ``method`` whose target has ``contains``, after ``skip`` others.

    Before it is passed on or, with ``answer``, when it was done and its answer is awaited.  The
    target must end with ``end``, what follows a question mark aside.
    ``arrived`` is set when it is held; setting ``go`` lets it go on, whoever waits for it or not.
    """

    method: str
    contains: str
    answer: bool = False
    end: str = ""
    skip: int = 0
    arrived: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    status: int | None = None
    """What the server answered."""

    def is_for(self, method: str, target: str) -> bool:
        """Tell whether a request is of this kind."""
        path = target.partition("?")[0]
        return method == self.method and self.contains in target and path.endswith(self.end)

    def wait_if_first(self, method: str, target: str) -> None:
        """Hold this request if it is the one."""
        if not self.is_for(method, target) or self.arrived.is_set():
            return
        if self.skip:
            self.skip -= 1
            return
        self.arrived.set()
        self.go.wait(LONGEST)


class HoldingProxy(FaultProxy):
    """A ``FaultProxy`` with holds."""

    def __init__(self, upstream: str) -> None:
        self._holds: list[Hold] = []
        super().__init__(upstream)

    def hold(
        self, method: str, contains: str, *, answer: bool = False, end: str = "", skip: int = 0
    ) -> Hold:
        """Hold the next such request; see ``Hold``."""
        self._holds.append(Hold(method, contains, answer, end, skip))
        return self._holds[-1]

    def draw(self, method: str, target: str) -> Rule | None:
        """Hold a request before it is passed on."""
        for hold in self._holds:
            if not hold.answer:
                hold.wait_if_first(method, target)
        return super().draw(method, target)

    def answered(
        self, method: str, target: str, headers: Message, response: http.client.HTTPResponse
    ) -> None:
        """Note the answer, and hold it."""
        for hold in self._holds:
            if hold.answer:
                hold.wait_if_first(method, target)
            is_awaited = hold.arrived.is_set() and hold.is_for(method, target)
            if is_awaited and hold.status is None:
                hold.status = response.status

    def let_go(self) -> None:
        """Let everything go on; hold nothing more."""
        for hold in self._holds:
            hold.arrived.set()
            hold.go.set()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.let_go()
        super().__exit__(kind, error, traceback)
