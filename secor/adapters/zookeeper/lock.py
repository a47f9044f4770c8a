"""The lock of one ledger entry: the first of a queue of ephemeral sequential nodes.

The recipe of the ZooKeeper documentation, by hand: the lock's own node is what every
write checks, and kazoo's own lock believes in itself after its session has gone.
"""

from __future__ import annotations

import re
import threading
import time
import uuid

from kazoo.exceptions import NoNodeError

from secor.adapters.zookeeper.session import Session, Watch
from secor.core.errors import LeaseLost, OutcomeUnknown, Unavailable

_NODE = re.compile(r"[0-9a-f]{32}-(?P<sequence>-?\d{10})")
_LOOK_AGAIN = 1.0
"""Seconds after which the queue is read again even without a sign: a watch dies with its
connection, without telling."""


class Lock:
    """A place in the queue; held while the session that made its node lives."""

    def __init__(self, session: Session, directory: str, owner: bytes) -> None:
        """Queue up.  Raises ``Unavailable``, ``AccessDenied``, ``LeaseLost``."""
        self._session = session
        self._directory = directory
        self._name = uuid.uuid4().hex + "-"
        self._given_back = False
        session.ensure_path(directory)
        self._epoch = session.epoch
        self.path = self._queue_up(owner)

    def _queue_up(self, owner: bytes) -> str:
        try:
            path = self._session.create_ephemeral(f"{self._directory}/{self._name}", owner)
        except OutcomeUnknown as error:
            self._session.sweep_soon(self._directory, self._name)
            raise Unavailable(f"{error}; the lock {self._directory} is asked for again") from error
        except NoNodeError as error:
            self._session.forget_path(self._directory)
            raise Unavailable(f"the lock {self._directory} was deleted; making it anew") from error
        if self._session.epoch != self._epoch:
            self._session.delete_soon(path)
            raise LeaseLost(f"{self._directory}: the ZooKeeper session ended")
        return path

    def acquire(self, timeout: float) -> None:
        """Wait until it is the first.  Raises ``LeaseLost`` after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            changed = threading.Event()
            ahead = self._ahead()
            if ahead is None:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise LeaseLost(
                    f"{self._directory} is held by {self._holder(ahead)};"
                    f" not free after {timeout:g} s"
                )
            if self._session.exists(ahead, watch=_ring(changed)):
                changed.wait(min(left, _LOOK_AGAIN))

    def _ahead(self) -> str | None:
        """Return the node just ahead of ours; None when ours is the first."""
        places = {}
        for name in self._session.children(self._directory):
            match = _NODE.fullmatch(name)
            if match is not None:
                places[name] = int(match["sequence"])
        own_place = places.get(self.path.rpartition("/")[2])
        if own_place is None:
            raise LeaseLost(f"{self.path} is gone: the ZooKeeper session ended")
        ahead = [(place, name) for name, place in places.items() if place < own_place]
        return f"{self._directory}/{max(ahead)[1]}" if ahead else None

    def _holder(self, path: str) -> str:
        holder = self._session.get(path)
        return holder[0].decode("utf-8", "replace") if holder else "another process"

    def alive(self) -> bool:
        """Tell whether the session that made the node lives, as far as is known here."""
        return (
            not self._given_back and not self._session.closed and self._session.epoch == self._epoch
        )

    def release(self) -> None:
        """Leave the queue; does not wait, and never raises for a server that is away."""
        if not self._given_back:
            self._given_back = True
            if self._session.epoch == self._epoch and not self._session.closed:
                self._session.delete_soon(self.path)


def _ring(sign: threading.Event) -> Watch:
    return lambda _event: sign.set()
