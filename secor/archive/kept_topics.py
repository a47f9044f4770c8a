"""Descriptions of topics, kept next to their objects, so that they can be made again.

``<topic root>/_topic/<version, 6 digits>.json`` is put if absent and never changed.  A new
version is put when the topic has changed; the highest one is the present.  Such as

    {"at": "2026-11-21T10:00:00Z", "partitions": 4, "replication_factor": 3,
     "settings": {"cleanup.policy": "compact"}, "topic": "clicks", "topic_id": "..."}

``settings`` are those that were given to the topic, not the brokers' defaults; null where the
user of the backup may not see them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from secor.core.errors import CorruptFile, OutcomeUnknown
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.core.text import load_json

DIRECTORY = "_topic"
_NAME = re.compile(r"([0-9]{6})\.json")
_TRIES = 5


@dataclass(frozen=True, slots=True)
class KeptTopic:
    """A topic's configuration; ``settings`` None where they could not be seen."""

    topic: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    settings: Mapping[str, str] | None

    def encode(self, time: str) -> bytes:
        """Return the object's bytes; ``time`` is the time in ISO 8601."""
        content = {
            "at": time,
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "settings": None if self.settings is None else dict(self.settings),
            "topic": self.topic,
            "topic_id": self.topic_id,
        }
        return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, key: str, body: bytes) -> Self:
        """Read an object's bytes.  Raises ``CorruptFile`` naming ``key``."""
        try:
            content = load_json(body)
            settings = content["settings"]
            return cls(
                str(content["topic"]),
                content["topic_id"],
                int(content["partitions"]),
                int(content["replication_factor"]),
                None if settings is None else {str(k): str(v) for k, v in settings.items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptFile(f"{key}: is no description of a topic ({error!r})") from error


class KeptTopics:
    """The versions of one topic; ``root`` is the topic's directory."""

    def __init__(self, store: ObjectStore, root: str) -> None:
        self._store = store
        self._root = root

    def newest(self) -> KeptTopic | None:
        """Return the present version.  Raises ``CorruptFile``, ``Unavailable``."""
        version = self._last_version()
        return self._read(version) if version else None

    def is_kept(self) -> bool:
        """Return whether there is any version; reads none."""
        return self._last_version() > 0

    def keep(self, topic: KeptTopic, time: str) -> bool:
        """Put a new version unless the present one says the same; return whether one was put.

        Other processes may do the same at the same time.
        """
        for _ in range(_TRIES):
            version = self._last_version()
            if version and self._read(version) == topic:
                return False
            try:
                # If absent: of two processes one puts this version, and the other looks again.
                if put_bytes(self._store, self._key(version + 1), topic.encode(time)):
                    return True
            # It may be there: the next look finds it, or tries again.
            except OutcomeUnknown:
                continue
        return False

    def _key(self, version: int) -> str:
        return f"{self._root}/{DIRECTORY}/{version:06d}.json"

    def _last_version(self) -> int:
        listed = self._store.list(f"{self._root}/{DIRECTORY}/")
        names = (_NAME.fullmatch(stored.key.rpartition("/")[2]) for stored in listed)
        return max((int(match[1]) for match in names if match), default=0)

    def _read(self, version: int) -> KeptTopic | None:
        key = self._key(version)
        body = read_bytes(self._store, key)
        # None: a person has deleted it since it was listed.
        return None if body is None else KeptTopic.decode(key, body)
