"""Names of objects, and of the directories that they lie in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from posixpath import commonpath

QUARANTINE_DIRECTORY = "_quarantine"
"""The directory, beside the topics', of messages that a parser could not place."""
SCHEMA_DIRECTORY = "_schema"
"""The directory, beside the topics', of schemas that are kept with their objects."""
SUSPECTS_DIRECTORY = "_suspects"
"""The directory, beside the topics', that says over which messages processes died."""
RESERVED = frozenset(
    {
        *(QUARANTINE_DIRECTORY, SCHEMA_DIRECTORY, SUSPECTS_DIRECTORY),
        *("_backfill", "_replaced", "_staged"),
    }
)
"""Directories beside the topics' that are none: the last are backfills' and the tables'."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
LONGEST_VALUE = 200
"""Bytes of an escaped path value before it is cut with a hash (file systems allow 255)."""
LONGEST_ROOTS = 1000
"""Characters of directories in an intent: a Kafka ledger has 4,096 for all of it."""

ROUTED = "from="
"""The directory of messages that a route brings from another topic begins with this."""

_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_NAME = re.compile(
    r"(?P<generation>[0-9]+)_(?P<partition>[0-9]+)_(?P<offset>[0-9]{20})(?P<extension>\.[^/]*)?"
)
_COPY = re.compile(
    r".*(~|\.([0-9]+|~[^.]*~|bad|bak|backup|broken|copy|corrupt|crc|deleted|disabled|ignore|new|old"
    r"|orig|part|partial|save|saved|swp|temp|tmp))",
    re.IGNORECASE,
)
"""Extensions of what people and tools put beside a file."""
_GREATEST = {"generation": 2**63 - 1, "partition": 2**31 - 1, "offset": 2**63 - 1}
"""Kafka has no greater ones."""
_BUCKET = re.compile(r"offset=(\d+)")


@dataclass(frozen=True, slots=True)
class ObjectName:
    """``<root>/<output partition>/<generation>_<partition>_<start offset><extension>``.

    ``root`` is the topic's directory; ``start_offset`` is where the range of the batch begins,
    so a name does not depend on the messages that a log still has.  Objects of earlier versions
    have the offset of their first message there, which is not below that.
    """

    root: str
    output_partition: str
    generation: int
    partition: int
    start_offset: int
    extension: str

    @property
    def key(self) -> str:
        """The object's key in the store."""
        directory = f"{self.root}/{self.output_partition}" if self.output_partition else self.root
        name = f"{self.generation}_{self.partition}_{self.start_offset:020d}{self.extension}"
        return f"{directory}/{name}"


@dataclass(frozen=True, slots=True)
class UniqueName:
    """The name of an object that no other try makes: its content is in ``key``."""

    root: str
    output_partition: str
    key: str


def parse_key(root: str, key: str) -> ObjectName | None:
    """Return the name of ``key`` below the topic directory ``root``; None for other files.

    The name gives back ``key``: ``01_0_…`` is not taken for ``1_0_…``, which may be there, too.
    Nor is a copy, see ``is_copy``: its messages are in the object, too.
    """
    if not key.startswith(root + "/"):
        return None
    output_partition, _, name = key[len(root) + 1 :].rpartition("/")
    match = _NAME.fullmatch(name)
    if match is None or any(int(match[part]) > most for part, most in _GREATEST.items()):
        return None
    if _COPY.fullmatch(match["extension"] or ""):
        return None
    parsed = ObjectName(
        root=root,
        output_partition=output_partition,
        generation=int(match["generation"]),
        partition=int(match["partition"]),
        start_offset=int(match["offset"]),
        extension=match["extension"] or "",
    )
    return parsed if parsed.key == key else None


def is_copy(key: str) -> bool:
    """Tell whether a file is called as an object with something behind it, as ``….seq.bak``."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    return match is not None and _COPY.fullmatch(match["extension"] or "") is not None


def replayed_name(name: ObjectName, first_offset: int) -> ObjectName:
    """Return the name for messages of a batch that were in quarantine when it was stored.

    ``first_offset`` tells them from those of the batch that go to the same place.
    """
    return replace(name, extension=f".replayed-{first_offset}{name.extension}")


def least_offset(name: ObjectName) -> int:
    """Return an offset that no message of a backup's object is below, as near as its name tells.

    A batch that reaches over the edge of a bucket has an object in each, of one start offset.
    """
    bucket = _BUCKET.fullmatch(name.output_partition)
    return max(name.start_offset, int(bucket[1])) if bucket else name.start_offset


def topic_directory(topic: str) -> str:
    """Return what a topic's directory is called: as the topic, unless that means another.

    Kafka has no topic with a ``%`` in its name, so ``%5Fquarantine`` is nobody else's.
    """
    return topic.replace("_", "%5F", 1) if topic in RESERVED else topic


def topic_of(directory: str) -> str | None:
    """Return the topic of a directory; None where it is no topic's."""
    if not directory or directory in RESERVED:
        return None
    plain = directory.replace("%5F", "_", 1)
    return plain if plain in RESERVED else directory


def topic_root(prefix: str, topic: str, *, hashed: bool = False) -> str:
    """Return a topic's directory: ``[<hash>/]<prefix>/<topic>``; see ``topic_directory``.

    The hash is 4 hex digits of the topic's MD5, in front of everything, where buckets
    spread their keys.
    """
    parts = [part for part in prefix.split("/") if part]
    if hashed:
        digest = hashlib.md5(topic.encode(), usedforsecurity=False).hexdigest()
        parts.insert(0, digest[:4])
    return "/".join([*parts, topic_directory(topic)])


def quarantine_root(root: str) -> str:
    """Return where messages go that no parser can place: ``<prefix>/_quarantine/<topic>``."""
    return _beside(root, QUARANTINE_DIRECTORY)


def schema_root(root: str) -> str:
    """Return where the schemas of a topic's objects are kept: ``<prefix>/_schema/<topic>``."""
    return _beside(root, SCHEMA_DIRECTORY)


def suspects_root(root: str) -> str:
    """Return where is kept over what processes died: ``<prefix>/_suspects/<topic>``."""
    return _beside(root, SUSPECTS_DIRECTORY)


def _beside(root: str, directory: str) -> str:
    prefix, _, topic = root.rpartition("/")
    return "/".join(part for part in (prefix, directory, topic) if part)


def routed_root(root: str, topic: str) -> str:
    """Return where a route puts messages of ``topic`` in another topic's directory ``root``.

    Names tell partition and offset, not the topic: two that go to one place must differ.
    """
    return f"{root}/{ROUTED}{topic}"


def roots_beside(root: str, roots: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``roots`` that ``root`` does not tell: not it, nor its quarantine.

    Too many to be written down give way to the directory that they share, if there is one.
    """
    others = sorted(set(roots) - {root, quarantine_root(root)})
    if sum(map(len, others)) > LONGEST_ROOTS:
        shared = commonpath(others)
        return (shared,) if shared else tuple(others)
    return tuple(others)


def escape_value(value: str | None) -> str:
    """Make a value from a message safe as a part of a path, as Hive does.

    Null and empty become ``__HIVE_DEFAULT_PARTITION__``; long values are cut with a hash.
    """
    if not value:
        return HIVE_NULL
    escaped = _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", value)
    if set(escaped) == {"."}:
        escaped = escaped.replace(".", "%2E")
    raw = escaped.encode("utf-8", "surrogatepass")
    if len(raw) > LONGEST_VALUE:
        digest = hashlib.sha256(raw).hexdigest()[:16]
        escaped = raw[: LONGEST_VALUE - 17].decode("utf-8", "ignore") + "-" + digest
    return escaped
