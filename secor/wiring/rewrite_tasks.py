"""Ranges of a plan rewritten in tasks of Spark: what goes to an executor, and its work there."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from secor.archive.rewrite.one_range import RangeOutcome, RangeResult, RangeRewriter
from secor.archive.rewrite.planning import JoinedRange, Plan
from secor.config.model import Config
from secor.core.errors import OutcomeUnknown, Unavailable
from secor.core.retry import retry
from secor.wiring.archives import Routes, archive_of, secret_of
from secor.wiring.backfill import ATTEMPTS, open_workspace
from secor.wiring.clients import open_store


@dataclass(frozen=True, slots=True)
class RewriteSettings:
    """The input of a task: the configuration as it is valid on the driver, and a plan's head.

    ``directory`` is where each executor puts files that it is writing; None: where the system has
    temporary files.
    """

    config: Config
    routes: Routes
    number: int
    plan: Plan
    directory: Path | None

    @classmethod
    def of(
        cls, config: Config, routes: Routes, number: int, plan: Plan, directory: Path | None
    ) -> RewriteSettings:
        """Return it; ranges are not sent to tasks that rewrite others."""
        by_topic = {topic: tuple(others) for topic, others in routes.items()}
        return cls(config, by_topic, number, replace(plan, ranges=()), directory)


def rewrite_ranges(
    settings: RewriteSettings, parts: Iterator[JoinedRange]
) -> Iterator[RangeResult]:
    """Rewrite a task's ranges: what runs on an executor.

    Raises as ``RangeRewriter.run``.  A task that is repeated, or runs twice, ends in the same
    objects.
    """
    topic = settings.plan.topic
    with (
        open_store(settings.config) as store,
        open_workspace(settings.directory) as workspace,
    ):
        archive = archive_of(settings.config, topic, store, settings.routes)
        secret = secret_of(settings.config)
        rewriter = RangeRewriter.of(archive, workspace, settings.number, settings.plan, secret)
        for part in parts:
            result = retry(
                partial(rewriter.run, part),
                (Unavailable, OutcomeUnknown),
                attempts=ATTEMPTS,
                sleep=time.sleep,
                rng=random.Random(),
            )
            yield result
            if result.ended is RangeOutcome.BY_OTHERS:
                return
