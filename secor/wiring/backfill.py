"""A backfill's parts put together: on the driver, and in every task."""

from __future__ import annotations

import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from secor.archive.backfill.existing_objects import present_keys
from secor.archive.backfill.model import BackfillPlan, PlanHead, PlannedBatch, Receipt
from secor.archive.backfill.publishing import BackfillPublisher
from secor.archive.backfill.running import BackfillJob, run_batch
from secor.archive.kept_schemas import KeptSchema
from secor.archive.objects import Archive
from secor.batch.workspace import Workspace
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import OutcomeUnknown, Unavailable
from secor.core.retry import retry
from secor.verify.backfill import BatchVerification, verify_batch
from secor.wiring.archives import archive_of, erasures_of
from secor.wiring.clients import open_store
from secor.wiring.plans import plan_for

ATTEMPTS = 5

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """The input of a task: configurations as they are valid on the driver, and the plan's head.

    ``directory`` is where each executor puts files that it is writing; None: where the system has
    temporary files.
    """

    backup: Config
    partition: Config
    plan: PlanHead
    directory: Path | None

    @classmethod
    def of(
        cls, backup: Config, partition: Config, plan: BackfillPlan, directory: Path | None
    ) -> ExecutorSettings:
        """Return it."""
        return cls(backup, partition, plan.head, directory)


def stage(setting: ExecutorSettings, batches: Iterator[PlannedBatch]) -> Iterator[Receipt]:
    """Do a task's batches: what runs on an executor."""
    yield from _each(setting, batches, run_batch)


def check(
    setting: ExecutorSettings, batches: Iterator[PlannedBatch]
) -> Iterator[BatchVerification]:
    """Verify a task's batches: what runs on an executor."""
    yield from _each(setting, batches, verify_batch)


def _each(
    setting: ExecutorSettings,
    batches: Iterator[PlannedBatch],
    step: Callable[[BackfillJob, PlannedBatch], Result],
) -> Iterator[Result]:
    with open_job(setting) as job:
        for batch in batches:
            # Again here, not by Spark: a task that Spark repeats begins with its first batch.
            yield retry(
                partial(step, job, batch),
                (Unavailable, OutcomeUnknown),
                attempts=ATTEMPTS,
                sleep=time.sleep,
                rng=random.Random(),
            )


@contextmanager
def open_job(setting: ExecutorSettings) -> Iterator[BackfillJob]:
    """Give the job with its own connections and local files."""
    plan = setting.plan
    with (
        open_store(setting.backup) as source,
        open_store(setting.partition) as target,
        open_workspace(setting.directory) as workspace,
    ):
        kept = KeptSchema.parse(plan.schema, f"the schema in backfill {plan.id}")
        topic_plan = plan_for(setting.partition, plan.topic, kept=kept)
        backup = archive_of(setting.backup, plan.topic, source)
        yield BackfillJob(
            plan=plan,
            backup=backup,
            erasures=erasures_of(setting.backup, backup, plan.topic),
            archive=archive_of(setting.partition, plan.topic, target),
            topic_plan=replace(topic_plan, generation=plan.generation),
            workspace=workspace,
            clock=SystemClock(),
        )


@contextmanager
def open_publisher(
    config: Config, plan: BackfillPlan, directory: Path | None, workers: int
) -> Iterator[BackfillPublisher]:
    """Give what publishes and rolls back."""
    with open_store(config) as store, open_workspace(directory) as workspace:
        archive: Archive = archive_of(config, plan.topic, store)
        yield BackfillPublisher(
            plan,
            store,
            workspace,
            present=lambda: present_keys(archive, plan),
            targets=archive.targets,
            workers=workers,
        )


@contextmanager
def open_workspace(directory: Path | None) -> Iterator[Workspace]:
    """Give a workspace of this task's own.

    Without a directory it is below a new one, which goes with it: a name that users share could be
    another's.
    """
    with ExitStack() as opened:
        if directory is None:
            made = opened.enter_context(tempfile.TemporaryDirectory(prefix="secor-backfill-"))
            directory = Path(made)
        name = f"backfill-{uuid.uuid4().hex}"
        yield opened.enter_context(closing(Workspace(directory, name)))
