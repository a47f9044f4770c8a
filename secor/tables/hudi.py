"""The port to an engine that writes Hudi tables, and the options for writing them.

Hudi has no compare-and-set on a vector, but a timeline.  A writer that begins puts an instant
there and rolls back the unfinished instants of others; nobody can complete a write without its
instant.  So an engine first begins its instant, *then* checks that the newest commit of the group
is still the one at which the vector was read, and only then writes.  When two write at the same
time, at most the one that began last completes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, Protocol

from secor.core.errors import ConfigurationError
from secor.tables.catalog import PartitionField, Table
from secor.tables.commit.merging import MergeResult
from secor.tables.rows.row_changes import Mode
from secor.tables.staging.manifest import TableFiles

INSERT_KEY = ("_topic", "_kafka_partition", "_offset")
"""The record key of tables whose rows are inserted: a message's place in Kafka."""

DELETED = "_hoodie_is_deleted"
"""A column that Hudi knows: its rows are deletions."""

COMMIT_METADATA = "secor."
"""How the names of all that we add to a commit begin."""

HUDI_STEPS: Mapping[str, str] = MappingProxyType(
    {
        "START_COMMIT": "START_COMMIT, END_COMMIT",
        "DATA_WRITTEN": "WRITE_STATUS",
        "DATA_COMPLETE": "WRITE_STATUS",
        "COMMIT_TO_TABLE": "ACK_COMMIT",
        "COMMIT_COMPLETE": "ACK_COMMIT",
    }
)
"""The kinds of events of a cycle, by the names of the Hudi sink for Kafka Connect.

There a coordinator begins a commit, and ends it when participants shall hand over what they
wrote.  Here rows are staged all the time, so one event is both.
"""

MOVED = "the table has moved since its offsets were read"
"""How errors of a guard begin."""

Guard = Callable[[str, str, str | None, frozenset[str]], None]
"""Takes the base path of a table, a group, the id of the commit that must be the group's newest
there, and ids of commits that were taken back.  Raises ``Refused`` with ``MOVED``.
"""

TAKEN_BACK = "secor.taken-back"
"""A property of a table: ids of commits, as JSON, that are on its timeline and do not count."""

REQUESTED = "requested"
"""In the summary of a snapshot: Hudi's time of the commit, by which readers name it."""

BACKUPS = ".secor-rolled-back"
"""In a table's ``.hoodie``: copies of the instants that writers of ours have rolled back.

The copy of a completed one proves that no person has rolled it back.
"""

TableType = Literal["copy-on-write", "merge-on-read"]

TYPES: Mapping[str, str] = MappingProxyType(
    {"copy-on-write": "COPY_ON_WRITE", "merge-on-read": "MERGE_ON_READ"}
)

DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.write.set.null.for.missing.columns": "true",
    }
)
"""Hudi's metadata table leaks connections on s3a, until writes fail."""

BUCKETS = "hoodie.bucket.index.num.buckets"
"""Number of files over which keys spread the rows of a partition; it can never change."""

NEW_BUCKETS = 8
"""``BUCKETS`` of a new table; Hudi's own default of 256 lets small commits write 256 files."""

