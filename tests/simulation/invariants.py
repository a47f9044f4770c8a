"""The promises of DESIGN.md, as functions of what the ledger and the store hold.

Everything is read from the bodies of the objects; the program's own counters prove nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from secor.core.model import Intent, TopicPartition
from secor.core.object_info import ObjectInfo
from secor.core.ports import LogFormat
from tests.fakes.ledger import LedgerServer
from tests.fakes.store import FakeStore
from tests.simulation.log import Broker

Place = Callable[[bytes], str | None]
"""The directory that a message belongs into, None if it is left out."""


class Violated(AssertionError):
    """A promise was broken."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as it was when it became visible."""

    info: ObjectInfo
    digest: str
    offsets: tuple[int, ...]


class Watch:
    """Checks after every step what has changed since the last one."""

    def __init__(
        self,
        broker: Broker,
        ledger: LedgerServer,
        store: FakeStore,
        formats: dict[str, LogFormat],
    ) -> None:
        """``formats`` are by extension.  Keys in ``foreign`` are not the group's.

        ``places`` tells by fingerprint where messages belong; None if their values do not say.
        """
        self._broker = broker
        self._ledger = ledger
        self._store = store
        self._formats = formats
        self.foreign: set[str] = set()
        self.places: dict[str, Place | None] = {}
        self.objects: dict[str, Seen] = {}
        self.holder: dict[tuple[TopicPartition, int], str] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.first: dict[TopicPartition, int] = {}
        self._intents: dict[TopicPartition, Intent | None] = {}
        self._audited = 0
        self._written = 0

    def check(self) -> None:
        """Raise ``Violated`` if a promise is broken."""
        audit, history = self._store.audit, self._ledger.history
        visible = len(self._store.objects) - len(self.foreign)
        if (
            len(audit) == self._audited
            and len(history) == self._written
            and visible == len(self.objects)
        ):
            return
        self._check_removed()
        for key, digest in audit[self._audited :]:
            self._check_appeared(key, digest)
        self._audited = len(audit)
        for topic_partition, entry in history[self._written :]:
            assert entry.committed is not None
            self._check_moved(topic_partition, entry.committed)
            self._intents[topic_partition] = entry.intent
        self._written = len(history)
        self._every_object_is_covered()

    def check_all(self) -> None:
        """As ``check``, and compare every body with what it was."""
        self.check()
        for key, seen in self.objects.items():
            if hashlib.sha256(self._store.content(key)).hexdigest() != seen.digest:
                raise Violated(f"{key} was changed after it was visible")

    # -------------------------------------------------------------- objects

    def _check_appeared(self, key: str, digest: str) -> None:
        if key in self.foreign:
            return
        if "_schema/" in key:
            self._kept(key)
            return
        if key in self.objects:
            raise Violated(f"{key} was put over an object that was visible")
        if key not in self._store.objects:
            return  # put and, as a superseded leftover, deleted within one step
        info = ObjectInfo.of(self._store.objects[key].metadata, key)
        records = self._rows(key)
        offsets = tuple(offset for offset, _ in records)
        if not offsets or list(offsets) != sorted(set(offsets)):
            raise Violated(f"{key} does not hold increasing offsets: {offsets}")
        if (offsets[0], len(offsets)) != (info.first_offset, info.records):
            raise Violated(f"{key} holds {offsets}, its metadata says {info}")
        self._no_duplicate(key, info.topic_partition, offsets)
        place = self.places[info.fingerprint]
        log = self._broker.logs[info.topic_partition]
        for offset, value in records:
            if offset not in info.batch:
                raise Violated(f"{key} holds offset {offset}, outside of {info.batch}")
            if value not in log.ever.get(offset, ()):
                raise Violated(f"{key} holds {value!r} at {offset}, which was never logged")
            if place is not None and place(value or b"") != key.rpartition("/")[0]:
                raise Violated(f"{key} holds {value!r}, which does not belong there")
        self.objects[key] = Seen(info, digest, offsets)

    def _kept(self, key: str) -> None:
        """A version of a schema: the next one, and it has all that the last one had."""
        self.foreign.add(key)
        directory, _, name = key.rpartition("/")
        generation, _, version = name.removesuffix(".json").partition("_")
        fields = _fields(self._store.content(key))
        if int(version) > 1:
            before = f"{directory}/{generation}_{int(version) - 1:04d}.json"
            if before not in self._store.objects:
                raise Violated(f"{key} was put before {before}")
            lost = _fields(self._store.content(before)).keys() - fields.keys()
            if lost:
                raise Violated(f"{key} has lost the fields {sorted(lost)}")

    def _no_duplicate(
        self, key: str, topic_partition: TopicPartition, offsets: tuple[int, ...]
    ) -> None:
        for offset in offsets:
            other = self.holder.setdefault((topic_partition, offset), key)
            if other != key:
                raise Violated(f"{topic_partition} {offset} is in {other} and in {key}")

    def _rows(self, key: str) -> list[tuple[int, bytes | None]]:
        extension = key[key.index(".", key.rindex("/")) :]
        body = io.BytesIO(self._store.content(key))
        rows: list[tuple[int, bytes | None]] = []
        for records in self._formats[extension].read(body, key):
            rows += zip(
                records.column("offset").to_pylist(),
                records.column("value").to_pylist(),
                strict=True,
            )
        return rows

    def _check_removed(self) -> None:
        gone = [key for key in self.objects if key not in self._store.objects]
        for key in gone:
            seen = self.objects.pop(key)
            owner = seen.info.topic_partition
            if seen.offsets[0] < self.committed.get(owner, 0):
                raise Violated(f"{key} was deleted though it was committed")
            for offset in seen.offsets:
                del self.holder[owner, offset]

    # --------------------------------------------------------------- ledger

    def _check_moved(self, key: TopicPartition, committed: int) -> None:
        if key not in self.committed:
            self.first[key] = self.committed[key] = committed
            return
        before = self.committed[key]
        if committed < before:
            raise Violated(f"{key}: committed went back from {before} to {committed}")
        log = self._broker.logs[key]
        intent = self._intents.get(key)
        for offset in range(before, committed):
            holder = self.holder.get((key, offset))
            if holder is not None:
                self._check_intended(holder, intent)
            elif offset in log.records and not self._left_out(log.records[offset], intent):
                raise Violated(f"{key} {offset} is lost: committed went to {committed} without it")
        if committed > max(log.end, log.highest):
            raise Violated(f"{key}: committed went to {committed}, the log ends at {log.end}")
        self.committed[key] = committed

    def _check_intended(self, key: str, intent: Intent | None) -> None:
        """What is committed was made under the configuration that commits it."""
        fingerprint = self.objects[key].info.fingerprint
        if intent is None or fingerprint != intent.fingerprint:
            raise Violated(f"{key}, made under {fingerprint}, was committed under {intent}")

    def _left_out(self, value: bytes, intent: Intent | None) -> bool:
        place = None if intent is None else self.places[intent.fingerprint]
        return place is not None and place(value) is None

    def _every_object_is_covered(self) -> None:
        """No object is visible that neither ``committed`` nor an open intent stands for."""
        for key, seen in self.objects.items():
            owner = seen.info.topic_partition
            if seen.offsets[-1] < self.committed.get(owner, 0):
                continue
            intent = self._ledger.entry(owner).intent
            if intent is None or not intent.start <= seen.offsets[0] <= seen.offsets[-1] < (
                intent.end
            ):
                raise Violated(f"{key} {seen.offsets} is covered by no commit and no intent")

    # -------------------------------------------------------------- at rest

    def unfinished(self) -> Iterator[str]:
        """Give what keeps the world from rest, as far as ledger and store show it."""
        for key, log in self._broker.logs.items():
            entry = self._ledger.entry(key)
            if entry.committed != log.end:
                yield f"{key}: committed is {entry.committed}, the log ends at {log.end}"
            if entry.intent is not None:
                yield f"{key}: {entry.intent} is open"
        if self._ledger.kind == "zookeeper":
            yield from (f"{key} is locked" for key in self._ledger.rights)


def _fields(content: bytes) -> dict[str, object]:
    return {field["name"]: field["type"] for field in json.loads(content)["fields"]}
