"""The murmur2 hash by which Java's producer chooses the partition of a key.

Source: ``org.apache.kafka.common.utils.Utils.murmur2``; the public algorithm by A. Appleby.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)

Hashes = npt.NDArray[np.uint32]


def murmur2(data: bytes) -> int:
    """Return the hash of one key, 0 to 2**32 - 1."""
    return int(murmur2_column(pa.array([data], pa.binary()))[0])


def partitions_of(keys: pa.Array, partitions: int) -> npt.NDArray[np.int64]:
    """Return the partition of each key as Java's default partitioner chooses it."""
    # Java's toPositive: the sign bit is masked, not negated.
    return (murmur2_column(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def murmur2_column(keys: pa.Array) -> Hashes:
    """Return the hash of each key of a binary column without nulls."""
    lengths = pc.binary_length(keys).to_numpy(zero_copy_only=False).astype(np.int64)
    hashes = np.empty(len(keys), np.uint32)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        content = b"".join(keys.take(pa.array(rows)).to_pylist())
        table = np.frombuffer(content, np.uint8).reshape(len(rows), int(length))
        hashes[rows] = _of_one_length(table)
    return hashes


def _of_one_length(table: npt.NDArray[np.uint8]) -> Hashes:
    rows, length = table.shape
    whole = length // 4
    words = np.ascontiguousarray(table[:, : whole * 4]).view("<u4")
    hashes = np.full(rows, _SEED ^ np.uint32(length), np.uint32)
    for index in range(whole):
        # 32 bits that wrap around, as Java's int does.
        k = words[:, index].astype(np.uint32) * _M
        k ^= k >> np.uint32(24)
        hashes = hashes * _M ^ k * _M
    rest = table[:, whole * 4 :].astype(np.uint32)
    if rest.shape[1]:
        for index in range(rest.shape[1]):
            hashes ^= rest[:, index] << np.uint32(8 * index)
        hashes = hashes * _M
    hashes ^= hashes >> np.uint32(13)
    hashes = hashes * _M
    return hashes ^ hashes >> np.uint32(15)
