"""The archive of Lenses' S3 sink connector with ``store.envelope``: Avro, Parquet, JSON.

Names are ``<prefix>/<topic>/<partition>/<last offset>[_<times>].<extension>``.  A row is
``{key, value, headers, metadata: {offset, partition, timestamp, topic}}``; in JSON, bytes are
base64, which ``keyIsArray`` and ``valueIsArray`` say.
Source: the connector's documentation, "Message envelope" and "Object key".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from secor.core.errors import ArchiveIncomplete
from secor.core.model import StoredObject
from secor.restore.sources.foreign import ForeignMessage, ForeignObject, as_bytes, objects_named
from secor.restore.sources.foreign_files import rows_of

_NAME = re.compile(
    r"(?:.*/)?(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d+)/(?P<offset>\d+)(?:_\d+)*"
    r"\.(?:avro|parquet|json)"
)
_DECODED = "a converter has decoded key, value or headers: they are written as text or JSON"


@dataclass(frozen=True, slots=True)
class LensesLayout:
    """A ``ForeignLayout``."""

    @property
    def named_by_last(self) -> bool:
        """Names have the last offset."""
        return True

    def objects(self, stored: Iterable[StoredObject]) -> list[ForeignObject]:
        """Return the objects with names that end with topic, partition and offset."""
        return objects_named(_NAME, stored)

    def read(
        self, foreign_object: ForeignObject, open_: Callable[[str], BinaryIO]
    ) -> Iterator[ForeignMessage]:
        """Give the messages of envelopes."""
        with open_(foreign_object.key) as file:
            for row in rows_of(file):
                if not isinstance(row, Mapping) or "metadata" not in row:
                    raise ArchiveIncomplete(
                        f"{foreign_object.key}: a row without metadata: it was not written with"
                        " store.envelope"
                    )
                yield _message(foreign_object, row)


def _message(foreign_object: ForeignObject, row: Mapping[str, Any]) -> ForeignMessage:
    metadata = row["metadata"]
    if (metadata["topic"], metadata["partition"]) != (
        foreign_object.topic,
        foreign_object.partition,
    ):
        raise ArchiveIncomplete(
            f"{foreign_object.key}: it has messages of {metadata['topic']}/{metadata['partition']}"
        )
    key, value = _content(row, "key"), _content(row, "value")
    headers = dict(row.get("headers") or {})
    exact = all(isinstance(item, bytes | None) for item in (key, value, *headers.values()))
    return ForeignMessage(
        int(metadata["offset"]),
        metadata["timestamp"],
        as_bytes(key),
        as_bytes(value),
        tuple((name, as_bytes(header_value)) for name, header_value in headers.items()),
        None if exact else _DECODED,
    )


def _content(row: Mapping[str, Any], name: str) -> Any:
    content = row.get(name)
    if row.get(f"{name}IsArray") and isinstance(content, str):
        return base64.b64decode(content, validate=True)
    return content
