"""Schemas kept with a topic's objects, and the plans that are made of their versions.

``<prefix>/_schema/<topic>/<generation>_<version, 4 digits>.json`` is put if absent and never
changed.  Where earlier versions of Secor began, that is in ``<topic root>/_schema/``: all of a
generation are in one place.  The highest version is the present one; before the first there is
version 0, without any field.  A batch starts under one version and never changes it; where a
message needs more, the batch ends before it, and positioning finds, or adds, the next version.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
from crc32c import crc32c

from secor.batch.plan import TopicPlan
from secor.core.errors import (
    AlreadyExists,
    ConfigurationError,
    NotFound,
    SchemaLost,
    Unavailable,
)
from secor.core.naming import SCHEMA_DIRECTORY, schema_root
from secor.core.ports import ObjectStore
from secor.schema.growth import (
    MOST_FIELDS,
    Propose,
    changes,
    field_count,
    grow_schema,
)
from secor.schema.new_columns import NOTHING
from secor.schema.schema import RowSchema

MOST_VERSIONS = 100
"""Of one generation of a topic: after these nothing grows any more."""

_DO = "put a copy of it back, or begin a new output.generation"

_NAME = re.compile(r"([0-9]+)_([0-9]{4})\.json")


@dataclass(frozen=True, slots=True)
class KeptSchema:
    """One version of a topic's schema."""

    version: int = 0
    fields: pa.StructType = field(default=NOTHING)

    @property
    def full(self) -> bool:
        """It grows no more; what has no column is kept in ``_extra``."""
        return self.version >= MOST_VERSIONS or field_count(self.fields) >= MOST_FIELDS

    @property
    def rows(self) -> RowSchema:
        """The schema of rows."""
        return RowSchema(self.fields, "json", exact=True, any_text=True)

    @property
    def text(self) -> str | None:
        """Return it written down; None where there is nothing yet."""
        return self.rows.describe() if len(self.fields) else None

    @classmethod
    def parse(cls, text: str | None, where: str, version: int = 0) -> Self:
        """Read what ``text`` gave.  Raises ``ConfigurationError`` naming ``where``."""
        if text is None:
            return cls()
        fields = RowSchema.parse(text, where, "json").fields
        assert fields is not None
        return cls(version, fields)


class KeptSchemas:
    """The versions of one topic and generation in the store."""

    def __init__(self, store: ObjectStore, root: str, generation: int) -> None:
        """``root`` is the topic's directory."""
        self._store = store
        self._generation = generation
        self._places: tuple[str, ...] = (f"{root}/{SCHEMA_DIRECTORY}", schema_root(root))
        self._place = self._places[-1]

    def key(self, version: int) -> str:
        """Return the key of a version."""
        return f"{self._place}/{self._generation}_{version:04d}.json"

    def versions(self) -> list[int]:
        """Return the numbers of the versions in the store, in order."""
        return sorted(self._listed())

    def _listed(self) -> Iterator[int]:
        for place in self._places:
            versions = list(self._listed_in(place))
            if versions:
                # Nothing begins in the earlier place any more: once there, always there.
                self._place, self._places = place, (place,)
                break
        yield from versions

    def _listed_in(self, place: str) -> Iterator[int]:
        for stored in self._store.list(f"{place}/{self._generation}_"):
            match = _NAME.fullmatch(stored.key.rpartition("/")[2])
            if match is not None and int(match[1]) == self._generation:
                yield int(match[2])

    def newest(self) -> KeptSchema:
        """Return the present version.  Raises ``SchemaLost``, ``Unavailable``."""
        return self.read(max(self._listed(), default=0))

    def read(self, version: int) -> KeptSchema:
        """Return a version.  Raises ``SchemaLost``, ``Unavailable``."""
        if version == 0:
            return KeptSchema()
        key = self.key(version)
        try:
            with self._store.open(key) as file:
                text = file.read().decode()
            return KeptSchema.parse(text, key, version)
        except NotFound as error:
            raise SchemaLost(f"{key}: this version of the schema is gone; {_DO}") from error
        except UnicodeDecodeError as error:
            raise SchemaLost(f"{key}: is no text: {error}; {_DO}") from error
        except ConfigurationError as error:
            raise SchemaLost(f"{error}; {_DO}") from error

    def add(self, schema: KeptSchema) -> None:
        """Put a version.  Raises ``AlreadyExists``, ``OutcomeUnknown``, ``Unavailable``."""
        body = schema.rows.describe().encode() + b"\n"
        metadata = {"generation": str(self._generation), "schema-version": str(schema.version)}
        self._store.put(self.key(schema.version), body, crc32c(body), metadata)


