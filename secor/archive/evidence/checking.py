"""Comparison of an archive with earlier evidence of it, object by object, without Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from secor.archive.beginning import Beginnings, read_beginnings
from secor.archive.evidence.chain import Chain, read_chain
from secor.archive.evidence.digests import Digest, Progress, digests_of
from secor.archive.evidence.record import Evidence, ObjectRecord, PartitionRecord
from secor.core.errors import CorruptFile, NotFound
from secor.core.model import StoredObject, TopicPartition
from secor.core.naming import ROUTED, parse_key
from secor.core.object_info import ObjectInfo
from secor.core.ports import ObjectStore
from secor.core.small_objects import SHA256


class Change(StrEnum):
    """A difference between an object and the evidence."""

    TAMPERED = "tampered"
    """Other bytes under the metadata of the object that was there."""
    REPLACED = "replaced"
    """Another object, with other metadata."""
    MISSING = "missing"
    EXPIRED = "expired"
    """Gone, and below the agreed beginning of the archive."""
    REWRITTEN = "rewritten"
    """Gone, and all objects that took its place are there as the rewrite recorded them."""
    ADDED = "added"
    """Not in the evidence, though its name says that it begins below the end of the range."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One object that changed."""

    change: Change
    topic_partition: TopicPartition
    key: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.change} {self.key}" + (f": {self.text}" if self.text else "")


class CheckJournal:
    """The objects that an interrupted check has read and found the same, in a file.

    A line is a JSON array of key, size in bytes and time of the last change: one that was
    changed since is read again.
    """

    def __init__(self, path: Path, root: str) -> None:
        """Open the file, or begin it anew where it is of other evidence."""
        self._path = path
        self.read: dict[str, tuple[int, float]] = {}
        head = json.dumps({"root": root})
        try:
            lines = path.read_text().splitlines()
        except FileNotFoundError:
            lines = []
        is_started = bool(lines) and lines[0] == head
        for line in lines[1:] if is_started else ():
            with suppress(ValueError):  # the last line of a killed process may be cut
                key, size, modified = json.loads(line)
                self.read[key] = (size, modified)
        self._file = path.open("a" if is_started else "w")
        # An empty line behind a line that a kill has cut: what follows does not become part of it.
        print("" if is_started else head, file=self._file, flush=True)

    def note(self, stored: StoredObject) -> None:
        """Write down that an object is the same."""
        line = json.dumps([stored.key, stored.size, stored.modified])
        # Flushed line by line: a check of days that is killed goes on where it was.
        print(line, file=self._file, flush=True)

    def close(self) -> None:
        """Close the file; the next check goes on from it."""
        self._file.close()

    def finish(self) -> None:
        """Close and delete the file: the check came to its end."""
        self.close()
        self._path.unlink(missing_ok=True)


