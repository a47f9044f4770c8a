"""Records of the rows that ``secor tables erase`` has deleted, which ``secor verify`` explains.

``<prefix>/_erased/<table uuid>/<number, 8 digits>.json`` is put, if absent, after a deletion, and
never changed.  It has what its snapshots prove: the rows that a snapshot above ``before`` no longer
has, and the snapshot below that one had.  Rows are named by what says nothing of their values: of
tables with appended rows by the offsets of their messages, of tables whose rows change by hashes of
their keys (as lists of ``archive erase``, see there), with the offsets below which changes of these
keys were merged then:

    {"version": 1, "table": "db.t", "column": "id", "erased_at": "2026-11-28T10:00:00Z",
     "by": "secor 1.0", "before": 7, "after": [8], "offsets": [["clicks", 0, [[7, 8], [19, 22]]]]}
    {…, "secret": "…", "hashes": ["…"], "below": [["clicks", 0, 5000]]}

``<number>-planned.json`` is put before the deletion, with the rows that it is about to delete, and
closed by a record of the same number, without rows, after those of what went.  While it is open
nothing is explained by it: the next run looks what was done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

import numpy as np

from secor.archive.erasures import SETTING, Ranges, Secret
from secor.archive.rewrite.field_search import ranges_of
from secor.core.errors import ConfigurationError
from secor.core.model import Offsets, TopicPartition
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.tables.catalog import Snapshot, Table
from secor.tables.commit.group_record import SUMMARY_GROUP, ancestors

DIRECTORY = "_erased"
VERSION = 1

_NAME = re.compile(r"([0-9]{8})(-planned)?\.json")
_NONE: Offsets = np.array([], np.int64)


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows of a table: by the offsets of their messages, sorted, or by hashes of their keys."""

    offsets: Mapping[TopicPartition, Offsets] = field(default_factory=dict)
    hashes: frozenset[bytes] = frozenset()

    def __bool__(self) -> bool:
        """Whether there is any row."""
        return bool(self.hashes) or any(len(offsets) for offsets in self.offsets.values())

    def __or__(self, other: RowSet) -> RowSet:
        keys = {*self.offsets, *other.offsets}
        return RowSet(
            {key: np.union1d(self.of(key), other.of(key)) for key in keys},
            self.hashes | other.hashes,
        )

    def __and__(self, other: RowSet) -> RowSet:
        keys = {*self.offsets} & {*other.offsets}
        return RowSet(
            {key: np.intersect1d(self.of(key), other.of(key)) for key in keys},
            self.hashes & other.hashes,
        )

    def of(self, key: TopicPartition) -> Offsets:
        """Return the offsets of one topic partition."""
        return self.offsets.get(key, _NONE)


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """A record.  ``after`` are the snapshots that deleted, none of what is planned; ``below``
    belongs to ``hashes``, and ``secret`` is the id of what made these.
    """

    table: str
    column: str
    erased_at: str
    by: str
    before: int
    after: tuple[int, ...] = ()
    offsets: tuple[tuple[str, int, Ranges], ...] = ()
    secret: str = ""
    hashes: frozenset[bytes] = frozenset()
    below: tuple[tuple[str, int, int], ...] = ()
    version: int = VERSION

    @property
    def rows(self) -> RowSet:
        """The rows, with each offset by itself."""
        offsets = {
            TopicPartition(topic, partition): np.concatenate(
                [_NONE, *(np.arange(start, end, dtype=np.int64) for start, end in ranges)]
            )
            for topic, partition, ranges in self.offsets
        }
        return RowSet(offsets, self.hashes)

    def with_rows(self, rows: RowSet, below: Mapping[TopicPartition, int]) -> ErasedRows:
        """Return this record with other rows."""
        offsets = [
            (key.topic, key.partition, ranges_of([of_log]))
            for key, of_log in sorted(rows.offsets.items())
            if len(of_log)
        ]
        reached = [(key.topic, key.partition, end) for key, end in sorted(below.items())]
        return replace(
            self,
            offsets=tuple(offsets),
            hashes=rows.hashes,
            below=tuple(reached) if rows.hashes else (),
        )

    def explains(self, key_hash: bytes, last: Iterable[tuple[TopicPartition, int]]) -> bool:
        """Return whether a key is on it, and none of its ``last`` messages came later."""
        if key_hash not in self.hashes:
            return False
        below = {TopicPartition(topic, partition): end for topic, partition, end in self.below}
        return all(offset < below.get(key, 0) for key, offset in last)


