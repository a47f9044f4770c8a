"""One warning for all partitions that a broker refuses to give for the same reason."""

from __future__ import annotations

import logging
from collections import defaultdict

from kafka.errors import BrokerResponseError

from secor.core.model import TopicPartition

_log = logging.getLogger("secor.adapters.kafka.fetching")
_MOST_SHOWN = 5


class Refusals:
    """Brokers' errors since the last warning."""

    def __init__(self) -> None:
        self._partitions: dict[str, list[TopicPartition]] = defaultdict(list)

    def add(self, error: type[BrokerResponseError], topic_partition: TopicPartition) -> None:
        """Note that a fetch of a topic partition was answered with ``error``."""
        self._partitions[f"{error.__name__}: {error.description}"].append(topic_partition)

    def warn(self) -> None:
        """Log a line for each error, and forget them."""
        for error, partitions in self._partitions.items():
            shown = ", ".join(map(str, partitions[:_MOST_SHOWN]))
            others = len(partitions) - _MOST_SHOWN
            _log.warning(
                "fetching %s: %s; fetching again when the metadata shows the topic",
                f"{shown} and {others} others" if others > 0 else shown,
                error,
            )
        self._partitions.clear()
