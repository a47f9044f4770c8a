"""A plan agreed on and carried out: join, compare, put, look again, delete; every step repeatable.

``<prefix>/_backfill/_rewrites/<topic>/<number>.json`` is a plan, put if absent: all who run at the
same time carry out the same one.  ``<number>.done`` says that nothing of it is left to do, and
only then the next number is put.  Objects are listed for it after the look at the numbers, so a
plan never rests on what an earlier plan was still changing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from secor.archive.backfill.paths import MARK
from secor.archive.backfill.run_journal import BEGUN, CLEANED, DONE, ROLLBACK
from secor.archive.erasures import Secret
from secor.archive.objects import Archive, ArchivedObject, visible
from secor.archive.rewrite.one_range import (
    RangeOutcome,
    RangeResult,
    RangeRewriter,
    again_where_objects_go,
    done_key,
    plan_key,
)
from secor.archive.rewrite.planning import (
    FailedRange,
    JoinedRange,
    Plan,
    RewriteResult,
    superseded,
)
from secor.batch.workspace import Workspace
from secor.core.errors import ConfigurationError
from secor.core.naming import rewrites_root
from secor.core.small_objects import put_bytes, read_bytes

_JOURNAL = re.compile(r"([^/]+)/_journal/([^/]+)\.json")
_NUMBER = re.compile(r"([0-9]{8})\.(json|done)")

Progress = Callable[[int, int], None]
"""Called with how many ranges of how many are rewritten."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The next step: a plan, which is in the store if it is ``under_way``.

    ``late`` are the keys of objects that were replaced and are there again, such as a put of a
    process that had slept.
    """

    number: int
    plan: Plan
    under_way: bool = False
    late: Sequence[str] = ()


InTasks = Callable[[int, Plan], Iterable[RangeResult]]
"""Carries the plan with a number out elsewhere, such as in tasks of Spark.  Raises as ``run``."""

Choose = Callable[[list[ArchivedObject], list[ArchivedObject]], Plan]
"""Makes a plan of a topic's described objects, and of those in its quarantine."""


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites objects of one topic; any number of them may work at the same time.

    ``secret`` is what a plan that erases needs, also a plan of others.  Without ``in_tasks`` ranges
    are rewritten here, one after the other.
    """

    archive: Archive
    topic: str
    workspace: Workspace
    choose: Choose
    secret: Secret | None = None
    progress: Progress = lambda _, __: None
    in_tasks: InTasks | None = None

    def planned(self) -> Plan:
        """Return what is to do now: the plan under way, else a new one, which is not put yet.

        Raises ``ConfigurationError`` for a plan of another version, ``Unavailable``.
        """
        return self._next().plan

    def run(self) -> list[RewriteResult]:
        """Finish the plan under way, then make one and carry it out.

        Raises ``ObjectConflict``, ``Unavailable``, ``LocalFilesExhausted``: doing it again is
        always right.
        """
        outcomes: list[RewriteResult] = []
        while True:
            step = self._next()
            number, plan = step.number, step.plan
            if not plan.ranges:
                # What another run is about to delete, it has to read once more before.
                if (
                    step.late
                    and read_bytes(self.archive.store, plan_key(self._root(), number)) is None
                ):
                    self._delete(step.late)
                return outcomes
            if not step.under_way:
                put_bytes(self.archive.store, plan_key(self._root(), number), _encoded(plan))
                plan = self._read(number)  # what was put first holds
            outcomes.append(self._carried_out(number, plan))
            if not step.under_way:
                self._delete(step.late)
                return outcomes

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.archive.store.delete(key)

    def _next(self) -> _Step:
        return again_where_objects_go(self._look)

    def _look(self) -> _Step:
        kinds: dict[int, set[str]] = {}
        root = self._root()
        for stored in self.archive.store.list(f"{root}/"):
            match = _NUMBER.fullmatch(stored.key.removeprefix(f"{root}/"))
            if match:
                kinds.setdefault(int(match[1]), set()).add(match[2])
        newest = max(kinds, default=0)
        # Only the newest: a number is put when the one before it has its ".done".
        if newest and "done" not in kinds[newest]:
            return _Step(newest, self._read(newest), under_way=True)
        # After the look at the numbers, never before: objects listed earlier may be of a plan that
        # was still deleting, and the new plan would join what is gone.
        everything = list(self.archive.everything(self.topic, superseded=True))
        waiting = [archived for archived in everything if self.archive.in_quarantine(archived)]
        objects = [archived for archived in everything if not self.archive.in_quarantine(archived)]
        plan = self._without_backfilled(self.choose(visible(objects), waiting))
        late = [archived.key for archived in superseded(objects)]
        return _Step(newest + 1, plan, late=late)

    def _without_backfilled(self, plan: Plan) -> Plan:
        """Leave out what a rollback of a backfill would look for.

        Raises ``ConfigurationError`` while one is published or rolled back: it deletes old
        objects by their names.
        """
        notes: dict[str, set[str]] = {}
        staged = self._root().rpartition("/_rewrites/")[0]
        for stored in self.archive.store.list(f"{staged}/"):
            match = _JOURNAL.fullmatch(stored.key.removeprefix(f"{staged}/"))
            if match:
                notes.setdefault(match[1], set()).add(match[2])
        for backfill, steps in notes.items():
            if ROLLBACK in steps or (BEGUN in steps and DONE not in steps):
                raise ConfigurationError(
                    f"backfill {backfill} is being published or rolled back: finish that first"
                )
        kept = {backfill for backfill, steps in notes.items() if CLEANED not in steps}
        if not kept:
            return plan
        ranges = (part for part in plan.ranges if not self._made_by(part, kept))
        return replace(plan, ranges=tuple(ranges))

    def _made_by(self, part: JoinedRange, backfills: set[str]) -> bool:
        heads = (self.archive.store.head(key) for key in part.inputs)
        return any((stored.metadata or {}).get(MARK) in backfills for stored in heads)

    def _carried_out(self, number: int, plan: Plan) -> RewriteResult:
        outcome = RewriteResult(plan)
        for result in (self.in_tasks or self._here)(number, plan):
            if result.ended is RangeOutcome.FAILED:
                outcome.failed.append(FailedRange(result.range, result.why))
            elif result.ended is RangeOutcome.DONE:
                outcome.done.append(result.range)
        # Also where ranges failed: they stay as they were and come into the next plan. Without it
        # no further plan would ever be made.
        put_bytes(self.archive.store, done_key(self._root(), number), b"")
        return outcome

    def _here(self, number: int, plan: Plan) -> Iterator[RangeResult]:
        """Rewrite the ranges one after the other."""
        rewriter = RangeRewriter.of(self.archive, self.workspace, number, plan, self.secret)
        for number_done, part in enumerate(plan.ranges, 1):
            result = rewriter.run(part)
            if result.ended is RangeOutcome.BY_OTHERS:
                return
            yield result
            self.progress(number_done, len(plan.ranges))

    def _read(self, number: int) -> Plan:
        key = plan_key(self._root(), number)
        data = read_bytes(self.archive.store, key)
        try:
            plan = msgspec.json.decode(data or b"", type=Plan)
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"{key}: is no plan of a rewrite ({error})") from error
        if plan.version != plan.expected_version:
            raise ConfigurationError(
                f"{key}: a plan of version {plan.version}: finish it with the version of Secor that"
                " made it"
            )
        return plan

    def _root(self) -> str:
        return rewrites_root(self.archive.root(self.topic))


def _encoded(plan: Plan) -> bytes:
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"
