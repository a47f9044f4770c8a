"""Limits of quarantine: too many bad messages in a window stop the partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from secor.core.errors import TooManyBad
from secor.core.model import Chunk, TopicPartition


@dataclass
class BadLimits:
    """A limit of what goes into quarantine; beyond it a topic partition stops.

    Counted over windows of ``window`` messages, from where reading began.  The share is
    judged at the end of a window, and before that only where the rest of it could not change
    it any more.
    """

    max_ratio: float | None = None
    max_messages: int | None = None
    window: int = 10_000
    _counts: dict[TopicPartition, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, chunk: Chunk, bad: Mapping[int, str]) -> None:
        """Count a chunk.  Raises ``TooManyBad`` with the last reason."""
        topic_partition, offsets = chunk.topic_partition, chunk.records.column("offset")
        expected, seen, wrong = self._counts.get(topic_partition, (0, 0, 0))
        if int(offsets[0].as_py()) < expected or seen >= self.window:
            # Read again from an earlier place, or the next window.
            seen = wrong = 0
        seen, wrong = seen + len(offsets), wrong + len(bad)
        self._counts[topic_partition] = (chunk.next_offset, seen, wrong)
        self._check(topic_partition, seen, wrong, bad)

    def refuse_share(
        self, topic_partition: TopicPartition, messages: int, bad: int, reason: str
    ) -> None:
        """Raise ``TooManyBad`` if ``bad`` of ``messages`` that cannot be written are too many.

        Nothing is counted: when they go into quarantine they are, by ``add``.
        """
        limit = None
        if self.max_messages is not None and bad > self.max_messages:
            limit = f"max_bad_messages = {self.max_messages}"
        if self.max_ratio is not None and bad > self.max_ratio * messages:
            limit = f"max_bad_ratio = {self.max_ratio:g}"
        if limit is not None:
            raise TooManyBad(
                f"{topic_partition}: {bad} of {messages} messages cannot be written, more than"
                f" {limit} allows; the last: {reason}; if one cause fails them all (a library, a"
                " format, a column's type), fix that; to have them in quarantine raise the limit"
            )

    def _check(
        self, topic_partition: TopicPartition, seen: int, wrong: int, bad: Mapping[int, str]
    ) -> None:
        limit = None
        if self.max_messages is not None and wrong > self.max_messages:
            limit = f"max_bad_messages = {self.max_messages}"
        # A share of the whole window, though less was seen: the first bad message of ten must not
        # stop a partition, and no cut of the chunks may change the answer.
        if self.max_ratio is not None and wrong > self.max_ratio * max(seen, self.window):
            limit = f"max_bad_ratio = {self.max_ratio:g}"
        if limit is None or not bad:
            return
        # It is read again from its last commit once a person has acted, and counted from there.
        del self._counts[topic_partition]
        raise TooManyBad(
            f"{topic_partition}: {wrong} of the last {seen} messages cannot be parsed, more than "
            f"{limit} allows in {self.window}; the last: {bad[max(bad)]}; correct the parser's "
            "settings or raise the limit"
        )
