"""The list of messages in quarantine, with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import CorruptFile, NotFound
from secor.core.model import TopicPartition
from secor.core.naming import ObjectName, parse_key
from secor.core.text import load_json
from secor.parsing.parts import release_part

MARKER = "_replay_"
"""Before the name of an object that is, or was, parsed again; hidden from readers."""

SUCCESSOR = "replay="
"""The directory of messages that were parsed again in vain, with the number of times."""

SET_ASIDE_DIRECTORY = "set-aside="
"""The directory of the messages of one staged file of a table, with a hash of its path."""

OF_TABLE = "of-table"
"""Metadata of such an object: the table that lacks its messages, percent-encoded."""


@dataclass(frozen=True, slots=True)
class QuarantinedObject:
    """An object in quarantine, and how many of its messages are there for which reason."""

    archived: ArchivedObject
    reasons: Counter[str]

    @property
    def messages(self) -> int:
        """All messages in it."""
        return self.reasons.total()


def quarantined(archive: Archive, topic: str) -> list[ArchivedObject]:
    """Return the objects in quarantine, by partition, generation and offset."""
    return sorted(
        archive.quarantined(topic),
        key=lambda archived: (
            archived.name.partition,
            archived.name.generation,
            archived.first_offset,
            archived.key,
        ),
    )


def counted(archive: Archive, archived: ArchivedObject) -> QuarantinedObject:
    """Count an object's messages by reason.  Raises ``CorruptFile``, ``NotFound``."""
    reasons: Counter[str] = Counter()
    for _, message_reasons in messages(archive, archived):
        reasons.update(message_reasons)
    return QuarantinedObject(archived, reasons)


def messages(
    archive: Archive, archived: ArchivedObject
) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """Give an object's messages as they came from Kafka, and the reason of each."""
    for records in archive.read(archived):
        yield release_part(records)


def only_table(archive: Archive, archived: ArchivedObject) -> str | None:
    """Return the one table that lacks an object's messages; None where no table has them.

    Raises ``CorruptFile``, ``NotFound``.
    """
    if not place_of(archived.name)[0]:
        return None
    metadata = archive.store.head(archived.key).metadata or {}
    if OF_TABLE not in metadata:
        raise CorruptFile(f"{archived.key}: its metadata does not name the table, {OF_TABLE}")
    return unquote(metadata[OF_TABLE])


def marker_key(name: ObjectName) -> str:
    """Return the key of what is written before an object's messages are placed."""
    directory, _, last = name.key.rpartition("/")
    return f"{directory}/{MARKER}{last.removesuffix(name.extension)}.json"


@dataclass(frozen=True, slots=True)
class ReplayMarker:
    """The marker of a replay: its plan's fingerprint, and the objects that it puts."""

    body: bytes
    fingerprint: str
    keys: tuple[str, ...]


def read_marker(archive: Archive, archived: ArchivedObject) -> ReplayMarker | None:
    """Return what the marker next to an object says; None without one.  Raises ``CorruptFile``."""
    key = marker_key(archived.name)
    try:
        with archive.store.open(key) as file:
            body = file.read()
    except NotFound:
        return None
    try:
        content = load_json(body)
        return ReplayMarker(body, str(content["fingerprint"]), tuple(map(str, content["objects"])))
    except (ValueError, LookupError, TypeError) as error:
        raise CorruptFile(
            f"{key}: is no marker of a replay ({error}); if secor ls shows no object with messages"
            f" of {archived.key}, delete it and say the replay again"
        ) from error


def markers(
    archive: Archive, topic_partition: TopicPartition, *, start: int, generation: int
) -> list[str]:
    """Return the keys of markers about objects of a generation, or a later one, that begin
    at or above the offset ``start``.
    """
    root = archive.quarantine.root(topic_partition.topic)
    keys = []
    for stored in archive.store.list(f"{root}/"):
        directory, _, last = stored.key.rpartition("/")
        if last.startswith(MARKER):
            name = parse_key(root, f"{directory}/{last.removeprefix(MARKER)}")
            if name is None or name.partition != topic_partition.partition:
                continue
            if name.start_offset >= start and name.generation >= generation:
                keys.append(stored.key)
    return keys


def successor(name: ObjectName) -> str:
    """Return the output partition for messages that stay bad when this object is replayed."""
    set_aside, times = place_of(name)
    directory = f"{SET_ASIDE_DIRECTORY}{set_aside}/" if set_aside else ""
    return f"{directory}{SUCCESSOR}{times + 1}"


def place_of(name: ObjectName) -> tuple[str, int]:
    """Return the hash of the staged file ("" for none), and how often its messages were parsed
    again in vain.
    """
    set_aside, _, rest = name.output_partition.rpartition("/")
    if rest.startswith(SET_ASIDE_DIRECTORY):
        set_aside, rest = rest, ""
    times = rest.removeprefix(SUCCESSOR)
    return set_aside.removeprefix(SET_ASIDE_DIRECTORY), int(times) if times.isdigit() else 0


def offsets_by_table(
    archive: Archive, topic_partition: TopicPartition
) -> dict[str | None, list[int]]:
    """Return what is in quarantine by the one table that lacks it, None for all tables.

    Raises ``CorruptFile``, ``NotFound``.
    """
    by_table: dict[str | None, list[int]] = {}
    for archived in quarantined(archive, topic_partition.topic):
        if archived.name.partition == topic_partition.partition:
            offsets = by_table.setdefault(only_table(archive, archived), [])
            for records, _ in messages(archive, archived):
                offsets += records.column("offset").to_pylist()
    return by_table
