"""Entries in ZooKeeper: their paths, and reading one whole.

``<root>/consumers/<group>/offsets/<topic>/<partition>`` is Java Secor's own node; intent,
topic id, leader epoch and lock are under ``<root>/secor/<group>``.
"""

from __future__ import annotations

from dataclasses import dataclass

from secor.adapters.ledger_codec import decode_epoch, decode_intent, decode_kept_offset
from secor.adapters.zookeeper.requests import Node
from secor.adapters.zookeeper.session import Session
from secor.core.errors import LedgerCorrupt, Unavailable
from secor.core.model import Entry, TopicPartition
from secor.core.relocation import KeptEntry, refusal

_TRIES = 20


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of an entry's nodes, None where there is no node."""

    offset: int | None
    intent: int | None
    topic_id: int | None


class GroupPaths:
    """The paths of one group."""

    def __init__(self, base: str, group: str) -> None:
        """``base`` is the chroot and the root together, empty or with a leading slash."""
        self.group = group
        self.path = base or "/"
        self.consumers = f"{base}/consumers/{group}"
        self.offsets = f"{self.consumers}/offsets"
        self.own = f"{base}/secor/{group}"

    @classmethod
    def below(cls, chroot: str, root: str, group: str) -> GroupPaths:
        """Return the paths of a group below chroot and root."""
        root = root.strip("/")
        return cls(chroot + (f"/{root}" if root else ""), group)

    @property
    def record(self) -> str:
        """The node of the ledger itself: its id, and the record of a move."""
        return f"{self.own}/ledger"

    @property
    def name(self) -> str:
        """The ledger, for people."""
        return f"ZooKeeper at {self.path}"

    def offset(self, topic_partition: TopicPartition) -> str:
        """The node of the committed offset."""
        return f"{self.offsets}/{topic_partition}"

    def intent(self, topic_partition: TopicPartition) -> str:
        """The node of the intent."""
        return f"{self.own}/intents/{topic_partition}"

    def topic_id(self, topic_partition: TopicPartition) -> str:
        """The node of the topic's id at the last commit."""
        return f"{self.own}/topics/{topic_partition}"

    def epoch(self, topic_partition: TopicPartition) -> str:
        """The node of the leader epoch below the committed offset."""
        return f"{self.own}/epochs/{topic_partition}"

    def lock(self, topic_partition: TopicPartition) -> str:
        """The directory of the lock's queue."""
        return f"{self.own}/locks/{topic_partition}"

    def data(self, topic_partition: TopicPartition) -> tuple[str, str, str]:
        """The nodes whose versions writes compare, in the order of ``Versions``."""
        return (
            self.offset(topic_partition),
            self.intent(topic_partition),
            self.topic_id(topic_partition),
        )

    def parents(self, topic_partition: TopicPartition) -> list[str]:
        """The nodes that must be there before an entry can be made at once."""
        return [path.rpartition("/")[0] for path in self.data(topic_partition)]


def read_nodes(
    session: Session, layout: GroupPaths, key: TopicPartition, *, with_epoch: bool = False
) -> list[Node | None]:
    """Read the nodes as of one moment; a writer needs no epoch.

    Every write sets the offset's node: when it is the same before and after, nothing was
    written in between.
    """
    paths = (*layout.data(key), *([layout.epoch(key)] if with_epoch else []))
    for _ in range(_TRIES):
        # The first node once more, as the last one: requests of a session are answered in their
        # order.
        *nodes, again = session.fresh([*paths, paths[0]])
        if _modified(nodes[0]) == _modified(again):
            return nodes
    raise Unavailable(f"{paths[0]} changes faster than it can be read")


def _modified(node: Node | None) -> int | None:
    return None if node is None else node[1].mzxid


def versions(nodes: list[Node | None]) -> Versions:
    """Return the nodes' versions."""
    return Versions(*(None if node is None else node[1].version for node in nodes[:3]))


def decode(layout: GroupPaths, key: TopicPartition, nodes: list[Node | None]) -> Entry:
    """Read the nodes' data.  Raises ``LedgerCorrupt`` naming the node, ``LedgerMoved``."""
    kept = decode_kept(layout, key, nodes)
    if kept.relocation is not None:
        raise refusal(layout.group, layout.name, kept.relocation)
    return kept.entry


def decode_kept(layout: GroupPaths, key: TopicPartition, nodes: list[Node | None]) -> KeptEntry:
    """Read the nodes' data, also of a ledger that is closed.  Raises ``LedgerCorrupt``."""
    offset, intent, topic_id, *epochs = nodes
    committed, relocation = None, None
    if offset is not None:
        committed, relocation = decode_kept_offset(offset[0], layout.offset(key))
    epoch = epochs[0] if epochs else None
    entry = Entry(
        committed=committed,
        intent=None if intent is None else decode_intent(*_text(intent, layout.intent(key))),
        topic_id=None if topic_id is None else _text(topic_id, layout.topic_id(key))[0],
        version=versions(nodes),
        leader_epoch=None if epoch is None else decode_epoch(epoch[0], committed),
    )
    return KeptEntry(entry, relocation, entry.version)


def _text(node: Node, where: str) -> tuple[str, str]:
    try:
        return node[0].decode(), where
    except UnicodeDecodeError as error:
        raise LedgerCorrupt(
            f"{where} holds {node[0][:80]!r}, which is no text; settle it with 'secor offsets set'"
        ) from error
