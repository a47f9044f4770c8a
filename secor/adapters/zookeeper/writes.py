"""Writes in ZooKeeper: all nodes of an entry or none, and none of what has changed since."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from secor.adapters.ledger_codec import decode_record, encode_record
from secor.adapters.zookeeper.entries import GroupPaths
from secor.adapters.zookeeper.session import Session
from secor.core.errors import AccessDenied, LeaseLost, OutcomeUnknown, Refused, Unavailable
from secor.core.relocation import LedgerPlace, Relocation, refusal


class Record:
    """The node of a group's ledger: an id of its own, and the record of a move.

    Hosts have aliases, and two ensembles may be reached by one address (``localhost``): a random
    id that is written once names the ledger whatever its address.  ``version`` is known once the
    node was looked at; every write of an entry checks it, so a move that sets the node ends the
    right of all processes at once.
    """

    def __init__(self, session: Session, layout: GroupPaths, servers: str) -> None:
        self.path = layout.record
        self.version: int | None = None
        self.ledger_id: str | None = None
        self.relocation: Relocation | None = None
        self._session = session
        self._layout = layout
        self._servers = servers
        self._forgotten = False

    @property
    def place(self) -> LedgerPlace:
        """The ledger, as it was looked at last."""
        return LedgerPlace(f"{self._layout.name} ({self._servers})", self.ledger_id)

    def make(self) -> None:
        """Make the node where it is missing, then look at it."""
        self.look()
        if self.version is None:
            self._session.ensure_path(self._layout.own)
            first = self._session.transaction()
            # Of two processes one wins; both look afterwards, and have the same id.
            first.create(self.path, encode_record(uuid.uuid4().hex, None))
            failures = _failures(self._session.commit(first, self.path))
            if failures and not isinstance(failures[0], NodeExistsError):
                raise _failure(self.path, failures)
            self.look()

    def look(self) -> None:
        """Read the node.  Raises ``LedgerCorrupt``, ``Unavailable``, ``AccessDenied``."""
        (node,) = self._session.fresh([self.path])
        self._forgotten = False
        self.version = self.ledger_id = self.relocation = None
        if node is not None:
            self.ledger_id, self.relocation = decode_record(node[0], self.path)
            self.version = node[1].version

    def refuse(self) -> None:
        """Raise ``LedgerMoved`` if there is a record of a move."""
        if self.relocation is not None:
            raise refusal(self._layout.group, self._layout.name, self.relocation)

    def forget(self) -> None:
        """Note that the node has changed: the next read or lease looks again."""
        self._forgotten = True

    def refuse_if_changed(self) -> None:
        """Look again if the node has changed.  Raises ``LedgerMoved`` as ``refuse``."""
        if self._forgotten:
            self._session.forget_path(self._layout.own)
            self.make()
        self.refuse()

    def write(self, relocation: Relocation | None) -> None:
        """Replace the node as it was looked at.  Raises ``Refused``, ``OutcomeUnknown``."""
        assert self.ledger_id is not None
        assert self.version is not None
        write = self._session.transaction()
        write.set_data(self.path, encode_record(self.ledger_id, relocation), self.version)
        failures = _failures(self._session.commit(write, self.path))
        if failures:
            raise _failure(self.path, failures)
        self.version += 1
        self.relocation = relocation


class Write:
    """One transaction: the lock's node must be there, and every node as it was read.

    So must the ledger's own node, where it is known: it changes when the ledger is moved.
    """

    def __init__(self, session: Session, lock: str, record: Record) -> None:
        self._session = session
        self._lock = lock
        self._record = record
        self._transaction = session.transaction()
        # First in the list: where several checks fail, the first result is the cause, and "the lock
        # is gone" is what the caller has to hear.
        self._transaction.check(lock, -1)
        self._checks_record = record.version is not None
        if record.version is not None:
            self._transaction.check(record.path, record.version)

    def put(self, path: str, text: str | None, version: int | None) -> int | None:
        """Create, set or (``text`` None) delete a node; return the version it will have."""
        if text is None:
            if version is not None:
                self._transaction.delete(path, version)
            return None
        if version is None:
            self._transaction.create(path, text.encode())
            return 0
        self._transaction.set_data(path, text.encode(), version)
        # ZooKeeper counts up by one with each write, so the new version is known without another
        # read.
        return version + 1

    def set(self, path: str, text: str) -> None:
        """Set a node that is there, whatever its version."""
        self._transaction.set_data(path, text.encode(), -1)

    def delete_lock(self) -> None:
        """Give the lock back with the write; it stays when the write is refused."""
        self._transaction.delete(self._lock, -1)

    def send(self, what: str) -> None:
        """Commit.  kazoo *returns* the errors: every one is looked at."""
        lock, *nodes = self._session.commit(self._transaction, what)
        if isinstance(lock, NoNodeError | BadVersionError):
            raise LeaseLost(f"{what}: the lock is gone, nothing was written")
        if self._checks_record and isinstance(nodes[0], NoNodeError | BadVersionError):
            self._record.forget()
            raise Refused(f"{what}: {self._record.path} has changed; looking at it again")
        failures = _failures([lock, *nodes])
        if failures:
            raise _failure(what, failures)


def _failures(results: Iterable[Any]) -> list[Any]:
    return [result for result in results if isinstance(result, Exception)]


def _failure(
    what: str, failures: list[Any]
) -> Refused | AccessDenied | Unavailable | OutcomeUnknown:
    """Name the one operation that failed: the others were only rolled back for it."""
    rolled_back = (RolledBackError, RuntimeInconsistency)
    causes = [failure for failure in failures if not isinstance(failure, rolled_back)]
    if not causes:
        return OutcomeUnknown(f"{what}: ZooKeeper rolled the write back without a reason")
    kind = type(causes[0]).__name__
    if isinstance(causes[0], BadVersionError | NoNodeError | NodeExistsError):
        return Refused(f"{what}: the entry is not as it was read ({kind})")
    if isinstance(causes[0], NoAuthError | InvalidACLError):
        return AccessDenied(
            f"{what}: ZooKeeper refuses the write ({kind}): check the username, the password"
            " and the ACLs of the nodes"
        )
    return Unavailable(f"{what}: ZooKeeper did not write ({kind})")
