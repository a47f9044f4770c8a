"""The ledger in Kafka as a move sees it: the record of the move is in each entry.

A group has no place for a record of its own.  Offsets of topics that a group does not read
expire, those of the topics that it reads stay: so the record is where the offsets are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secor.adapters.kafka.client import Client
from secor.adapters.kafka.commits import Raw, check_metadata, decoded, relocation_of
from secor.adapters.kafka.ledger import NAME, GroupEntries
from secor.adapters.kafka.membership import Pin
from secor.adapters.kafka.metadata_queries import MetadataClient
from secor.adapters.ledger_codec import encode_metadata
from secor.core.model import Entry, TopicPartition
from secor.core.relocation import KeptEntry, LedgerPlace, Relocation


class KafkaMovableLedger:
    """A ``MovableLedger``: writes only while the group is empty, which the broker sees to.

    ``options`` are kafka-python's.  Raises ``Unavailable``, ``AccessDenied``.
    """

    needs_topics = True

    def __init__(self, options: Mapping[str, Any], *, group: str, timeout: float = 30.0) -> None:
        self._client = Client(options, timeout=timeout, group_id=group)
        self._entries = GroupEntries(self._client, group, timeout)
        self._metadata = MetadataClient(self._client, timeout)
        self._pin = Pin(-1, "")

    def place(self) -> LedgerPlace:
        """Return the cluster by its own id."""
        cluster = self._metadata.cluster_id()
        return LedgerPlace(f"{NAME} (cluster {cluster})", cluster)

    identify = place

    def users(self) -> list[str]:
        """Return the members of the group."""
        return self._entries.members()

    def record(self) -> Relocation | None:
        """Return what the entries record of a move."""
        return relocation_of(self._entries.entries())

    def write_record(self, relocation: Relocation | None) -> None:
        """Write nothing: the entries have it."""

    def kept(self) -> dict[TopicPartition, KeptEntry]:
        """Read all entries.  Raises ``LedgerCorrupt``."""
        return {key: decoded(key, raw) for key, raw in sorted(self._entries.entries().items())}

    def check(
        self, topic_partition: TopicPartition, entry: Entry, relocation: Relocation | None
    ) -> None:
        """Raise ``StopPartition`` if brokers would refuse the entry."""
        check_metadata(topic_partition, encode_metadata(entry.intent, entry.topic_id, relocation))

    def keep(
        self,
        topic_partition: TopicPartition,
        before: KeptEntry | None,
        entry: Entry,
        relocation: Relocation | None,
    ) -> None:
        """Replace ``before``.  Raises ``Refused``, ``LeaseLost``, ``OutcomeUnknown``."""
        assert entry.committed is not None
        epoch = -1 if entry.leader_epoch is None else entry.leader_epoch
        metadata = encode_metadata(entry.intent, entry.topic_id, relocation)
        raw = Raw(entry.committed, metadata, epoch)
        seen = Entry(None, version=None if before is None else before.version)
        self._entries.write(topic_partition, seen, raw, self._pin)

    def close(self) -> None:
        """End the connection."""
        self._client.close()
