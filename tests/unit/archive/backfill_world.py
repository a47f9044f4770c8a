"""A small world for backfills: a backup, what a faulty parser made of it, and the mended one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from secor.archive.backfill.model import BackfillPlan
from secor.archive.backfill.plan_request import RequestedMessages
from secor.archive.backfill.planning import BackfillPlanner
from secor.archive.backfill.running import BackfillJob
from secor.archive.kept_schemas import KeptSchema
from secor.batch.batch import Batch
from secor.batch.policy import Reason
from secor.batch.sealed import SealedBatch
from secor.batch.workspace import Workspace
from secor.config.load import validate
from secor.config.model import Config
from secor.core.model import Chunk, OffsetRange, TopicPartition, next_offset
from secor.core.ports import ObjectStore
from secor.wiring.archives import archive_of
from secor.wiring.plans import kept_schema, plan_for
from tests.fakes.archive import messages
from tests.fakes.clock import FakeClock

TOPIC = "clicks"
DAY = 86_400_000
FIRST_DAY = 1_700_006_400_000  # 2023-11-15T00:00:00Z
CUTS = {0: (0, 20, 40, 60), 1: (0, 30, 60)}
"""Where the batches of each partition begin and end."""


def payload(offset: int) -> bytes:
    """Events whose day by ``at`` is another one than by ``wrong``; every ninth is damaged."""
    if offset % 9 == 4:
        return b"{damaged"
    at = FIRST_DAY + (offset % 3) * DAY
    kind = "probe" if offset % 10 == 7 else "click"
    flags = {"a": kind if offset % 2 else None}
    return json.dumps({"at": at, "wrong": FIRST_DAY, "kind": kind, "flags": flags}).encode()


def config(
    directory: Path, kind: str, parser: Mapping[str, Any] | None = None, **output: Any
) -> Config:
    tree = {
        "group": {"name": f"secor_{kind}", "kind": kind},
        "kafka": {"bootstrap_servers": ["localhost:9092"], "topics": [TOPIC]},
        "store": {"kind": "local", "local": {"directory": str(directory)}},
        "output": {"prefix": kind, **output},
    }
    if parser is not None:
        tree["parser"] = dict(parser)
    found, faults = validate(tree)
    assert found is not None, faults
    return found


def parser(field: str, **more: Any) -> dict[str, Any]:
    return {"decoder": "json", "time_field": field, "time_format": "ms", **more}


PROBES = {"kind": "filter", "field": "kind", "equals": "probe", "negated": True}
MENDED = parser("at", transforms=[PROBES])


def sealed_batches(
    group: Config, workspace: Workspace, generation: int | None = None
) -> list[SealedBatch]:
    """What the daemon of a group makes of the world's messages."""
    plan = plan_for(group, TOPIC)
    if generation is not None:
        plan = replace(plan, generation=generation)
    sealed = []
    for partition, cuts in CUTS.items():
        for start, end in pairwise(cuts):
            where = TopicPartition(TOPIC, partition)
            batch = Batch(where, start, plan=plan, workspace=workspace, clock=FakeClock(), end=end)
            for low in range(start, end, 7):
                offsets = range(low, min(low + 7, end))
                batch.append(Chunk(where, messages(offsets, payload), next_offset(offsets[-1])))
            sealed.append(batch.seal(Reason.INTENT))
    return sealed


def put_all(
    store: ObjectStore, sealed: Sequence[SealedBatch], *, names_alone: bool = False
) -> None:
    for batch in sealed:
        for file in batch.files:
            metadata = {} if names_alone else file.info.metadata()
            store.put(file.key, file.local.path, file.local.crc32c, metadata)
        batch.delete()


@dataclass
class World:
    store: ObjectStore
    workspace: Workspace
    backup: Config
    faulty: Config
    mended: Config

    @classmethod
    def made(
        cls,
        store: ObjectStore,
        tmp_path: Path,
        *,
        below: str = "",
        names_alone: bool = False,
        **output: Any,
    ) -> World:
        """Put the backup, and what the faulty parser made of it; ``below`` begins all keys.

        With ``names_alone`` the latter has no metadata, as what Java Secor wrote.
        """
        output = {"format": "text", "prefix": f"{below}partition", **output}
        bucket = tmp_path / "bucket"
        world = cls(
            store,
            Workspace(tmp_path / "local", "world"),
            config(bucket, "backup", prefix=f"{below}backup"),
            config(bucket, "partition", parser("wrong"), **output),
            config(bucket, "partition", MENDED, **output),
        )
        put_all(store, sealed_batches(world.backup, world.workspace))
        faulty = sealed_batches(world.faulty, world.workspace)
        put_all(store, faulty, names_alone=names_alone)
        return world

    def planner(
        self, committed: Callable[[int], int | None] = lambda _: 60, **more: Any
    ) -> BackfillPlanner:
        kept = kept_schema(self.mended, TOPIC, self.store)
        return BackfillPlanner(
            TOPIC,
            archive_of(self.backup, TOPIC, self.store),
            archive_of(self.mended, TOPIC, self.store),
            plan_for(self.mended, TOPIC, kept=kept),
            committed,
            schema=kept.text if kept is not None else None,
            **more,
        )

    def plan(self, wanted: RequestedMessages | None = None) -> BackfillPlan:
        everything = {number: [OffsetRange(0, 60)] for number in CUTS}
        return self.planner().plan(wanted or RequestedMessages(offsets=everything))

    def job(self, plan: BackfillPlan) -> BackfillJob:
        kept = KeptSchema.parse(plan.schema, "the plan")
        topic_plan = plan_for(self.mended, TOPIC, kept=kept)
        return BackfillJob(
            plan=plan.head,
            backup=archive_of(self.backup, TOPIC, self.store),
            archive=archive_of(self.mended, TOPIC, self.store),
            topic_plan=replace(topic_plan, generation=plan.generation),
            workspace=self.workspace,
            clock=FakeClock(),
        )
