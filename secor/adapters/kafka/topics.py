"""Which topics are read, and whether one is still the topic that it was."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from secor.adapters.kafka.insides import MetadataAge
from secor.adapters.kafka.metadata_queries import id_text
from secor.core.errors import AccessDenied, ConfigurationError

_log = logging.getLogger(__name__)


def topic_pattern(pattern: str, exclude: str | None) -> str:
    """Return one expression for whole names: those of ``pattern`` that ``exclude`` does not name.

    Raises ``ConfigurationError``.
    """
    for text in (pattern, exclude or ""):
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigurationError(f"the topic expression {text!r}: {error}") from error
    # The group puts an alternative of the user's, as in ``a|b``, before the end; ``\Z``, because
    # ``$`` also takes a line end.
    but = rf"(?!(?:{exclude})\Z)" if exclude else ""
    return rf"{but}(?:{pattern})\Z"


def named_topics(topics: Sequence[str], exclude: str | None) -> list[str]:
    """Return the topics by name, without those that ``exclude`` names."""
    wanted = re.compile(topic_pattern(".*", exclude))
    kept = [topic for topic in topics if wanted.match(topic)]
    if not kept:
        raise ConfigurationError("no topics: kafka.topics_exclude leaves out all of kafka.topics")
    return kept


@dataclass(frozen=True, slots=True)
class Look:
    """The content of metadata that was asked for at ``asked_at`` (monotonic seconds).

    Of the assigned topics ``anew`` were made again since; ``same`` are what they were.
    """

    asked_at: float
    anew: set[str]
    same: set[str]


class TopicWatch:
    """Looks at the metadata whenever the client has refreshed it."""

    def __init__(self, cluster: Any, expected: Iterable[str]) -> None:
        self._cluster = cluster
        self._missing = dict.fromkeys(expected, 0)
        self._ids: dict[str, str] = {}
        self._age = MetadataAge(cluster)
        self._answers_seen = -1

    def assigned(self, topics: set[str]) -> None:
        """Take the ids of these, where none is known, from the metadata of the assignment.

        Any later one could be that of a topic made again meanwhile.
        """
        for topic in topics - self._ids.keys():
            topic_id = id_text(self._cluster.topic_id(topic))
            if topic_id:
                self._ids[topic] = topic_id

    def look(self, assigned_topics: Callable[[], set[str]]) -> Look | None:
        """Return what the last refresh of the metadata brought; None if there was none since.

        Raises ``AccessDenied`` for topics that may not be read.
        """
        # Nothing new since the last look: what is missing would be counted again.
        if self._age.answers == self._answers_seen:
            return None
        self._answers_seen = self._age.answers
        assigned = assigned_topics()
        if self._cluster.unauthorized_topics:
            names = ", ".join(sorted(self._cluster.unauthorized_topics))
            raise AccessDenied(
                f"topics {names}: not allowed; give this user Read and Describe on them"
            )
        self._report_missing()
        # What is assigned again later may be another topic: its id is taken anew then.
        for topic in self._ids.keys() - assigned:
            del self._ids[topic]
        known = dict(self._ids)
        there = {t for t in assigned if self._cluster.partitions_for_topic(t) is not None}
        ids = {topic: id_text(self._cluster.topic_id(topic)) for topic in there}
        self._ids |= {topic: text for topic, text in ids.items() if text}
        anew = {topic for topic in there if known.get(topic, ids[topic]) != ids[topic]}
        return Look(self._age.asked_at, anew, there - anew)

    def _report_missing(self) -> None:
        for topic, looks in self._missing.items():
            if self._cluster.partitions_for_topic(topic) is not None:
                self._missing[topic] = 0
                continue
            self._missing[topic] = looks + 1
            # One refresh may have been under way before the topic was asked for.
            if looks == 1:
                _log.warning(
                    "topic %s does not exist, or may not be described by this user: "
                    "waiting for it; create it, or check kafka.topics and the ACLs",
                    topic,
                )
