"""A backfill over partition objects that the real Java Secor wrote, and back again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c

from secor.archive.backfill.existing_objects import present_keys
from secor.archive.backfill.plan_request import RequestedMessages
from secor.archive.backfill.planning import BackfillPlanner
from secor.archive.backfill.publishing import BackfillPublisher
from secor.archive.backfill.running import BackfillJob, run_batch
from secor.batch.batch import Batch
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.core.model import SCHEMA, Chunk, OffsetRange, TopicPartition
from secor.wiring.archives import archive_of
from secor.wiring.plans import plan_for
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore
from tests.unit.archive.backfill_world import config, put_all

VECTORS = Path(__file__).parents[2] / "vectors" / "java-secor"
GROUP = "json_dt_gz"
TOPIC = "c_json"
COMMITTED = 40


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "local", "one")
    yield made
    made.close()


def source(partition: int) -> pa.RecordBatch:
    lines = (VECTORS / "source" / f"{TOPIC}.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["partition"] == partition]
    made = [
        {
            "offset": row["offset"],
            "timestamp": row["timestamp"],
            "timestamp_type": 0,
            "value": bytes.fromhex(row["value"]),
        }
        for row in sorted(rows, key=lambda row: int(row["offset"]))
    ]
    return pa.RecordBatch.from_pylist(made, schema=SCHEMA)


def test_java_secors_objects_are_replaced_and_come_back(
    workspace: Workspace, tmp_path: Path
) -> None:
    store = FakeStore()
    theirs = {}
    for path in (VECTORS / "s3" / GROUP).rglob("*.gz"):
        key = str(path.relative_to(VECTORS / "s3"))
        theirs[key] = path.read_bytes()
        store.put(key, path, crc32c(theirs[key]), {})
    assert len(theirs) == 8

    backup = config(tmp_path, "backup")
    for partition in (0, 1):
        records = source(partition)
        where = TopicPartition(TOPIC, partition)
        batch = Batch(
            where, 0, plan=plan_for(backup, TOPIC), workspace=workspace, clock=FakeClock()
        )
        batch.append(Chunk(where, records, COMMITTED))
        put_all(store, [batch.seal(Reason.INTENT)])

    layout = {"time_field": "timestamp", "time_format": "ms", "layout": "dt={time:%Y-%m-%d}"}
    layout["layout"] += "/hr={time:%H}"
    group = config(tmp_path, "partition", layout, format="text", prefix=GROUP)
    archive, raw = archive_of(group, TOPIC, store), archive_of(backup, TOPIC, store)
    everything = {number: [OffsetRange(0, COMMITTED)] for number in (0, 1)}
    planner = BackfillPlanner(TOPIC, raw, archive, plan_for(group, TOPIC), lambda _: COMMITTED)
    plan = planner.plan(RequestedMessages(offsets=everything))
    assert [(it.partition, it.start, it.end) for it in plan.batches] == [
        *((0, 0, 20), (0, 20, 40), (1, 0, 20), (1, 20, 40)),
    ]
    assert {one.key for one in plan.replaced} == set(theirs)
    topic_plan = replace(plan_for(group, TOPIC), generation=plan.generation)
    job = BackfillJob(plan.head, raw, archive, topic_plan, workspace, FakeClock())
    for planned in plan.batches:
        run_batch(job, planned)

    def publisher() -> BackfillPublisher:
        return BackfillPublisher(
            plan, store, workspace, present=lambda: present_keys(archive, plan)
        )

    publisher().record_verified()
    publisher().publish()
    new = [it.key for it in archive.objects(TOPIC)]
    assert not set(new) & set(theirs)
    assert all("/hr=" in key for key in new)
    lines = sum(
        len(batch)
        for found in archive.objects(TOPIC)
        for batch in archive.format_of(found).read(store.open(found.key), found.key)
    )
    assert lines == 2 * COMMITTED
    publisher().rollback()
    back = {it.key: store.content(it.key) for it in archive.objects(TOPIC)}
    assert back == theirs
