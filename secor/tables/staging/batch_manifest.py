"""The manifest of a batch, built from what the writers of its files report when it is sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from secor.batch.plan import WrittenBatch, WrittenFile
from secor.core.model import OffsetRange, TopicPartition
from secor.tables.staging.distribution import partition_of, table_of_stream
from secor.tables.staging.files.data_file_writer import DataFileWriter
from secor.tables.staging.manifest import DataFile, Manifest, TableFiles, manifest_key
from secor.tables.staging.table_version import TableVersion


@dataclass(frozen=True, slots=True)
class BatchManifest:
    """A ``batch.plan.LastFile``; ``cluster`` is Kafka's id of the cluster."""

    group: str
    cluster: str
    prefix: str
    versions: Mapping[str, TableVersion | None]

    def key(self, topic_partition: TopicPartition, offsets: OffsetRange) -> str:
        """Return the manifest's key."""
        return manifest_key(self.prefix, topic_partition, offsets)

    def body(self, batch: WrittenBatch) -> bytes:
        """Return the manifest's bytes."""
        by_table: dict[str, list[WrittenFile]] = {}
        for file in batch.files:
            table = table_of_stream(file.stream)
            if table is not None:
                by_table.setdefault(table, []).append(file)
        manifest = Manifest(
            group=self.group,
            cluster=self.cluster,
            topic=batch.topic_partition.topic,
            topic_id=batch.topic_id,
            partition=batch.topic_partition.partition,
            start=batch.range.start,
            end=batch.range.end,
            fingerprint=batch.fingerprint,
            greatest_timestamp=batch.greatest_timestamp,
            tables=tuple(self._table(name, by_table[name]) for name in sorted(by_table)),
        )
        return manifest.dump()

    def _table(self, name: str, files: Sequence[WrittenFile]) -> TableFiles:
        version = self.versions[name]
        assert version is not None, "rows of a table that is not there are in quarantine"
        # Sorted: the bytes of a manifest depend on range and settings, not on the order of files.
        data_files = sorted((_data_file(file) for file in files), key=lambda file: file.path)
        return TableFiles(
            table=name,
            uuid=version.table.uuid,
            schema_id=version.schema_id,
            spec_id=version.spec_id,
            operation="append" if version.changes is None else "changes",
            files=tuple(data_files),
            key=() if version.changes is None else version.changes.key_ids,
        )


def _data_file(file: WrittenFile) -> DataFile:
    writer = file.writer
    assert isinstance(writer, DataFileWriter), "streams of tables have formats of data files"
    report = writer.report()
    return DataFile(
        path=file.key,
        format=report.format,
        records=report.records,
        size=file.size,
        first_offset=report.first_offset,
        last_offset=report.last_offset,
        partition=partition_of(file.output_partition)[1],
        statistics=report.statistics,
    )
