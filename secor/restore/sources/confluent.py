"""The archive of Confluent's S3 sink connector.

Names are ``<prefix>/<topic>/<directories>/<topic>+<partition>+<first offset>.<extension>``;
with ``store.kafka.keys`` and ``store.kafka.headers`` there are ``….keys.<extension>`` and
``….headers.<extension>`` next to it, a row for each message.  Formats: Avro, JSON, bytes.
Source: the connector's documentation, "S3 object names" and "Store Kafka keys and headers".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, BinaryIO

from secor.core.errors import ArchiveIncomplete
from secor.core.model import StoredObject
from secor.restore.sources.foreign import ForeignMessage, ForeignObject, as_bytes
from secor.restore.sources.foreign_files import read_whole, rows_of

_NAME = re.compile(
    r"(?:.*/)?(?P<stem>(?P<topic>[^/+]+)\+(?P<partition>\d+)\+(?P<offset>\d+))"
    r"(?:\.(?P<part>keys|headers))?\.(?P<extension>avro|json|bin)(?:\.gz)?"
)
_MISSING = object()
LOST = "the connector keeps no timestamp, and offsets only of each object's first message"


@dataclass(frozen=True, slots=True)
class ConfluentLayout:
    """A ``ForeignLayout``; ``separator`` is what ends a message in the bytes format.

    Rows are numbered from the offset in the name on, as the connector keeps no other.
    """

    separator: bytes = b"\n"

    @property
    def named_by_last(self) -> bool:
        """Names have the first offset."""
        return False

    def objects(self, stored: Iterable[StoredObject]) -> list[ForeignObject]:
        """Return value files, each with its files of keys and headers.

        Raises ``ArchiveIncomplete`` where only some of a topic's objects have those.
        """
        parts: dict[str, dict[str, tuple[StoredObject, re.Match[str]]]] = {}
        for stored_object in stored:
            name = _NAME.fullmatch(stored_object.key)
            if name is not None:
                stem = stored_object.key[: name.end("stem")]
                parts.setdefault(stem, {})[name["part"] or "values"] = stored_object, name
        objects = []
        for stem, files in parts.items():
            if "values" not in files:
                raise ArchiveIncomplete(f"{stem}: the object with the messages' values is missing")
            value, name = files["values"]
            companions = tuple(
                (part, files[part][0].key) for part in sorted(files.keys() - {"values"})
            )
            partition, offset = int(name["partition"]), int(name["offset"])
            objects.append(
                ForeignObject(value.key, value.size, name["topic"], partition, offset, companions)
            )
        _check_companions(objects)
        return objects

    def read(
        self, foreign_object: ForeignObject, open_: Callable[[str], BinaryIO]
    ) -> Iterator[ForeignMessage]:
        """Give the messages, key and headers from the files next to them."""
        companions = dict(foreign_object.companions)
        with open_(foreign_object.key) as file:
            values = self._rows(foreign_object.key, file)
            keys = self._whole(companions.get("keys"), open_)
            headers = self._whole(companions.get("headers"), open_)
            columns = [values, *(column for column in (keys, headers) if column is not None)]
            # Longest: with ``zip`` a file with fewer rows would cut the others short silently.
            for index, row in enumerate(zip_longest(*columns, fillvalue=_MISSING)):
                if _MISSING in row:
                    raise ArchiveIncomplete(
                        f"{foreign_object.key}: the files next to it have other rows"
                    )
                rest = list(row[1:])
                key = as_bytes(rest.pop(0)) if keys is not None else None
                yield ForeignMessage(
                    foreign_object.named + index,
                    None,
                    key,
                    as_bytes(row[0]),
                    _headers(rest[0]) if rest else (),
                    LOST,
                )

    def _whole(self, key: str | None, open_: Callable[[str], BinaryIO]) -> list[Any] | None:
        if key is None:
            return None
        with open_(key) as file:
            return list(self._rows(key, file))

    def _rows(self, key: str, file: BinaryIO) -> Iterator[Any]:
        if not re.search(r"\.bin(\.gz)?$", key):
            yield from rows_of(file)
            return
        content = read_whole(file)
        pieces = content.split(self.separator)
        # The last piece is what is behind the last separator: nothing, unless the object was cut.
        if pieces.pop():
            raise ArchiveIncomplete(f"{key}: it does not end with source.delimiter")
        yield from pieces


def _check_companions(objects: Iterable[ForeignObject]) -> None:
    kinds: dict[str, tuple[set[str], str]] = {}
    for foreign_object in objects:
        have = {part for part, _ in foreign_object.companions}
        known, key = kinds.setdefault(foreign_object.topic, (have, foreign_object.key))
        if have != known:
            differing = ", ".join(sorted(have ^ known))
            raise ArchiveIncomplete(
                f"one of {key} and {foreign_object.key} has no {differing} next to it"
            )


def _headers(row: Any) -> tuple[tuple[str, bytes | None], ...]:
    """Return headers: a list of maps with ``key`` and ``value``, or a map of names."""
    if isinstance(row, Mapping):
        return tuple((str(name), as_bytes(value)) for name, value in row.items())
    return tuple((str(header["key"]), as_bytes(header["value"])) for header in row or ())
