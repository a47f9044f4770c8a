"""Fetch requests: what each broker is asked for, remembered from one request to the next.

For each request the client makes an object of every partition that it may fetch, asks its
connections and its metadata about each, and compares all with the request before: 8 us a partition,
mostly of what is as it was.  As ``insides``, this module knows what kafka-python does not promise.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

from secor.adapters.kafka.insides import (
    Fetcher,
    FetchMetadata,
    FetchPartition,
    FetchRequest,
    FetchRequestData,
    FetchSessionHandler,
    read_replica,
)

MAX_VERSION = 12
"""The newest version of the request that the client writes: later ones name topics by id."""


class FetchRequests:
    """Makes the requests of a client's fetcher; all on its IO thread."""

    def __init__(self, fetcher: Fetcher) -> None:
        """Let ``fetcher`` make its requests here."""
        self._fetcher = fetcher
        self._known: dict[Any, tuple[Any, Any, Any]] = {}
        """Of each partition the position, the broker and the part of a request."""
        self._looks = True
        fetcher._create_fetch_requests = self._create

    def anything_may_differ(self) -> None:
        """Take note that metadata, replicas or the assignment may have changed."""
        self._known.clear()
        self._looks = True

    def position_was_set(self) -> None:
        """Take note that a position is not the one behind what was fetched last."""
        self._looks = True

    def validate(self) -> None:
        """Have positions validated that may be of another leader's log (KIP-320).

        Raises the client's ``LogTruncationError``.
        """
        # Only a position that was set, or a new leader, begins a validation; one that goes on is
        # seen by ``_create``.
        if self._looks:
            self._looks = False
            self._fetcher.maybe_validate_positions()
            self._fetcher.validate_offsets_if_needed()

    def _create(self) -> dict[Any, tuple[Any, dict[Any, int]]]:
        """Return requests and the offsets that they ask for, by broker, as the client's own."""
        fetcher = self._fetcher
        # Asked for again, what has come but was not taken yet would come twice.
        untaken = {fetch.topic_partition for fetch in fetcher._completed_fetches}
        wanted: dict[Any, OrderedDict[Any, Any]] = defaultdict(OrderedDict)
        may_ask: dict[Any, bool] = {}
        for key, state in fetcher._subscriptions.assignment.items():
            if not state.is_fetchable():
                self._looks = self._looks or state.awaiting_validation
                continue
            if key in untaken:
                continue
            known = self._known.get(key)
            if state.preferred_read_replica() is not None:
                # For a time: when that is over, the leader is asked.
                known = self._look_up(key, state.position)
            # A position is replaced, never changed.
            elif known is None or known[0] is not state.position:
                known = self._known[key] = self._look_up(key, state.position)
            broker = known[1]
            if broker not in may_ask:
                may_ask[broker] = self._may_ask(broker)
            if may_ask[broker]:
                wanted[broker][key] = known[2]
        return {broker: self._request(broker, parts) for broker, parts in wanted.items()}

    def _look_up(self, key: Any, position: Any) -> tuple[Any, Any, Any]:
        fetcher = self._fetcher
        epoch = fetcher._manager.cluster.leader_epoch_for_partition(key)
        part = FetchPartition(
            partition=key.partition,
            # The epoch of the leader fences a request to an earlier one; that of the last record
            # finds a log that has diverged.
            current_leader_epoch=-1 if epoch is None else epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.leader_epoch,
            partition_max_bytes=fetcher.config["max_partition_fetch_bytes"],
        )
        return position, read_replica(fetcher, key), part

    def _may_ask(self, broker: Any) -> bool:
        fetcher = self._fetcher
        if broker is None or broker == -1:
            # Without a leader: the next metadata may name one.
            fetcher._manager.cluster.request_update()
            return False
        return not (
            broker in fetcher._nodes_with_pending_fetch_requests
            or fetcher._manager.connection_delay(broker) > 0
            or fetcher._client.throttle_delay(broker) > 0
        )

    def _request(self, broker: Any, parts: OrderedDict[Any, Any]) -> tuple[Any, dict[Any, int]]:
        fetcher = self._fetcher
        if fetcher._enable_incremental_fetch_sessions:
            session = fetcher._session_handlers.get(broker)
            if session is None:
                session = fetcher._session_handlers[broker] = FetchSessionHandler(broker)
            data = session.build_next(parts)
        else:
            data = FetchRequestData(parts, None, FetchMetadata.LEGACY)
        request = FetchRequest(
            max_wait_ms=fetcher.config["fetch_max_wait_ms"],
            min_bytes=fetcher.config["fetch_min_bytes"],
            max_bytes=fetcher.config["fetch_max_bytes"],
            isolation_level=fetcher._isolation_level,
            session_id=data.id,
            session_epoch=data.epoch,
            topics=data.to_send,
            forgotten_topics_data=data.to_forget,
            rack_id=fetcher.config["client_rack"],
            min_version=FetchRequest.min_version_for_isolation_level(fetcher._isolation_level),
            max_version=MAX_VERSION,
        )
        return request, {key: part.fetch_offset for key, part in parts.items()}
