"""The file of evidence, and the hash tree over its objects.  docs/lifecycle.md has the format.

A leaf is SHA-256 of a zero byte and the compact JSON array ``[key, start, end, size, sha256,
crc32c]``, an inner node that of a one byte and its two children: the tree of RFC 9162.  Leaves are
in the order of their keys, as UTF-8.  The root is the same tree over ``[topic, partition, start,
end, messages, tree]`` of each topic partition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from secor.core.errors import ConfigurationError, CorruptFile

FORMAT = "secor-evidence/1"


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """One object: its batch's range, size in bytes, and hashes of its bytes in hexadecimal.

    ``start`` and ``end`` are null for objects without Secor's metadata, ``fingerprint`` likewise.
    """

    key: str
    start: int | None
    end: int | None
    messages: int | None
    size: int
    sha256: str
    crc32c: str
    fingerprint: str | None = None

    @property
    def leaf(self) -> bytes:
        """What the hash tree holds of it."""
        return _compact(
            [self.key, self.start, self.end, self.size, self.sha256, self.crc32c],
        )


@dataclass(frozen=True, slots=True)
class HoleRecord:
    """Offsets without a message, by cause; ``ranges`` lists the first ``[start, end]`` of them."""

    offsets: int
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """One topic partition; times in ISO 8601, null where no message has one."""

    topic: str
    partition: int
    start: int
    end: int
    messages: int
    size: int
    first_time: str | None
    last_time: str | None
    holes: Mapping[str, HoleRecord]
    verified: Mapping[str, Any]
    tree: str
    objects: tuple[ObjectRecord, ...]

    @property
    def leaf(self) -> bytes:
        """What the root holds of it."""
        return _compact(
            [self.topic, self.partition, self.start, self.end, self.messages, self.tree]
        )


@dataclass(frozen=True, slots=True)
class Making:
    """When, where and by what evidence was made.

    ``configuration`` is the SHA-256 of all settings, secrets left out; ``log_read`` says whether
    the objects were compared with the topics.
    """

    at: str
    host: str
    version: str
    group: str
    configuration: str
    log_read: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of a file.

    ``store`` is where the objects are, without credentials; ``directories`` are the prefixes of
    each topic's objects; ``summary`` is the verification's.
    """

    making: Making
    store: Mapping[str, Any]
    directories: Mapping[str, tuple[str, ...]]
    summary: str
    partitions: tuple[PartitionRecord, ...]
    root: str
    format: str = field(default=FORMAT)

    def encode(self) -> bytes:
        """Return the file's bytes."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def tree_hash(leaves: Iterable[bytes]) -> str:
    """Return the root of the hash tree of RFC 9162 over these leaves, in their order."""
    level = [hashlib.sha256(b"\0" + leaf).digest() for leaf in leaves]
    if not level:
        return hashlib.sha256().hexdigest()
    while len(level) > 1:
        # A zero byte in front of leaves, a one byte in front of nodes: else a node could be passed
        # off as a leaf (RFC 9162).
        pairs = [
            hashlib.sha256(b"\1" + left + right).digest()
            for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        # A node without a neighbour moves up as it is.
        level = pairs + level[len(pairs) * 2 :]
    return level[0].hex()


def tree_of_objects(objects: Sequence[ObjectRecord]) -> str:
    """Return the root of the tree over objects, in the order of their keys."""
    # By bytes: other programs that check the tree sort so, and Python's order of text differs
    # beyond the basic plane.
    ordered = sorted(objects, key=lambda stored: stored.key.encode("utf-8", "surrogatepass"))
    return tree_hash(earlier.leaf for earlier in ordered)


def tree_of_partitions(partitions: Iterable[PartitionRecord]) -> str:
    """Return the root of the tree over topic partitions, in the order in which they are given."""
    return tree_hash(partition.leaf for partition in partitions)


def read_evidence(path: Path) -> tuple[Evidence, bytes]:
    """Read a file and recompute its trees; return it with its bytes.

    Raises ``ConfigurationError`` where it is none, ``CorruptFile`` where a tree is not that of
    what is listed.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        evidence = msgspec.json.decode(data, type=Evidence)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path}: is no evidence ({error}); 'secor verify --evidence FILE' makes it"
        ) from error
    if evidence.format != FORMAT:
        raise ConfigurationError(
            f"{path}: is evidence of the format {evidence.format[:40]!r}; this version reads"
            f" {FORMAT!r}"
        )
    for partition in evidence.partitions:
        if tree_of_objects(partition.objects) != partition.tree:
            raise CorruptFile(
                f"{path}: the file was changed: the hash tree of {partition.topic}/"
                f"{partition.partition} is not that of the objects it lists"
            )
    if tree_of_partitions(evidence.partitions) != evidence.root:
        raise CorruptFile(
            f"{path}: the file was changed: its root is not that of the topic partitions it lists"
        )
    return evidence, data


def _compact(values: Sequence[object]) -> bytes:
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")
