"""Kafka's record batches (format v2) decoded into Arrow columns, and encoded."""

from secor.wire.batch_header import RecordBatchHeader, parse_header
from secor.wire.batch_run import BatchRun, walk_batches
from secor.wire.chunks import MAX_UNCOMPRESSED, decode_chunks, records_to_chunk
from secor.wire.compiled import DECODER
from secor.wire.passes import PARSED_PASS_BYTES, PASS_BYTES

__all__ = [
    "DECODER",
    "MAX_UNCOMPRESSED",
    "PARSED_PASS_BYTES",
    "PASS_BYTES",
    "BatchRun",
    "RecordBatchHeader",
    "decode_chunks",
    "parse_header",
    "records_to_chunk",
    "walk_batches",
]
