"""Replicas in this process's rack: left for their leaders when they do not answer (KIP-392).

A leader that is asked with a rack does not answer with messages, but names the replica to read.  It
goes on naming one that is gone until the controller has noticed, 9 seconds or more, and the client
asks that one again each time.  So after a failure leaders are asked without the rack for a while.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from secor.adapters.kafka import insides
from secor.adapters.kafka.client import Client

LEADERS_FOR = 30.0
"""Seconds after a failure in which leaders are read."""

_log = logging.getLogger(__name__)


class RackReplicas:
    """The replicas that the client reads, of those that leaders have named for its ``rack``."""

    def __init__(self, client: Client, rack: str) -> None:
        self._client = client
        self._rack = rack
        self._leaders_until = float("-inf")

    def left(self, broker: Any) -> bool:
        """Read from leaders what is read from this replica; return whether anything is."""
        states = self._client.subscription.assignment.values()
        left = [state for state in states if state.preferred_read_replica() == broker]
        for state in left:
            state.clear_preferred_read_replica()
        if left:
            _log.info(
                "broker %s, the replica in rack %s, does not answer: leaders are read for %.0f s",
                broker,
                self._rack,
                LEADERS_FOR,
            )
            self._leaders_until = time.monotonic() + LEADERS_FOR
            self._client.cluster.request_update()
        return bool(left)

    def set_rack(self) -> None:
        """Name the rack in the requests that follow, or not, as it is time."""
        if self._rack:
            rack = self._rack if time.monotonic() >= self._leaders_until else ""
            insides.set_rack(self._client.fetcher, rack)
