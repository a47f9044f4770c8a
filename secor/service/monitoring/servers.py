"""The state of the servers in use: which answer, since when one does not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    SecorError,
    Unavailable,
)
from secor.core.model import Entry, StoredObject, TopicPartition
from secor.core.ports import Clock, Lease, ObjectStore, OffsetLedger

STORE, BROKERS, ZOOKEEPER = "the object store", "the Kafka brokers", "ZooKeeper"
"""What people call them, in logs and on the status page."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """``answers`` is how it was when last asked, None before; times in seconds since the epoch.

    ``since`` is when it began to fail, None while it answers; ``error`` the last one, which
    stays when it is over.
    """

    answers: bool | None = None
    answered_at: float | None = None
    since: float | None = None
    error: SecorError | None = None
    error_at: float | None = None


class MonitoredServer:
    """One of them.  All calls may come from any thread: each stores one reference."""

    def __init__(self, name: str, clock: Clock) -> None:
        """``name`` is as people say it, such as ``the object store``."""
        self.name = name
        self._clock = clock
        self.state = ServerState()

    def answered(self) -> None:
        """It did what it was asked."""
        # One new object instead of changed fields: a reader in another thread sees the old state or
        # the new one.
        self.state = replace(self.state, answers=True, answered_at=self._clock.now(), since=None)

    def failed(self, error: SecorError | None = None) -> None:
        """It did not; where nothing says why, an error that it failed with already stays."""
        now, known = self._clock.now(), self.state
        if known.answers is not False:
            known = ServerState(False, known.answered_at, since=now)
        self.state = known if error is None else replace(known, error=error, error_at=now)

    def set_trouble(self, trouble: str | None) -> None:
        """Take what is known now: a trouble, in words, or none."""
        if trouble is None:
            self.answered()
        elif self.state.answers is not False or str(self.state.error) != trouble:
            self.failed(Unavailable(trouble))

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Take how a question ends; that an object is or is not there is an answer, too."""
        try:
            yield
        except (Unavailable, OutcomeUnknown, AccessDenied) as error:
            self.failed(error)
            raise
        # An answer as it should be: the server works.
        except (AlreadyExists, NotFound):
            self.answered()
            raise
        self.answered()


class Servers:
    """The three of a process, in the order in which its start asks them."""

    def __init__(self, clock: Clock, ledger: str = ZOOKEEPER) -> None:
        """``ledger`` is the name of the server that keeps it."""
        self.store = MonitoredServer(STORE, clock)
        self.ledger = MonitoredServer(ledger, clock)
        self.kafka = MonitoredServer(BROKERS, clock)
        self.all = (self.store, self.ledger, self.kafka)

    def start_waits_for(self, name: str, error: SecorError | None) -> None:
        """Take what a start waits for: those that are asked before it have answered."""
        names = [server.name for server in self.all]
        if name in names:
            for server in self.all[: names.index(name)]:
                server.answered()
            waiting = self.all[names.index(name)]
            if error is not None and error is not waiting.state.error:
                waiting.failed(error)


class WatchedStore:
    """An ``ObjectStore`` that reports to a ``MonitoredServer`` how it answers."""

    def __init__(self, store: ObjectStore, server: MonitoredServer) -> None:
        self._store = store
        self._server = server

    def put(
        self, key: str, content: Path | bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        """Put."""
        with self._server.asked():
            self._store.put(key, content, crc32c, metadata)

    def head(self, key: str) -> StoredObject:
        """Look at one object."""
        with self._server.asked():
            return self._store.head(key)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """List."""
        with self._server.asked():
            yield from self._store.list(prefix)

    def open(self, key: str) -> BinaryIO:
        """Open."""
        with self._server.asked():
            return self._store.open(key)

    def delete(self, key: str) -> None:
        """Delete."""
        with self._server.asked():
            self._store.delete(key)


class WatchedLedger:
    """An ``OffsetLedger`` that reports its answers to a ``MonitoredServer``; uploads begin here.

    ``session`` says that ``healthy`` means a session that is kept up, not what was asked
    last: then it is an answer of now.
    """

    def __init__(self, ledger: OffsetLedger, server: MonitoredServer, *, session: bool) -> None:
        self._ledger = ledger
        self._session = session
        self._server = server
        self._was_healthy = True

    def read(self, topic_partition: TopicPartition) -> Entry:
        """Read an entry."""
        with self._server.asked():
            return self._ledger.read(topic_partition)

    def lease(self, topic_partition: TopicPartition, timeout: float) -> Lease:
        """Take a lease."""
        with self._server.asked():
            return self._ledger.lease(topic_partition, timeout)

    def healthy(self) -> bool:
        """Return whether the ledger answers, as far as is known here, without asking."""
        healthy = self._ledger.healthy()
        if not healthy:
            self._server.failed()
        # Without a session "healthy" only means that nothing was refused: that is no answer of now.
        elif (self._session and self._server.state.answers) or not self._was_healthy:
            self._server.answered()
        self._was_healthy = healthy
        return healthy

    def close(self) -> None:
        """End the connection."""
        self._ledger.close()
