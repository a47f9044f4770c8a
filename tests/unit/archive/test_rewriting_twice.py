"""Tasks that do the same range at the same time, as Spark's speculation has them, at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from secor.archive.objects import Archive
from secor.archive.rewrite.carrying_out import Rewriter
from secor.archive.rewrite.one_range import RangeOutcome, RangeResult, RangeRewriter
from secor.archive.rewrite.planning import JoinedRange, Plan, plan_of
from secor.batch.workspace import Workspace
from secor.core.errors import ObjectConflict, Unavailable
from tests.fakes.store import FakeStore, nothing
from tests.unit.archive.test_erase import SECRET, eraser, filled
from tests.unit.archive.test_rewrite import LIMITS

STEPS = 200
Carried = Callable[[int, Plan], list[RangeResult]]


def compact(store: FakeStore, directory: Path, in_tasks: Carried) -> None:
    workspace = Workspace(directory, "driver")
    Rewriter(
        Archive(store, "p"),
        "clicks",
        workspace,
        lambda objects, waiting: plan_of("clicks", objects, waiting, LIMITS),
        in_tasks=in_tasks,
    ).run()
    workspace.close()


def erase(store: FakeStore, directory: Path, in_tasks: Carried) -> None:
    workspace = Workspace(directory, "driver")
    replace(eraser(store), in_tasks=in_tasks).run([b"a", None], workspace, tombstones=False)
    workspace.close()


@contextmanager
def task(
    store: FakeStore, directory: Path, name: str, number: int, plan: Plan
) -> Iterator[RangeRewriter]:
    workspace = Workspace(directory, name)
    try:
        yield RangeRewriter.of(Archive(store, "p"), workspace, number, plan, SECRET)
    finally:
        workspace.close()


def contents(store: FakeStore) -> dict[str, bytes]:
    return {key: store.content(key) for key in store.objects}


class OneTaskTwice:
    """Does ranges in tasks: of the first range a second task while the first is at ``step``.

    It is done as a whole then, and the first one goes on, or is killed.
    """

    def __init__(self, store: FakeStore, directory: Path, step: int, *, resumes: bool) -> None:
        self.store = store
        self.directory = directory
        self.step = step
        self.resumes = resumes
        self.met = False

    def __call__(self, number: int, plan: Plan) -> list[RangeResult]:
        first, *others = plan.ranges
        results = [self._twice(number, plan, first)]
        with task(self.store, self.directory, "others", number, plan) as other:
            return results + [other.run(part) for part in others]

    def _twice(self, number: int, plan: Plan, part: JoinedRange) -> RangeResult:
        calls = 0
        done: list[RangeResult] = []

        def second(call: str, key: str) -> None:
            nonlocal calls
            calls += 1
            if calls == self.step + 1:
                self.store.before = nothing
                with task(self.store, self.directory, "second", number, plan) as speculative:
                    done.append(speculative.run(part))
                if not self.resumes:
                    raise Unavailable("the first task is killed")

        self.store.before = second
        try:
            with task(self.store, self.directory, "first", number, plan) as first:
                done.append(first.run(part))
        except (Unavailable, ObjectConflict):
            # What it reads is gone: Spark has the result of the other.
            assert done
        finally:
            self.store.before = nothing
        self.met = calls > self.step
        assert done[0].ended is RangeOutcome.DONE
        return done[0]


@pytest.mark.parametrize("use", [compact, erase])
@pytest.mark.parametrize("resumes", [True, False])
def test_two_tasks_of_one_range_leave_what_one_leaves(
    use: Callable[[FakeStore, Path, Carried], None], *, resumes: bool, tmp_path: Path
) -> None:
    alone = filled()
    use(alone, tmp_path / "driver", OneTaskTwice(alone, tmp_path / "tasks", STEPS, resumes=True))
    for step in range(STEPS):
        store = filled()
        tasks = OneTaskTwice(store, tmp_path / "tasks", step, resumes=resumes)
        use(store, tmp_path / "driver", tasks)
        assert contents(store) == contents(alone), step
        if not tasks.met:
            return
    raise AssertionError("more steps than expected")
