"""The lists of what was erased from the archive of a topic: hashes of keys, and up to where.

``<topic root>/_erased/<number, 8 digits>.json`` is put if absent, before anything is rewritten, and
never changed.  A hash is HMAC-SHA256 of topic and key with the group's secret, its first 16 bytes:
without the secret nobody can read from a list whose messages are gone, or find them by it.
Each list has a hash of a fixed text, by which another secret is noticed.  Such as:

    {"version": 1, "topic": "clicks", "secret": "…", "at": "2026-11-21T10:00:00Z",
     "by": "secor 1.0", "tombstones": false, "hashes": ["…"],
     "logs": [{"partition": 0, "generation": 1, "topic_id": "…", "end": 5000}]}

All messages of these keys that are below ``end`` are erased, in whatever object they come back.
A list of version 2 has, instead of hashes, the offsets of messages that were chosen by a field:

     "offsets": [{"partition": 0, "generation": 1, "topic_id": "…", "ranges": [[7, 8], [19, 22]]}]
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import ConfigurationError
from secor.core.model import SCHEMA
from secor.core.naming import ObjectName
from secor.core.object_info import ObjectInfo
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes

DIRECTORY = "_erased"
VERSION = 1
OFFSETS_VERSION = 2
"""Of lists with offsets: a reader of version 1 alone would find nothing in them."""
SETTING = "erase.secret (SECOR_ERASE__SECRET in the environment, eraseSecret for Spark)"

_NAME = re.compile(r"([0-9]{8})\.json")
_HASH_BYTES = 16
_BLOCK = 64
"""Bytes that SHA-256 takes at a time."""


@dataclass(frozen=True, slots=True)
class Secret:
    """The group's secret, with which keys are hashed."""

    secret: bytes = field(repr=False)

    def hasher(self, topic: str) -> Callable[[bytes | None], bytes]:
        """Return what gives the hash that lists of ``topic`` have of a key.

        A null key has another than an empty one.
        """
        # HMAC in its two halves (RFC 2104), with the same beginning for all keys: the
        # library's own takes more than twice the time.
        secret = sha256(self.secret).digest() if len(self.secret) > _BLOCK else self.secret
        padded = secret.ljust(_BLOCK, b"\0")
        inner = sha256(bytes(byte ^ 0x36 for byte in padded) + topic.encode() + b"\0")
        outer = sha256(bytes(byte ^ 0x5C for byte in padded))

        def of(key: bytes | None) -> bytes:
            within, around = inner.copy(), outer.copy()
            within.update(b"null" if key is None else b"key\0" + key)
            around.update(within.digest())
            return around.digest()[:_HASH_BYTES]

        return of

    @property
    def id(self) -> str:
        """The id that distinguishes this secret from another, and has nothing of it."""
        return hmac.digest(self.secret, b"secor erasures", "sha256").hex()[:_HASH_BYTES]


@dataclass(frozen=True, slots=True)
class _Log:
    """One log; a ``topic_id`` of None is that of all topics."""

    partition: int
    generation: int
    topic_id: str | None

    def is_of(self, partition: int, generation: int | None, topic_id: str | None) -> bool:
        """Return whether it is of a log; a generation of None is that of all."""
        return (
            self.partition == partition
            and generation in (None, self.generation)
            and (None in (topic_id, self.topic_id) or topic_id == self.topic_id)
        )


@dataclass(frozen=True, slots=True)
class ErasedLog(_Log):
    """Messages below ``end`` of one log."""

    end: int


Ranges = tuple[tuple[int, int], ...]
"""Ranges ``[start, end)`` of offsets, in order and apart."""


@dataclass(frozen=True, slots=True)
class ErasedOffsets(_Log):
    """Messages of one log, by their offsets."""

    ranges: Ranges

    def covers(self, ranges: Ranges) -> bool:
        """Return whether all of these offsets are among its own."""
        return all(any(a <= start and end <= b for a, b in self.ranges) for start, end in ranges)


