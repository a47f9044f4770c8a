"""Erasures of many: a list of a million keys, a million messages of one key, in bounded memory."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c

from secor.adapters.local import DirectoryStore
from secor.core.model import SCHEMA, OffsetRange, TopicPartition
from secor.core.naming import ObjectName
from secor.core.object_info import ObjectInfo
from secor.formats import make_format

pytestmark = pytest.mark.long

EACH = 50_000
MILLION = 1_000_000
MOST = 1 << 30
"""Bytes of memory: more than a million of Python's objects need, less than what grows with
messages would."""

PROGRAM = """
import json, resource, sys
from pathlib import Path
from secor.adapters.local import DirectoryStore
from secor.archive.erasures import Secret
from secor.archive.objects import Archive
from secor.archive.rewrite.erasing import Eraser
from secor.batch.workspace import Workspace
from secor.core.model import Entry

bucket, keys, end = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
archive = Archive(DirectoryStore(bucket), "p")
secret = Secret(b"the secret of the group")
eraser = Eraser(archive, "clicks", secret, lambda _: Entry(end), "now", "a test")
workspace = Workspace(bucket.parent / "local", "a")
searched, outcomes = eraser.run(keys.read_bytes().split(), workspace, tombstones=False)
workspace.close()
left = [
    records.column("key").null_count + records.num_rows
    for archived in archive.objects("clicks")
    for records in archive.read(archived)
]
failed = sum(len(outcome.failed) for outcome in outcomes)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([searched.messages, sum(left), failed, memory]))
"""


def fill(bucket: Path, keys: pa.Array) -> None:
    """Put objects with a message for each key."""
    store, log_format = DirectoryStore(bucket), make_format("parquet")
    for start in range(0, len(keys), EACH):
        own = keys.slice(start, EACH)
        count = len(own)
        columns = [
            pa.array(np.arange(start, start + count), pa.int64()),
            pa.array(np.full(count, 1_700_000_000_000), pa.int64()),
            pa.array(np.zeros(count, np.int8), SCHEMA.field("timestamp_type").type),
            own,
            own,
            pa.array([[]] * count, SCHEMA.field("headers").type),
        ]
        records = pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)],
            schema=SCHEMA,
        )
        batch = OffsetRange(start, start + count)
        info = ObjectInfo(TopicPartition("clicks", 0), batch, start, count, 1, "f" * 16)
        name = ObjectName("p/clicks", "offset=0", 1, 0, start, log_format.extension)
        sink = io.BytesIO()
        writer = log_format.create(sink, name.key.encode())
        writer.append(records)
        writer.close()
        store.put(name.key, sink.getvalue(), crc32c(sink.getvalue()), info.metadata())


def erased(bucket: Path, keys: Iterator[bytes], end: int) -> list[int]:
    """Return messages found, messages left, ranges that failed, and the greatest memory."""
    file = bucket.parent / "keys"
    file.write_bytes(b"\n".join(keys))
    bucket.parent.joinpath("local").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(bucket), str(file), str(end)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout)
    return found


def test_a_list_of_a_million_keys(tmp_path: Path) -> None:
    messages = 4 * EACH
    bucket = tmp_path / "bucket"
    fill(bucket, pa.array([b"key-%d" % (7 * number) for number in range(messages)], pa.binary()))
    listed = (b"key-%d" % number for number in range(MILLION))
    *counts, memory = erased(bucket, listed, messages)
    hits = -(-MILLION // 7)
    assert counts == [hits, messages - hits, 0]
    assert memory < MOST


def test_a_million_messages_of_one_key(tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    keys = np.full(MILLION + 10 * EACH, b"one", object)
    keys[::3] = b"others"
    fill(bucket, pa.array(keys, pa.binary()))
    *counts, memory = erased(bucket, iter([b"one"]), len(keys))
    others = len(keys[::3])
    assert counts == [len(keys) - others, others, 0]
    assert memory < MOST
