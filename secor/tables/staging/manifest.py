"""Manifests: which data files a batch of one topic partition has staged, for each table.

A manifest is the last object of its batch.  Its key holds topic, partition and range, never the
fingerprint: each range has one manifest, and the one that was put first is right.  A manifest
counts only up to the ledger's committed offset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, Self, get_args

from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import topic_directory, topic_of
from secor.core.text import load_json

VERSION = 1

DIRECTORY = "_staged"
"""Below the group's prefix; no topic's directory."""

_KEY = re.compile(
    r"(?P<partition>0|[1-9][0-9]*)/(?P<start>[0-9]{20})-(?P<end>[0-9]{20})"
    r"(\.replay-(?P<replay>[0-9]+-[0-9]+(-[0-9a-f]{16})?))?\.json"
)

Operation = Literal["append", "changes"]


@dataclass(frozen=True, slots=True)
class Statistics:
    """The table format's statistics of a data file's columns, by field id.

    Sizes in bytes, counts in values; bounds in Iceberg's single-value binary form, as hex.
    """

    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, str] = field(default_factory=dict)
    upper_bounds: Mapping[int, str] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DataFile:
    """One staged file: ``path`` is a whole URI, ``size`` in bytes.

    ``partition`` has the values of the partition spec's fields in order, each in Iceberg's
    single-value JSON form.  ``first_offset`` and ``last_offset`` are those of its rows.
    """

    path: str
    format: Literal["parquet", "orc", "avro"]
    records: int
    size: int
    first_offset: int
    last_offset: int
    partition: tuple[Any, ...] = ()
    statistics: Statistics = field(default_factory=Statistics)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of a batch for one table, made under one schema and one partition spec.

    ``operation`` is ``append`` for data files, ``changes`` for rows that an engine merges;
    their paths are keys in the group's store, and ``key`` has the ids of identifier columns.
    """

    table: str
    uuid: str
    schema_id: int
    spec_id: int
    operation: Operation
    files: tuple[DataFile, ...]
    key: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayOf:
    """An object in quarantine, ``key``, whose messages were parsed again.

    ``number`` distinguishes it in its batch; ``bad`` are the offsets of the messages
    that stay in quarantine.
    """

    key: str
    number: str
    bad: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files that the batch ``[start, end)`` of a topic partition has staged.

    With ``replay``, what messages of the batch have staged that were in quarantine before.

    ``cluster`` and ``topic_id`` are Kafka's ids; ``greatest_timestamp`` is in milliseconds,
    None where no message had one.  Without ``tables`` all messages were filtered or bad.
    """

    group: str
    cluster: str
    topic: str
    topic_id: str | None
    partition: int
    start: int
    end: int
    fingerprint: str
    greatest_timestamp: int | None
    tables: tuple[TableFiles, ...]
    version: int = VERSION
    replay: ReplayOf | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition of the messages."""
        return TopicPartition(self.topic, self.partition)

    @property
    def range(self) -> OffsetRange:
        """The batch's offsets."""
        return OffsetRange(self.start, self.end)

    def key(self, prefix: str) -> str:
        """Return the manifest's key below the group's ``prefix``."""
        number = self.replay.number if self.replay is not None else ""
        return manifest_key(prefix, self.topic_partition, self.range, number)

    def dump(self) -> bytes:
        """Return the object's bytes: the same for the same manifest."""
        data = {**_fields(self), "tables": [table_files_data(files) for files in self.tables]}
        if self.replay is None:
            del data["replay"]
        else:
            data["replay"] = _fields(self.replay)
        return json.dumps(data, sort_keys=True, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def parse(cls, body: bytes, key: str) -> Self:
        """Read it back.  Raises ``CorruptFile`` naming ``key``."""
        try:
            data = load_json(body)
            if data["version"] != VERSION:
                raise ValueError(f"version {data['version']}; this Secor reads {VERSION}")
            tables = tuple(parse_table_files(table) for table in data["tables"])
            manifest = cls(**{**data, "tables": tables, "replay": _replay_of(data.get("replay"))})
            _check(manifest)
            OffsetRange(manifest.start, manifest.end)
            return manifest
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise CorruptFile(f"{key}: no manifest of Secor's ({error})") from error


def staged_prefix(prefix: str, topic: str | None = None) -> str:
    """Return where manifests lie: the group's, or one topic's; ends with a slash."""
    return _staged_prefix(prefix, topic)


@lru_cache(maxsize=10_000)
def _staged_prefix(prefix: str, topic: str | None) -> str:
    parts = [part for part in prefix.split("/") if part] + [DIRECTORY]
    if topic is not None:
        parts.append(topic_directory(topic))
    return "/".join(parts) + "/"


def manifest_key(
    prefix: str, topic_partition: TopicPartition, offsets: OffsetRange, replay: str = ""
) -> str:
    """Return the key of the manifest of a range, the same under every configuration.

    ``replay`` is the number of an object in quarantine (``ReplayOf``).
    """
    folder = staged_prefix(prefix, topic_partition.topic)
    name = f"{offsets.start:020d}-{offsets.end:020d}{f'.replay-{replay}' if replay else ''}"
    return f"{folder}{topic_partition.partition}/{name}.json"


def parse_manifest_key(prefix: str, topic: str, key: str) -> tuple[int, OffsetRange, str] | None:
    """Return kafka partition, range and number of replay ("" for none) of a manifest's key.

    None for other objects.
    """
    folder = staged_prefix(prefix, topic)
    match = _KEY.fullmatch(key[len(folder) :]) if key.startswith(folder) else None
    if match is None:
        return None
    start, end = int(match["start"]), int(match["end"])
    if start > end:
        return None
    return int(match["partition"]), OffsetRange(start, end), match["replay"] or ""


def parse_staged_key(key: str) -> tuple[TopicPartition, OffsetRange, str]:
    """Return topic partition, range and number of replay of a manifest's key, under any prefix.

    Raises ``ValueError`` for other keys.
    """
    before, _, rest = key.rpartition(f"{DIRECTORY}/")
    directory = rest.partition("/")[0]
    topic = topic_of(directory)
    parsed = None if topic is None else parse_manifest_key(before, topic, key)
    if topic is None or parsed is None:
        raise ValueError(f"{key}: no key of a manifest")
    partition, offsets, replay = parsed
    return TopicPartition(topic, partition), offsets, replay


def table_files_data(files: TableFiles) -> dict[str, Any]:
    """Return one table's files for JSON; ``parse_table_files`` reads it back.

    ``dataclasses.asdict`` copies every number on the way, which took as long as writing a file.
    """
    listed = [{**_fields(file), "statistics": _fields(file.statistics)} for file in files.files]
    return {**_fields(files), "files": listed}


def _fields(value: Manifest | TableFiles | DataFile | Statistics | ReplayOf) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _NAMES[type(value)]}


