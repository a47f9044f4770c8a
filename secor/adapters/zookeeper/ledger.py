"""The ledger in ZooKeeper: compare-and-set under a lock; every write checks the lock's node."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

from secor.adapters.ledger_codec import encode_epoch, encode_intent, encode_offset
from secor.adapters.zookeeper.entries import GroupPaths, Versions, decode, read_nodes, versions
from secor.adapters.zookeeper.lock import Lock
from secor.adapters.zookeeper.options import Options
from secor.adapters.zookeeper.requests import Node
from secor.adapters.zookeeper.session import Session
from secor.adapters.zookeeper.writes import Record, Write
from secor.core.errors import LeaseLost, Refused
from secor.core.model import Entry, Intent, TopicPartition


class ZooKeeperLedger:
    """An ``OffsetLedger`` of one group; the same class serves a person's commands."""

    def __init__(
        self,
        hosts: str,
        *,
        root: str,
        group: str,
        session_timeout: float = 10.0,
        connect_timeout: float = 15.0,
        username: str | None = None,
        password: str | None = None,
        sasl_mechanism: str | None = None,
        acl: str = "open",
        use_tls: bool = False,
        tls_ca: str | None = None,
        tls_certfile: str | None = None,
        tls_keyfile: str | None = None,
        tls_keyfile_password: str | None = None,
        tls_verify: bool = True,
    ) -> None:
        """Connect to ``host:port,host:port/chroot``; ``root`` is the path below the chroot.

        Timeouts are in seconds.  A username without ``sasl_mechanism`` means digest
        authentication; ``acl`` is ``open`` or ``creator``.  Raises ``Unavailable``,
        ``AccessDenied``, ``ConfigurationError``.
        """
        options = Options(
            hosts=hosts,
            session_timeout=session_timeout,
            connect_timeout=connect_timeout,
            username=username,
            password=password,
            sasl_mechanism=sasl_mechanism,
            acl=acl,
            use_tls=use_tls,
            tls_ca=tls_ca,
            tls_certfile=tls_certfile,
            tls_keyfile=tls_keyfile,
            tls_keyfile_password=tls_keyfile_password,
            tls_verify=tls_verify,
        )
        self._layout = GroupPaths.below(options.chroot, root, group)
        self._session = Session(options)
        self._record = Record(self._session, self._layout, options.servers)
        self._owner = f"process {os.getpid()} on {socket.gethostname()}".encode()
        # Partitions that had no entry when they were read: their locks have no directory yet.
        self._new: set[TopicPartition] = set()
        # Those that had no node of their leader epoch: it is made in the write that first needs it.
        self._without_epoch: set[TopicPartition] = set()

    def check(self) -> None:
        """See that the group's entries may be made and listed; make the node above them.

        Also give the ledger an id where it has none.  Raises ``AccessDenied``, ``Unavailable``,
        ``LedgerMoved``.
        """
        self._session.ensure_path(self._layout.offsets)
        self._session.children(self._layout.offsets)
        self._record.make()
        self._record.refuse()

    @property
    def id(self) -> str | None:
        """The id by which the ledger is known whatever its address; None before ``check``."""
        return self._record.ledger_id

    def refuse_relocated(self) -> None:
        """Raise ``LedgerMoved`` if it is no longer the group's ledger, or not yet."""
        self._record.look()
        self._record.refuse()

    def read(self, topic_partition: TopicPartition) -> Entry:
        """Read an entry.  Raises ``Unavailable``, ``LedgerCorrupt``, ``AccessDenied``.

        Raises ``LedgerMoved`` as ``refuse_relocated``, if a write has shown that it has to look.
        """
        self._record.refuse_if_changed()
        nodes = read_nodes(self._session, self._layout, topic_partition, with_epoch=True)
        if nodes[0] is None:
            self._new.add(topic_partition)
        if nodes[-1] is None:
            self._without_epoch.add(topic_partition)
        else:
            self._without_epoch.discard(topic_partition)
        return decode(self._layout, topic_partition, nodes)

    def entries(self) -> dict[TopicPartition, Entry]:
        """Read all entries of the group, in order.  Raises as ``read`` does."""
        entries = {}
        for topic in sorted(self._session.children(self._layout.offsets)):
            names = self._session.children(f"{self._layout.offsets}/{topic}")
            for partition in sorted(int(name) for name in names if name.isdecimal()):
                key = TopicPartition(topic, partition)
                entries[key] = self.read(key)
        return entries

    def lease(self, topic_partition: TopicPartition, timeout: float) -> ZooKeeperLease:
        """Take the lease.  Raises ``LeaseLost`` after ``timeout`` seconds, ``Unavailable``."""
        self._record.refuse_if_changed()
        is_new = topic_partition in self._new
        self._new.discard(topic_partition)
        lock = Lock(
            self._session,
            self._layout.lock(topic_partition),
            self._owner,
            is_new=is_new,
            # A first entry follows a read that found none.
            paths=() if is_new else self._layout.data(topic_partition),
        )
        acquired = False
        try:
            nodes = lock.acquire(timeout)
            acquired = True
        finally:
            if not acquired:
                lock.release()
        return ZooKeeperLease(
            self._session,
            self._layout,
            self._record,
            topic_partition,
            lock,
            nodes or None,
            self._without_epoch,
        )

    def healthy(self) -> bool:
        """Return whether the session is connected, as far as is known here."""
        return self._session.connected

    def close(self) -> None:
        """End the session; its locks go with it."""
        self._session.close()


