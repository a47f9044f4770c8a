"""Names of objects, and of the directories that they lie in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from posixpath import commonpath
from typing import Self

QUARANTINE_DIRECTORY = "_quarantine"
"""The directory, next to the topics', of messages that a parser could not place."""
SCHEMA_DIRECTORY = "_schema"
"""The directory, next to the topics', of schemas that are kept with their objects."""
SUSPECTS_DIRECTORY = "_suspects"
"""The directory, next to the topics', of the messages that processes died over."""
CLUSTER_DIRECTORY = "_cluster"
"""The directory, next to the topics', of what a backup keeps of the cluster itself."""
RESERVED = frozenset(
    {
        *(QUARANTINE_DIRECTORY, SCHEMA_DIRECTORY, SUSPECTS_DIRECTORY, CLUSTER_DIRECTORY),
        *("_backfill", "_replaced", "_staged"),
    }
)
"""Directories next to the topics' that are none: the last are backfills' and the tables'."""

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
_OF_CONNECT = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+)(?P<delimiter>[+_-])(?P<partition>[0-9]{1,20})(?P=delimiter)"
    r"(?P<offset>[0-9]{1,20})(?P<extension>\.[^/]*)?"
)
"""A name that a connector gives."""
_TEMPLATE = re.compile(
    r"\{topic\}(?P<delimiter>[+_-])\{partition(?::0(?P<partition>1?[0-9]|20))?\}(?P=delimiter)"
    r"\{offset(?::0(?P<offset>1?[0-9]|20))?\}(?P<extension>(?:\.[A-Za-z0-9]+)*)"
)
CONNECT_GENERATION = 1
"""The generation of all objects that are named as a connector's: their names have none."""
_KEYS_AND_HEADERS = (".keys.", ".headers.")
"""Beginnings of the extensions of Confluent's files of keys and headers."""
_COPY = re.compile(
    r".*(~|\.([0-9]+|~[^.]*~|bad|bak|backup|broken|copy|corrupt|crc|deleted|disabled|ignore|new|old"
    r"|orig|part|partial|save|saved|swp|temp|tmp))",
    re.IGNORECASE,
)
"""Extensions of copies that people and tools make of a file."""
_GREATEST = {"generation": 2**63 - 1, "partition": 2**31 - 1, "offset": 2**63 - 1}
"""Kafka has no greater ones."""
_REPLAYED = ".replayed-"
_BUCKET = re.compile(r"offset=(\d+)")
_REWRITE = re.compile(r"\.rewrite-([1-9][0-9]{0,8})-to-([1-9][0-9]{0,18})(?=\.|$)")


@dataclass(frozen=True, slots=True)
class ConnectName:
    """The names of a connector: topic, partition and offset, with a delimiter between them.

    Numbers have leading zeros up to their width.  The defaults are Confluent's.
    """

    delimiter: str = "+"
    partition_width: int = 1
    offset_width: int = 10

    @classmethod
    def of_template(cls, template: str) -> tuple[Self, str]:
        """Return what ``{topic}-{partition}-{offset:020}.gz`` says, and its extension.

        Raises ``ValueError``.
        """
        match = _TEMPLATE.fullmatch(template)
        if match is None:
            raise ValueError(f"{template!r} is no template of names")
        widths = (int(match[number] or 1) for number in ("partition", "offset"))
        return cls(match["delimiter"], *widths), match["extension"]

    def fitting(self, partition: int, offset: int) -> Self:
        """Return it as one finds it in the name of these numbers, which may be wider."""
        return replace(
            self,
            partition_width=max(self.partition_width, len(str(partition))),
            offset_width=max(self.offset_width, len(str(offset))),
        )


@dataclass(frozen=True, slots=True)
class ObjectName:
    """``<root>/<output partition>/<generation>_<partition>_<start offset><extension>``.

    ``root`` is the topic's directory; ``start_offset`` is where the range of the batch begins,
    so a name does not depend on the messages that a log still has.  Objects of earlier versions
    have the offset of their first message there, which is not below that.

    An object that took the place of others of its generation has ``.rewrite-<n>-to-<end>``
    before the extension: the ``rewrite``, 1 for the first, and where its range ends.

    With ``of_connect`` it is called as a sink of Kafka Connect calls its objects, as in
    ``<topic>+<partition>+<start offset><extension>``, in directories of the same form.
    """

    root: str
    output_partition: str
    generation: int
    partition: int
    start_offset: int
    extension: str
    rewrite: int = 0
    end: int | None = None
    of_connect: ConnectName | None = None

    @property
    def key(self) -> str:
        """The object's key in the store."""
        width = self.of_connect.offset_width if self.of_connect else 20
        rewritten = "" if self.end is None else f".rewrite-{self.rewrite}-to-{self.end}"
        return f"{self.stem}{self.start_offset:0{width}d}{rewritten}{self.extension}"

    @property
    def stem(self) -> str:
        """What keys of this place, partition and generation begin with: all but the offset."""
        directory = f"{self.root}/{self.output_partition}" if self.output_partition else self.root
        if self.of_connect:
            topic, between = topic_of(self.root.rpartition("/")[2]), self.of_connect.delimiter
            number = f"{self.partition:0{self.of_connect.partition_width}d}"
            return f"{directory}/{topic}{between}{number}{between}"
        return f"{directory}/{self.generation}_{self.partition}_"

    @property
    def place(self) -> tuple[str, str]:
        """Root and output partition: objects of one range in one place hold the same messages."""
        return self.root, self.output_partition

    @property
    def replayed(self) -> bool:
        """Whether it has messages that were in quarantine, see ``replayed_name``."""
        return self.extension.startswith(_REPLAYED)


