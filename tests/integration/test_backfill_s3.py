"""A backfill in a bucket: conditional puts, metadata and copies as a server has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from secor.adapters.s3 import S3Store
from secor.archive.backfill.existing_objects import present_keys
from secor.archive.backfill.publishing import BackfillPublisher
from secor.archive.backfill.running import run_batch
from secor.sandbox import Sandbox
from secor.verify.backfill import summary_of, verify_batch
from tests.unit.archive.backfill_world import World, sealed_batches

BELOW = "backfill-test/"


@pytest.fixture
def store(sandbox: Sandbox) -> Iterator[S3Store]:
    access = sandbox.s3
    made = S3Store(
        access.bucket,
        endpoint_url=access.endpoint_url,
        region=access.region,
        path_style=True,
        access_key=access.access_key,
        secret_key=access.secret_key,
    )
    yield made
    made.close()


def test_a_backfill_in_a_bucket_is_published_and_rolled_back(
    store: S3Store, tmp_path: Path
) -> None:
    world = World.made(store, tmp_path, below=BELOW, format="parquet")
    mark = world.workspace.create()
    mark.finish()
    marked = f"{BELOW}partition/clicks/dt=2023-11-15/_SUCCESS"
    store.put(marked, mark.path, mark.crc32c, {"finalized": "yes"})

    def visible() -> set[str]:
        return {one.key for one in store.list(f"{BELOW}partition/") if "/_" not in one.key}

    before, plan = visible(), world.plan()
    job = world.job(plan)
    for batch in [*plan.batches, *plan.batches]:
        run_batch(job, batch)
    assert summary_of(verify_batch(job, batch) for batch in plan.batches).right
    publisher = BackfillPublisher(
        plan, store, world.workspace, present=lambda: present_keys(job.archive, plan)
    )
    publisher.record_verified()
    publisher.publish()
    publisher.publish()
    wanted = {
        file.key
        for sealed in sealed_batches(world.mended, world.workspace, plan.generation)
        for file in sealed.files
    }
    assert visible() == {key for key in wanted if "/_" not in key}
    assert store.head(marked).metadata == {"finalized": "yes"}
    publisher.rollback()
    publisher.rollback()
    assert visible() == before
    world.workspace.close()