@dataclass(frozen=True, slots=True)
class Erasure:
    """One list.  With ``tombstones`` messages stay with a null value, without headers."""

    topic: str
    secret: str
    at: str
    by: str
    tombstones: bool
    hashes: frozenset[bytes]
    logs: tuple[ErasedLog, ...]
    version: int = VERSION
    offsets: tuple[ErasedOffsets, ...] = ()

    def ranges(self, partition: int, generation: int | None, topic_id: str | None) -> Ranges:
        """Return the offsets of a log that are erased whatever their keys."""
        of_log = (
            offsets_of_log
            for offsets_of_log in self.offsets
            if offsets_of_log.is_of(partition, generation, topic_id)
        )
        return tuple(sorted(span for offsets_of_log in of_log for span in offsets_of_log.ranges))

    def end(self, partition: int, generation: int | None, topic_id: str | None) -> int:
        """Return the offset below which messages of a log are erased; 0 where none are."""
        ends = (log.end for log in self.logs if log.is_of(partition, generation, topic_id))
        return max(ends, default=0)

    def covers(self, other: Erasure) -> bool:
        """Return whether all that another says is said here, too."""
        return (
            (self.secret, self.tombstones) == (other.secret, other.tombstones)
            and self.hashes >= other.hashes
            and all(
                any(replace(own, end=log.end) == log and own.end >= log.end for own in self.logs)
                for log in other.logs
            )
            and all(
                any(
                    replace(own, ranges=of_log.ranges) == of_log and own.covers(of_log.ranges)
                    for own in self.offsets
                )
                for of_log in other.offsets
            )
        )


@dataclass(frozen=True)
class Erasures:
    """The lists of one topic by their numbers, and the secret to look keys up with.

    Without a secret they can only be counted: see ``require``.
    """

    root: str = ""
    lists: Mapping[int, Erasure] = field(default_factory=dict)
    secret: Secret | None = None

    def __bool__(self) -> bool:
        """Whether anything is erased."""
        return bool(self.lists)

    @cached_property
    def newest(self) -> int:
        """The number of the newest list; 0 without any."""
        return max(self.lists, default=0)

    def require(self) -> Erasures:
        """Return these, which can be used.

        Raises ``ConfigurationError`` where the secret is absent, or not that of a list.
        """
        for number, erasure in sorted(self.lists.items()):
            if not erasure.hashes:
                continue
            key = list_key(self.root, number)
            if self.secret is None:
                raise ConfigurationError(
                    f"{key}: messages of {erasure.topic} are erased, and only the group's secret"
                    f" says which: set {SETTING}. If it is lost, and what was erased may"
                    " come back from copies, delete this list"
                )
            # With another secret the hashes of all keys differ: nothing would be found, and it
            # would look as if all was erased.
            if erasure.secret != self.secret.id:
                raise ConfigurationError(
                    f"{key}: was made with another secret ({erasure.secret}) than {SETTING}"
                    f" ({self.secret.id}): set that one; nothing was read or erased with the"
                    " wrong one"
                )
        return self

    def upto(self, number: int) -> Erasures:
        """Return the lists without those after ``number``."""
        return replace(self, lists={n: of for n, of in self.lists.items() if n <= number})

    def and_also(self, erasure: Erasure) -> Erasures:
        """Return these and one more, which is not put."""
        return replace(self, lists={**self.lists, self.newest + 1: erasure})

    def of_object(self, name: ObjectName, info: ObjectInfo | None) -> LogErasures:
        """Return what is still to be left out of what an object holds."""
        topic_id, applied = (info.topic_id, info.erasures or 0) if info else (None, 0)
        return self.of(name.partition, name.generation, topic_id, applied)

    def of(
        self,
        partition: int,
        generation: int | None,
        topic_id: str | None,
        applied: int = 0,
        *,
        beyond: bool = False,
    ) -> LogErasures:
        """Return what is erased of a log; the lists up to number ``applied`` are left out.

        ``beyond``: see ``LogErasures``.
        """
        log = partition, generation, topic_id
        lists = [erasure for number, erasure in sorted(self.lists.items()) if number > applied]
        parts = [(erasure.end(*log), erasure) for erasure in lists]
        ranges = [(erasure.ranges(*log), erasure.tombstones) for erasure in lists]
        return LogErasures(
            [part for part in parts if part[0] or (beyond and part[1].hashes)],
            self.secret,
            [range_of_log for range_of_log in ranges if range_of_log[0]],
            beyond,
        )


