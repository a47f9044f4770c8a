"""Files of positional deletes, as other engines write them."""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from secor.adapters.iceberg.commits import IcebergCatalog
from secor.adapters.iceberg.data_file_rows import PATH_ID, POSITION_ID
from tests.found_rows import TABLE


def delete_rows(
    catalog: IcebergCatalog,
    file: Path,
    path: str,
    positions: list[int],
    file_format: str,
    records: int | None = None,
) -> None:
    """Commit a file with positional deletes, of which ``records`` are recorded."""
    file.write_bytes(DELETES[file_format](path, positions))
    library = catalog.library.load_table(TABLE)
    head = library.current_snapshot()
    assert head is not None
    identifier = library.metadata.new_snapshot_id()
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=f"file://{file}",
        file_format=FileFormat(file_format),
        partition=Record(),
        record_count=len(positions) if records is None else records,
        file_size_in_bytes=file.stat().st_size,
    )
    folder = file.parent / f"metadata-{uuid.uuid4().hex}"
    folder.mkdir()
    writer = write_manifest(
        2,
        library.spec(),
        library.schema(),
        library.io.new_output(f"file://{folder}/deletes.avro"),
        identifier,
        "null",
    )
    with writer:
        writer.add_entry(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=identifier, data_file=entry
            )
        )
    manifest = writer.to_manifest_file()
    manifest = ManifestFile.from_args(
        **{
            name: getattr(manifest, name)
            for name in (
                *("manifest_path", "manifest_length", "partition_spec_id", "sequence_number"),
                *("min_sequence_number", "added_snapshot_id", "added_files_count"),
                *("existing_files_count", "deleted_files_count", "added_rows_count"),
                *("existing_rows_count", "deleted_rows_count", "partitions", "key_metadata"),
            )
        },
        content=ManifestContent.DELETES,
    )
    listing = f"file://{folder}/list.avro"
    sequence = library.metadata.next_sequence_number()
    with write_manifest_list(
        2, library.io.new_output(listing), identifier, head.snapshot_id, sequence, "null"
    ) as lists:
        lists.add_manifests([*head.manifests(library.io), manifest])
    snapshot = Snapshot(
        snapshot_id=identifier,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence,
        manifest_list=listing,
        summary=Summary(operation=Operation.DELETE),
        schema_id=0,
    )
    moved = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=identifier)
    catalog.library.commit_table(library, (), (AddSnapshotUpdate(snapshot=snapshot), moved))


def _avro_deletes(path: str, positions: list[int]) -> bytes:
    file = io.BytesIO()
    fields = [
        {"name": "file_path", "type": "string", "field-id": PATH_ID},
        {"name": "pos", "type": "long", "field-id": POSITION_ID},
    ]
    schema = {"type": "record", "name": "deletes", "fields": fields}
    fastavro.writer(file, schema, [{"file_path": path, "pos": at} for at in positions])
    return file.getvalue()


def _arrow_deletes(path: str, positions: list[int], key: bytes) -> pa.Table:
    fields = [
        pa.field("file_path", pa.string(), False, {key: str(PATH_ID)}),
        pa.field("pos", pa.int64(), False, {key: str(POSITION_ID)}),
    ]
    return pa.table([[path] * len(positions), positions], schema=pa.schema(fields))


def _parquet_deletes(path: str, positions: list[int]) -> bytes:
    file = io.BytesIO()
    pq.write_table(_arrow_deletes(path, positions, b"PARQUET:field_id"), file)
    return file.getvalue()


def _orc_deletes(path: str, positions: list[int]) -> bytes:
    file = io.BytesIO()
    orc.write_table(_arrow_deletes(path, positions, b"iceberg.id"), file)
    return file.getvalue()


DELETES: dict[str, Any] = {
    "avro": _avro_deletes,
    "parquet": _parquet_deletes,
    "orc": _orc_deletes,
}
