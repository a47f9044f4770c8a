"""Messages' fields as rows of one version of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import any_leaf, is_list, struct_of
from secor.arrow.time_limits import CALENDAR, TimestampLimits
from secor.core.errors import ConfigurationError
from secor.core.model import Chunk
from secor.core.variant_json import loads
from secor.schema.schema import EXTRA, ExtraFields, RowSchema
from secor.tables.rows.column_names import ColumnNames, is_uuid, read_aliases
from secor.tables.rows.encodings import Encodings
from secor.tables.rows.schema_changes import TextTypes
from secor.tables.rows.units import Units
from secor.tables.rows.value_forms import ValueForms

UUID_BYTES = 16


def _headers_type(*, required: bool) -> pa.DataType:
    """Return the type of a table's headers; ``required``: each says that it has a name."""
    header = [pa.field("key", pa.string(), nullable=not required), pa.field("value", pa.binary())]
    return pa.list_(pa.field("element", pa.struct(header)))


METADATA_TYPES: Mapping[str, pa.DataType] = {
    "_topic": pa.string(),
    "_kafka_partition": pa.int32(),
    "_offset": pa.int64(),
    "_timestamp": pa.timestamp("us", "UTC"),
    "_key": pa.binary(),
    "_headers": _headers_type(required=False),
}
"""Columns for a row's place in Kafka and its message's metadata, as new tables get them."""


ORIGIN = ("_topic", "_kafka_partition", "_offset")
"""Those that say which message a row is of."""

OTHER_TYPES: Mapping[str, pa.DataType] = {
    "_kafka_partition": pa.int64(),
    "_headers": _headers_type(required=True),
}
"""Other types that tables of others may have for them."""


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Rows of a table: ``rows`` in the types of its columns, null where ``bad`` says why not.

    ``extra`` is true for rows with fields that the table does not have, where that is asked.
    """

    rows: pa.StructArray
    bad: Mapping[int, str]
    extra: pa.BooleanArray | None


class TableRows:
    """Brings decoded fields to the columns of a schema.

    A value of another type is taken where nothing is lost, as declared schemas do; what does
    not fit is a bad row, with the reason.
    """

    def __init__(
        self,
        schema: pa.Schema,
        properties: Mapping[str, str],
        *,
        where: str,
        metadata_columns: Sequence[str] = (),
        extra_fields: Literal["drop", "quarantine"] = "drop",
        case_sensitive: bool = True,
        evolve: bool = False,
        any_text: bool = True,
        timestamps: TimestampLimits = CALENDAR,
        text_types: TextTypes = frozenset(),
        encodings: Encodings | None = None,
        units: Units | None = None,
    ) -> None:
        """``where`` names the table in errors, ``timestamps`` are those that its files hold.

        ``any_text``: columns of text take every value.  New columns of ``text_types`` are text.
        ``encodings`` are those of values in messages without a schema.
        ``units`` are those of numbers that are times.

        Raises ``ConfigurationError``.
        """
        self.schema = schema
        self._names = ColumnNames(
            pa.struct(list(schema)), read_aliases(properties, where), case_sensitive
        )
        for name in metadata_columns:
            _check_origin(schema, name, where)
        self._origin = tuple(metadata_columns)
        self._timestamps = timestamps
        # Columns of origin are not filled from fields: a message could write another's place into
        # its row.
        own = [field for field in schema if field.name not in self._origin]
        self.columns: pa.StructType = pa.struct([_plain_field(field) for field in own])
        self._marks_extra = evolve or extra_fields == "quarantine"
        self._refuses_extra = extra_fields == "quarantine"
        extra: ExtraFields = "json" if self._marks_extra else "drop"
        self.fields = RowSchema(self.columns, extra, any_text=any_text)
        self._forms = ValueForms(self.columns, encodings, units)
        self.text_types = text_types

    @property
    def origin_names(self) -> frozenset[str]:
        """The names, in small letters, of columns of the messages' metadata."""
        return frozenset(name.lower() for name in self._origin)

    @property
    def null_keeping_names(self) -> frozenset[str]:
        """The names of fields that become maps: their null members are entries."""
        return self._names.null_keeping_names

    @property
    def identity(self) -> str:
        """All that changes the rows, apart from the schema."""
        names = f"{sorted(self._names.aliases.items())}:{self._names.case_sensitive}"
        # Only what is written in another way than before has other fingerprints than before.
        version = 2 if any_leaf(self.columns, pa.types.is_decimal) else 1
        version = 3 if self.null_keeping_names else version
        further = ":timestamps-1" if "_timestamp" in self._origin else ""
        further += f":forms-1{self._forms.identity}"
        if self.fields.any_text and any_leaf(self.columns, pa.types.is_string):
            further += ":any text"
        return f"rows-{version}:{names}:{self._refuses_extra}:{','.join(self._origin)}{further}"

    def timestamp_faults(self, timestamps: pa.Array) -> Mapping[int, str]:
        """Return why rows have no place in the table for their Kafka timestamp."""
        if "_timestamp" not in self._origin:
            return {}
        required = not self.schema.field("_timestamp").nullable
        return self._timestamps.faults(timestamps, required=required)

    def rename(self, rows: pa.StructArray) -> pa.StructArray:
        """Return decoded rows under the names of the columns."""
        return self._names.rename(rows)

    def convert(self, rows: pa.StructArray) -> tuple[pa.StructArray, Mapping[int, str]]:
        """Return renamed rows in forms that the columns take, and why some rows are bad."""
        return self._forms.convert(rows)

    def column_of(self, rows: pa.StructArray) -> dict[str, pa.Field]:
        """Return the column of each decoded field that has one."""
        columns = self._names.column_of(rows.type)
        return {name: self.schema.field(column) for name, column in columns.items()}

    def conflicts(self, rows: pa.StructArray) -> Mapping[int, str]:
        """Return why decoded rows are bad that have two different values for one column."""
        return self._names.conflicts(rows)

    def fit(self, rows: pa.StructArray) -> FittedRows:
        """Return renamed rows in the columns' types."""
        fitted, bad = self.fields.fit(rows)
        if not self._marks_extra:
            return FittedRows(fitted, bad, None)
        extra = pc.struct_field(fitted, [fitted.type.get_field_index(EXTRA)]).is_valid()
        return FittedRows(fitted, bad, extra)

    def refuse_extra(self, fitted: FittedRows) -> Mapping[int, str]:
        """Return why rows are bad, with those that have further fields where that is wanted."""
        if not self._refuses_extra or fitted.extra is None or not fitted.extra.true_count:
            return fitted.bad
        texts = pc.struct_field(fitted.rows, [fitted.rows.type.get_field_index(EXTRA)]).storage
        extra = {
            row: f"the table has no column for {texts[row].as_py()[:60]}"
            for row in pc.indices_nonzero(fitted.extra).to_pylist()
        }
        # What does not fit counts before what is too much.
        return {**extra, **fitted.bad}

    def undeclared(self, fitted: FittedRows, rows: Iterable[int]) -> Counter[str]:
        """Count by field the values of ``rows`` that have no column."""
        texts = pc.struct_field(fitted.rows, [fitted.rows.type.get_field_index(EXTRA)]).storage
        return Counter(path for row in rows for path in paths_of(loads(texts[row].as_py())))

    def with_origin(self, fitted: pa.StructArray, chunk: Chunk) -> pa.StructArray:
        """Return all columns of the table, those of the messages' metadata included."""
        if not self._origin and fitted.type.num_fields == len(self.schema):
            return fitted
        columns: list[pa.Array] = []
        for field in self.schema:
            if field.name in self._origin:
                columns.append(_origin_of(field.name, chunk).cast(plain_type(field.type)))
            else:
                columns.append(fitted.field(fitted.type.get_field_index(field.name)))
        fields = [pa.field(field.name, column.type) for field, column in self._pairs(columns)]
        return struct_of(columns, fields, fitted)

    def _pairs(self, columns: Sequence[pa.Array]) -> list[tuple[pa.Field, pa.Array]]:
        return list(zip(self.schema, columns, strict=True))


