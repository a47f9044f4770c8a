"""The messages whose rows are in a staged file, read from the log again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from secor.archive.quarantine.listing import SET_ASIDE_DIRECTORY
from secor.batch.plan import Plans, TopicPlan
from secor.batch.sealed import BatchFile
from secor.batch.workspace import Workspace
from secor.core.errors import ConfigurationError, NotFound
from secor.core.model import QUARANTINE, Chunk, LogRange, Offsets, TopicPartition, next_offset
from secor.core.naming import ObjectName
from secor.core.object_info import ObjectInfo
from secor.core.ports import ObjectStore
from secor.core.text import how_many
from secor.parsing.parts import quarantine_part
from secor.tables.staging.distribution import partition_of, stream_of_table
from secor.tables.staging.manifest import DataFile, Manifest, TableFiles
from secor.tables.staging.staged_manifests import Staged


class MessageLog(Protocol):
    """The topics that the messages came from; see ``KafkaReader``."""

    def cluster_id(self) -> str:
        """Return the cluster's id."""

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id; None when it does not exist."""

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        """Return where the log begins and ends."""

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        """Give the messages of ``[start, end)``."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file for a table, with the manifest that names it."""

    item: Staged
    manifest: Manifest
    of_table: TableFiles
    file: DataFile

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition of its messages."""
        return self.manifest.topic_partition

    @property
    def digest(self) -> str:
        """A hash of its path, in 16 hex digits."""
        return hashlib.sha256(self.file.path.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        rows = how_many(self.file.records, "row")
        first, last = self.file.first_offset, self.file.last_offset
        return f"{self.file.path}, {rows} of {self.topic_partition}, offsets {first} to {last}"


class FileMessages:
    """Brings the messages of staged files into local files for quarantine; for one thread."""

    def __init__(
        self, objects: ObjectStore, log: MessageLog, plans: Plans, workspace: Workspace
    ) -> None:
        """``objects`` takes the URIs of data files."""
        self._objects = objects
        self._log = log
        self._plans = plans
        self._workspace = workspace

    @contextmanager
    def quarantined(self, file: StagedFile, reason: str) -> Iterator[BatchFile | None]:
        """Give the object for quarantine as a local file; None where no message is left."""
        plan = self._plans(file.manifest.topic, file.manifest.fingerprint)
        stream = plan.stream(QUARANTINE)
        name = ObjectName(
            root=stream.root,
            output_partition=f"{SET_ASIDE_DIRECTORY}{file.digest}",
            generation=plan.generation,
            partition=file.topic_partition.partition,
            start_offset=file.manifest.start,
            extension=stream.log_format.extension,
        )
        # Which table it is, for the other tables have these messages.
        text = f"commit: table {file.of_table.table}: {reason}"
        local = self._workspace.create()
        try:
            writer = stream.log_format.create(local, name.key.encode())
            offsets: list[int] = []
            timestamps: list[int] = []
            for records in self._messages(file, plan):
                offsets += records.column("offset").to_pylist()
                timestamps += records.column("timestamp").drop_null().to_pylist()
                writer.append(
                    quarantine_part(records, dict.fromkeys(range(records.num_rows), text)).records
                )
            writer.close()
            local.finish()
            info = ObjectInfo(
                topic_partition=file.topic_partition,
                batch=file.manifest.range,
                first_offset=offsets[0] if offsets else file.manifest.start,
                records=len(offsets),
                generation=plan.generation,
                fingerprint=file.manifest.fingerprint,
                topic_id=file.manifest.topic_id,
                least_timestamp=min(timestamps, default=None),
                greatest_timestamp=max(timestamps, default=None),
            )
            yield BatchFile(name, info, local) if offsets else None
        finally:
            local.delete()

    def _messages(self, file: StagedFile, plan: TopicPlan) -> Iterator[pa.RecordBatch]:
        """Give the messages whose rows are in the file, as far as the log has them."""
        manifest, key = file.manifest, file.topic_partition
        present = self._log.topic_id(manifest.topic)
        is_other_topic = None not in (present, manifest.topic_id) and present != manifest.topic_id
        # Offsets of another log are other messages.
        if is_other_topic or self._log.cluster_id() != manifest.cluster:
            return
        log = self._log.log_range(key)
        # Retention may have taken some, or all, of the messages since the file was staged.
        start = max(file.file.first_offset, log.start)
        end = min(next_offset(file.file.last_offset), log.end)
        known = self._offsets(file, plan)
        for chunk in self._log.read(key, start, end) if start < end else ():
            wanted = known if known is not None else _offsets_by_plan(file, plan, chunk)
            rows = np.flatnonzero(np.isin(chunk.records.column("offset").to_numpy(), wanted))
            if len(rows):
                yield chunk.records.take(pa.array(rows))

    def _offsets(self, file: StagedFile, plan: TopicPlan) -> Offsets | None:
        """Return the offsets of the file's rows where they are known without its plan.

        Raises ``ConfigurationError`` where only its plan knows them, and is not there any more.
        """
        described = file.file
        first, last = described.first_offset, described.last_offset
        # As many rows as offsets: each message between them is in the file.
        if next_offset(last) - first == described.records:
            return np.arange(first, next_offset(last), dtype=np.int64)
        # The file itself comes before the plan: it has what was staged, the plan only what would
        # be.
        in_rows = self._offsets_in_rows(file)
        if in_rows is not None or plan.fingerprint == file.manifest.fingerprint:
            return in_rows
        raise ConfigurationError(
            f"{file}: which of these messages are in it is not known: its rows have no column"
            " _offset, and the configuration is not the one under which it was staged; repeat the"
            " command with that one"
        )

    def _offsets_in_rows(self, file: StagedFile) -> Offsets | None:
        """Return the offsets that the file itself has, None where it has none."""
        described = file.file
        column = "offset" if file.of_table.operation == "changes" else "_offset"
        if described.format != "parquet":
            return None
        try:
            with self._objects.open(described.path) as opened:
                parquet = pq.ParquetFile(opened)
                if column not in parquet.schema_arrow.names:
                    return None
                offsets = parquet.read([column]).column(column).to_numpy()
        except (NotFound, pa.ArrowInvalid):
            return None
        inside = (offsets >= described.first_offset) & (offsets <= described.last_offset)
        unique = np.unique(offsets)
        if len(unique) != described.records or not inside.all():
            return None  # a column of this name that is the messages' own
        return unique.astype(np.int64)


def _offsets_by_plan(file: StagedFile, plan: TopicPlan, chunk: Chunk) -> Offsets:
    """Return the offsets of messages that the plan puts into the file."""
    stream = stream_of_table(file.of_table.table)
    offsets = [
        part.records.column("offset").to_numpy()
        for part in plan.parser.split(chunk)
        if part.stream == stream and partition_of(part.output_partition)[1] == file.file.partition
    ]
    return np.concatenate([np.array([], np.int64), *offsets])
