"""The model of a backfill: its plan, the results of its batches, and their files as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, TopicPartition

VERSION = 1


@dataclass(frozen=True, slots=True)
class Segment:
    """The messages ``[start, end)`` of one backup object of ``size`` bytes."""

    key: str
    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class OldObject:
    """An object that is replaced."""

    key: str
    size: int
    records: int
    generation: int
    output_partition: str
    quarantine: bool = False


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """One batch of the new generation: a unit of work, and of publishing.

    Every object of ``replaces`` has all of its messages in ``[start, end)``.
    """

    partition: int
    start: int
    end: int
    inputs: tuple[Segment, ...]
    replaces: tuple[OldObject, ...]
    topic_id: str | None = None

    @property
    def range(self) -> OffsetRange:
        """Its offsets."""
        return OffsetRange(self.start, self.end)

    @property
    def name(self) -> str:
        """A name for its files, unique in the plan."""
        return f"{self.partition}_{self.start:020d}"


@dataclass(frozen=True, slots=True)
class PlanHead:
    """A plan without its batches."""

    id: str
    topic: str
    generation: int
    fingerprint: str
    prefix: str
    hashed: bool
    schema: str | None = None

    def topic_partition(self, batch: PlannedBatch) -> TopicPartition:
        """Return a batch's topic partition."""
        return TopicPartition(self.topic, batch.partition)


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """A plan: the objects to read, those to make of them, and those that they replace.

    ``fingerprint`` is that of the new objects: a run under other settings is refused.
    ``schema`` is what the schema kept with the topic's objects was, where one is kept.
    """

    topic: str
    generation: int
    fingerprint: str
    prefix: str
    hashed: bool
    batches: tuple[PlannedBatch, ...]
    notes: tuple[str, ...] = ()
    schema: str | None = None
    version: int = VERSION

    @property
    def id(self) -> str:
        """16 hex digits over everything in it."""
        # Of the content: the same plan, made twice, stages to the same place, and another one never
        # does.
        return hashlib.sha256(encode(self)).hexdigest()[:16]

    @property
    def head(self) -> PlanHead:
        """Return what every task must know."""
        return PlanHead(
            self.id,
            self.topic,
            self.generation,
            self.fingerprint,
            self.prefix,
            self.hashed,
            self.schema,
        )

    @property
    def replaced(self) -> Sequence[OldObject]:
        """All objects that go."""
        return [old_object for batch in self.batches for old_object in batch.replaces]

    @property
    def input_objects(self) -> dict[str, int]:
        """All backup objects that are read, with their bytes."""
        return {part.key: part.size for batch in self.batches for part in batch.inputs}


@dataclass(frozen=True, slots=True)
class NewFile:
    """A staged object; ``key`` is where it will be."""

    key: str
    size: int
    crc32c: int
    records: int
    output_partition: str
    quarantine: bool


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of one batch: everything of it is staged."""

    partition: int
    start: int
    end: int
    read: int
    filtered: int
    quarantined: int
    files: tuple[NewFile, ...]
    unwritable: tuple[int, ...] = ()
    """Offsets in quarantine of messages that the parser takes and no file does."""


def encode(value: object) -> bytes:
    """Return a dataclass as JSON, always the same for the same content."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def decode_receipt(data: bytes) -> Receipt:
    """Read a receipt back."""
    return msgspec.json.decode(data, type=Receipt)


def decode_plan(data: bytes, name: str) -> BackfillPlan:
    """Read a plan back.  Raises ``ConfigurationError`` naming ``name``."""
    try:
        plan = msgspec.json.decode(data, type=BackfillPlan)
    except msgspec.DecodeError as error:
        raise ConfigurationError(
            f"{name}: is no plan of a backfill ({error}); make one with 'secor backfill plan'"
        ) from error
    if plan.version != VERSION:
        raise ConfigurationError(f"{name}: plan of version {plan.version}: plan again")
    return plan


def read_plan(path: Path) -> BackfillPlan:
    """Read a plan's file.  Raises ``ConfigurationError``."""
    try:
        return decode_plan(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from error
