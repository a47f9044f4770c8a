"""Backfills of every format, of routes, quarantine and plug-ins: what the daemon would have
written, object by object, from the staging area to the place of the old objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from secor.archive.backfill.existing_objects import present_keys
from secor.archive.backfill.model import BackfillPlan
from secor.archive.backfill.publishing import BackfillPublisher
from secor.archive.backfill.running import run_batch
from secor.verify.backfill import summary_of, verify_batch
from secor.wiring.archives import archive_of
from tests.fakes.store import FakeStore
from tests.unit.archive.backfill_world import (
    MENDED,
    PROBES,
    TOPIC,
    World,
    config,
    parser,
    put_all,
    sealed_batches,
)

FIELDS = {"at": "long", "wrong": "long", "kind": "string"}
SCHEMA = {
    "type": "record",
    "name": "event",
    "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
}
MAPS = {
    **SCHEMA,
    "fields": [*SCHEMA["fields"], {"name": "flags", "type": {"type": "map", "values": "string"}}],
}
NARROW = {**SCHEMA, "fields": [*SCHEMA["fields"][:2], {"name": "kind", "type": "long"}]}
ROUTED = parser("at", transforms=[{"kind": "route", "field": "kind", "topics": ["click", "probe"]}])
PLUGIN = {
    "plugin": "tests.unit.parsing.plugins_for_tests:ByKind",
    "plugin_settings": {"prefix": "kind="},
}


@dataclass(frozen=True)
class Case:
    """A mended configuration, and how many messages of 120 are then in quarantine."""

    output: Mapping[str, Any] = field(default_factory=lambda: {"format": "sequencefile"})
    parser: Mapping[str, Any] = field(default_factory=lambda: MENDED)
    schema: Mapping[str, Any] | None = None
    quarantined: int = 14
    places: tuple[str, ...] = ("dt=2023-11-15", "dt=2023-11-16", "dt=2023-11-17")


CASES = {
    "parquet": Case({"format": "parquet"}, schema=SCHEMA),
    "orc": Case({"format": "orc"}, schema=SCHEMA),
    "maps with entries that are null": Case({"format": "parquet"}, schema=MAPS),
    "avro": Case({"format": "avro", "metadata_columns": ["_offset"]}, schema=SCHEMA),
    "jsonlines": Case({"format": "jsonlines", "codec": "gzip"}),
    "fields that do not fit": Case(
        {"format": "parquet"}, schema=NARROW, quarantined=108, places=("_quarantine",)
    ),
    "routes": Case(parser=ROUTED, places=("click", "probe", "from=clicks")),
    "routes of fields": Case(
        {"format": "orc"}, ROUTED, SCHEMA, places=("click", "probe", "from=clicks")
    ),
    "transforms": Case(
        {"format": "jsonlines"},
        parser("at", transforms=[PROBES, {"kind": "mask", "field": "kind", "value": "x"}]),
    ),
    "hours": Case(parser=parser("at", layout="{time:%Y}/{kind}"), places=("2023", "click")),
    "plug-in": Case(parser=PLUGIN, places=("kind=click", "kind=probe")),
}


@dataclass
class Scene:
    world: World
    plan: BackfillPlan

    @property
    def store(self) -> FakeStore:
        assert isinstance(self.world.store, FakeStore)
        return self.world.store

    def wanted(self) -> dict[str, tuple[bytes, dict[str, str]]]:
        """What the daemon writes of the same ranges."""
        sealed = sealed_batches(self.world.mended, self.world.workspace, self.plan.generation)
        return {
            file.key: (file.local.path.read_bytes(), file.info.metadata())
            for batch in sealed
            for file in batch.files
        }

    def visible(self) -> dict[str, tuple[bytes, dict[str, str]]]:
        hidden = ("partition/_backfill/", "partition/_replaced/", "backup/")
        return {
            key: (
                one.content,
                {name: it for name, it in one.metadata.items() if name != "backfill"},
            )
            for key, one in self.store.objects.items()
            if not key.startswith(hidden)
        }

    def publisher(self) -> BackfillPublisher:
        archive = archive_of(self.world.mended, TOPIC, self.store)
        return BackfillPublisher(
            self.plan,
            self.store,
            self.world.workspace,
            present=lambda: present_keys(archive, self.plan),
            targets=archive.targets,
        )


def scene_of(case: Case, tmp_path: Path) -> Scene:
    world = World.made(FakeStore(), tmp_path, format="sequencefile")
    output = {"prefix": "partition", **case.output}
    if case.schema is not None:
        file = tmp_path / "schema.json"
        file.write_text(json.dumps(case.schema))
        output["schema_file"] = str(file)
    # Half of the parsers here fail on messages that the others can read.
    settings = {**case.parser, "max_bad_ratio": "none"}
    mended = config(tmp_path / "bucket", "partition", settings, **output)
    world = replace(world, mended=mended)
    return Scene(world, world.plan())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_backfill_ends_with_what_the_daemon_would_have_written(
    tmp_path: Path, case: Case
) -> None:
    scene = scene_of(case, tmp_path)
    before = scene.visible()
    job = scene.world.job(scene.plan)
    for batch in scene.plan.batches:
        run_batch(job, batch)
    summary = summary_of(verify_batch(job, batch) for batch in scene.plan.batches)
    assert summary.right, [report.findings for report in summary.reports]
    assert summary.read == 120
    assert summary.quarantined == case.quarantined
    publisher = scene.publisher()
    publisher.record_verified()
    publisher.publish()
    after = scene.visible()
    assert after == scene.wanted()
    assert {piece for key in after for piece in key.split("/")} >= set(case.places)
    again = scene.world.plan()  # what was published can be done again, too
    assert {one.key for one in again.replaced} == set(after)
    publisher.rollback()
    assert scene.visible() == before
    scene.world.workspace.close()


def test_messages_that_were_routed_before_are_replaced_where_they_were_sent(
    tmp_path: Path,
) -> None:
    scene = scene_of(CASES["routes"], tmp_path)
    for key in [key for key in scene.store.objects if not key.startswith("backup/")]:
        scene.store.delete(key)
    put_all(scene.store, sealed_batches(scene.world.mended, scene.world.workspace))
    assert any(key.startswith("partition/probe/") for key in scene.store.objects)
    other = parser("at", transforms=[{"kind": "route", "to": "click"}])
    mended = config(tmp_path / "bucket", "partition", other, format="sequencefile")
    world = replace(scene.world, mended=mended)
    scene = Scene(world, world.plan())
    job = world.job(scene.plan)
    for batch in scene.plan.batches:
        run_batch(job, batch)
    publisher = scene.publisher()
    publisher.record_verified()
    publisher.publish()
    assert scene.visible() == scene.wanted()
    world.workspace.close()
