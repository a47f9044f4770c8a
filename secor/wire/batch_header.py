"""The header of a record batch: 61 bytes, checked with the CRC.

Source: Kafka's protocol guide, "Record Batch"; ``DefaultRecordBatch`` of its clients.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from secor.core.errors import CorruptBatch
from secor.core.model import TopicPartition, next_offset

HEADER = struct.Struct(">qiibIhiqqqhii")
LENGTH_FOLLOWS = 12
"""``length`` counts the bytes after itself: those of the whole batch but these."""
CRC_FOLLOWS = 21
"""The checksum covers everything from the attributes on."""
CODEC = 0x07
"""The bits of the attributes for the compression."""
CONTROL = 0x20
"""The attribute of a batch of transaction markers."""
# Not the last number of 64 bits: the offset after it must fit as well.
LARGEST_OFFSET = 2**63 - 2

FIELDS = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
"""``HEADER`` as numpy names it, for many headers at once."""

Headers = npt.NDArray[np.void]
"""Elements of ``FIELDS``."""

Buffer = bytes | bytearray | memoryview


@dataclass(slots=True)  # not frozen: that doubles the cost of a batch's header
class RecordBatchHeader:
    """The fields as read, not to be changed; times in milliseconds since the epoch."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, this header included."""
        return self.length + LENGTH_FOLLOWS

    @property
    def codec(self) -> int:
        """Compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC

    @property
    def timestamp_type(self) -> int:
        """0 create, 1 log append (then ``max_timestamp`` is that of every record)."""
        return self.attributes >> 3 & 1

    @property
    def is_control(self) -> bool:
        """Return whether its records are transaction markers, not messages."""
        return bool(self.attributes & CONTROL)

    @property
    def next_offset(self) -> int:
        """The offset after the batch; compaction may have removed its last records."""
        return next_offset(self.base_offset + self.last_offset_delta)


def parse_header(buffer: Buffer) -> RecordBatchHeader:
    """Read the header at the beginning of ``buffer``; nothing is judged but its size.

    Raises ``ValueError`` when ``buffer`` is shorter than 61 bytes.
    """
    if len(buffer) < HEADER.size:
        raise ValueError(f"{len(buffer)} bytes where a record batch has a header of {HEADER.size}")
    return RecordBatchHeader(*HEADER.unpack_from(buffer))


def count_right(heads: Headers, sizes: npt.NDArray[np.int64]) -> int:
    """Return how many of the first headers are right; ``sizes`` are those of the batches.

    Of these ``check_header`` would find nothing wrong but the CRC, which nobody looked at.
    """
    # To 64 bits first: in their own types the sum could wrap around, and a lying header look right.
    base, delta = heads["base_offset"].astype(np.int64), heads["last_offset_delta"].astype(np.int64)
    right = (heads["magic"] == 2) & (heads["length"] == sizes[: len(heads)] - LENGTH_FOLLOWS)
    right &= (delta >= 0) & (heads["count"] >= 0) & (base <= LARGEST_OFFSET - delta)
    after = np.zeros(len(heads), np.int64)
    after[1:] = base[:-1] + delta[:-1] + 1  # of a wrong one it does not matter
    right &= base >= after
    wrong = np.flatnonzero(~right)
    return int(wrong[0]) if len(wrong) else len(heads)


def corrupt(topic_partition: TopicPartition, offset: int, what: str) -> CorruptBatch:
    """Return the error that names the place, what is wrong there and the way on."""
    return CorruptBatch(
        f"{topic_partition}, offset {offset}: {what}; compare the brokers' copies of the log "
        "segment, and set the committed offset behind it if the messages are lost"
    )


def check_header(
    topic_partition: TopicPartition, batch: memoryview, after: int, *, check_crc: bool
) -> RecordBatchHeader:
    """Read a batch's header and hold it against its bytes.

    ``after`` is the offset at and above which it must begin.  Raises ``CorruptBatch``.
    """
    try:
        header = parse_header(batch)
    except ValueError as error:
        raise corrupt(topic_partition, after, str(error)) from None
    what = _fault(header, batch, after, check_crc=check_crc)
    if what is not None:
        raise corrupt(topic_partition, header.base_offset, what)
    return header


def _fault(
    header: RecordBatchHeader, batch: memoryview, after: int, *, check_crc: bool
) -> str | None:
    if header.magic != 2:
        return f"a batch of format {header.magic}, where 2 is decoded here"
    if header.size != len(batch):
        return f"the batch says it has {header.size} bytes and has {len(batch)}"
    if check_crc and (crc := crc32c(batch[CRC_FOLLOWS:])) != header.crc:
        return f"the batch says its CRC32C is {header.crc:08x} and its bytes give {crc:08x}"
    if header.last_offset_delta < 0 or header.count < 0:
        return f"{header.count} records up to offset delta {header.last_offset_delta}"
    # Offsets only rise: two batches that overlap would store messages twice, or out of order.
    if header.base_offset < after:
        return f"the batch begins below offset {after}, where the one before it ended"
    if header.base_offset + header.last_offset_delta > LARGEST_OFFSET:
        return f"offset delta {header.last_offset_delta} goes beyond what an offset can be"
    return None