class ImaginedSchemas(KeptSchemas):
    """The versions of one topic, and further ones that only this process knows."""

    def __init__(self, store: ObjectStore, root: str, generation: int) -> None:
        """Begin with what is in the store."""
        super().__init__(store, root, generation)
        self._imagined: dict[int, KeptSchema] = {}

    def _listed(self) -> Iterator[int]:
        yield from super()._listed()
        yield from self._imagined

    def read(self, version: int) -> KeptSchema:
        """Return a version.  Raises ``SchemaLost``, ``Unavailable``."""
        return self._imagined.get(version) or super().read(version)

    def add(self, schema: KeptSchema) -> None:
        """Remember a version."""
        self._imagined[schema.version] = schema


MakePlan = Callable[[KeptSchema, Propose | None], TopicPlan]
"""Makes the plan of a version; ``Propose``, if given, takes what it is to grow to."""


class GrowingPlans:
    """The plans of one topic with a kept schema: one for each version.

    Plans are asked for in any thread, and proposals come from any.
    """

    def __init__(
        self, kept: KeptSchemas, make: MakePlan, report: Callable[[int, list[str], list[str]], None]
    ) -> None:
        """``report`` gets the number of a version that was added, what is new in it, and which
        values of new fields do not fit it.
        """
        self._kept = kept
        self._make = make
        self._report = report
        self._lock = threading.Lock()
        self._proposals: list[tuple[pa.StructType, Sequence[str]]] = []
        self._plans: dict[str, TopicPlan] = {}

    def propose(self, fields: pa.StructType, outvoted: Sequence[str] = ()) -> None:
        """Remember what the schema is to become, and what will not fit; ``plan`` sees to it."""
        with self._lock:
            self._proposals.append((fields, outvoted))

    def plan(self, fingerprint: str | None = None) -> TopicPlan:
        """Return the plan of this fingerprint if a version has it, else that of the newest.

        Raises ``SchemaLost``, ``Unavailable``, ``OutcomeUnknown``, ``AccessDenied``.
        """
        newest = self._grown()
        if fingerprint is not None:
            # A rule of the bucket may have deleted old ones: none of those is looked for.
            earlier = [number for number in self._kept.versions() if number < newest.version]
            for version in (newest.version, *reversed([0, *earlier])):
                plan = self._plan(newest if version == newest.version else self._kept.read(version))
                if fingerprint in (plan.fingerprint, plan.earlier_fingerprint):
                    return plan
        return self._plan(newest)

    def _plan(self, schema: KeptSchema) -> TopicPlan:
        known = f"{schema.version} {schema.rows.describe()}"
        plan = self._plans.get(known)
        if plan is None:
            plan = self._make(schema, None if schema.full else self.propose)
            self._plans[known] = plan
        return plan

    def _grown(self) -> KeptSchema:
        """Return the newest version, after what was proposed is in it."""
        with self._lock:
            proposals = list(self._proposals)
        newest = self._kept.newest()
        # Again after each loss: another process may have put the next version meanwhile, with other
        # fields.
        while not newest.full:
            fields = newest.fields
            for proposal, _ in proposals:
                fields = grow_schema(fields, proposal)
            if fields == newest.fields:
                break
            outvoted = [text for _, texts in proposals for text in texts]
            newest = self._add(newest, fields, outvoted)
        with self._lock:
            # Not cleared: other threads may have added some since they were read.
            self._proposals = [kept for kept in self._proposals if kept not in proposals]
        return newest

    def _add(self, newest: KeptSchema, fields: pa.StructType, outvoted: list[str]) -> KeptSchema:
        """Put the next version, or read that of the process that was first."""
        following = KeptSchema(newest.version + 1, fields)
        try:
            self._kept.add(following)
        except AlreadyExists as error:
            latest = self._kept.newest()
            # The version could not be put since it is there, so a list without it is an old one.
            if latest.version <= newest.version:
                raise Unavailable(
                    f"{self._kept.key(following.version)} is there and is not listed; looking again"
                ) from error
            return latest
        self._report(following.version, changes(newest.fields, fields), outvoted)
        return following
