"""Ends of logs and of leader epochs, requested for many partitions at once."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from secor.core.errors import SecorError
from secor.core.model import LogRange, TopicPartition

TOGETHER = 500
"""Partitions of one question."""

LIFETIME = 5.0
"""Seconds; an answer is for the partitions that are positioned now."""

AskEpochs = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]
Ask = Callable[[TopicPartition], LogRange]
AskMany = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, LogRange]]


class LogRangeCache:
    """Asks for a partition, and along with it for others that have had no answer since they came.

    Each answer is given once, and not when it is old: then it is asked for anew, again with others.
    Threads may share it.
    """

    def __init__(self, ask: Ask, ask_many: AskMany) -> None:
        """``ask_many`` asks the leader of the first; what it does not know, the answer lacks."""
        self._ask = ask
        self._ask_many = ask_many
        self._lock = threading.Lock()
        self._new: dict[TopicPartition, None] = {}
        self._known: dict[TopicPartition, tuple[float, LogRange]] = {}

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """They will be asked for."""
        with self._lock:
            self._new |= dict.fromkeys(partitions)

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """They are not asked for any more."""
        with self._lock:
            for topic_partition in partitions:
                self._new.pop(topic_partition, None)
                self._known.pop(topic_partition, None)

    def get(self, topic_partition: TopicPartition, since: float | None) -> LogRange:
        """Return an answer that was asked for after ``since`` (monotonic seconds); None: now.

        Only one that is asked for now has a high watermark.

        Raises what asking for one raises.
        """
        with self._lock:
            self._new.pop(topic_partition, None)
            # Taken out: each answer is used once, since a partition that asks again has a reason
            # to.
            asked_at, known = self._known.pop(topic_partition, (0.0, None))
            oldest = time.monotonic() - LIFETIME
            if known is not None and since is not None and since < asked_at > oldest:
                return known
            # Of thousands most wait for longer than an answer lives: each would ask by itself.
            old = (key for key, (then, _) in self._known.items() if then <= oldest)
            waiting = itertools.chain(self._new, old)
            others = [] if since is None else list(itertools.islice(waiting, TOGETHER - 1))
        return self._ask_along(topic_partition, others) or self._ask(topic_partition)

    def _ask_along(
        self, topic_partition: TopicPartition, others: Sequence[TopicPartition]
    ) -> LogRange | None:
        if not others:
            return None
        # Before the question: what happens while it is under way may not be in the answer.
        asked_at = time.monotonic()
        try:
            answers = self._ask_many([topic_partition, *others])
        except SecorError:
            return None  # asked again by itself, it says what is wrong
        with self._lock:
            for key in others:
                # Still waiting: one that has asked by itself meanwhile, or was revoked, needs no
                # answer.
                if key in answers and (key in self._new or key in self._known):
                    self._new.pop(key, None)
                    self._known[key] = asked_at, answers[key]
        return answers.get(topic_partition)


@dataclass(slots=True)
class _Question:
    """A request for the end of ``leader_epoch``: answer or error, once it ``is_answered``."""

    leader_epoch: int
    is_answered: bool = False
    end: int | None = None
    error: SecorError | None = None


class EpochEnds:
    """Asks where leader epochs end; those that come during a request go together in the next.

    Only the ledger's entries say which epochs to ask for, so nothing can be asked in advance.
    Threads share it.
    """

    def __init__(self, ask: AskEpochs) -> None:
        """``ask`` leaves out what no leader says."""
        self._ask = ask
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._waiting: dict[TopicPartition, _Question] = {}

    def get(self, topic_partition: TopicPartition, leader_epoch: int) -> int | None:
        """Return the end, None where the leader does not say.  Raises what asking raises."""
        question = _Question(leader_epoch)
        with self._lock:
            self._waiting[topic_partition] = question
        with self._asking:
            if not question.is_answered:
                self._ask_all()
        if question.error is not None:
            raise question.error
        return question.end

    def _ask_all(self) -> None:
        with self._lock:
            questions, self._waiting = self._waiting, {}
        ends: Mapping[TopicPartition, int] = {}
        error = None
        try:
            ends = self._ask({key: item.leader_epoch for key, item in questions.items()})
        except SecorError as failure:
            error = failure
        for key, question in questions.items():
            question.end, question.error, question.is_answered = ends.get(key), error, True