class ZooKeeperLease:
    """A held lock.

    While the connection is down it gives no right to act; it comes back with the same
    session (the lock's node existed all the time) and ends with the session.
    """

    def __init__(
        self,
        session: Session,
        layout: GroupPaths,
        record: Record,
        topic_partition: TopicPartition,
        lock: Lock,
        nodes: list[Node | None] | None,
        without_epoch: set[TopicPartition],
    ) -> None:
        """``nodes`` are those of the entry, read since it is held; they serve the first read.

        ``without_epoch`` are the ledger's partitions that had no node of an epoch.
        """
        self._nodes = nodes
        self._without_epoch = without_epoch
        self._session = session
        self._layout = layout
        self._record = record
        self._topic_partition = topic_partition
        self._lock = lock

    @property
    def trust(self) -> float:
        """Half the granted session timeout: the server heard of us at the write."""
        return self._session.timeout / 2

    def held(self) -> bool:
        """Return whether the session lives and is connected, as far as is known here."""
        return self._lock.alive() and self._session.connected

    def read(self) -> Entry:
        """Read the entry.  Raises ``Unavailable``, ``LedgerCorrupt``, ``AccessDenied``."""
        # Once only: they are as fresh as the lock, and later reads must see later writes.
        nodes, self._nodes = self._nodes, None
        if nodes is None:
            nodes = read_nodes(self._session, self._layout, self._topic_partition)
        return decode(self._layout, self._topic_partition, nodes)

    def record(self, before: Entry, intent: Intent) -> Entry:
        """Set the intent; a first one also sets ``committed`` to its start."""
        committed = intent.start if before.committed is None else before.committed
        return self._write(before, Entry(committed, intent, before.topic_id))

    def commit(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        """Set ``committed`` and take the intent away."""
        return self._write(before, Entry(next_offset, None, topic_id, leader_epoch=leader_epoch))

    def finish(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        """Do as ``commit``; the lock's node goes in the same transaction."""
        after = Entry(next_offset, None, topic_id, leader_epoch=leader_epoch)
        entry = self._write(before, after, last=True)
        self._lock.gone()
        return entry

    def overwrite(self, next_offset: int, topic_id: str | None) -> Entry:
        """Set ``committed`` over any value, readable or not."""
        nodes = read_nodes(self._session, self._layout, self._topic_partition)
        return self._write(
            Entry(None, topic_id=None, version=versions(nodes)),
            Entry(next_offset, None, topic_id),
            keep_topic_id=False,
        )

    def release(self) -> None:
        """Give the lock back; does not wait for a server that does not answer."""
        self._lock.release()

    def _write(
        self, before: Entry, after: Entry, *, keep_topic_id: bool = True, last: bool = False
    ) -> Entry:
        self._check()
        # What came along with the lock is only good until the first write.
        self._nodes = None
        seen = before.version
        if not isinstance(seen, Versions):
            raise Refused(f"{self._topic_partition}: the entry to change was not read from here")
        for parent in self._layout.parents(self._topic_partition):
            self._session.ensure_path(parent)
        # One transaction: it checks the lock's own node, so a write of a lost session has no
        # effect, whatever this process believes of its lock.
        write = Write(self._session, self._lock.path, self._record)
        offset, intent, topic_id = self._layout.data(self._topic_partition)
        intent_text = None if after.intent is None else encode_intent(after.intent)
        same_topic = keep_topic_id and before.topic_id == after.topic_id
        new = Versions(
            write.put(offset, encode_offset(after.committed or 0).decode(), seen.offset),
            write.put(intent, intent_text, seen.intent),
            seen.topic_id if same_topic else write.put(topic_id, after.topic_id, seen.topic_id),
        )
        epoch_path = self._layout.epoch(self._topic_partition)
        if after.leader_epoch is not None:
            self._put_epoch(write, epoch_path, after.leader_epoch, after.committed or 0)
        elif after.intent is None:
            self._forget_epoch(write, epoch_path, before, after.committed)
        # With the commit, in one step: the next holder finds either lock and intent, or neither.
        if last:
            write.delete_lock()
        try:
            write.send(str(self._topic_partition))
        except Refused:
            for path in (*self._layout.parents(self._topic_partition), epoch_path):
                self._session.forget_path(path)
            raise
        return replace(after, version=new)

    def _put_epoch(self, write: Write, path: str, leader_epoch: int, committed: int) -> None:
        text = encode_epoch(leader_epoch, committed)
        # The lock and the offset's version guard it: it needs no version of its own.
        if self._topic_partition in self._without_epoch:
            # Once only: where somebody has made it since, this write is refused.
            self._without_epoch.discard(self._topic_partition)
            self._session.ensure_path(path.rpartition("/")[0])
            write.put(path, text, None)
        else:
            self._session.ensure_path(path)
            write.set(path, text)

    def _forget_epoch(self, write: Write, path: str, before: Entry, committed: int | None) -> None:
        """Empty the node: what it says of an offset may not be so when a person sets that again."""
        if before.version == Versions(None, None, None):
            return  # a first entry
        if before.intent is not None and before.intent.end == committed:
            return  # the daemon's: that offset is behind the one that the node names
        (node,) = self._session.fresh([path])
        if node is not None:
            write.set(path, "")

    def _check(self) -> None:
        if not self._lock.alive():
            raise LeaseLost(f"{self._topic_partition}: the lease ended, nothing was written")
