"""A snapshot that appends data files which are already written, without opening them.

The library's own append uses a transaction: it copies the table's metadata again and again,
writes every file under the default partition spec, and repeats commits by itself.  This module
writes the same manifests and the same manifest list, and leaves the commit to the caller.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from typing import Any, cast

from pydantic import PrivateAttr
from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.conversions import from_json
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec, _to_partition_representation
from pyiceberg.schema import Schema
from pyiceberg.table import Table as LibraryTable
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update.snapshot import _ManifestMergeManager
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, PrimitiveType, StructType
from pyiceberg.utils.properties import property_as_bool, property_as_int

from secor.core.errors import ConfigurationError
from secor.tables.staging.manifest import DataFile as StagedFile
from secor.tables.staging.manifest import Statistics, TableFiles

_CODECS = {"uncompressed": "null", "none": "null"}
"""Names of Java's library for which the library for Python has another one."""


class ManifestSpec(PartitionSpec):
    """A partition spec that can write manifests after its source columns were changed.

    Partition fields are optional, as the specification says: the library makes them required
    where the column is, so it cannot write the null of an older file.  The type of a field whose
    column was dropped is that of the newest schema that had the column.
    """

    _schemas: tuple[Schema, ...] = PrivateAttr(())

    @classmethod
    def of(cls, spec: PartitionSpec, metadata: TableMetadata) -> ManifestSpec:
        """Return the spec of a table for its manifests."""
        manifest_spec = cls(*spec.fields, spec_id=spec.spec_id)
        newest_first = sorted(metadata.schemas, key=lambda schema: -schema.schema_id)
        manifest_spec._schemas = tuple(newest_first)
        return manifest_spec

    def partition_type(self, schema: Schema) -> StructType:
        """Return the type of partition values; see ``PartitionSpec``."""
        for older in (schema, *self._schemas):
            if all(field.source_id in older._lazy_id_to_field for field in self.fields):
                schema = older
                break
        fields = super().partition_type(schema).fields
        return StructType(
            *(
                NestedField(child.field_id, child.name, child.field_type, required=False)
                for child in fields
            )
        )


