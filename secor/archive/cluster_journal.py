"""Journal of what a cluster has besides messages: groups' offsets, ACLs, quotas, schemas.

``<prefix>/_cluster/<kind>/<cluster id>/<minute>-<part>.jsonl.gz`` is put if absent and never
changed, for example ``backup/_cluster/groups/4L6g3nShT-eMCtK--X86sw/20261121T1000Z-000.jsonl.gz``.
Nothing that it holds is later than its minute.  Its lines, in JSON:

    {"at": "2026-11-21T09:59:31Z", "full": false, "version": 1}
    ["shop", {"orders": {"0": 1200, "1": [77, "metadata"]}}]
    ["closed-shop", null]
    {"end": true}

Each line holds the whole content of one item, null for one that is gone.  An entry of several
parts ends with its last part; a full entry names everything that there is.  So the state of a
time is the last full entry that ends, and over it what the later entries say, in the order of
their minutes, whichever processes wrote them.  The first entry of an hour is full.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby

from secor.core.naming import CLUSTER_DIRECTORY, escape_value
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.core.text import load_json

KINDS = ("groups", "acls", "quotas", "schemas")
PART_BYTES = 8 * 1024 * 1024
"""Compressed bytes after which a part is put."""
ALL_OF, HOURLY_OF, DAILY_OF = 48 * 3600.0, 8 * 86400.0, 400 * 86400.0
"""Ages in seconds up to which every entry is kept, one an hour, and one a day."""
_VERSION = 1
_MINUTE = "%Y%m%dT%H%MZ"
_NAME = re.compile(r"([0-9]{8}T[0-9]{4}Z)-([0-9]{3,})\.jsonl\.gz")
_HOUR, _DAY = len("20261121T10"), len("20261121")

Item = tuple[str, object]
"""The name of an item and its content, which JSON can hold."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """Items of one cluster as they were; ``minute`` names the newest entry that counts.

    ``lines`` are the items' contents as JSON, by name.  ``damaged`` are the keys of entries
    that cannot be read and are left out.
    """

    minute: str | None
    looked_at: str | None
    lines: Mapping[str, bytes]
    damaged: tuple[str, ...] = ()

    def contents(self) -> Iterator[tuple[str, object]]:
        """Give the items by name."""
        for name in sorted(self.lines):
            yield name, load_json(self.lines[name])


@dataclass(frozen=True, slots=True)
class WrittenEntry:
    """An entry that was put: its number of changed items and its compressed bytes."""

    changes: int
    size: int


@dataclass(slots=True)
class _Entry:
    """All parts of a minute that were read."""

    full: bool = False
    ends: bool = False
    at: str | None = None
    lines: dict[str, bytes | None] = field(default_factory=dict)


class ClusterJournal:
    """The entries of one kind and cluster.  Raises ``Unavailable``, ``AccessDenied``."""

    def __init__(self, store: ObjectStore, prefix: str, kind: str, cluster: str) -> None:
        self._store = store
        self.root = f"{kind_root(prefix, kind)}/{escape_value(cluster)}"
        self._known: set[tuple[str, int]] | None = None
        self._digests: dict[str, bytes] = {}
        self._needs_full = True
        self._refreshed = 0.0

    def is_of(self, cluster: str) -> bool:
        """Return whether it is the journal of this cluster."""
        return self.root.endswith(f"/{escape_value(cluster)}")

    # ------------------------------------------------------------------ reading

    def state(self, until: float | None = None) -> JournalState:
        """Return what is kept; as it was at ``until``, in seconds since 1970, if that is given."""
        last = None if until is None else datetime.fromtimestamp(until, UTC).strftime(_MINUTE)
        parts = self._list()
        minutes = [part for part in sorted(parts) if last is None or part <= last]
        return self._state(parts, minutes)

    def _state(self, parts: Mapping[str, list[int]], minutes: list[str]) -> JournalState:
        entries: list[_Entry] = []
        damaged: list[str] = []
        for minute in reversed(minutes):
            entries.append(self._read(minute, parts[minute], damaged))
            # Back to the newest full entry and no further: it names everything there was.
            if entries[-1].full and entries[-1].ends:
                break
        lines: dict[str, bytes] = {}
        looked_at = None
        # Read from the newest back, laid over one another from the oldest on.
        for entry in reversed(entries):
            looked_at = entry.at or looked_at
            for name, line in entry.lines.items():
                if line is None:
                    lines.pop(name, None)
                else:
                    lines[name] = line
        return JournalState(
            minutes[-1] if minutes else None, looked_at, lines, tuple(sorted(damaged))
        )

    def _list(self, below: str = "") -> dict[str, list[int]]:
        parts: dict[str, list[int]] = {}
        for stored in self._store.list(f"{self.root}/{below}"):
            match = _NAME.fullmatch(stored.key.rpartition("/")[2])
            if match:
                parts.setdefault(match[1], []).append(int(match[2]))
        return parts

    def _read(self, minute: str, parts: Iterable[int], damaged: list[str]) -> _Entry:
        entry = _Entry()
        for part in sorted(parts):
            key = self._key(minute, part)
            try:
                body = read_bytes(self._store, key)
                if body is not None:
                    _read_part(entry, gzip.decompress(body))
            except (ValueError, TypeError, KeyError, EOFError, OSError, zlib.error):
                damaged.append(key)
        return entry

    # ------------------------------------------------------------------ writing

    def append(
        self, look: Callable[[], Iterable[Item]], clock: Callable[[], float]
    ) -> WrittenEntry:
        """Put what has changed since the newest entry; puts nothing where nothing has.

        ``look`` asks the cluster and gives every item; a full entry takes a second look.  Other
        processes may do the same: only one of them puts the entry of a minute.
        """
        last = self._refresh(clock())
        minute = _minute_after(clock(), last)
        if minute is None:
            return WrittenEntry(0, 0)
        full = self._needs_full or last is None or last[:_HOUR] != minute[:_HOUR]
        if full and last is not None and not self._needs_full and not self._has_changed(look()):
            return WrittenEntry(0, 0)
        with _PartsWriter(full=full) as writer:
            digests = {}
            for name, content in look():
                line = _dump(content)
                digests[name] = _digest(line)
                if full or self._digests.get(name) != digests[name]:
                    writer.add(name, line)
            for name in () if full else sorted(self._digests.keys() - digests.keys()):
                writer.add(name, b"null")
            if not full and not writer.changes:
                return WrittenEntry(0, 0)
            # The time after the look: nothing in the entry is later.
            now = clock()
            minute = _minute_after(now, last)
            return WrittenEntry(0, 0) if minute is None else self._put(writer, minute, now, digests)

    def _has_changed(self, items: Iterable[Item]) -> bool:
        names = set()
        for name, content in items:
            if self._digests.get(name) != _digest(_dump(content)):
                return True
            names.add(name)
        return bool(self._digests.keys() - names)

    def _put(
        self, writer: _PartsWriter, minute: str, now: float, digests: dict[str, bytes]
    ) -> WrittenEntry:
        known, self._known = self._known, None  # a failure has the journal read again
        assert known is not None
        size = 0
        for part, body in enumerate(writer.parts(now)):
            if not put_bytes(self._store, self._key(minute, part), body):
                return WrittenEntry(0, size)  # another process was faster
            known.add((minute, part))
            size += len(body)
        self._known, self._digests, self._needs_full = known, digests, False
        return WrittenEntry(writer.changes, size)

    def _refresh(self, now: float) -> str | None:
        """Return the newest minute; read the journal where others have written to it."""
        last_look, self._refreshed = self._refreshed, now
        if self._known and now - last_look < _ONE_DAY:
            newest = max(self._known)[0]
            times = (
                datetime.fromtimestamp(item, UTC).strftime(_MINUTE) for item in (last_look, now)
            )
            days = {newest[:_DAY], *(time[:_DAY] for time in times)}
            listed = {pair for day in days for pair in self._pairs(self._list(day))}
            if listed <= self._known:
                return newest
        parts = self._list()
        minutes = sorted(parts)
        state = self._state(parts, minutes)
        self._known = set(self._pairs(parts))
        self._digests = {name: _digest(line) for name, line in state.lines.items()}
        # A damaged entry leaves the state unknown: a full one repairs that, whatever was in it.
        self._needs_full = not minutes or bool(state.damaged)
        return minutes[-1] if minutes else None

    @staticmethod
    def _pairs(parts: Mapping[str, list[int]]) -> Iterator[tuple[str, int]]:
        return ((minute, part) for minute, numbers in parts.items() for part in numbers)

    def _key(self, minute: str, part: int) -> str:
        return f"{self.root}/{minute}-{part:03d}.jsonl.gz"

    # --------------------------------------------------------------- compacting

    def compact(self, now: float) -> int:
        """Delete entries that are superseded and old; return how many objects were deleted.

        Of two days all are kept, of eight days one full entry an hour, of 400 days one a day.
        Nothing is deleted from the last full entry on: a cluster that is gone writes no more.
        Of a period the newest go first, so that what is left after a crash is a state that was.
        """
        parts = self._list()
        minutes = sorted(parts)
        # The state of now hangs on the newest full entry: neither it nor what follows is ever
        # deleted.
        while minutes and not self._is_full(minutes[-1], parts[minutes[-1]]):
            minutes.pop()
        ages = {minute: now - seconds_of(minute) for minute in minutes}
        old = [of_minute for of_minute in minutes[:-1] if ages[of_minute] > ALL_OF]
        deleted = 0
        for _, period in groupby(old, key=lambda of_minute: _period(of_minute, ages[of_minute])):
            deleted += self._thin(list(period), parts)
        left = self._list() if deleted else parts
        remaining = [of_minute for of_minute in minutes if of_minute in left]
        expired = [of_minute for of_minute in remaining[:-1] if ages[of_minute] > DAILY_OF]
        base = remaining[len(expired)] if len(expired) < len(remaining) else None
        if base is not None and self._is_full(base, parts[base]):
            deleted += sum(self._delete(minute, parts[minute]) for minute in expired)
        return deleted

    def _thin(self, period: list[str], parts: Mapping[str, list[int]]) -> int:
        """Leave the first full entry of a period, and what is before it."""
        if len(period) < 2:
            return 0
        for number, minute in enumerate(period[:-1]):
            if self._is_full(minute, parts[minute]):
                surplus = reversed(period[number + 1 :])
                return sum(self._delete(of_minute, parts[of_minute]) for of_minute in surplus)
        return 0

    def _is_full(self, minute: str, parts: Iterable[int]) -> bool:
        damaged: list[str] = []
        entry = self._read(minute, parts, damaged)
        return entry.full and entry.ends and not damaged

    def _delete(self, minute: str, parts: list[int]) -> int:
        # The last part first: an entry without its end does not count, one without its beginning
        # would.
        for part in sorted(parts, reverse=True):
            self._store.delete(self._key(minute, part))
        return len(parts)


class _PartsWriter:
    """Compressed parts of one entry; beyond one part they are in a temporary file."""

    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._file = tempfile.SpooledTemporaryFile(max_size=PART_BYTES)  # noqa: SIM115 - closed below
        self._ends: list[int] = []
        self._compress = zlib.compressobj(wbits=_GZIP)
        self.changes = 0

    def __enter__(self) -> _PartsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, name: str, line: bytes) -> None:
        """Add an item with its content in JSON."""
        self.changes += 1
        self._write(b"[%s,%s]\n" % (_dump(name), line))
        begin = self._ends[-1] if self._ends else 0
        if self._file.tell() - begin >= PART_BYTES:
            self._end_member()

    def parts(self, now: float) -> Iterator[bytes]:
        """Give the bytes of each part; ``now`` is when the look ended."""
        self._write(_dump({"end": True}) + b"\n")
        self._end_member()
        time = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        header = _dump({"at": time, "full": self._full, "version": _VERSION}) + b"\n"
        begin = 0
        self._file.seek(0)
        for end in self._ends:
            # Members of gzip may follow one another: the header's time is known last.
            yield gzip.compress(header, mtime=0) + self._file.read(end - begin)
            begin = end

    def _write(self, line: bytes) -> None:
        self._file.write(self._compress.compress(line))

    def _end_member(self) -> None:
        self._file.write(self._compress.flush())
        self._ends.append(self._file.tell())
        self._compress = zlib.compressobj(wbits=_GZIP)


_GZIP = 16 + zlib.MAX_WBITS
_AHEAD = timedelta(minutes=5)
_ONE_DAY = 86400.0


def kind_root(prefix: str, kind: str) -> str:
    """Return the directory of all clusters' entries of a kind."""
    return "/".join([*(part for part in prefix.split("/") if part), CLUSTER_DIRECTORY, kind])