@dataclass(slots=True)
class Check:
    """One comparison; ``same``, ``later`` and ``read_before`` count objects.

    ``later`` begin behind the range of the evidence; ``read_before`` were read by the check that
    this one goes on with.
    """

    evidence: Evidence
    store: ObjectStore
    journal: CheckJournal
    progress: Progress = field(default=lambda _: None)
    same: int = 0
    later: int = 0
    read_before: int = 0

    def run(self) -> Iterator[ObjectChange]:
        """Give what changed, topic by topic.  Raises ``Unavailable``, ``AccessDenied``."""
        for topic, directories in self.evidence.directories.items():
            partitions = [owner for owner in self.evidence.partitions if owner.topic == topic]
            beginnings = read_beginnings(self.store, directories[0])
            chain = read_chain(self.store, directories[0])
            # Listed after the records of rewrites: a rewrite in between shows up as missing, not as
            # an addition without explanation.
            listed = {
                stored.key: (directory, stored)
                for directory in directories
                for stored in self.store.list(directory + "/")
            }
            for partition in partitions:
                records = {record.key: record for record in partition.objects}
                for finding in self._compared(
                    partition, {key: described[1] for key, described in listed.items()}
                ):
                    explained = _explained(finding, beginnings, directories)
                    yield _carried_on(explained, records, chain)
            # After all partitions: only now is known which objects took the place of others, and so
            # are no additions.
            rest = {key: described for key, described in listed.items() if key not in chain.reached}
            yield from self._added(topic, partitions, rest)

    def _compared(
        self, partition: PartitionRecord, listed: Mapping[str, StoredObject]
    ) -> Iterator[ObjectChange]:
        topic_partition = TopicPartition(partition.topic, partition.partition)
        records = {record.key: record for record in partition.objects}
        unread = []
        for key, record in records.items():
            stored = listed.get(key)
            # Size and time of the listing: an object that was put again since has another time, and
            # is read.
            if stored is not None and self.journal.read.get(key) == (stored.size, stored.modified):
                self.same += 1
                self.read_before += 1
                self.progress(record.size)
            elif stored is None:
                self.progress(record.size)
                yield ObjectChange(Change.MISSING, topic_partition, key)
            else:
                unread.append(key)
        for key, digest in digests_of(self.store, unread, self.progress):
            finding = self._finding(topic_partition, records[key], digest)
            if finding is None:
                self.same += 1
                self.journal.note(listed[key])
            else:
                yield finding

    def _finding(
        self, topic_partition: TopicPartition, record: ObjectRecord, digest: Digest | None
    ) -> ObjectChange | None:
        if digest is None:
            return ObjectChange(Change.MISSING, topic_partition, record.key)
        if digest == Digest(record.size, record.sha256, record.crc32c):
            return None
        try:
            metadata = self.store.head(record.key).metadata or {}
        except NotFound:
            return ObjectChange(Change.MISSING, topic_partition, record.key)
        text = f"SHA-256 {digest.sha256}, was {record.sha256}"
        if digest.size != record.size:
            text = f"{digest.size:,} bytes, were {record.size:,}; {text}"
        if metadata.get(SHA256) == record.sha256:
            text += "; its metadata still has that of the evidence"
        change = Change.TAMPERED if _is_of(metadata, record) else Change.REPLACED
        return ObjectChange(change, topic_partition, record.key, text)

    def _added(
        self,
        topic: str,
        partitions: Iterable[PartitionRecord],
        listed: Mapping[str, tuple[str, StoredObject]],
    ) -> Iterator[ObjectChange]:
        ends = {partition.partition: partition.end for partition in partitions}
        known = {record.key for partition in partitions for record in partition.objects}
        for key, (directory, _) in listed.items():
            name = parse_key(directory, key)
            if name is None or key in known or name.output_partition.startswith(ROUTED):
                continue
            if name.partition in ends and name.start_offset < ends[name.partition]:
                yield ObjectChange(Change.ADDED, TopicPartition(topic, name.partition), key)
            else:
                self.later += 1


def _explained(
    finding: ObjectChange, beginnings: Beginnings, directories: Iterable[str]
) -> ObjectChange:
    """Say of a missing object that it has expired, where its name is below the beginning."""
    names = (parse_key(directory, finding.key) for directory in directories)
    name = next((name for name in names if name is not None), None)
    if finding.change is not Change.MISSING or name is None or not beginnings.is_expired(name):
        return finding
    begins = beginnings.of(name.partition, name.generation)
    text = f"the archive begins at offset {begins}, as was agreed"
    return replace(finding, change=Change.EXPIRED, text=text)


def _carried_on(
    finding: ObjectChange, records: Mapping[str, ObjectRecord], chain: Chain
) -> ObjectChange:
    """Say of a missing object by what it was rewritten, where the archive has a record of that."""
    if finding.change is not Change.MISSING:
        return finding
    record = records[finding.key]
    link = chain.explained(record)
    if link is None:
        return finding
    fault = chain.broken(record)
    if fault is not None:
        return replace(finding, text=f"by {link}; {fault}")
    return replace(
        finding,
        change=Change.REWRITTEN,
        text=f"by {link}, offsets [{link.start}, {link.end}), root {link.old_root} to"
        f" {link.new_root}; the objects in its place are as that recorded them",
    )


def _is_of(metadata: Mapping[str, str], record: ObjectRecord) -> bool:
    """Return whether an object's metadata is that of the object that was verified."""
    try:
        info = ObjectInfo.of(metadata, record.key)
    except CorruptFile:
        return record.fingerprint is None
    present = (info.batch.start, info.batch.end, info.records, info.fingerprint)
    return present == (record.start, record.end, record.messages, record.fingerprint)
