"""How often brokers are asked for messages: with many partitions, each request costs CPU."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

from secor.adapters.kafka import insides
from secor.adapters.kafka.client import Client

IDLE_WAIT = 2.0
"""Seconds that a broker may keep a request for which it has no messages, while all is quiet.

It answers at once when a message comes.  But what is started or resumed meanwhile is only asked
for in the next request to its broker, so while anything goes on brokers keep requests for less.
"""

QUIET_AFTER = 5.0
"""Seconds without messages, starts and pauses after which all is quiet."""


class FetchPace:
    """Tells whether to put requests together, and sets how long brokers may keep them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._wait = insides.fetch_wait(client.fetcher)
        self._busy_at = time.monotonic()
        self._brokers: frozenset[int | None] | None = None

    def busy(self) -> None:
        """Take note that something goes on."""
        self._busy_at = time.monotonic()
        insides.set_fetch_wait(self._client.fetcher, self._wait)

    def brokers_may_differ(self) -> None:
        """Take note that partitions, metadata or the replicas that are read have changed."""
        self._brokers = None

    def is_due(self, partitions: Iterable[object]) -> bool:
        """Tell whether a broker could be asked; ``partitions`` are the client's assigned ones.

        A broker that has a request of ours already is not asked again.  To find that out, the
        client would go through all partitions, ten times a second.
        """
        if time.monotonic() - self._busy_at > QUIET_AFTER:
            insides.set_fetch_wait(self._client.fetcher, max(self._wait, IDLE_WAIT))
        if self._brokers is None:
            find = partial(insides.read_replica, self._client.fetcher)
            self._brokers = frozenset(map(find, partitions))
        # A partition without a leader is among what is asked for, so that the client looks for one.
        return not self._brokers or not self._brokers <= insides.asked_nodes(self._client.fetcher)