def kept_clusters(store: ObjectStore, prefix: str, kind: str) -> dict[str, str]:
    """Return the newest minute of each cluster that something is kept of."""
    root = kind_root(prefix, kind)
    newest: dict[str, str] = {}
    for stored in store.list(root + "/"):
        cluster, _, name = stored.key[len(root) + 1 :].partition("/")
        match = _NAME.fullmatch(name)
        if match:
            newest[cluster] = max(match[1], newest.get(cluster, ""))
    return newest


def seconds_of(minute: str) -> float:
    """Return the time of an entry's minute in seconds since 1970."""
    return datetime.strptime(minute, _MINUTE).replace(tzinfo=UTC).timestamp()


def _minute_after(now: float, last: str | None) -> str | None:
    """Return the name of the next minute; None where an entry has it already.

    Where another process's clock was far ahead, its minutes are followed.
    """
    time = datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    if last is not None and last >= time.strftime(_MINUTE):
        after = datetime.strptime(last, _MINUTE).replace(tzinfo=UTC) + timedelta(minutes=1)
        # A clock that is a little ahead: wait until its minute has passed. One that is far ahead
        # would silence the journal for hours, so its minutes are followed.
        if after - time <= _AHEAD:
            return None
        time = after
    return time.strftime(_MINUTE)


def _period(minute: str, age: float) -> str:
    return minute[:_HOUR] if age <= HOURLY_OF else minute[:_DAY]


def _read_part(entry: _Entry, body: bytes) -> None:
    """Add a part's lines to its entry.  Raises ``ValueError``, ``TypeError``, ``KeyError``."""
    first, *lines = body.splitlines()
    header = load_json(first)
    if header["version"] != _VERSION:
        raise ValueError(f"version {header['version']} is of a later Secor")
    entry.full, entry.at = bool(header["full"]), str(header["at"])
    for line in lines:
        value = load_json(line)
        if isinstance(value, dict):
            entry.ends = entry.ends or value["end"] is True
            continue
        name, content = value
        entry.lines[str(name)] = None if content is None else _dump(content)


def _dump(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()
