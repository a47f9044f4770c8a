"""Partition terms as people write them, ``day(ts)`` or ``bucket(16, id)``, made into a spec."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import Transform, parse_transform

from secor.adapters.iceberg.partition_limits import takes_partitions
from secor.adapters.iceberg.types import iceberg_schema
from secor.core.errors import ConfigurationError
from secor.core.partition_terms import parse_term


def partition_spec(schema: Schema, terms: Sequence[str], where: str) -> PartitionSpec:
    """Return the spec of a new table.  Raises ``ConfigurationError`` naming ``where``."""
    fields = [
        _field(schema, term, PARTITION_FIELD_ID_START + index, where)
        for index, term in enumerate(terms)
    ]
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{where}: two partition fields would be called {name}")
    return PartitionSpec(*fields)


def check_declared(table: str, schema: pa.Schema, terms: Sequence[str]) -> None:
    """Raise ``ConfigurationError`` for terms that are not for the columns declared."""
    where = f"table {table}"
    partition_spec(iceberg_schema(schema, where), terms, where)


def _field(schema: Schema, term: str, field_id: int, where: str) -> PartitionField:
    name, column = parse_term(term)
    transform: Transform[object, object] = parse_transform(name)
    try:
        source = schema.find_field(column)
    except ValueError as error:
        raise ConfigurationError(
            f"{where}: partition field {term!r}: the table has no column {column}"
        ) from error
    if not source.field_type.is_primitive or not transform.can_transform(source.field_type):
        raise ConfigurationError(
            f"{where}: partition field {term!r}: {column} is {source.field_type}, which"
            f" {name} does not take"
        )
    if not takes_partitions(source.field_type, transform):
        raise ConfigurationError(
            f"{where}: partition field {term!r}: {column} is {source.field_type}; some"
            " readers would not find its rows by their values: use another column, a bucket of this"
            " one, or make a number a decimal"
        )
    return PartitionField(source.field_id, field_id, transform, _name(name, column))


def _name(transform: str, column: str) -> str:
    """Name a field as Spark does."""
    kind = transform.partition("[")[0]
    suffixes = {"identity": "", "truncate": "_trunc", "void": "_null"}
    return column.replace(".", "_") + suffixes.get(kind, f"_{kind}")
