"""Tries, before anything is written, whether the target fences: the whole restore rests on it."""

from __future__ import annotations

import random

from secor.core.errors import Unavailable
from secor.core.ports import Clock
from secor.core.transactions import BrokerCode, ProducerIdentity, Request, TransactionRequests
from secor.restore.model import id_prefix
from secor.restore.preflight import JobFinding, Severity
from secor.restore.writer.decisions import WriterAction, decide, missing_right
from secor.restore.writer.requesting import Requester, RequestRefused

PATIENCE = 30.0
"""Seconds for each of the three requests, repetitions included."""


def probe_id(job: str) -> str:
    """Return the transactional id of the probe: of the job's prefix, and no source partition's."""
    return f"secor:{job}::probe"


def probe_fencing(
    requests: TransactionRequests,
    job: str,
    *,
    transaction_timeout: float,
    request_timeout: float,
    clock: Clock,
) -> list[JobFinding]:
    """Initialise an id twice; the first identity must then be refused.

    Writes to no topic.  Times in seconds.  Raises ``Unavailable``.
    """
    name = probe_id(job)
    requester = Requester(requests, name, clock=clock, rng=random.Random(), timeout=request_timeout)

    def initialise() -> ProducerIdentity:
        answer = requester.perform(
            Request.INIT_PRODUCER_ID,
            lambda wait: requests.init_producer_id(name, transaction_timeout, wait=wait),
            clock.monotonic() + PATIENCE,
        )
        assert answer.identity is not None
        return answer.identity

    try:
        first, second = initialise(), initialise()
        requester.perform(
            Request.END_TXN,
            lambda wait: requests.end_transaction(name, first, commit=False, wait=wait),
            clock.monotonic() + PATIENCE,
        )
    except RequestRefused as refused:
        refusal = refused.refusal
        # Refused for its epoch, and for nothing else: another refusal proves nothing.
        if refusal.request is Request.END_TXN and refusal.action is WriterAction.FENCED:
            return []
        return [JobFinding(Severity.REFUSE, name, _advice(job, refusal.code, str(refusal)))]
    what = f"the brokers took a request of epoch {first.epoch} after {second.epoch} was given out"
    return [JobFinding(Severity.REFUSE, name, f"is not fenced: {what}; exactly once needs it")]


def _advice(job: str, code: BrokerCode, what: str) -> str:
    """Return the advice for a refusal.  Raises ``Unavailable``."""
    if code is BrokerCode.INVALID_TRANSACTION_TIMEOUT:
        return (
            f"{what}: writing.transaction_timeout is above the brokers'"
            " transaction.max.timeout.ms; lower it"
        )
    right = missing_right(code, id_prefix(probe_id(job)), None)
    if right is not None:
        return f"{what}: {right}"
    if decide(Request.INIT_PRODUCER_ID, code) is WriterAction.RETRY:
        raise Unavailable(f"the coordinator of transactions: {what}")
    return what
