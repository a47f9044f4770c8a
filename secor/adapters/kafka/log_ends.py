"""The ends of the logs of assigned partitions, also of those that are not fetched."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from secor.adapters.kafka.client import Client, to_client
from secor.adapters.kafka.metadata_queries import MetadataClient
from secor.core.model import TopicPartition, Withheld
from secor.core.text import error_text, how_many

_log = logging.getLogger(__name__)

LOOKS = 10
"""How often, in the time that an end may be old, it is looked which are too old."""


OPEN_FOR = 5.0
"""Seconds for which an end does not move before it is asked which transaction is open there."""

TRANSACTIONS_EVERY = 60.0
"""Seconds between two questions for open transactions, each for all partitions together."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Offsets behind the last stable offset ``end``, which was seen there first at ``noticed``.

    ``noticed`` is in monotonic seconds.
    """

    end: int
    noticed: float
    withheld: Withheld


class LogEnds:
    """Both ends of the logs of the assigned partitions, about ``max_age`` seconds old at most.

    Fetches report the ends of what they fetch.  A partition that is paused, held back or stopped is
    asked for; so is one without news, which fetches leave out.  Where a last stable offset does
    not move though the log goes on, brokers are asked for the transaction that is open there.
    ``get`` and ``withheld`` may be called from any thread, the rest on the client's.
    """

    def __init__(self, client: Client, metadata: MetadataClient, max_age: float) -> None:
        self._client = client
        self._metadata = metadata
        self._max_age = max_age
        self._ends: dict[TopicPartition, int] = {}
        self._ask_at: dict[TopicPartition, float] = {}
        self._not_answered: dict[TopicPartition, str] = {}
        self._waiting: dict[TopicPartition, _Waiting] = {}
        self._transactions_at = 0.0

    def get(self, topic_partition: TopicPartition) -> int | None:
        """Return the last stable offset as last heard of, without asking."""
        return self._ends.get(topic_partition)

    def withheld(self, topic_partition: TopicPartition) -> Withheld | None:
        """Return what waits behind an open transaction, as last heard of; None for nothing."""
        waiting = self._waiting.get(topic_partition)
        return None if waiting is None else waiting.withheld

    def trouble(self) -> str | None:
        """Return how many partitions have an unknown end offset, and why; None if all are known."""
        reasons = list(self._not_answered.values())
        if not reasons:
            return None
        partitions = how_many(len(reasons), "topic partition")
        return f"the leader of {partitions} does not answer: {reasons[-1]}"

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep the ends of these, too."""
        self._ask_at |= dict.fromkeys(partitions, time.monotonic())

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these."""
        for topic_partition in partitions:
            for known in (self._ask_at, self._ends, self._waiting, self._not_answered):
                known.pop(topic_partition, None)

    def heard(self, topic_partition: TopicPartition, end: int, high_watermark: int) -> None:
        """Take a fetch's last stable offset and high watermark."""
        # A late answer about a partition that was revoked must not bring it back.
        if topic_partition in self._ask_at:
            self._note(topic_partition, end, high_watermark)
            self._ask_at[topic_partition] = time.monotonic() + self._max_age
            self._not_answered.pop(topic_partition, None)

    def _note(self, topic_partition: TopicPartition, end: int, high_watermark: int) -> None:
        self._ends[topic_partition] = end
        if high_watermark <= end:
            self._waiting.pop(topic_partition, None)
            return
        offsets, known = high_watermark - end, self._waiting.get(topic_partition)
        # The end has moved: whatever is open now is another transaction, so its time begins anew.
        if known is None or known.end != end:
            known = _Waiting(end, time.monotonic(), Withheld(offsets, time.time()))
        elif known.withheld.offsets != offsets:
            known = replace(known, withheld=replace(known.withheld, offsets=offsets))
        self._waiting[topic_partition] = known

    async def keep(self) -> None:
        """Ask for what is too old, for ever; waits for no answer."""
        while True:
            self._ask()
            self._ask_transactions()
            await self._client.net.sleep(self._max_age / LOOKS)

    def _ask(self) -> None:
        now = time.monotonic()
        leaders: dict[int, list[TopicPartition]] = {}
        for topic_partition in [
            asked for asked, due_time in self._ask_at.items() if due_time <= now
        ]:
            leader = self._client.cluster.leader_for_partition(to_client(topic_partition))
            if leader in (None, -1):
                self._not_answered[topic_partition] = "no broker leads it"
            else:
                leaders.setdefault(leader, []).append(topic_partition)
        for leader, partitions in leaders.items():
            # Before the answer: otherwise the next turn, a tenth of the time later, would ask a
            # slow leader again.
            self._ask_at |= dict.fromkeys(partitions, now + self._max_age)
            asking = partial(self._ask_leader, leader, partitions, now + self._max_age)
            self._client.spawn(asking, partial(self._refused, partitions))

    async def _ask_leader(
        self, leader: int, partitions: list[TopicPartition], due_time: float
    ) -> None:
        # First: a transaction that ends meanwhile must not look like an open one.
        last = await self._metadata.ends(leader, partitions, committed=False)
        for topic_partition, end in (await self._metadata.ends(leader, partitions)).items():
            self._not_answered.pop(topic_partition, None)
            # A fetch may have brought something newer meanwhile, or the partition left.
            if self._ask_at.get(topic_partition) == due_time:
                self._note(topic_partition, end, last.get(topic_partition, end))

    def _refused(self, partitions: Iterable[TopicPartition], error: BaseException) -> None:
        _log.debug("asking where logs end: %s; asking again", error_text(error))
        asked = self._ask_at.keys() & partitions
        self._not_answered |= dict.fromkeys(asked, error_text(error))

    def _ask_transactions(self) -> None:
        now = time.monotonic()
        if not self._waiting or now < self._transactions_at:
            return
        ends = {
            topic_partition: waiting.end
            for topic_partition, waiting in self._waiting.items()
            if now - waiting.noticed >= OPEN_FOR
        }
        if ends:
            self._transactions_at = now + TRANSACTIONS_EVERY
            self._client.spawn(partial(self._name_transactions, ends), _not_named)

    async def _name_transactions(self, ends: dict[TopicPartition, int]) -> None:
        opened = await self._metadata.open_transactions(list(ends))
        for topic_partition, end in ends.items():
            waiting = self._waiting.get(topic_partition)
            if waiting is not None and waiting.end == end:
                # One that no broker names this time is still the one that it was.
                transaction = opened.get(topic_partition, waiting.withheld.transaction)
                withheld = replace(waiting.withheld, transaction=transaction)
                self._waiting[topic_partition] = replace(waiting, withheld=withheld)


def _not_named(error: BaseException) -> None:
    _log.debug("asking for open transactions: %s; asking again", error_text(error))