@dataclass(frozen=True)
class ErasuresOfTable:
    """All records of one table, by their numbers; ``planned`` have no record of what was done."""

    uuid: str
    done: Mapping[int, ErasedRows]
    planned: Mapping[int, ErasedRows]
    secret: Secret | None = None

    @cached_property
    def rows(self) -> RowSet:
        """All rows that were deleted."""
        rows = RowSet()
        for record in self.done.values():
            rows |= record.rows
        return rows

    def require(self) -> ErasuresOfTable:
        """Return these, which can be used.

        Raises ``ConfigurationError`` where the secret is absent, or not that of a record.
        """
        for record in self.done.values():
            if record.hashes and (self.secret is None or self.secret.id != record.secret):
                which = "is not set" if self.secret is None else "is another one"
                raise ConfigurationError(
                    f"table {record.table}: rows were erased at {record.erased_at}, and the secret"
                    f" that says which {which}: set {SETTING} to that of the erasure"
                )
        return self

    def seen_by(self, table: Table, branch: str) -> ErasuresOfTable:
        """Return the records of what was deleted before a table was loaded as it is here."""
        head = table.head(branch)
        # The table was loaded once, and a deletion that came after that must not explain rows that
        # this table still lacks for another reason.
        time = 0 if head is None else head.timestamp

        def is_seen(record: ErasedRows) -> bool:
            # Snapshots expire: a head that is younger than the record came after them, too.
            known = any(snapshot in table.snapshots for snapshot in record.after)
            return known or datetime.fromisoformat(record.erased_at).timestamp() * 1000 < time

        return replace(self, done={n: of for n, of in self.done.items() if is_seen(of)})

    def unfinished(self) -> list[str]:
        """Return a line for each erasure that is planned, and perhaps done."""
        return [
            f"an erasure by {record.column} of {record.erased_at} has no end: unless it is going"
            " on, run 'secor tables erase' again; what it has deleted counts as missing until then"
            for record in self.planned.values()
        ]

    def explain(self, key: str, last: Sequence[tuple[TopicPartition, int]]) -> bool:
        """Return whether the row of ``key``, a JSON object, was deleted after ``last`` messages."""
        if not self.rows.hashes:
            return False
        key_hash = self.hash_of(key)
        return any(record.explains(key_hash, last) for record in self.done.values())

    @cached_property
    def hash_of(self) -> Callable[[str], bytes]:
        """What gives the hash of a key, a JSON object; there must be a secret."""
        assert self.secret is not None
        # No topic has such a name: a table's hashes are no topic's.
        hasher = self.secret.hasher(f"table {self.uuid}")
        return lambda key: hasher(key.encode())


class RowErasures:
    """The records of a table below a group's prefix."""

    def __init__(self, store: ObjectStore, prefix: str, uuid: str) -> None:
        self._store = store
        self._uuid = uuid
        parts = [part for part in prefix.split("/") if part]
        self._root = "/".join([*parts, DIRECTORY, uuid]) + "/"

    def read(self, secret: Secret | None) -> ErasuresOfTable:
        """Read all.  Raises ``ConfigurationError`` for one that cannot be read."""
        done: dict[int, ErasedRows] = {}
        planned: dict[int, ErasedRows] = {}
        for stored in self._store.list(self._root):
            match = _NAME.fullmatch(stored.key.removeprefix(self._root))
            if match is not None:
                records = planned if match[2] else done
                records[int(match[1])] = _decoded(stored.key, read_bytes(self._store, stored.key))
        # A record of the same number closes it, though it be empty.
        waiting = {number: record for number, record in planned.items() if number not in done}
        return ErasuresOfTable(self._uuid, done, waiting, secret)

    def begin(self, record: ErasedRows) -> int:
        """Put what is about to be deleted; return its number.

        Raises ``OutcomeUnknown``, ``Unavailable``, ``AccessDenied``: then nothing may be deleted.
        """
        return self._put(record, "-planned")

    def add(self, record: ErasedRows) -> None:
        """Put what one snapshot has deleted.  Raises as ``begin``; it may be put twice."""
        self._put(record, "")

    def finish(self, record: ErasedRows, number: int) -> None:
        """Close what was planned, by a record that may be empty.  Raises as ``begin``."""
        put_bytes(self._store, self._key(number, ""), _encoded(record))

    def _put(self, record: ErasedRows, suffix: str) -> int:
        numbers = [
            int(match[1])
            for stored in self._store.list(self._root)
            if (match := _NAME.fullmatch(stored.key.removeprefix(self._root)))
        ]
        number = max(numbers, default=0) + 1
        while not put_bytes(self._store, self._key(number, suffix), _encoded(record)):
            number += 1
        return number

    def _key(self, number: int, suffix: str) -> str:
        return f"{self._root}{number:08d}{suffix}.json"


def deletions(table: Table, branch: str, before: int) -> Iterator[tuple[Snapshot, int]] | None:
    """Give snapshots above ``before`` that no group has made, each with the one below it.

    None where the branch does not show ``before`` any more: nothing can be proven.
    """
    chain = list(ancestors(table, branch))
    numbers = [snapshot.snapshot_id for snapshot in chain]
    # Expired, or rolled back past it: a row that is absent may be so for any reason.
    if before not in numbers:
        return None
    above = zip(chain[: numbers.index(before)], numbers[1:], strict=False)
    return (pair for pair in above if SUMMARY_GROUP not in pair[0].summary)


def _decoded(key: str, data: bytes | None) -> ErasedRows:
    import msgspec  # few groups have records

    try:
        record = msgspec.json.decode(data or b"", type=ErasedRows)
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{key}: is no record of erased rows ({error})") from error
    if record.version != VERSION:
        raise ConfigurationError(
            f"{key}: a record of version {record.version}, which this version of Secor cannot read"
        )
    return record


def _encoded(record: ErasedRows) -> bytes:
    import msgspec

    plain = msgspec.to_builtins(record)
    plain["hashes"] = sorted(plain["hashes"])
    return msgspec.json.encode(plain) + b"\n"
