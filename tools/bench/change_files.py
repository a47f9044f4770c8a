"""Changes of rows as files: as the workers stage them, and as Parquet for Spark alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from secor.adapters.local import DirectoryStore
from secor.core.model import TopicPartition
from secor.core.small_objects import put_bytes
from secor.tables.catalog import FIELD_ID, Table
from secor.tables.rows.row_changes import DELETE, UPSERT
from secor.tables.rows.staged_rows import ROW, changes_root, staged_schema
from secor.tables.staging.manifest import DataFile, Manifest, TableFiles

GROUP, PREFIX, TOPIC = "bench", "bench", "changes"
PARTITIONS = 4
DELETED = 0.05
"""Part of the changes that delete."""
TIME = 1_767_225_600_000

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("carrier", pa.string()),
        pa.field("delay", pa.int32()),
        pa.field("price", pa.float64()),
        pa.field("note", pa.string()),
    ]
)

Ids = npt.NDArray[np.int64]


class ChangeFiles:
    """Writes the same changes twice: staged below ``PREFIX``, and as ``plain-<number>``."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self._folder = folder
        self._rng = np.random.default_rng(seed)
        self._store = DirectoryStore(folder)
        self._end = 0

    def plain(self, number: int) -> Path:
        """Return the directory of changes for Spark alone."""
        return self._folder / f"plain-{number}"

    def write(self, table: Table, ids: Ids, number: int) -> dict[TopicPartition, int]:
        """Write one change of each of ``ids``; return how far the ledger has come."""
        start, self._end = self._end, self._end + len(ids)
        rows = self._rows(ids)
        deletes = self._rng.random(len(ids)) < DELETED
        operations = pa.array(np.where(deletes, DELETE, UPSERT).astype(np.int8))
        self.plain(number).mkdir()
        for partition in range(PARTITIONS):
            chosen = pa.array(np.flatnonzero(ids % PARTITIONS == partition))
            own, own_operations = rows.take(chosen), operations.take(chosen)
            plain = own.append_column("operation", own_operations)
            plain = plain.append_column("at", chosen)
            pq.write_table(plain, self.plain(number) / f"{partition}.parquet")
            staged = self._staged(table, own, own_operations, partition)
            put_bytes(*self._manifest(table, staged, partition, start))
        return {TopicPartition(TOPIC, number): self._end for number in range(PARTITIONS)}

    def _rows(self, ids: Ids) -> pa.Table:
        count = len(ids)
        texts = self._rng.integers(0, 1 << 62, count).tolist()
        columns = [
            pa.array(ids),
            pa.array([f"c{number % 20}" for number in ids.tolist()]),
            pa.array(self._rng.integers(0, 600, count, np.int32)),
            pa.array(self._rng.random(count)),
            pa.array([f"{text:019d} {text % 1000:019d}" for text in texts]),
        ]
        return pa.Table.from_arrays(columns, names=COLUMNS.names)

    def _staged(
        self, table: Table, rows: pa.Table, operations: pa.Array, partition: int
    ) -> DataFile:
        schema = staged_schema(table.schema)
        kinds = schema.field(ROW).type
        arrays = [rows.column(it.name).combine_chunks().cast(it.type) for it in kinds]
        count = rows.num_rows
        columns = [
            operations,
            pa.repeat(TOPIC, count),
            pa.repeat(pa.scalar(partition, pa.int32()), count),
            pa.array(np.arange(self._end - count, self._end)),
            pa.repeat(TIME, count),
            pa.StructArray.from_arrays(arrays, fields=list(kinds)),
        ]
        key = f"{changes_root(PREFIX)}/{partition}-{self._end}.parquet"
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), path)
        size = path.stat().st_size
        return DataFile(key, "parquet", count, size, self._end - count, self._end - 1)

    def _manifest(
        self, table: Table, file: DataFile, partition: int, start: int
    ) -> tuple[DirectoryStore, str, bytes]:
        key_ids = tuple(int(table.schema.field(name).metadata[FIELD_ID]) for name in table.key)
        files = TableFiles(
            table=table.identifier,
            uuid=table.uuid,
            schema_id=table.schema_id,
            spec_id=table.spec_id,
            operation="changes",
            files=(file,),
            key=key_ids,
        )
        manifest = Manifest(
            group=GROUP,
            cluster="cluster",
            topic=TOPIC,
            topic_id="topic-id",
            partition=partition,
            start=start,
            end=self._end,
            fingerprint="bench",
            greatest_timestamp=TIME,
            tables=(files,),
        )
        return self._store, manifest.key(PREFIX), manifest.dump()