_NAMES = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (Manifest, TableFiles, DataFile, Statistics, ReplayOf)
}
"""The names of fields by class: there may be thousands of values in a cycle."""


def parse_table_files(data: Mapping[str, Any]) -> TableFiles:
    """Read one table's files back from JSON.  Raises what dataclasses and dictionaries do."""
    files = tuple(_data_file(file) for file in data["files"])
    key = _whole_numbers(data.get("key", ()))
    table_files = TableFiles(**{**data, "files": files, "key": key})
    _check(table_files)
    return table_files


_TYPES: Mapping[str, type | UnionType] = {
    **dict.fromkeys(("group", "cluster", "topic", "fingerprint", "table", "uuid", "path"), str),
    **dict.fromkeys(("partition", "start", "end", "schema_id", "spec_id", "number"), int),
    **dict.fromkeys(("records", "size", "first_offset", "last_offset"), int),
    "topic_id": str | None,
    "greatest_timestamp": int | None,
}
"""Of the fields of manifests that are neither a choice nor made of others."""

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "operation": get_args(Operation),
    "format": ("parquet", "orc", "avro"),
}


def _check(value: Manifest | TableFiles | DataFile) -> None:
    """Raise ``ValueError`` unless every field is of its type: anybody may have put the object."""
    for name, content in _fields(value).items():
        if name in _CHOICES:
            right = content in _CHOICES[name]
        elif name == "partition" and isinstance(value, DataFile):
            right = True
        else:
            right = isinstance(content, _TYPES.get(name, object)) and content is not True
        least = 0 if name in ("records", "size") else -1 << 63
        # Of 64 bits: larger numbers are valid JSON, and fail later in columns or in the catalog,
        # where nobody would name the manifest.
        if not right or (isinstance(content, int) and not least <= content < 1 << 63):
            raise ValueError(f"{name} is {content!r}"[:80])


def _whole_numbers(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list | tuple) or not all(
        type(value) is int and 0 <= value < 1 << 63 for value in values
    ):
        raise ValueError(f"no list of whole numbers: {values!r}"[:80])
    return tuple(values)


def _replay_of(data: Mapping[str, Any] | None) -> ReplayOf | None:
    return None if data is None else ReplayOf(**{**data, "bad": _whole_numbers(data["bad"])})


def _data_file(data: Mapping[str, Any]) -> DataFile:
    statistics = data["statistics"]
    by_id = {
        name: {int(field_id): value for field_id, value in statistics[name].items()}
        for name in statistics
        if name != "split_offsets"
    }
    for name, values in by_id.items():
        _check_statistics(name, values)
    if not isinstance(data["partition"], list):
        raise ValueError(f"no list of partition values: {data['partition']!r}"[:80])
    data_file = DataFile(
        **{
            **data,
            "partition": tuple(data["partition"]),
            "statistics": Statistics(
                **by_id, split_offsets=_whole_numbers(statistics["split_offsets"])
            ),
        }
    )
    _check(data_file)
    return data_file


def _check_statistics(name: str, values: Mapping[int, Any]) -> None:
    if not all(0 <= field_id < 1 << 31 for field_id in values):
        raise ValueError(f"{name} of no field: {list(values)}"[:80])
    if name.endswith("_bounds"):
        for value in values.values():
            # Only tried: a bound that is no hex would fail in the middle of a commit.
            bytes.fromhex(value)
    else:
        _whole_numbers(list(values.values()))
