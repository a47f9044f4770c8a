"""Where the logs of the assigned partitions end, also of those that are not fetched."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from functools import partial

from secor.adapters.kafka.client import Client, to_client
from secor.adapters.kafka.metadata_queries import Questions
from secor.core.model import TopicPartition
from secor.core.text import error_text, how_many

_log = logging.getLogger(__name__)

LOOKS = 10
"""How often, in the time that an end may be old, it is looked which are too old."""


class LogEnds:
    """The last stable offsets of the assigned partitions, about ``max_age`` seconds old at most.

    Fetches tell of what they fetch.  A partition that is paused, held back or stopped is
    asked for; so is one without news, which fetches leave out.  ``get`` may be called from
    any thread, the rest on the client's.
    """

    def __init__(self, client: Client, questions: Questions, max_age: float) -> None:
        self._client = client
        self._questions = questions
        self._max_age = max_age
        self._ends: dict[TopicPartition, int] = {}
        self._ask_at: dict[TopicPartition, float] = {}
        self._not_answered: dict[TopicPartition, str] = {}

    def get(self, topic_partition: TopicPartition) -> int | None:
        """Return the end as last heard of, without asking."""
        return self._ends.get(topic_partition)

    def trouble(self) -> str | None:
        """Return of how many partitions no broker tells where they end, and why; None if of all."""
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
            for known in (self._ask_at, self._ends, self._not_answered):
                known.pop(topic_partition, None)

    def heard(self, topic_partition: TopicPartition, end: int) -> None:
        """Take what a fetch told."""
        if topic_partition in self._ask_at:
            self._ends[topic_partition] = end
            self._ask_at[topic_partition] = time.monotonic() + self._max_age
            self._not_answered.pop(topic_partition, None)

    async def keep(self) -> None:
        """Ask for what is too old, for ever; waits for no answer."""
        while True:
            self._ask()
            await self._client.net.sleep(self._max_age / LOOKS)

    def _ask(self) -> None:
        now = time.monotonic()
        leaders: dict[int, list[TopicPartition]] = {}
        for topic_partition in [it for it, at in self._ask_at.items() if at <= now]:
            leader = self._client.cluster.leader_for_partition(to_client(topic_partition))
            if leader in (None, -1):
                self._not_answered[topic_partition] = "no broker leads it"
            else:
                leaders.setdefault(leader, []).append(topic_partition)
        for leader, partitions in leaders.items():
            self._ask_at |= dict.fromkeys(partitions, now + self._max_age)
            asking = partial(self._ask_leader, leader, partitions, now + self._max_age)
            self._client.spawn(asking, partial(self._refused, partitions))

    async def _ask_leader(self, leader: int, partitions: list[TopicPartition], at: float) -> None:
        for topic_partition, end in (await self._questions.ends(leader, partitions)).items():
            self._not_answered.pop(topic_partition, None)
            # A fetch may have told something newer meanwhile, or the partition left.
            if self._ask_at.get(topic_partition) == at:
                self._ends[topic_partition] = end

    def _refused(self, partitions: Iterable[TopicPartition], error: BaseException) -> None:
        _log.debug("asking where logs end: %s; asking again", error_text(error))
        asked = self._ask_at.keys() & partitions
        self._not_answered |= dict.fromkeys(asked, error_text(error))
