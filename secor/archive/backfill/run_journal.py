"""Progress of a backfill, as small objects below ``_backfill/<id>/_journal``.

All are put if absent: ``verified``, ``begun`` (with the ``_SUCCESS`` marks that were found),
``batch-…`` for each batch that is swapped, ``done``, ``rollback``, ``restored``, ``cleaned``.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from secor.archive.backfill.model import PlannedBatch, encode
from secor.archive.backfill.paths import BackfillPaths
from secor.core.errors import ConfigurationError
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes

VERIFIED = "verified"
BEGUN = "begun"
DONE = "done"
ROLLBACK = "rollback"
RESTORED = "restored"
CLEANED = "cleaned"


@dataclass(frozen=True, slots=True)
class Mark:
    """A ``_SUCCESS`` object, to be put back as it was."""

    key: str
    body: bytes
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class PublicationStart:
    """The state at the start of publishing: the marks to put back last."""

    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class RunJournal:
    """The journal of one backfill: a note never changes."""

    store: ObjectStore
    places: BackfillPaths

    def note(self, name: str, content: object = None) -> None:
        """Write an entry down, unless it exists; what was written first holds."""
        body = encode({} if content is None else content)
        put_bytes(self.store, self.places.journal(name), body)

    def has(self, name: str) -> bool:
        """Return whether there is such an entry."""
        return self._entry(name) is not None

    def state(self) -> str:
        """Return its last entry; empty before there is any."""
        # From the last step back: earlier notes stay when later ones come.
        for name in (CLEANED, ROLLBACK, DONE, BEGUN, VERIFIED):
            if self.has(name):
                return name
        return ""

    def finished(self) -> bool:
        """Return whether it is published.  Raises ``ConfigurationError`` in a rollback."""
        state = self.state()
        if state == ROLLBACK:
            raise ConfigurationError(
                f"backfill {self.places.id} is being rolled back: finish that first"
            )
        return state in (DONE, CLEANED)

    def start(self) -> PublicationStart:
        """Return what was found at the start of publishing."""
        data = self._entry(BEGUN)
        assert data is not None
        return msgspec.json.decode(data, type=PublicationStart)

    def delete(self) -> None:
        """Delete it in an order such that a crash leaves what is needed to go on."""
        # ROLLBACK goes last: without it, what is left of a journal would look like a publication
        # that is to be finished.
        last = [self.places.journal(name) for name in (BEGUN, RESTORED, ROLLBACK)]
        listed = self.store.list(self.places.journal("").removesuffix(".json"))
        first = [stored.key for stored in listed if stored.key not in last]
        for key in (*first, *last):
            self.store.delete(key)

    def _entry(self, name: str) -> bytes | None:
        return read_bytes(self.store, self.places.journal(name))


def swapped(batch: PlannedBatch) -> str:
    """Return the name of the entry that a batch is swapped."""
    return f"batch-{batch.name}"
