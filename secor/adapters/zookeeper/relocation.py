"""The ledger in ZooKeeper as a move sees it: all entries, and the node of the ledger itself."""

from __future__ import annotations

import os
import socket

from secor.adapters.ledger_codec import encode_epoch, encode_intent, encode_kept_offset
from secor.adapters.zookeeper.entries import (
    GroupPaths,
    Versions,
    decode_kept,
    read_nodes,
)
from secor.adapters.zookeeper.lock import Lock
from secor.adapters.zookeeper.options import Options
from secor.adapters.zookeeper.session import Session
from secor.adapters.zookeeper.writes import Record, Write
from secor.core.model import Entry, TopicPartition
from secor.core.relocation import KeptEntry, LedgerPlace, Relocation

LOCK_TIMEOUT = 10.0
"""Seconds that a write waits for a process to let a topic partition go."""

_NONE = Versions(None, None, None)


class ZooKeeperMovableLedger:
    """A ``MovableLedger``.

    The ledger's own node closes it for processes of this version, also for entries that are
    not there yet.  The text of each offset's node closes it for Java Secor and earlier versions.
    """

    needs_topics = False

    def __init__(self, options: Options, *, root: str, group: str) -> None:
        """Connect.  Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``."""
        self._layout = GroupPaths.below(options.chroot, root, group)
        self._session = Session(options)
        self._record = Record(self._session, self._layout, options.servers)
        self._owner = f"secor offsets move, {os.getpid()} on {socket.gethostname()}".encode()

    def place(self) -> LedgerPlace:
        """Return where it is; without an id where no process of this version has used it."""
        self._record.look()
        return self._record.place

    def identify(self) -> LedgerPlace:
        """Return where it is, and give it an id where it has none."""
        self._record.make()
        return self._record.place

    def users(self) -> list[str]:
        """Return the holders of locks, and consumers of Java Secor that are registered."""
        holders = [
            f"{holder} (lock of {topic}/{partition})"
            for topic, partition in self._below(f"{self._layout.own}/locks")
            for holder in self._holders(f"{self._layout.own}/locks/{topic}/{partition}")
        ]
        return holders + self._session.children(f"{self._layout.consumers}/ids")

    def _holders(self, lock: str) -> list[str]:
        nodes = [self._session.get(f"{lock}/{name}") for name in self._session.children(lock)]
        return [node[0].decode("utf-8", "replace") for node in nodes if node is not None]

    def _below(self, path: str) -> list[tuple[str, str]]:
        """Return topics and partitions that have nodes there."""
        return [
            (topic, partition)
            for topic in self._session.children(path)
            for partition in self._session.children(f"{path}/{topic}")
        ]

    def record(self) -> Relocation | None:
        """Return the ledger's record of a move."""
        self._record.look()
        return self._record.relocation

    def write_record(self, relocation: Relocation | None) -> None:
        """Replace the record as it was looked at.  Raises ``Refused``, ``OutcomeUnknown``."""
        self._record.write(relocation)

    def kept(self) -> dict[TopicPartition, KeptEntry]:
        """Read all entries, also those that have an intent alone.  Raises ``LedgerCorrupt``."""
        names = {*self._below(self._layout.offsets), *self._below(f"{self._layout.own}/intents")}
        keys = sorted(
            TopicPartition(topic, int(partition))
            for topic, partition in names
            if partition.isdecimal()
        )
        return {
            key: decode_kept(
                self._layout, key, read_nodes(self._session, self._layout, key, with_epoch=True)
            )
            for key in keys
        }

    def check(
        self, topic_partition: TopicPartition, entry: Entry, relocation: Relocation | None
    ) -> None:
        """Accept every entry: nodes are large enough."""

    def keep(
        self,
        topic_partition: TopicPartition,
        before: KeptEntry | None,
        entry: Entry,
        relocation: Relocation | None,
    ) -> None:
        """Replace ``before``.  Raises ``Refused``, ``LeaseLost``, ``OutcomeUnknown``."""
        seen = _NONE if before is None else before.version
        assert isinstance(seen, Versions)
        assert entry.committed is not None
        epoch_path = self._layout.epoch(topic_partition)
        for parent in self._layout.parents(topic_partition):
            self._session.ensure_path(parent)
        self._session.ensure_path(epoch_path)
        lock = Lock(self._session, self._layout.lock(topic_partition), self._owner)
        try:
            # As a process that commits does: one that runs all the same keeps its lock, and the
            # move fails here.
            lock.acquire(LOCK_TIMEOUT)
            write = Write(self._session, lock.path, self._record)
            offset, intent, topic_id = self._layout.data(topic_partition)
            text = encode_kept_offset(entry.committed, relocation).decode()
            write.put(offset, text, seen.offset)
            write.put(
                intent, None if entry.intent is None else encode_intent(entry.intent), seen.intent
            )
            write.put(topic_id, entry.topic_id, seen.topic_id)
            epoch = entry.leader_epoch
            write.set(epoch_path, "" if epoch is None else encode_epoch(epoch, entry.committed))
            # In the same transaction as the entry: after it nobody holds the topic partition.
            write.delete_lock()
            write.send(str(topic_partition))
            lock.gone()
        finally:
            lock.release()

    def close(self) -> None:
        """End the session; its locks go with it."""
        self._session.close()
