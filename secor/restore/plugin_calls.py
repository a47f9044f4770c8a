"""Calling ``source.filter`` and ``source.transform``: what they give is checked, not trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from secor.core.errors import PluginFailed, SecorError
from secor.core.model import SCHEMA
from secor.core.text import error_text, how_many
from secor.restore.model import SourcePartition

RowFilter = Callable[[str, pa.RecordBatch], Any]
"""Of a source topic's records: a column of truths, true to keep the row."""
RowTransform = Callable[[str, pa.RecordBatch], Any]
"""Of a source topic's records: as many rows, with the same offsets."""


def kept_rows(row_filter: RowFilter, source: SourcePartition, records: pa.RecordBatch) -> pa.Array:
    """Return which rows a filter keeps, a truth for each.  Raises ``PluginFailed``."""
    mask = _called("source.filter", row_filter, source, records)
    if isinstance(mask, np.ndarray) and mask.ndim == 1 and mask.dtype == np.bool_:
        mask = pa.array(mask)
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    if not isinstance(mask, pa.Array):
        gave = f"gave {_kind(mask)}"
    elif len(mask) != records.num_rows or mask.type != pa.bool_():
        gave = f"gave {len(mask)} of {mask.type} for {how_many(records.num_rows, 'row')}"
    elif mask.null_count:
        gave = f"gave {how_many(mask.null_count, 'null')}"
    else:
        return mask
    raise PluginFailed(
        f"{source}: source.filter {gave}: it has to give a column of bool, a truth for each row;"
        f" {_MEND}"
    )


def transformed(
    transform: RowTransform, source: SourcePartition, records: pa.RecordBatch
) -> pa.RecordBatch:
    """Return the changed rows, of ``SCHEMA`` with the same offsets.  Raises ``PluginFailed``."""
    result = _called("source.transform", transform, source, records)
    if isinstance(result, pa.Table):
        # A table without chunks has no batch; one with several has to become one.
        batches = result.combine_chunks().to_batches()
        result = batches[0] if len(batches) == 1 else result
    if not isinstance(result, pa.RecordBatch):
        gave = f"gave {_kind(result)}"
    elif result.schema != SCHEMA:
        gave = f"gave the columns {', '.join(f'{it.name} ({it.type})' for it in result.schema)}"
    elif not result.column("offset").equals(records.column("offset")):
        gave = f"gave other offsets for {how_many(records.num_rows, 'row')}"
    else:
        return result
    raise PluginFailed(
        f"{source}: source.transform {gave}: it has to give a RecordBatch with the same columns,"
        f" rows and offsets; {_MEND}"
    )


_MEND = (
    "mend the class, and then give the job another name, or stop it and run 'secor restore offsets"
    " reset'"
)
"""The class belongs to the job's spec: a changed one is another job."""


def _called(
    key: str,
    method: Callable[[str, pa.RecordBatch], Any],
    source: SourcePartition,
    records: pa.RecordBatch,
) -> object:
    try:
        return method(source.topic, records)
    except SecorError:
        raise
    except Exception as error:
        first, last = records.column("offset")[0], records.column("offset")[-1]
        raise PluginFailed(
            f"{source}: {key} failed with {error_text(error)} on the messages of offsets {first}"
            f" to {last}; {_MEND}"
        ) from error


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"