_DATES = {"year": "yyyy", "month": "yyyy-MM", "day": "yyyy-MM-dd", "hour": "yyyy-MM-dd-HH"}
_TRUNCATE = re.compile(r"truncate\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class HudiSettings:
    """Settings of writing a route's rows; ``properties`` are Hudi's own."""

    mode: Mode = "upsert"
    type: TableType = "copy-on-write"
    precombine: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HudiWrite:
    """One commit to a table: ``files`` are staged changes, all of the same identifier columns.

    ``metadata`` belongs into the commit.  ``expected`` is the id of the group's newest commit
    on the table's timeline, None for none; ``taken_back`` are those that do not count there.
    ``backs_up``: instants that are rolled back as it begins are copied to ``BACKUPS``.
    """

    table: Table
    group: str
    files: tuple[TableFiles, ...]
    metadata: Mapping[str, str]
    expected: str | None
    taken_back: frozenset[str] = frozenset()
    backs_up: bool = True

    @property
    def options(self) -> Mapping[str, str]:
        """Options of Hudi's writer besides ``write_options``."""
        if not self.backs_up:
            return self.metadata
        backup = "hoodie.rollback.instant.backup"
        return {**self.metadata, f"{backup}.enabled": "true", f"{backup}.dir": BACKUPS}


class HudiEngine(Protocol):
    """Writes several tables side by side."""

    def write(self, write: HudiWrite) -> MergeResult:
        """Begin an instant, look at the timeline again, write, complete.

        Of each key the last change counts, as ``tables.merging.MergeEngine`` says.

        Raises ``Refused`` where the table has moved: nothing was written.  ``Unavailable``
        means anything else: the write may have been completed.
        """


def write_options(
    settings: HudiSettings, identifier: str, key: Sequence[str], partitions: Sequence[str]
) -> dict[str, str]:
    """Return the options of Hudi's writer; ``partitions`` are columns of the rows."""
    namespace, _, name = identifier.rpartition(".")
    upserts = settings.mode != "insert"
    options = {
        **DEFAULTS,
        "hoodie.index.type": "BUCKET" if upserts else "SIMPLE",
        **({} if settings.type == "copy-on-write" else {"hoodie.compact.inline": "true"}),
        # Between the defaults and what follows: users overrule the former, never what exactness
        # rests on.
        **settings.properties,
        "hoodie.table.name": name,
        "hoodie.database.name": namespace,
        "hoodie.datasource.write.commitmeta.key.prefix": COMMIT_METADATA,
        "hoodie.datasource.write.operation": "upsert" if upserts else "insert",
        "hoodie.datasource.write.recordkey.field": ",".join(key),
        "hoodie.datasource.write.partitionpath.field": ",".join(partitions),
        "hoodie.datasource.write.table.type": TYPES[settings.type],
    }
    if not upserts:
        # Rows are identified by their place in Kafka: a second write of the same row is dropped.
        options.setdefault("hoodie.datasource.insert.dup.policy", "drop")
    if settings.precombine is None:
        options["hoodie.record.merge.mode"] = "COMMIT_TIME_ORDERING"
    else:
        options["hoodie.record.merge.mode"] = "EVENT_TIME_ORDERING"
        options["hoodie.datasource.write.precombine.field"] = settings.precombine
    return options


def uses_buckets(properties: Mapping[str, str]) -> bool:
    """Return whether rows that are changed are found by a fixed number of buckets."""
    index = properties.get("hoodie.index.type", "BUCKET").upper()
    engine = properties.get("hoodie.index.bucket.engine", "SIMPLE").upper()
    return (index, engine) == ("BUCKET", "SIMPLE")


def settings_of_table(table: Table, settings: HudiSettings) -> HudiSettings:
    """Return ``settings`` with the number of buckets that ``table`` was made with.

    Hudi notes it nowhere.  Raises ``ConfigurationError`` where ``properties`` say another: no row
    that is there would be found, so each one that is changed would be there twice.
    """
    made_with = table.properties.get(BUCKETS)
    if settings.mode == "insert" or made_with is None or not uses_buckets(settings.properties):
        return settings
    configured = settings.properties.get(BUCKETS, made_with)
    if configured != made_with:
        raise ConfigurationError(
            f"table {table.identifier}: properties say {BUCKETS} = {configured}, and it was made"
            f" with {made_with}: rows would be there twice. Set it back, or remove it; more"
            " buckets need a new table"
        )
    return replace(settings, properties={**settings.properties, BUCKETS: made_with})


def partition_column(field: PartitionField) -> tuple[str, str]:
    """Return the column of a partition's values, and the SQL that makes it of ``{}``, the source.

    Raises ``ConfigurationError`` for a transform that Hudi's paths have no text for.
    """
    if field.transform == "identity":
        return field.name, "{}"
    if field.transform in _DATES:
        return field.name, f"date_format({{}}, '{_DATES[field.transform]}')"
    truncated = _TRUNCATE.fullmatch(field.transform)
    if truncated is not None:
        return field.name, f"substring({{}}, 1, {truncated[1]})"
    raise ConfigurationError(
        f"partition {field.name}: {field.transform} makes no path of a Hudi table; use the column"
        " itself, year, month, day, hour, or truncate of a text"
    )
