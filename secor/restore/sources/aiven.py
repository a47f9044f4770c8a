"""The archive of Aiven's S3 sink connector: JSON lines, JSON, Parquet.

Names are ``<prefix><topic>-<partition>-<first offset>`` with any extension (the default of
``file.name.template``).  Rows have the fields of ``format.output.fields``; ``offset``
and ``value`` must be among them.  Source: the connector's README, "Data Format".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

from secor.core.errors import ArchiveIncomplete
from secor.core.model import StoredObject
from secor.restore.sources.foreign import ForeignMessage, ForeignObject, as_bytes, objects_named
from secor.restore.sources.foreign_files import is_text, rows_of

_NAME = re.compile(
    r"(?:.*/)?(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)-(?P<offset>\d+)(?:\.[A-Za-z0-9.]+)?"
)
_FIELDS = ("key", "timestamp", "headers")


@dataclass(frozen=True, slots=True)
class AivenLayout:
    """A ``ForeignLayout``."""

    @property
    def named_by_last(self) -> bool:
        """Names have the first offset."""
        return False

    def objects(self, stored: Iterable[StoredObject]) -> list[ForeignObject]:
        """Return the objects with names as the default template makes them."""
        return objects_named(_NAME, stored)

    def read(
        self, foreign_object: ForeignObject, open_: Callable[[str], BinaryIO]
    ) -> Iterator[ForeignMessage]:
        """Give the messages; bytes are exact in Parquet alone."""
        with open_(foreign_object.key) as file:
            text = is_text(file)
            for row in rows_of(file, array=True):
                if not isinstance(row, Mapping) or "offset" not in row or "value" not in row:
                    raise ArchiveIncomplete(
                        f"{foreign_object.key}: rows without offset or value, as"
                        " format.output.fields did not name both"
                    )
                yield ForeignMessage(
                    int(row["offset"]),
                    _milliseconds(row.get("timestamp")),
                    as_bytes(row.get("key")),
                    as_bytes(row["value"]),
                    _headers(row.get("headers")),
                    _lost(row, text=text),
                )


def _lost(row: Mapping[str, Any], *, text: bool) -> str | None:
    missing = [field for field in _FIELDS if field not in row]
    if missing:
        return f"format.output.fields did not name {', '.join(missing)}"
    if text:
        return "JSON does not say whether a message was text, JSON or bytes"
    headers = [value for _, value in _pairs(row["headers"])]
    if all(isinstance(item, bytes | None) for item in (row["key"], row["value"], *headers)):
        return None
    return "a converter has decoded key, value or headers"


def _milliseconds(time: Any) -> int | None:
    """Return milliseconds since the epoch of a number, a time, or its text in ISO 8601."""
    if time is None or isinstance(time, int):
        return time
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # In whole numbers: ``timestamp()`` gives a double, which is a microsecond off at times.
    seconds = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (seconds.days * 86_400 + seconds.seconds) * 1000 + seconds.microseconds // 1000


def _pairs(headers: Any) -> list[tuple[Any, Any]]:
    """Return headers: a map, as pairs too (Parquet), or a list of maps of key and value."""
    if isinstance(headers, Mapping):
        return list(headers.items())
    return [
        (header["key"], header["value"]) if isinstance(header, Mapping) else tuple(header)
        for header in headers or ()
    ]


def _headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((str(name), as_bytes(value)) for name, value in _pairs(headers))
