"""What is staged for a table, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from secor.core.errors import Unavailable
from secor.spark.last_changes import changes_frame
from secor.spark.staged_changes import OpenStore, read_changes
from secor.tables.catalog import FIELD_ID, Table
from secor.tables.manifest import TableFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def staged_frame(
    session: SparkSession,
    open_store: OpenStore,
    files: Sequence[TableFiles],
    schema: pa.Schema,
    columns: StructType,
) -> DataFrame:
    """Return all changes in ``files``.

    ``schema`` is the table's, with field ids, ``columns`` the same as Spark has them.
    """
    keys = [file.path for of_table in files for file in of_table.files]

    def read(numbers: Sequence[int], wanted: pa.StructType) -> Iterator[pa.RecordBatch]:
        return read_changes(open_store, [keys[it] for it in numbers], schema, wanted)

    return changes_frame(session, read, len(keys), columns)


def staged_key(table: Table, files: Sequence[TableFiles]) -> list[str]:
    """Return the present names of the identifier columns.  Raises ``Unavailable``."""
    ids = files[0].key
    by_id = {int(field.metadata[FIELD_ID]): field.name for field in table.schema}
    lost = [number for number in ids if number not in by_id]
    if lost or not ids:
        raise Unavailable(
            f"table {table.identifier}: it has no columns any more with the field ids"
            f" {lost}, by which staged rows are told apart"
        )
    return [by_id[number] for number in ids]