@dataclass(frozen=True, slots=True)
class LogErasures:
    """The erasures of one log: lists, each with the offset below which it counts.

    ``offsets`` are erased whatever their keys; those with true become tombstones.  With ``beyond``
    messages of listed keys may be gone at every offset: daemons leave them out (``erase.apply``).
    """

    parts: Sequence[tuple[int, Erasure]]
    secret: Secret | None
    offsets: Sequence[tuple[Ranges, bool]] = ()
    beyond: bool = False

    def __bool__(self) -> bool:
        """Whether anything can be erased."""
        return bool(self.parts)

    def erased(self, records: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Tell of each message of ``SCHEMA`` whether it goes, and whether it becomes a tombstone.

        One without an offset does neither, nor one of a format that keeps no keys.
        """
        gone = np.zeros(records.num_rows, bool)
        emptied = np.zeros(records.num_rows, bool)
        if not self.parts or not records.num_rows:
            return gone, emptied
        # An unknown offset is above every end, so nothing is erased that may not be meant.
        offsets = records.column("offset").fill_null(2**63 - 1).to_numpy(zero_copy_only=False)
        for ranges, tombstones in self.offsets:
            (emptied if tombstones else gone)[_inside(offsets, ranges)] = True
        if not self.has_keys:
            return gone, emptied & ~gone
        encoded = records.column("key").dictionary_encode("encode")
        # A hash for each distinct key: keys repeat, and a hash costs a microsecond.
        hashes, indices = self.hashes(encoded.dictionary), encoded.indices.to_numpy()
        # Null may be the key, or what a reader gives for a key that its format does not keep.
        unknown = pc.and_(
            records.column("key").is_null(), records.column("timestamp_type").is_null()
        ).to_numpy(zero_copy_only=False)
        for end, erasure in self.parts:
            listed = np.fromiter(
                (key_hash in erasure.hashes for key_hash in hashes), bool, len(hashes)
            )
            if listed.any():
                erased = listed[indices] & ((offsets < end) | self.beyond) & ~unknown
                if erasure.tombstones:
                    emptied |= erased
                else:
                    gone |= erased
        return gone, emptied & ~gone

    @property
    def has_keys(self) -> bool:
        """Whether anything is erased by its key; else no message need be read to know."""
        return any(erasure.hashes for _, erasure in self.parts)

    def meets(self, start: int, end: int) -> bool:
        """Return whether messages of a range may be erased."""
        return self.has_keys or any(
            a < end and start < b for ranges, _ in self.offsets for a, b in ranges
        )

    def hashes(self, keys: pa.Array) -> list[bytes]:
        """Return what lists have of keys."""
        assert self.secret is not None
        return list(map(self.secret.hasher(self.parts[0][1].topic), keys.to_pylist()))

    def back_again(self, records: pa.RecordBatch) -> np.ndarray:
        """Return the offsets of stored messages that are erased, and should not be there."""
        gone, emptied = replace(self, beyond=False).erased(records)
        again = gone | (emptied & records.column("value").is_valid().to_numpy(False))
        offsets: np.ndarray = records.column("offset").filter(pa.array(again)).to_numpy()
        return offsets

    def without(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return what is left of messages."""
        gone, emptied = self.erased(records)
        if emptied.any():
            records = as_tombstones(records, emptied)
        return records.filter(pa.array(~gone)) if gone.any() else records


def _inside(offsets: np.ndarray, ranges: Ranges) -> np.ndarray:
    """Tell of each offset whether it is in one of the ranges."""
    bounds = np.array(ranges, np.int64)
    position = bounds[:, 0].searchsorted(offsets, "right") - 1
    inside: np.ndarray = (position >= 0) & (offsets < bounds[position, 1])
    return inside


NO_ERASURES = Erasures()
NOTHING_ERASED = LogErasures((), None)


def as_tombstones(records: pa.RecordBatch, which: np.ndarray) -> pa.RecordBatch:
    """Return messages, some of them with a null value and no headers."""
    chosen = pa.array(which)
    for name, nothing in (("value", None), ("headers", [])):
        at, field_of = SCHEMA.get_field_index(name), SCHEMA.field(name)
        empty = pa.scalar(nothing, field_of.type)
        records = records.set_column(at, field_of, pc.if_else(chosen, empty, records.column(name)))
    return records


def list_key(root: str, number: int) -> str:
    """Return the key of a list below the topic's directory ``root``."""
    return f"{root}/{DIRECTORY}/{number:08d}.json"


def read_erasures(
    store: ObjectStore, root: str, secret: Secret | None, known: Erasures = NO_ERASURES
) -> Erasures:
    """Read all lists of the topic whose directory is ``root``; not again those that are ``known``.

    Raises ``ConfigurationError`` for one that cannot be read: what is erased is not known then.
    """
    lists: dict[int, Erasure] = {}
    for stored in store.list(f"{root}/{DIRECTORY}/"):
        match = _NAME.fullmatch(stored.key.rpartition("/")[2])
        if match is not None:
            number = int(match[1])
            listed = known.lists.get(number)
            lists[number] = listed or _decoded(stored.key, read_bytes(store, stored.key))
    return Erasures(root, lists, secret)


def _decoded(key: str, data: bytes | None) -> Erasure:
    import msgspec  # a daemon starts without it, and few archives have lists

    try:
        erasure = msgspec.json.decode(data or b"", type=Erasure)
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{key}: is no list of what was erased ({error})") from error
    if erasure.version not in (VERSION, OFFSETS_VERSION):
        raise ConfigurationError(
            f"{key}: a list of version {erasure.version}, which this version of Secor cannot read"
        )
    return erasure


def agree(store: ObjectStore, erasures: Erasures, wanted: Erasure) -> Erasures:
    """Put a list, unless one says it already; return all, among them one that covers it.

    Raises ``OutcomeUnknown``, ``Unavailable``, ``AccessDenied``: then nothing may be erased;
    doing it again is right.  Raises ``ConfigurationError`` as ``Erasures.require``.
    """
    while True:
        if any(erasure.covers(wanted) for erasure in erasures.require().lists.values()):
            return erasures
        key = list_key(erasures.root, erasures.newest + 1)
        put_bytes(store, key, _encoded(wanted))
        # Read again in either case: another process may have put a list of its own under this
        # number.
        erasures = read_erasures(store, erasures.root, erasures.secret)


def _encoded(erasure: Erasure) -> bytes:
    import msgspec

    plain = msgspec.to_builtins(erasure)
    plain["hashes"] = sorted(plain["hashes"])
    return msgspec.json.encode(plain) + b"\n"


def erasure_of(
    topic: str,
    secret: Secret,
    keys: Iterable[bytes | None],
    logs: Iterable[ErasedLog],
    *,
    tombstones: bool,
    at: str,
    by: str,
    offsets: Iterable[ErasedOffsets] = (),
) -> Erasure:
    """Return the list of these keys, and offsets."""
    hashes, chosen = frozenset(map(secret.hasher(topic), keys)), tuple(offsets)
    version = OFFSETS_VERSION if chosen else VERSION
    return Erasure(topic, secret.id, at, by, tombstones, hashes, tuple(logs), version, chosen)
