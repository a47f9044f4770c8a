"""A local archive as the daemon leaves it, without a broker: for what reads archives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.adapters.local import DirectoryStore
from secor.archive.erasures import Secret
from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.config.load import validate
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.model import SCHEMA, Chunk, TopicPartition
from secor.wiring.plans import plan_for
from tools.bench.fill import BATCH_MESSAGES, DISTINCT_BATCHES, FIRST_TIMESTAMP, values

TOPIC, PREFIX = "bench", "backup"
TARGET = 256 << 20
"""Bytes of an object that compaction makes."""
SECRET = Secret(b"the secret of this measurement")
"""Of erased keys."""
OBJECT_MESSAGES = 125_000
"""Messages of an object: about 25 MB."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An archive below the directory ``bucket``; the bytes are those of the values alone."""

    bucket: Path
    config: Config
    partitions: int
    messages: int
    value_bytes: int

    @property
    def directory(self) -> Path:
        """The directory that holds the topics."""
        return self.bucket / self.config.output.prefix

    @property
    def objects(self) -> str:
        """The objects' paths, as a pattern that Hadoop understands."""
        return f"{self.directory}/{TOPIC}/*/*"

    def messages_of(self, partition: int) -> int:
        """Return how many messages a partition has; their offsets begin at 0."""
        return self.messages // self.partitions + (partition < self.messages % self.partitions)


def group(
    name: str,
    bucket: Path,
    output: Mapping[str, object],
    parser: Mapping[str, object] | None = None,
) -> Config:
    """Return the configuration of a group whose store is a local directory."""
    tree: dict[str, object] = {
        "group": {"name": name, "kind": "partition" if parser else "backup"},
        "kafka": {"bootstrap_servers": ["127.0.0.1:9092"], "topics": [TOPIC]},
        "store": {"kind": "local", "local": {"directory": str(bucket)}},
        "output": {"prefix": name, **output},
    }
    if parser:
        tree["parser"] = dict(parser)
    configuration, faults = validate(tree)
    if configuration is None:
        raise ConfigurationError(f"the configuration of {name}: {faults}")
    return configuration


def store(
    config: Config, bucket: Path, directory: Path, *, partitions: int, messages: int
) -> Stored:
    """Put ``messages`` of about 200 bytes; ``directory`` is for files in the making."""
    files = DirectoryStore(bucket)
    plan = plan_for(config, TOPIC)
    workspace = Workspace(directory, config.group.name)
    stored = Stored(bucket, config, partitions, messages, 0)
    size = 0
    try:
        blocks = _blocks(min(messages, OBJECT_MESSAGES))
        for partition in range(partitions):
            where = TopicPartition(TOPIC, partition)
            total = stored.messages_of(partition)
            for start in range(0, total, OBJECT_MESSAGES):
                end = min(start + OBJECT_MESSAGES, total)
                size += _put(files, plan, workspace, where, start, end, blocks)
    finally:
        workspace.close()
    return replace(stored, value_bytes=size)


def _blocks(messages: int) -> Sequence[pa.Array]:
    """Return the values of one fetch after the other: distinct ones, over and over."""
    count = min(DISTINCT_BATCHES, -(-messages // BATCH_MESSAGES))
    return [pa.array(values(BATCH_MESSAGES, seed), pa.binary()) for seed in range(count)]


def _put(
    files: DirectoryStore,
    plan: TopicPlan,
    workspace: Workspace,
    where: TopicPartition,
    start: int,
    end: int,
    blocks: Sequence[pa.Array],
) -> int:
    """Put one batch; return the bytes of its values."""
    batch = Batch(where, start, plan=plan, workspace=workspace, clock=SystemClock(), end=end)
    size = 0
    for chunk in _chunks(where, start, end, blocks):
        size += pc.sum(pc.binary_length(chunk.records.column("value"))).as_py()
        batch.append(chunk)
    sealed = batch.seal(Reason.INTENT)
    for file in sealed.files:
        files.put(file.key, file.local.content(), file.local.crc32c, file.info.metadata())
    sealed.delete()
    return size


def _chunks(
    where: TopicPartition, start: int, end: int, blocks: Sequence[pa.Array]
) -> Iterator[Chunk]:
    for at in range(start, end, BATCH_MESSAGES):
        block = blocks[at // BATCH_MESSAGES % len(blocks)]
        rows = min(BATCH_MESSAGES, end - at)
        offsets = np.arange(at, at + rows)
        columns = [
            pa.array(offsets),
            pa.array(FIRST_TIMESTAMP + offsets),
            pa.array(np.zeros(rows, np.int8)),
            pa.nulls(rows, pa.binary()),
            block.slice(0, rows),
            pa.array([[]] * rows, SCHEMA.field("headers").type),
        ]
        yield Chunk(where, pa.RecordBatch.from_arrays(columns, schema=SCHEMA), at + rows)
