"""The source of a restore: ``[source]`` of its file, with the ranges that are restored."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from secor.config.values import Expression, Maybe, Names, Section, fault

_LAST_PARTITION, LAST_OFFSET = 2**31 - 1, 2**63 - 1
PartitionNumber = Annotated[int, Field(ge=0, le=_LAST_PARTITION)]


class Range(Section):
    """One of ``[[source.ranges]]``: offsets of one partition, ``[start, end)``."""

    topic: str = Field(description="The archived topic.", examples=["clicks"])
    partition: int = Field(
        ge=0, le=_LAST_PARTITION, description="The archived partition.", examples=[0]
    )
    start: int = Field(default=0, ge=0, le=LAST_OFFSET, description="The first offset.")
    end: Maybe[int] = Field(
        default=None,
        ge=0,
        le=LAST_OFFSET,
        description='The offset after the last one. "none": to the end.',
        examples=[2000],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.end is not None and self.end < self.start:
            raise fault(f"must be at least start ({self.start})", "end")
        return self


class Source(Section):
    """``[source]``: what is restored.  Offsets are archived ones, half open."""

    kind: Literal["archive", "json-lines", "confluent-s3", "aiven-s3", "lenses-s3", "plugin"] = (
        Field(
            default="archive",
            description='What to read: "archive"; archives of other S3 sink connectors'
            ' ("confluent-s3", "aiven-s3", "lenses-s3"); files of a directory ("json-lines"); or'
            ' "plugin". docs/restore.md describes them.',
        )
    )
    name: str = Field(
        default="archive",
        min_length=1,
        description="A name in offset records; it distinguishes archives that a job reads one"
        " after the other.",
    )
    prefix: str = Field(
        default="",
        description="Prefix of the archive in the bucket: output.prefix of its group.",
        examples=["backup"],
    )
    hash_prefix: bool = Field(
        default=False, description="output.hash_prefix of the archive's group."
    )
    delimiter: str = Field(
        default="\n",
        min_length=1,
        description="Text, and the bytes format of confluent-s3: the end of each message.",
    )
    directory: Maybe[Path] = Field(
        default=None, description="json-lines: the directory.", examples=["/srv/lines"]
    )
    plugin: Maybe[str] = Field(
        default=None,
        description='plugin: a source class of yours, "package.module:Class".',
        examples=["acme.secor:Source"],
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="plugin: arguments of the class besides name.",
        examples=[{"url": "https://archive.example.org"}],
    )
    topics: Names = Field(
        default=(),
        description="Topics by name. Without this and source.topics_pattern: all archived topics.",
        examples=[["clicks"]],
    )
    topics_pattern: Maybe[Expression] = Field(
        default=None,
        description="Instead of source.topics: all archived topics whose whole name matches this"
        " regular expression.",
        examples=["click.*"],
    )
    topics_exclude: Maybe[Expression] = Field(
        default=None,
        description="Topics that source.topics_pattern, or all archived topics, leave out: those"
        " whose whole name matches this regular expression.",
        examples=["_.*"],
    )
    partitions: tuple[PartitionNumber, ...] = Field(
        default=(), description="Only these partitions. Empty: all.", examples=[[0, 1]]
    )
    generations: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(), description="Only objects of these generations. Empty: all.", examples=[[1]]
    )
    since: Maybe[datetime] = Field(
        default=None,
        description="Only messages from this time on. Each message is judged by itself; a"
        " message without a time is kept.",
        examples=["2026-11-01T00:00:00Z"],
    )
    until: Maybe[datetime] = Field(
        default=None,
        description="Only messages before this time. Each message is judged by itself; a message"
        " without a time is kept.",
        examples=["2026-11-02T00:00:00Z"],
    )
    filter: Maybe[str] = Field(
        default=None,
        description='A class of yours, "package.module:Class", whose keep(topic, records)'
        " returns a boolean per row.",
        examples=["acme.secor:Keep"],
    )
    transform: Maybe[str] = Field(
        default=None,
        description='A class of yours, "package.module:Class", whose transform(topic, records)'
        " returns the rows to write instead.",
        examples=["acme.secor:Anonymise"],
    )
    lossy: bool = Field(
        default=False,
        description="Also restore objects that lack keys, headers, times or offsets: text,"
        ' "legacy" keys, Java Secor\'s.',
    )
    holes: bool = Field(
        default=False,
        description="Go on although the archive lacks offsets that it should have, or text"
        " objects have fewer messages than their metadata says, and no number of those without"
        " a value.",
    )
    ranges: tuple[Range, ...] = Field(
        default=(),
        description="Only some offsets of some partitions. Partitions that no range names are"
        " restored whole.",
        examples=[[{"topic": "clicks", "partition": 0, "start": 1000, "end": 2000}]],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.topics and self.topics_pattern is not None:
            raise fault("topics are named in source.topics already: keep one", "topics_pattern")
        if (self.kind == "json-lines") != (self.directory is not None):
            raise fault('belongs to source.kind = "json-lines"', "directory")
        if (self.kind == "plugin") != (self.plugin is not None):
            raise fault('belongs to source.kind = "plugin"', "plugin")
        for key in ("since", "until"):
            time = getattr(self, key)
            # It would be another moment on each machine.
            if time is not None and time.tzinfo is None:
                raise fault("needs a zone, such as 2026-11-01T00:00:00Z", key)
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise fault("must be later than source.since", "until")
        return self