def _origin_of(name: str, chunk: Chunk) -> pa.Array:
    records, topic_partition = chunk.records, chunk.topic_partition
    match name:
        case "_topic":
            return pa.repeat(topic_partition.topic, records.num_rows)
        case "_kafka_partition":
            return pa.repeat(pa.scalar(topic_partition.partition, pa.int32()), records.num_rows)
        case "_timestamp":
            return records.column("timestamp").cast(pa.timestamp("ms", "UTC"))
        case _:
            return records.column(name.removeprefix("_"))


def paths_of(extra: Mapping[str, Any], around: str = "") -> Iterator[str]:
    """Give the dotted paths of the values in an object of undeclared fields."""
    for name, value in extra.items():
        if isinstance(value, dict) and value:
            yield from paths_of(value, f"{around}{name}.")
        else:
            yield f"{around}{name}"


def missing_origin(schema: pa.Schema, metadata_columns: Iterable[str]) -> list[str]:
    """Return the columns of messages' metadata that a table should have and does not."""
    return [name for name in metadata_columns if schema.get_field_index(name) < 0]


def without_origin(where: str, name: str) -> str:
    """Say what a person can do about a column that is missing."""
    return (
        f"{where} has no column {name}: add it ({METADATA_TYPES[name]}), set evolve = true in"
        " [[tables]], or take it out of rows.metadata_columns"
    )


def _check_origin(schema: pa.Schema, name: str, where: str) -> None:
    index = schema.get_field_index(name)
    if index < 0:
        raise ConfigurationError(without_origin(where, name))
    kind = plain_type(schema.field(index).type)
    allowed = {METADATA_TYPES[name], OTHER_TYPES.get(name)}
    if kind not in allowed:
        raise ConfigurationError(
            f"{where}: its column {name} is {kind} and must be {METADATA_TYPES[name]}"
        )


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), nullable=field.nullable)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type without field ids, UUIDs as their bytes."""
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind.fields])
    if is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    return pa.binary(UUID_BYTES) if is_uuid(kind) else kind
