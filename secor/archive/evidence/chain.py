"""The records with which a rewrite carries evidence on: hashes of old objects, and of the new ones.

``<prefix>/_backfill/_rewrites/<topic>/chain/<number>-<partition>-<start>.json`` is put, if absent,
when the new objects of a range are there and before the first old one is deleted.  Its roots are
the hash trees of ``record`` over what was read, and what was written, of this range:

    {"topic": "clicks", "partition": 0, "start": 0, "end": 5000, "why": "compact",
     "by": "secor 1.0", "old_root": "…", "new_root": "…", "old": […], "new": […]}

So later evidence follows an object that is gone to those that took its place, rewrite by rewrite.
Whoever can delete objects can also write such a record: it explains, and does not prove.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec

from secor import __version__
from secor.archive.evidence.digests import WORKERS, Digest, digests_of, object_record
from secor.archive.evidence.record import ObjectRecord, tree_of_objects
from secor.core.errors import CorruptFile, NotFound
from secor.core.naming import rewrites_root
from secor.core.object_info import ObjectInfo
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes

DIRECTORY = "chain"
VERSION = 1
COMPACT, ERASE = "compact", "erase"

_NAME = re.compile(r"([0-9]{8})-([0-9]+)-([0-9]{20})\.json")


@dataclass(frozen=True, slots=True)
class Link:
    """One range that was rewritten; ``why`` is the command, ``erasure`` the number of its list."""

    topic: str
    partition: int
    start: int
    end: int
    why: str
    by: str
    old_root: str
    new_root: str
    old: tuple[ObjectRecord, ...]
    new: tuple[ObjectRecord, ...]
    erasure: int | None = None
    version: int = VERSION

    def __str__(self) -> str:
        listed = "" if self.erasure is None else f", list {self.erasure}"
        return f"secor archive {self.why}{listed} ({self.by})"


def link_key(root: str, number: int, partition: int, start: int) -> str:
    """Return the key of the record of a plan's range; ``root`` is the topic's directory."""
    return f"{rewrites_root(root)}/{DIRECTORY}/{number:08d}-{partition}-{start:020d}.json"


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The records of a range next to its objects."""

    topic: str
    partition: int
    start: int
    end: int
    why: str
    erasure: int | None = None


def put_link(
    store: ObjectStore,
    key: str,
    rewriting: Rewriting,
    old: Collection[str],
    new: Collection[str],
    read: Mapping[str, Digest],
) -> None:
    """Record a range, unless that was done; ``read`` are hashes of objects that are known.

    Nothing is recorded where an old object is gone: another run is deleting them, and it has put
    the record, or an earlier version of Secor has begun; nor of one without our metadata, such as
    Java Secor's.  Raises ``Unavailable``, ``CorruptFile``.
    """
    # Looked up before hashes are computed: those read all objects of the range.
    if any(stored.key == key for stored in store.list(key)):
        return
    unread = digests_of(
        store, [unread_key for unread_key in (*old, *new) if unread_key not in read], lambda _: None
    )
    digests = {**read, **dict(unread)}
    try:
        earlier, later = (_records(store, keys, digests) for keys in (old, new))
    except NotFound:
        return
    link = Link(
        **{name: getattr(rewriting, name) for name in rewriting.__slots__},
        by=f"secor {__version__}",
        old_root=tree_of_objects(earlier),
        new_root=tree_of_objects(later),
        old=earlier,
        new=later,
    )
    put_bytes(store, key, msgspec.json.format(msgspec.json.encode(link), indent=1) + b"\n")


def _records(
    store: ObjectStore, keys: Collection[str], digests: Mapping[str, Digest | None]
) -> tuple[ObjectRecord, ...]:
    """Raises ``NotFound`` where an object, or its metadata, is gone."""

    def record(key: str) -> ObjectRecord:
        digest = digests[key]
        if digest is None:
            raise NotFound(key)
        metadata = store.head(key).metadata or {}
        if "fingerprint" not in metadata:
            raise NotFound(key)
        return object_record(key, digest, ObjectInfo.of(metadata, key))

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="head") as pool:
        return tuple(pool.map(record, sorted(keys)))


def same(record: ObjectRecord, digest: Digest | None) -> bool:
    """Return whether an object has the bytes of a record."""
    return digest == Digest(record.size, record.sha256, record.crc32c)


@dataclass(slots=True)
class Chain:
    """All records of a topic, by key and SHA-256 of what was replaced.

    ``reached`` are the keys of objects that took the place of those that were asked for.
    """

    store: ObjectStore
    links: Mapping[tuple[str, str], Link]
    reached: set[str] = field(default_factory=set)
    _found: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def explained(self, record: ObjectRecord) -> Link | None:
        """Return the rewrite that took an object away; None where no record has it."""
        return self.links.get((record.key, record.sha256))

    def broken(self, record: ObjectRecord) -> str | None:
        """Tell what is not as the records say of the objects that took the place of one.

        None: all of them are there, with the bytes that were recorded.  Raises ``Unavailable``.
        """
        link = self.links[record.key, record.sha256]
        for new in link.new:
            name = new.key, new.sha256
            if name not in self._found:
                self._found[name] = None  # a circle is none: names only grow
                self._found[name] = self._fault(new)
            fault = self._found[name]
            if fault is not None:
                return fault
        self.reached.update(new.key for new in link.new)
        return None

    def _fault(self, new: ObjectRecord) -> str | None:
        [(_, digest)] = digests_of(self.store, [new.key], lambda _: None)
        if same(new, digest):
            return None
        if digest is None and (new.key, new.sha256) in self.links:
            return self.broken(new)
        how = "is gone" if digest is None else f"has SHA-256 {digest.sha256}, not {new.sha256}"
        return f"{new.key}, which took its place, {how}"


def read_chain(store: ObjectStore, root: str) -> Chain:
    """Read the records of the topic whose directory is ``root``.

    Raises ``CorruptFile`` for one that is not whole, or whose roots are not those of its objects.
    """
    links: dict[tuple[str, str], Link] = {}
    for stored in store.list(f"{rewrites_root(root)}/{DIRECTORY}/"):
        if _NAME.fullmatch(stored.key.rpartition("/")[2]) is None:
            continue
        data = read_bytes(store, stored.key)
        if data is None:
            raise NotFound(f"{stored.key}: was listed and is gone: check again")
        link = _decoded(stored.key, data)
        # By hash as well: one key may have been rewritten more than once, with other bytes each
        # time.
        links |= {(record.key, record.sha256): link for record in link.old}
    return Chain(store, links)


def _decoded(key: str, data: bytes) -> Link:
    try:
        link = msgspec.json.decode(data, type=Link)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptFile(f"{key}: is no record of a rewrite ({error})") from error
    # Recomputed, not believed: somebody may have changed a hash within the list and left the roots.
    if (tree_of_objects(link.old), tree_of_objects(link.new)) != (link.old_root, link.new_root):
        raise CorruptFile(f"{key}: was changed: its roots are not those of the objects it lists")
    return link
