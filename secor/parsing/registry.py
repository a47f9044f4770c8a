"""The schemas of a registry by their ids, cached, the ids that it does not know included."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from secor.core.errors import NotFound, Unavailable

THREADS = 8

ANY_KIND = ""
"""The kind of a schema without one in the registry: AVRO, JSON and PROTOBUF are the others."""


@dataclass(frozen=True, slots=True)
class ApicurioId:
    """A number in Apicurio's registry; ``use_id`` is ``globalId`` or ``contentId``."""

    use_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.use_id} {self.number}"


SchemaId = int | str | ApicurioId
"""A schema's number in its registry, or its GUID."""

FIRST_DELAY, LAST_DELAY = 5.0, 300.0
"""Seconds until an id that was not known is asked for again; doubled up to the last."""

MOST_IN_VAIN = 20
"""Ids that were waited for in vain before messages of further ones no longer wait."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema and the named schemas that it refers to, those referred to first."""

    kind: str
    text: str
    references: Mapping[str, str] = field(default_factory=dict)


class SchemaSource(Protocol):
    """The schemas of one registry."""

    @property
    def url(self) -> str:
        """The address of the registry."""

    def fetch(self, schema_id: SchemaId) -> RegisteredSchema:
        """Ask for a schema; NotFound, Unavailable or AccessDenied."""


class SchemaRegistry:
    """Fetches each schema once: ids are immutable, so what was read stays true.

    An unknown id is remembered, too, so that a producer of nonsense does not cost a request a
    message.  It may be known later: replicas lag, and producers are faster than they should be.
    So it is asked for again, after seconds and then minutes, and its messages first wait.  Only
    ``prefetch`` changes an answer: all of a chunk is decoded by the same.
    """

    def __init__(
        self,
        source: SchemaSource,
        *,
        most_unknown: int = 100_000,
        patience: float = 1.0,
        most_at_once: int = 200,
        wait: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``patience`` is of one ``prefetch``, in seconds.

        So long does ``prefetch`` ``wait`` for an id that is not known before it is unknown.
        """
        self._source = source
        self.url = source.url
        self._most_unknown = most_unknown
        self._patience = patience
        self._most_at_once = most_at_once
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="schema")
        self._asked: dict[SchemaId, Future[RegisteredSchema]] = {}
        self._known: dict[SchemaId, RegisteredSchema] = {}
        self._unknown: dict[SchemaId, _Unknown] = {}
        self._wait = wait
        self._monotonic = monotonic
        self._in_vain: set[SchemaId] = set()
        # Threads of ``prefetch`` note ids while the caller looks at them.
        self._lock = threading.Lock()

    def prefetch(self, schema_ids: Iterable[SchemaId]) -> None:
        """Ask for all that are new, at once and in other threads, for a limited time.

        Raises ``Unavailable`` while some are still asked for: come again.  What has been
        answered by then is remembered, so that each turn begins with fewer.  Raises it, too,
        while messages of an unknown id wait.
        """
        wanted = [wanted_id for wanted_id in schema_ids if wanted_id not in self._known]
        now = self._monotonic()
        with self._lock:
            new = [
                wanted_id
                for wanted_id in wanted
                if wanted_id not in self._unknown or self._unknown[wanted_id].is_due(now)
            ]
        # Bounded: a chunk of nonsense may name thousands of ids.
        for schema_id in new[: self._most_at_once]:
            if schema_id not in self._asked:
                ask = self._ask if schema_id in self._unknown else self.schema
                self._asked[schema_id] = self._threads.submit(ask, schema_id)
        done, waiting = wait(self._asked.values(), self._patience)
        # What is still asked for stays, and is waited for in the next turn instead of being asked
        # again.
        self._asked = {
            wanted_id: asked for wanted_id, asked in self._asked.items() if asked in waiting
        }
        for asked in done:
            error = asked.exception()
            if error is not None and not isinstance(error, NotFound):
                raise error
        if self._asked or len(new) > self._most_at_once:
            raise Unavailable(
                f"schema registry: {self.url} is being asked for {len(new)} schemas; trying again"
            )
        self._wait_for_unknown(wanted)

    def _wait_for_unknown(self, schema_ids: Iterable[SchemaId]) -> None:
        """Raise ``Unavailable`` while messages of one of these ids wait."""
        now = self._monotonic()
        for schema_id in schema_ids:
            unknown = self._unknown.get(schema_id)
            if unknown is not None and now < unknown.waits_until:
                raise Unavailable(
                    f"schema registry: {self.url} does not know schema id {schema_id}; messages"
                    f" that have it wait for {unknown.waits_until - now:.0f} s more, then they go"
                    " into quarantine (parser.registry_wait)"
                )

    def schema(self, schema_id: SchemaId) -> RegisteredSchema:
        """Return a schema; NotFound if the registry says so, Unavailable if it says nothing.

        AccessDenied where the credentials do not do.
        """
        known = self._known.get(schema_id)
        if known is None:
            if schema_id in self._unknown:
                raise NotFound(f"schema id {schema_id} is not registered")
            known = self._ask(schema_id)
        return known

    def _ask(self, schema_id: SchemaId) -> RegisteredSchema:
        """Fetch a schema and remember the answer, whatever was known before."""
        try:
            registered = self._source.fetch(schema_id)
        except NotFound as error:
            with self._lock:
                self._note_unknown(schema_id)
            raise NotFound(f"schema id {schema_id} is not registered") from error
        with self._lock:
            self._known[schema_id] = registered
            self._unknown.pop(schema_id, None)
            self._in_vain.discard(schema_id)
        return registered

    def _note_unknown(self, schema_id: SchemaId) -> None:
        now = self._monotonic()
        unknown = self._unknown.pop(schema_id, None)
        if unknown is None:
            if len(self._unknown) >= self._most_unknown:
                oldest = next(iter(self._unknown))
                del self._unknown[oldest]
                self._in_vain.discard(oldest)
            # Else a producer of nonsense could have its partition wait for each id anew.
            wait = self._wait if len(self._in_vain) < MOST_IN_VAIN else 0.0
            unknown = _Unknown(now + wait)
        elif now >= unknown.waits_until and self._wait:
            self._in_vain.add(schema_id)
        unknown.asked_at = now
        unknown.delay = min(2 * unknown.delay, LAST_DELAY) if unknown.delay else FIRST_DELAY
        self._unknown[schema_id] = unknown


@dataclass(slots=True)
class _Unknown:
    """An id that the registry did not know, with monotonic times in seconds."""

    waits_until: float
    asked_at: float = 0.0
    delay: float = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether to ask again: after the delay, and once more before messages are bad."""
        last_look = self.asked_at < self.waits_until <= now
        return last_look or now >= self.asked_at + self.delay
