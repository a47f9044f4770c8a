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
    """Holds the first request of ``method`` whose target has ``contains``.

    Before it is passed on or, with ``answer``, when it was done and its answer is awaited.
    ``arrived`` is set when it is held; setting ``go`` lets it go on, whoever waits for it or not.
    """

    method: str
    contains: str
    answer: bool = False
    arrived: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    status: int | None = None
    """What the server answered."""

    def is_for(self, method: str, target: str) -> bool:
        """Tell whether a request is of this kind."""
        return method == self.method and self.contains in target

    def wait_if_first(self, method: str, target: str) -> None:
        """Hold this request if it is the one."""
        if self.is_for(method, target) and not self.arrived.is_set():
            self.arrived.set()
            self.go.wait(LONGEST)


class HoldingProxy(FaultProxy):
    """A ``FaultProxy`` with holds."""

    def __init__(self, upstream: str) -> None:
        self._holds: list[Hold] = []
        super().__init__(upstream)

    def hold(self, method: str, contains: str, *, answer: bool = False) -> Hold:
        """Hold the next such request."""
        self._holds.append(Hold(method, contains, answer))
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
            if hold.status is None and hold.is_for(method, target):
                hold.status = response.status
            if hold.answer:
                hold.wait_if_first(method, target)

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
