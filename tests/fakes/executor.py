from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence


class InlineExecutor:
    """An ``Executor`` in the caller's thread.

    Tasks run when they are submitted; with ``held`` they wait for ``step``, so that a test
    says what happens while one is in work.
    """

    def __init__(self, *, held: bool = False) -> None:
        self.held = held
        self.waiting: deque[Callable[[], object]] = deque()
        self._results: list[object] = []

    def submit(self, task: Callable[[], object]) -> None:
        self.waiting.append(task)
        if not self.held:
            self.step()

    def step(self) -> None:
        """Run the task that has waited longest."""
        self._results.append(self.waiting.popleft()())

    def finished(self) -> Sequence[object]:
        results, self._results = self._results, []
        return results
