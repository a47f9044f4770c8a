"""Partition values, statistics and options of files, by the Iceberg library."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import to_json
from pyiceberg.io.pyarrow import (
    _get_parquet_writer_kwargs,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IcebergType, PrimitiveType, UUIDType

from secor.adapters.iceberg.catalog import library_table_of
from secor.adapters.iceberg.failures import translated
from secor.adapters.iceberg.parquet_statistics import parquet_statistics
from secor.adapters.iceberg.partition_limits import partition_limits
from secor.tables.catalog import FIELD_ID, Table
from secor.tables.library import Codes, ParquetStatistics, Partitioning, PartitionValues

# What Python's library cannot set it warns of for every file.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)


class IcebergLibrary:
    """See ``tables.library.TableLibrary``."""

    def partitioning(self, table: Table, schema_id: int, spec_id: int) -> Partitioning:
        """Return the partition spec's transforms."""
        metadata = library_table_of(table).metadata
        spec = metadata.specs()[spec_id]
        schema = library_table_of(table).schemas()[schema_id]
        with translated(f"table {table.identifier}: partition spec {spec_id}"):
            spec.check_compatible(schema)
            return _Partitioning(spec, schema, table.schemas[schema_id])

    def parquet_statistics(self, table: Table, schema_id: int) -> ParquetStatistics:
        """Return the statistics that the table's properties ask for."""
        schema = library_table_of(table).schemas()[schema_id]
        with translated(f"table {table.identifier}: its metrics"):
            plan = compute_statistics_plan(schema, dict(table.properties))
            ids = parquet_path_to_id_mapping(schema)
        return parquet_statistics(plan, ids)

    def parquet_options(self, properties: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the options of pyarrow's writer."""
        with translated("table properties"):
            return dict(_get_parquet_writer_kwargs(dict(properties)))

    def data_location(self, table: Table) -> str:
        """Return where data files go."""
        default = f"{table.location}/data"
        location = table.properties.get(TableProperties.WRITE_DATA_PATH, default).rstrip("/")
        return location if "://" in location else f"file://{location}"


class _Partitioning:
    """One spec over one schema."""

    def __init__(self, spec: PartitionSpec, schema: Schema, columns: pa.Schema) -> None:
        self._spec = spec
        self._schema = schema
        self._types = [field.field_type for field in spec.partition_type(schema).fields]
        self._transforms: list[tuple[list[int], Callable[[pa.Array], pa.Array]]] = []
        for field in spec.fields:
            if isinstance(field.transform, VoidTransform):
                self._transforms.append(([], lambda rows: pa.nulls(len(rows))))
                continue
            source = schema.find_type(field.source_id)
            transform = field.transform.pyarrow_transform(source)
            path = _path_of(columns, field.source_id)
            assert path is not None, "the spec was compared with the schema"
            self._transforms.append((path, transform))
        self._limits = partition_limits(spec, schema)
        self._known: dict[str, PartitionValues] = {}

    def refused(self, rows: pa.StructArray) -> Mapping[int, str]:
        """See ``Partitioning``."""
        refused: dict[int, str] = {}
        for limits in self._limits:
            refused.update(limits.faults(rows))
        return refused

    def place(self, rows: pa.StructArray) -> tuple[Codes, Sequence[PartitionValues]]:
        """See ``Partitioning``."""
        codes = np.zeros(len(rows), dtype=np.int64)
        partitions: list[tuple[pa.Scalar | None, ...]] = [()]
        for path, transform in self._transforms:
            transformed = transform(pc.struct_field(rows, path) if path else rows)
            if isinstance(transformed, pa.ExtensionArray):  # a UUID, which Arrow encodes as bytes
                transformed = transformed.storage
            encoded = transformed.dictionary_encode()
            values = [*encoded.dictionary, None]
            field_codes = encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
            # Renumber after each field, so that no number exceeds the number of rows.
            used, codes = np.unique(codes * len(values) + field_codes, return_inverse=True)
            pairs = (divmod(int(code), len(values)) for code in used)
            partitions = [(*partitions[before], values[own_code]) for before, own_code in pairs]
        return codes, [self._values(partition) for partition in partitions]

    def _values(self, partition: Sequence[pa.Scalar | None]) -> PartitionValues:
        """Return values and path, from a cache: most chunks have rows of the same partitions."""
        typed = [_plain(value, kind) for value, kind in zip(partition, self._types, strict=True)]
        name = repr(typed)  # 0.0 and -0.0 are equal, and partitions of their own
        known = self._known.get(name)
        if known is None:
            # All at once: to keep the order of use would cost more than to describe some partitions
            # again.
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            known = self._known[name] = self._describe(typed)
        return known

    def _describe(self, typed: Sequence[Any]) -> PartitionValues:
        pairs = zip(typed, self._types, strict=True)
        return PartitionValues(
            tuple(None if value is None else _json(kind, value) for value, kind in pairs),
            shorten_path(self._spec.partition_to_path(Record(*typed), self._schema)),
        )


MOST_KNOWN = 10_000
"""Partitions whose paths are kept, some 500 bytes each."""

LONGEST_DIRECTORY, LONGEST_PATH = 255, 600
"""Characters: of a file system's names, and of a key with room for the rest of 1,024."""


def shorten_path(path: str) -> str:
    """Return a partition's path; a directory that is too long is cut, with a hash of it all.

    Readers take the values from the metadata, never from a path.
    """
    directories = path.split("/")
    if len(path) <= LONGEST_PATH and max(map(len, directories)) <= LONGEST_DIRECTORY:
        return path
    longest = max(LONGEST_PATH // len(directories), 30)
    longest = min(longest, LONGEST_DIRECTORY)
    return "/".join(
        directory if len(directory) <= longest else _cut(directory, longest)
        for directory in directories
    )


def _cut(directory: str, longest: int) -> str:
    digest = hashlib.sha256(directory.encode()).hexdigest()[:16]
    return f"{directory[: longest - 17].rstrip('%')}-{digest}"


def _json(kind: IcebergType, value: Any) -> Any:
    assert isinstance(kind, PrimitiveType), "partitions are of scalars"
    return to_json(kind, value)


def _plain(value: pa.Scalar | None, kind: IcebergType) -> Any:
    """Return a value as the library keeps it: dates and times are numbers."""
    if value is None:
        return None
    arrow = value.type
    if isinstance(kind, DateType):
        return value.cast(pa.int32()).as_py()
    if pa.types.is_temporal(arrow):
        return value.cast(pa.int64()).as_py()
    plain_value = value.as_py()
    return (
        UUID(bytes=plain_value)
        if isinstance(kind, UUIDType) and isinstance(plain_value, bytes)
        else plain_value
    )


def _path_of(columns: pa.Schema | pa.StructType, field_id: int) -> list[int] | None:
    """Return the path of a column as positions in the structs around it."""
    for index, field in enumerate(columns):
        if int(field.metadata[FIELD_ID]) == field_id:
            return [index]
        if pa.types.is_struct(field.type):
            inner = _path_of(field.type, field_id)
            if inner is not None:
                return [index, *inner]
    return None
