"""The wait after superseding an intent, until no request of the other configuration can land.

A put of another configuration may go to another key, where put-if-absent does not meet ours.
If it was sent before its intent was superseded, it lands while a request can live.  So a
process that supersedes an intent deletes what is there, waits that long, looks again, and only
then puts.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from secor.core.errors import RestartPartition
from secor.core.model import Intent, OffsetRange, Superseded, TopicPartition
from secor.core.ports import Clock


@dataclass(frozen=True, slots=True)
class _Wait:
    """``since`` in monotonic seconds, for an intent that this process has recorded."""

    since: float
    fingerprint: str
    supersedes: tuple[Superseded, ...]


class SupersededRequests:
    """For each range whose intent supersedes another: since when only we send requests.

    It counts from this process's own writes, on its monotonic clock.
    """

    def __init__(self, lifetime: float, owner: str, clock: Clock) -> None:
        """A request lands within ``lifetime`` seconds after its sender last proved its lease."""
        self._lifetime = lifetime
        self._owner = owner
        self._clock = clock
        self._waits: dict[tuple[TopicPartition, OffsetRange], _Wait] = {}
        self._lock = threading.Lock()

    def check_intent(
        self, topic_partition: TopicPartition, batch: OffsetRange, recorded: Intent | None
    ) -> None:
        """Check that the recorded intent is the one that we wait with.

        Raises ``RestartPartition`` when somebody else has written since: two processes that go on
        superseding each other would never commit, so one whose partition was revoked gives up.
        """
        key = (topic_partition, batch)
        with self._lock:
            wait = self._waits.get(key)
            if wait is None or self._is_ours(wait, recorded):
                return
            # Deleted before it is raised: if the partition comes back, it begins with a new wait.
            del self._waits[key]
        if recorded is not None:
            raise RestartPartition(
                f"{topic_partition}: {recorded.owner} has taken over the intent for {batch}"
            )

    def _is_ours(self, wait: _Wait, recorded: Intent | None) -> bool:
        return (
            recorded is not None
            and recorded.owner == self._owner
            and recorded.fingerprint == wait.fingerprint
            # The list as well: a longer one means that another configuration recorded its intent
            # since, whose puts our wait does not cover.
            and recorded.supersedes == wait.supersedes
        )

    def begin_wait(self, topic_partition: TopicPartition, intent: Intent) -> bool:
        """Note that ``intent`` was recorded.  Returns whether a wait begins with it."""
        key = (topic_partition, OffsetRange(intent.start, intent.end))
        with self._lock:
            # A repeated write of our intent does not begin the wait anew: since the first won write
            # nobody else could begin a request.
            if not intent.supersedes or key in self._waits:
                return False
            now = self._clock.monotonic()
            self._waits[key] = _Wait(now, intent.fingerprint, intent.supersedes)
            return True

    def restart_wait(self, topic_partition: TopicPartition, intent: Intent) -> None:
        """Begin the wait anew: a deletion, too, may have been sent twice and land later."""
        with self._lock:
            self._waits[topic_partition, OffsetRange(intent.start, intent.end)] = _Wait(
                self._clock.monotonic(), intent.fingerprint, intent.supersedes
            )

    def remaining(self, topic_partition: TopicPartition, batch: OffsetRange) -> float:
        """Return how many seconds the batch has to wait; 0 where it need not."""
        with self._lock:
            wait = self._waits.get((topic_partition, batch))
        if wait is None:
            return 0.0
        # The monotonic clock of this process alone. Wall clocks of two machines may differ by more
        # than a request lives, and a clock that is set back would end the wait too early or never.
        return max(0.0, wait.since + self._lifetime - self._clock.monotonic())

    def forget(self, topic_partition: TopicPartition, batch: OffsetRange) -> None:
        """The range is committed, or is not ours to commit any more."""
        with self._lock:
            self._waits.pop((topic_partition, batch), None)
