"""Targets that were deleted and made again under a job: what it wrote before is gone.

A topic has its name again, and another id.  Committed offsets say that all below them is
written, which is not true of the new topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from secor.core.errors import StopPartition
from secor.core.ports import Clock
from secor.restore.preflight import JobFinding, Severity

LOOK_EVERY = 5.0
"""Seconds between two looks at the targets' ids."""


class TargetRemade(StopPartition):
    """A target is another topic than the one that the job began to write."""

    reason = "target_remade"


def remade(kept: Mapping[str, str], now: Mapping[str, str | None]) -> Iterator[JobFinding]:
    """Return the targets with other ids than those that were ``kept``.

    One that has no id ``now`` does not exist, or the broker that was asked does not know it yet.
    """
    for topic, before in sorted(kept.items()):
        # None is no proof: a broker may not have heard of the topic yet.
        if now.get(topic) not in (None, before):
            yield JobFinding(
                Severity.REFUSE,
                topic,
                f"was deleted and made again since the job began (topic id {before} before,"
                f" {now[topic]} now): what the job wrote before is missing; 'secor restore stop'"
                " the job, delete its targets, 'secor restore offsets reset' and resume: all is"
                " written again",
            )


class TargetGuard:
    """Looks now and then whether the targets are those that the job began to write.

    For any number of threads: two that look at a time do no harm.  ``record`` takes ids into the
    job's record, unless it has others of these topics, and returns all that it has; ``ask``
    returns the ids of topics now.
    """

    def __init__(
        self,
        record: Callable[[Mapping[str, str]], Mapping[str, str]],
        ask: Callable[[Sequence[str]], Mapping[str, str | None]],
        clock: Clock,
    ) -> None:
        self._record = record
        self._kept: Mapping[str, str] = {}
        self._ask = ask
        self._clock = clock
        self._look_at = 0.0

    def keep(self, topics: Sequence[str]) -> None:
        """Record targets that are about to be written, and look; for one thread at a time.

        Raises ``TargetRemade``, ``Unavailable``, and what ``record`` does.
        """
        self._kept = self._record(
            {topic: topic_id for topic, topic_id in self._ask(topics).items() if topic_id}
        )
        self.look_now()

    def look(self) -> None:
        """Look, unless that was a short time ago.  Raises ``TargetRemade``, ``Unavailable``."""
        if self._clock.monotonic() >= self._look_at:
            self.look_now()

    def look_now(self) -> None:
        """Look.  Raises ``TargetRemade``, ``Unavailable``."""
        if not self._kept:
            return
        for finding in remade(self._kept, self._ask(sorted(self._kept))):
            raise TargetRemade(f"{finding.topic}: {finding.what}")
        # After the look: one that raised is repeated at once.
        self._look_at = self._clock.monotonic() + LOOK_EVERY
