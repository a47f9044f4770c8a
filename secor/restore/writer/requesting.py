"""Sends one request until an answer ends it; decides nothing about the writer's state."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from secor.core.errors import Unavailable
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.core.retry import delay
from secor.core.transactions import BrokerCode, ProduceAnswer, Request, TransactionRequests
from secor.restore.writer.decisions import WriterAction, decide

_BASE = 0.02
_CAP = 1.0
"""Seconds between two attempts: a transaction that is being completed takes milliseconds."""


class Answer(Protocol):
    """The common part of all answers."""

    @property
    def code(self) -> BrokerCode:
        """The broker's code."""


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """An answer that is nothing but a code."""

    code: BrokerCode


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a request; ``RETRY`` as its action says that the time is over."""

    action: WriterAction
    code: BrokerCode
    request: Request
    where: TopicPartition | None
    first: int | None
    reason: str

    def __str__(self) -> str:
        place = "" if self.where is None else f" to {self.where}"
        offset = "" if self.first is None else f", from source offset {self.first} on"
        return f"{self.request.name}{place}{offset}: {self.reason}"


class RequestRefused(Exception):
    """The request will not pass; for the writer, which makes an error of our tree of it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class Requester:
    """Requests of one transactional id; ``timeout`` in seconds bounds one attempt."""

    def __init__(
        self,
        requests: TransactionRequests,
        transactional_id: str,
        *,
        clock: Clock,
        rng: random.Random,
        timeout: float,
    ) -> None:
        self._requests = requests
        self._id = transactional_id
        self._clock = clock
        self._rng = rng
        self._timeout = timeout

    def perform(
        self,
        request: Request,
        send: Callable[[float], A],
        deadline: float,
        *,
        where: TopicPartition | None = None,
        first: int | None = None,
    ) -> A:
        """Return the answer that ends it.  Raises ``RequestRefused``.

        ``deadline`` is in monotonic seconds; ``where`` and ``first`` are for the message.
        """
        code, reason = BrokerCode.NETWORK_EXCEPTION, "no time was left"
        attempt = 0
        while (left := deadline - self._clock.monotonic()) > 0:
            try:
                answer = send(min(left, self._timeout))
            except Unavailable as error:
                code, reason = BrokerCode.NETWORK_EXCEPTION, str(error)
                # A broker without an answer may have lost its role: look up who has it now, then
                # ask again.
                produce = request is Request.PRODUCE
                action = WriterAction.FIND_LEADER if produce else WriterAction.FIND_COORDINATOR
            else:
                code, reason = answer.code, _text_of(answer)
                action = decide(request, code)
                if action is WriterAction.GO_ON:
                    return answer
            self._prepare(Refusal(action, code, request, where, first, reason))
            pause = delay(attempt, rng=self._rng, base=_BASE, cap=_CAP)
            self._clock.sleep(min(pause, max(0.0, deadline - self._clock.monotonic())))
            attempt += 1
        raise RequestRefused(Refusal(WriterAction.RETRY, code, request, where, first, reason))

    def _prepare(self, refusal: Refusal) -> None:
        """Look up the broker to ask next, or raise the error that ends the request."""
        if refusal.action is WriterAction.FIND_LEADER and refusal.where is not None:
            self._requests.refresh(refusal.where.topic)
        elif refusal.action is WriterAction.FIND_COORDINATOR:
            self._find_coordinator()
        elif refusal.action is not WriterAction.RETRY:
            raise RequestRefused(refusal)

    def _find_coordinator(self) -> None:
        try:
            code = self._requests.find_coordinator(self._id, wait=self._timeout)
        except Unavailable:
            return  # The next attempt fails likewise, and leads here again.
        action = decide(Request.FIND_COORDINATOR, code)
        if action is WriterAction.FAIL:
            looked_up = Request.FIND_COORDINATOR
            raise RequestRefused(Refusal(action, code, looked_up, None, None, code.name))


def _text_of(answer: Answer) -> str:
    message = answer.message if isinstance(answer, ProduceAnswer) else ""
    return f"{answer.code.name} ({message})" if message else answer.code.name