class AppendedSnapshot:
    """One try of one commit: the files that it writes have names of their own."""

    def __init__(self, table: LibraryTable, base: int | None) -> None:
        """``base`` is the snapshot below the new one."""
        self._io = table.io
        self._metadata = table.metadata
        self._locations = table.location_provider()
        self._base = self._metadata.snapshot_by_id(base) if base is not None else None
        self._specs = {
            spec.spec_id: ManifestSpec.of(spec, self._metadata)
            for spec in self._metadata.partition_specs
        }
        self._schema = self._metadata.schema()
        # Random for each try: a repeated one must never write over manifests that the first may
        # have got into the table.
        self._uuid = uuid.uuid4()
        self._numbers = itertools.count()
        self.snapshot_id = self._metadata.new_snapshot_id()
        self.written: list[str] = []
        """Locations of the files that it has opened for writing."""

    def write(self, files: Sequence[TableFiles], properties: dict[str, str]) -> Snapshot:
        """Write manifests and manifest list; return the snapshot, with ``properties`` in its
        summary.

        Raises ``ConfigurationError`` for a partition spec that the table does not have, and
        what the library raises.
        """
        by_spec: dict[int, list[DataFile]] = {}
        for of_table in files:
            spec = self.spec_of(of_table)
            by_spec.setdefault(spec.spec_id, []).extend(
                self.data_file(spec, file) for file in of_table.files
            )
        added = [self.write_added(spec, of_spec) for spec, of_spec in sorted(by_spec.items())]
        manifests = self._merge([*added, *self._existing()])
        summary = self._summary(list(itertools.chain(*by_spec.values())), properties)
        return self._snapshot(manifests, summary)

    def _snapshot(self, manifests: Sequence[ManifestFile], summary: Summary) -> Snapshot:
        """Write the manifest list."""
        sequence = self._metadata.next_sequence_number()
        location = self._new_location(f"snap-{self.snapshot_id}-0-{self._uuid}.avro")
        with write_manifest_list(
            format_version=self._metadata.format_version,
            output_file=self.new_output(location),
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=self._base.snapshot_id if self._base is not None else None,
            sequence_number=sequence,
            avro_compression=self._codec,
        ) as writer:
            writer.add_manifests(list(manifests))
        return Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=self._base.snapshot_id if self._base is not None else None,
            manifest_list=location,
            sequence_number=sequence,
            summary=summary,
            schema_id=self._metadata.current_schema_id,
        )

    @property
    def _codec(self) -> AvroCompressionCodec:
        default = TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        name = self._metadata.properties.get(TableProperties.WRITE_AVRO_COMPRESSION, default)
        return cast(AvroCompressionCodec, _CODECS.get(name.lower(), name.lower()))

    def spec_of(self, files: TableFiles) -> PartitionSpec:
        """Return the partition spec under which files were staged.

        Raises ``ConfigurationError`` where the table no longer has it.
        """
        if files.spec_id not in self._specs:
            raise ConfigurationError(
                f"table {files.table}: it no longer has the partition spec {files.spec_id}, under"
                " which files were staged"
            )
        return self._specs[files.spec_id]

    def data_file(self, spec: PartitionSpec, file: StagedFile) -> DataFile:
        """Build the library's data file from what the staged manifest says."""
        kinds = [field.field_type for field in spec.partition_type(self._schema).fields]
        values = [
            _partition_value(cast(PrimitiveType, kind), value)
            for kind, value in zip(kinds, file.partition, strict=True)
        ]
        data_file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.path,
            file_format=FileFormat(file.format),
            partition=Record(*values),
            record_count=file.records,
            file_size_in_bytes=file.size,
            **_statistics(file.statistics),
            key_metadata=None,
            equality_ids=None,
            sort_order_id=None,
        )
        data_file.spec_id = spec.spec_id
        return data_file

    def write_added(self, spec_id: int, files: Sequence[DataFile]) -> ManifestFile:
        """Write the manifest of new files of one spec."""
        with self.new_manifest_writer(self._specs[spec_id]) as writer:
            for data_file in files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self.snapshot_id,
                        # None means the snapshot's own, which the catalog gives: a number that was
                        # guessed here would be wrong after a lost race.
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=data_file,
                    )
                )
        return writer.to_manifest_file()

    def _existing(self) -> list[ManifestFile]:
        if self._base is None:
            return []
        return [
            manifest
            for manifest in self._base.manifests(self._io)
            # Manifests with nothing but deleted entries say nothing to a new snapshot.
            if manifest.has_added_files() or manifest.has_existing_files()
        ]

    def _merge(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Merge small manifests as the table's properties say, so that lists do not grow."""
        properties = self._metadata.properties
        if not property_as_bool(
            properties,
            TableProperties.MANIFEST_MERGE_ENABLED,
            TableProperties.MANIFEST_MERGE_ENABLED_DEFAULT,
        ):
            return manifests
        merging = _ManifestMergeManager[Any](
            target_size_bytes=cast(
                int,
                property_as_int(
                    properties,
                    TableProperties.MANIFEST_TARGET_SIZE_BYTES,
                    TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
                ),
            ),
            min_count_to_merge=cast(
                int,
                property_as_int(
                    properties,
                    TableProperties.MANIFEST_MIN_MERGE_COUNT,
                    TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT,
                ),
            ),
            merge_enabled=True,
            snapshot_producer=cast(Any, self),  # it calls the four public methods below
        )
        data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
        deletes = [
            manifest for manifest in manifests if manifest.content == ManifestContent.DELETES
        ]
        return [*merging.merge_manifests(data), *deletes]

    def spec(self, spec_id: int) -> PartitionSpec:
        """Return a partition spec of the table."""
        return self._specs[spec_id]

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        """Begin a manifest."""
        return write_manifest(
            format_version=self._metadata.format_version,
            spec=spec,
            schema=self._schema,
            output_file=self._new_manifest(),
            snapshot_id=self.snapshot_id,
            avro_compression=self._codec,
        )

    def _new_manifest(self) -> OutputFile:
        name = f"{self._uuid}-m{next(self._numbers)}.avro"
        return self.new_output(self._new_location(name))

    def new_output(self, location: str) -> OutputFile:
        """Begin a file of metadata."""
        return self._io.new_output(location)

    def fetch_manifest_entry(
        self, manifest: ManifestFile, discard_deleted: bool = True
    ) -> list[ManifestEntry]:
        """Read a manifest that is merged with others."""
        return manifest.fetch_manifest_entry(self._io, discard_deleted=discard_deleted)

    def _new_location(self, name: str) -> str:
        location = self._locations.new_metadata_location(name)
        # Noted before it is opened: a file that was begun is to be deleted, too.
        self.written.append(location)
        return location

    def _summary(self, files: Sequence[DataFile], properties: dict[str, str]) -> Summary:
        """Sum up what is added; numbers by partition are left out, whatever the table asks for.

        A total that somebody wrote as no number is left out, as Java's library does.
        """
        totals = SnapshotSummaryCollector()
        for data_file in files:
            totals.metrics.add_file(data_file)
        summary = Summary(operation=Operation.APPEND, **totals.build(), **properties)
        before = self._base.summary if self._base is not None else None
        if before is None:
            return update_snapshot_summaries(summary)
        numbers = {
            key: text
            for key, text in before.additional_properties.items()
            if text.lstrip("-").isdecimal()
        }
        return update_snapshot_summaries(summary, {"operation": str(before.operation), **numbers})


def _partition_value(kind: PrimitiveType, value: object) -> object:
    """Bring a value from Iceberg's single-value JSON form to the library's own."""
    return None if value is None else _to_partition_representation(kind, from_json(kind, value))


def _statistics(statistics: Statistics) -> dict[str, Any]:
    """Return the library's arguments; what was not recorded is None there."""

    def bounds(by_id: Any) -> dict[int, bytes] | None:
        return {field_id: bytes.fromhex(text) for field_id, text in by_id.items()} or None

    return {
        "column_sizes": dict(statistics.column_sizes) or None,
        "value_counts": dict(statistics.value_counts) or None,
        "null_value_counts": dict(statistics.null_value_counts) or None,
        "nan_value_counts": dict(statistics.nan_value_counts) or None,
        "lower_bounds": bounds(statistics.lower_bounds),
        "upper_bounds": bounds(statistics.upper_bounds),
        "split_offsets": list(statistics.split_offsets) or None,
    }