@dataclass(frozen=True, slots=True)
class UniqueName:
    """The name of an object that no other try makes: its content is in ``key``."""

    root: str
    output_partition: str
    key: str


def parse_key(root: str, key: str) -> ObjectName | None:
    """Return the name of ``key`` below the topic directory ``root``; None for other files.

    The name gives back ``key``: ``01_0_…`` is not taken for ``1_0_…``, which may be there, too.
    Nor is a copy, see ``is_copy``: its messages are in the object, too.  Names that the S3
    sinks of Kafka Connect give are taken as well; those of files of keys and headers are not.
    """
    if not key.startswith(root + "/"):
        return None
    output_partition, _, name = key[len(root) + 1 :].rpartition("/")
    own = _NAME.fullmatch(name)
    match = own or _OF_CONNECT.fullmatch(name)
    if match is None:
        return None
    extension = match["extension"] or ""
    # A copy that counted as an object would give every message of it twice.
    if _COPY.fullmatch(extension) or (own is None and extension.startswith(_KEYS_AND_HEADERS)):
        return None
    numbers = {
        "generation": int(own["generation"]) if own else CONNECT_GENERATION,
        "partition": int(match["partition"]),
        "offset": int(match["offset"]),
    }
    # Numbers that Kafka does not have are no names of ours, and would fail in columns of 64 bits.
    if any(numbers[part] > most for part, most in _GREATEST.items()):
        return None
    rewritten = _REWRITE.match(extension)
    parsed = ObjectName(
        root=root,
        output_partition=output_partition,
        generation=numbers["generation"],
        partition=numbers["partition"],
        start_offset=numbers["offset"],
        extension=extension[rewritten.end() :] if rewritten else extension,
        of_connect=None
        if own
        else ConnectName(match["delimiter"], len(match["partition"]), len(match["offset"])),
        rewrite=int(rewritten[1]) if rewritten else 0,
        end=int(rewritten[2]) if rewritten else None,
    )
    # Two spellings of one name would be two objects of the same messages.
    return parsed if parsed.key == key else None


def is_copy(key: str) -> bool:
    """Return whether a file is called as an object with something behind it, as ``….seq.bak``."""
    name = key.rpartition("/")[2]
    match = _NAME.fullmatch(name) or _OF_CONNECT.fullmatch(name)
    return match is not None and _COPY.fullmatch(match["extension"] or "") is not None


def replayed_name(name: ObjectName, first_offset: int) -> ObjectName:
    """Return the name for messages of a batch that were in quarantine when it was stored.

    ``first_offset`` distinguishes them from others of the batch in the same place.
    """
    return replace(name, extension=f"{_REPLAYED}{first_offset}{name.extension}")


def least_offset(name: ObjectName) -> int:
    """Return an offset that no message of a backup's object is below, as near as its name says.

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
    return _sibling_root(root, QUARANTINE_DIRECTORY)


def schema_root(root: str) -> str:
    """Return where the schemas of a topic's objects are kept: ``<prefix>/_schema/<topic>``."""
    return _sibling_root(root, SCHEMA_DIRECTORY)


def suspects_root(root: str) -> str:
    """Return where is kept over what processes died: ``<prefix>/_suspects/<topic>``."""
    return _sibling_root(root, SUSPECTS_DIRECTORY)


def rewrites_root(root: str) -> str:
    """Return where plans of rewriting are kept: ``<prefix>/_backfill/_rewrites/<topic>``."""
    return _sibling_root(root, "_backfill/_rewrites")


def _sibling_root(root: str, directory: str) -> str:
    prefix, _, topic = root.rpartition("/")
    return "/".join(part for part in (prefix, directory, topic) if part)


def routed_root(root: str, topic: str) -> str:
    """Return where a route puts messages of ``topic`` in another topic's directory ``root``.

    Names have partition and offset, not the topic: two that go to one place must differ.
    """
    return f"{root}/{ROUTED}{topic}"


def further_roots(root: str, roots: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``roots`` that do not follow from ``root``: not it, nor its quarantine.

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
    # "." and ".." as a part of a path mean other directories to gateways on file systems.
    if set(escaped) == {"."}:
        escaped = escaped.replace(".", "%2E")
    # Half a surrogate pair is valid in JSON text, and plain UTF-8 refuses it.
    raw = escaped.encode("utf-8", "surrogatepass")
    if len(raw) > LONGEST_VALUE:
        digest = hashlib.sha256(raw).hexdigest()[:16]
        # 16 digits and a dash make up the limit. Cut in the middle of a character, its bytes are
        # left out; the hash is of the whole value, so that two long ones stay different.
        escaped = raw[: LONGEST_VALUE - 17].decode("utf-8", "ignore") + "-" + digest
    return escaped
