"""The lock of one ledger entry: the first of a queue of ephemeral sequential nodes.

The recipe of the ZooKeeper documentation, by hand: the lock's own node is what every
write checks, and kazoo's own lock believes in itself after its session has gone.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Sequence

from kazoo.exceptions import NodeExistsError, NoNodeError

from secor.adapters.zookeeper.requests import Look, Node, Watch
from secor.adapters.zookeeper.session import Session
from secor.core.errors import LeaseLost, OutcomeUnknown, Unavailable

_NODE = re.compile(r"[0-9a-f]{32}-(?P<sequence>-?\d{10})")
_LOOK_AGAIN = 1.0
"""Seconds after which the queue is read again even without a sign: a watch dies with its
connection, without a sign."""
_TRIES = 4


class Lock:
    """A place in the queue; held while the session that made its node lives."""

    def __init__(
        self,
        session: Session,
        directory: str,
        owner: bytes,
        *,
        is_new: bool = False,
        paths: Sequence[str] = (),
    ) -> None:
        """Queue up.  Raises ``Unavailable``, ``AccessDenied``, ``LeaseLost``.

        ``is_new``: nobody has made the directory yet, as far as is known.  The nodes at
        ``paths`` are asked for at the same time.
        """
        self._session = session
        self._directory = directory
        # Random, so that a node whose creation had no answer is found by its name.
        self._name = uuid.uuid4().hex + "-"
        self._given_back = False
        # Before the node is made: a session that ends in between is noticed afterwards.
        self._epoch = session.epoch
        self.path, self._look = self._queue_up(owner, paths, is_new=is_new)

    def _queue_up(self, owner: bytes, paths: Sequence[str], *, is_new: bool) -> tuple[str, Look]:
        try:
            path, look = self._enter(owner, paths, make_directory=is_new)
        except OutcomeUnknown as error:
            # The node may exist without our knowing its number: later holders would wait for it for
            # ever.
            self._session.sweep_soon(self._directory, self._name)
            raise Unavailable(f"{error}; the lock {self._directory} is asked for again") from error
        # The session ended while we queued up: the node may be of the new one, and nobody looks
        # after it.
        if self._session.epoch != self._epoch:
            self._session.delete_soon(path)
            raise LeaseLost(f"{self._directory}: the ZooKeeper session ended")
        return path, look

    def _enter(
        self, owner: bytes, paths: Sequence[str], *, make_directory: bool
    ) -> tuple[str, Look]:
        """Make the directory where it is missing, and where that fails, what is above it."""
        for _ in range(_TRIES):
            try:
                return self._session.enter(
                    self._directory, self._name, owner, paths, make_directory=make_directory
                )
            except NodeExistsError:
                make_directory = False
            except NoNodeError:
                if make_directory:
                    self._make_parent()
                make_directory = True
        raise Unavailable(f"the lock {self._directory} is made and deleted by others")

    def _make_parent(self) -> None:
        parent = self._directory.rpartition("/")[0]
        self._session.forget_path(parent)  # somebody deletes nodes
        self._session.ensure_path(parent)

    def acquire(self, timeout: float) -> list[Node | None] | None:
        """Wait until it is the first.  Raises ``LeaseLost`` after ``timeout`` seconds.

        Returns the nodes that were asked for, if they were read after all earlier holders had
        gone; None when they may have written since.
        """
        deadline = time.monotonic() + timeout
        names, nodes = self._look()
        ahead = self._ahead(names)
        if ahead is None:
            return nodes
        while ahead is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise LeaseLost(
                    f"{self._directory} is held by {self._holder(ahead)};"
                    f" not free after {timeout:g} s"
                )
            # Only the node just ahead is watched: of hundreds that wait, a release wakes one.
            changed = threading.Event()
            if self._session.exists(ahead, watch=_ring(changed)):
                changed.wait(min(left, _LOOK_AGAIN))
            ahead = self._ahead(self._session.children(self._directory))
        return None

    def _ahead(self, names: Sequence[str]) -> str | None:
        """Return the node just ahead of ours; None when ours is the first."""
        places = {}
        for name in names:
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
        """Return whether the session that made the node lives, as far as is known here."""
        return (
            not self._given_back and not self._session.closed and self._session.epoch == self._epoch
        )

    def gone(self) -> None:
        """Note that a write has deleted the node."""
        self._given_back = True

    def release(self) -> None:
        """Leave the queue; does not wait, and never raises for a server that is away."""
        if not self._given_back:
            self._given_back = True
            # An ended session has taken the node along.
            if self._session.epoch == self._epoch and not self._session.closed:
                self._session.delete_soon(self.path)


def _ring(sign: threading.Event) -> Watch:
    return lambda _event: sign.set()
