"""The paths of a backfill in the store, and small files in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secor.archive.backfill.model import PlanHead, PlannedBatch
from secor.core.naming import topic_root

STAGING = "_backfill"
REPLACED = "_replaced"
SUCCESS = "_SUCCESS"
MARK = "backfill"
"""Metadata of objects that a backfill has made: its id."""


@dataclass(frozen=True, slots=True)
class BackfillPaths:
    """The keys of one backfill.

    ``<prefix>/_backfill/<id>/…`` has the new objects under their own names, and
    ``<prefix>/_replaced/<id>/…`` the old ones, as if each were a prefix of its own.
    """

    prefix: str
    hashed: bool
    topic: str
    id: str

    @classmethod
    def of(cls, plan: PlanHead) -> BackfillPaths:
        """Return the places of a plan."""
        return cls(plan.prefix, plan.hashed, plan.topic, plan.id)

    def staged(self, key: str) -> str:
        """Return where the object that will be ``key`` is staged."""
        return self._below(STAGING, key)

    def replaced(self, key: str) -> str:
        """Return where the object that was ``key`` is kept."""
        return self._below(REPLACED, key)

    def receipt(self, batch: PlannedBatch) -> str:
        """Return the key of a batch's receipt."""
        return f"{self._own}/_receipts/{batch.name}.json"

    def journal(self, name: str) -> str:
        """Return the key of an entry of the journal."""
        return f"{self._own}/_journal/{name}.json"

    def staging(self, topics: Sequence[str] = ()) -> list[str]:
        """Return the prefixes, with a slash, of all that is staged for these topics."""
        roots = (
            topic_root(self.prefix, topic, hashed=self.hashed) for topic in (self.topic, *topics)
        )
        staged = (self._below(STAGING, root).rpartition("/")[0] + "/" for root in roots)
        return list(dict.fromkeys(staged))

    @property
    def _own(self) -> str:
        return self.staging()[0].rstrip("/")

    def directories(self, key: str) -> list[str]:
        """Return the directories that hold an object, from its topic's down."""
        parts = key.split("/")[:-1]
        return ["/".join(parts[:end]) for end in range(self._depth + 1, len(parts) + 1)]

    @property
    def _depth(self) -> int:
        return sum(1 for part in self.prefix.split("/") if part) + int(self.hashed)

    def _below(self, directory: str, key: str) -> str:
        parts, depth = key.split("/"), self._depth
        return "/".join([*parts[:depth], directory, self.id, *parts[depth:]])
