"""Backfills staged and verified: what the daemon would have written, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from secor.archive.backfill.model import PlannedBatch, decode_plan, encode
from secor.archive.backfill.running import run_batch
from secor.archive.erasures import ErasedLog, Erasures, Secret, erasure_of
from secor.archive.kept_schemas import KeptSchema, KeptSchemas
from secor.batch import archived_batch
from secor.core.errors import ConfigurationError, CorruptFile, ObjectConflict, TooManyBad
from secor.formats import make_format
from secor.parsing.parts import release_part
from secor.verify.backfill import summary_of, verify_batch
from tests.fakes.failing_format import FailingFormat, refuse
from tests.fakes.store import FakeStore
from tests.unit.archive.backfill_world import World, sealed_batches

FORMATS: tuple[dict[str, Any], ...] = (
    {"format": "text"},
    {"format": "sequencefile", "codec": "lz4"},
    {"format": "parquet"},
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World.made(FakeStore(), tmp_path)
    yield made
    made.workspace.close()


def fake(world: World) -> FakeStore:
    assert isinstance(world.store, FakeStore)
    return world.store


@pytest.mark.parametrize("output", FORMATS, ids=lambda one: str(one["format"]))
def test_a_backfill_stages_what_the_daemon_would_have_written(
    tmp_path: Path, output: dict[str, Any]
) -> None:
    world = World.made(FakeStore(), tmp_path, **output)
    plan = world.plan()
    job = world.job(plan)
    for batch in plan.batches:
        run_batch(job, batch)
    wanted = {
        job.places.staged(file.key): (file.local.path.read_bytes(), file.info.metadata())
        for sealed in sealed_batches(world.mended, world.workspace, plan.generation)
        for file in sealed.files
    }
    store = fake(world)
    staged = {
        key: (store.content(key), {k: v for k, v in one.metadata.items() if k != "backfill"})
        for key, one in store.objects.items()
        if key.startswith("partition/_backfill/") and "_receipts" not in key
    }
    assert staged == wanted
    assert len({key.split("/dt=")[1][:10] for key in staged if "/dt=" in key}) == 3
    summary = summary_of(verify_batch(job, batch) for batch in plan.batches)
    assert summary.right, [report.findings for report in summary.reports]


def test_a_plan_has_the_kept_schema_as_it_was_whatever_it_becomes(tmp_path: Path) -> None:
    world = World.made(FakeStore(), tmp_path, format="parquet")
    kept = KeptSchemas(world.store, "partition/clicks", 1)
    kept.add(KeptSchema(1, pa.struct({"at": pa.int64(), "kind": pa.string()})))
    plan = decode_plan(encode(world.plan()), "plan.json")
    kept.add(KeptSchema(2, pa.struct({"at": pa.float64()})))
    assert plan.schema == kept.read(1).text
    job = world.job(plan)
    receipt = run_batch(job, plan.batches[0])
    names = set()
    for file in receipt.files:
        if not file.quarantine:
            with world.store.open(job.places.staged(file.key)) as opened:
                names |= {tuple(pq.read_schema(opened).names)}
    assert names == {("at", "kind", "_extra")}
    with pytest.raises(ConfigurationError, match="plan again"):
        world.job(replace(plan, schema=kept.read(2).text))


def test_a_batch_that_is_run_again_puts_nothing(world: World) -> None:
    plan = world.plan()
    job = world.job(plan)
    first = [run_batch(job, batch) for batch in plan.batches]
    puts = len(fake(world).audit)
    assert [run_batch(job, batch) for batch in plan.batches] == first
    assert len(fake(world).audit) == puts


def test_a_batch_goes_on_where_a_lost_task_ended(world: World) -> None:
    plan = world.plan()
    job, batch = world.job(plan), plan.batches[0]
    receipt = run_batch(job, batch)
    store = fake(world)
    store.delete(job.places.receipt(batch))
    store.delete(job.places.staged(receipt.files[0].key))
    assert run_batch(job, batch) == receipt


def test_a_foreign_object_in_the_staging_area_stops_the_batch(world: World) -> None:
    plan = world.plan()
    job, batch = world.job(plan), plan.batches[0]
    receipt = run_batch(job, batch)
    store = fake(world)
    key = job.places.staged(receipt.files[0].key)
    store.objects[key] = replace(store.objects[key], metadata={"backfill": "another"})
    store.delete(job.places.receipt(batch))
    with pytest.raises(ObjectConflict, match="stages its own"):
        run_batch(job, batch)


def test_other_settings_than_those_of_the_plan_are_refused(world: World) -> None:
    plan = world.plan()
    world.mended = world.faulty
    with pytest.raises(ConfigurationError, match="plan again"):
        world.job(plan)


def test_the_summary_counts_each_message_once(world: World) -> None:
    plan = world.plan()
    job = world.job(plan)
    for batch in plan.batches:
        run_batch(job, batch)
    summary = summary_of(verify_batch(job, batch) for batch in plan.batches)
    damaged = 2 * len([offset for offset in range(60) if offset % 9 == 4])
    probes = 2 * len([o for o in range(60) if o % 10 == 7 and o % 9 != 4])
    assert (summary.read, summary.quarantined, summary.filtered) == (120, damaged, probes)
    assert summary.differences.new.total() == 120 - probes
    assert summary.differences.old["clicks/dt=2023-11-15"] == 120 - damaged
    assert not summary.differences.exact  # text tells no offsets


def test_messages_that_moved_are_counted_where_formats_tell_offsets(tmp_path: Path) -> None:
    world = World.made(FakeStore(), tmp_path, format="sequencefile")
    plan = world.plan()
    job = world.job(plan)
    for batch in plan.batches:
        run_batch(job, batch)
    differences = summary_of(verify_batch(job, batch) for batch in plan.batches).differences
    stay = {o for o in range(60) if o % 3 == 0 or o % 9 == 4 or o % 10 == 7}
    assert differences.exact
    assert differences.moved == 2 * (60 - len(stay))
    assert (differences.entered, differences.left) == (0, 0)


@pytest.mark.parametrize("output", FORMATS, ids=lambda one: str(one["format"]))
def test_verifying_sees_a_staged_object_that_was_damaged(
    tmp_path: Path, output: dict[str, Any]
) -> None:
    world = World.made(FakeStore(), tmp_path, **output)
    plan = world.plan()
    job, batch = world.job(plan), plan.batches[0]
    receipt = run_batch(job, batch)
    store = fake(world)
    key = job.places.staged(receipt.files[0].key)
    content = store.content(key)
    store.objects[key] = replace(store.objects[key], content=content[:-1] + b"\0")
    assert not summary_of([verify_batch(job, batch)]).right
    store.delete(key)
    assert not summary_of([verify_batch(job, batch)]).right


def test_verifying_sees_a_batch_that_was_not_run(world: World) -> None:
    plan = world.plan()
    summary = summary_of([verify_batch(world.job(plan), plan.batches[0])])
    assert not summary.right
    assert "not run" in summary.reports[0].findings[0].details["text"]


@pytest.mark.parametrize("what", ["missing", "extra"])
def test_verifying_compares_offsets_one_by_one(tmp_path: Path, what: str) -> None:
    world = World.made(FakeStore(), tmp_path, format="sequencefile")
    plan = world.plan()
    job, batch = world.job(plan), plan.batches[0]
    whole = changed = batch.inputs
    if what == "missing":  # staged from less than what the plan names
        changed = (replace(whole[0], end=batch.end - 1),)
    run_batch(job, replace(batch, inputs=changed))
    looked_at = batch if what == "missing" else _shorter(batch)
    [report] = summary_of([verify_batch(job, looked_at)]).reports
    assert set(report.counts) == {what}
    assert report.findings[0].details["start"] == batch.end - 1


def _shorter(batch: PlannedBatch) -> PlannedBatch:
    return replace(batch, inputs=(replace(batch.inputs[0], end=batch.end - 1),))


def test_a_corrupt_backup_object_is_named(world: World) -> None:
    plan = world.plan()
    batch = plan.batches[0]
    key = batch.inputs[0].key
    store = fake(world)
    store.objects[key] = replace(store.objects[key], content=store.content(key)[:40])
    with pytest.raises(CorruptFile, match=key):
        run_batch(world.job(plan), batch)


@pytest.mark.parametrize("output", FORMATS, ids=lambda one: str(one["format"]))
def test_messages_that_no_file_can_hold_are_in_quarantine_as_the_daemon_has_them(
    tmp_path: Path, output: dict[str, Any]
) -> None:
    world = World.made(FakeStore(), tmp_path, **output)
    plan = world.plan()
    job = world.job(plan)
    for late in ("append", "close"):
        failing = FailingFormat(job.topic_plan.log_format, refuse(late, 3, 24, 25))
        broken = replace(job, topic_plan=replace(job.topic_plan, log_format=failing))
        receipts = [run_batch(broken, batch) for batch in plan.batches]
        assert [offset for receipt in receipts for offset in receipt.unwritable] == (
            [3, 24, 25, 3, 24, 25]
        )
        summary = summary_of(verify_batch(broken, batch) for batch in plan.batches)
        assert summary.right, [report.findings for report in summary.reports]
        reasons = {
            reason
            for receipt in receipts
            for file in receipt.files
            if file.quarantine
            for reason in _reasons(world, job.places.staged(file.key))
        }
        assert (
            "process: this message cannot be written: ArrowInvalid: value out of range" in reasons
        )


def test_a_backfill_whose_files_all_fail_ends_with_an_error_and_stages_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archived_batch, "NEIGHBOURS", 10)
    plan = world.plan()
    job = world.job(plan)
    failing = FailingFormat(job.topic_plan.log_format, refuse("close", *range(60)))
    broken = replace(job, topic_plan=replace(job.topic_plan, log_format=failing))
    before = set(fake(world).objects)
    with pytest.raises(TooManyBad, match="messages cannot be written, more than max_bad"):
        run_batch(broken, plan.batches[0])
    assert set(fake(world).objects) == before


def _reasons(world: World, key: str) -> list[str]:
    sequencefile = make_format("sequencefile")
    with world.store.open(key) as opened:
        return [
            reason
            for records in sequencefile.read(opened, key)
            for reason in release_part(records)[1]
        ]


def test_messages_that_are_erased_from_the_backup_are_left_out(world: World) -> None:
    secret = Secret(b"the secret of the group")
    erasure = erasure_of(
        "clicks", secret, [None], [ErasedLog(0, 1, None, 30)], tombstones=False, at="", by=""
    )
    plan = world.plan()
    job = replace(world.job(plan), erasures=Erasures("", {1: erasure}, secret))
    read = {batch: run_batch(job, batch).read for batch in plan.batches}
    for batch, count in read.items():
        expected = [
            offset
            for offset in range(batch.start, batch.end)
            if offset % 3 or offset >= 30 or batch.partition
        ]
        assert count == len(expected)
    summary = summary_of(verify_batch(job, batch) for batch in plan.batches)
    assert summary.right
    assert summary.read == 110
