"""The upload threads: commits side by side, and the puts of each batch in parallel."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from secor.batch.sealed import BatchFile


class ThreadPool:
    """An ``Executor`` of ``threads`` threads for batches to commit, and as many again for puts."""

    def __init__(self, threads: int) -> None:
        """Start no thread yet."""
        self._threads = threads
        self._commits = ThreadPoolExecutor(threads, thread_name_prefix="commit")
        # A pool of its own: a commit waits for its puts, and if both shared the threads, commits
        # could take all of them and wait for ever.
        self._puts = ThreadPoolExecutor(threads, thread_name_prefix="put")
        self._done: queue.SimpleQueue[Future[object]] = queue.SimpleQueue()

    def submit(self, task: Callable[[], object]) -> None:
        """Run ``task`` soon."""
        self._commits.submit(task).add_done_callback(self._done.put)

    def finished(self) -> Sequence[object]:
        """Return the results since the last call; re-raise what a task let escape."""
        results = []
        # Only the loop takes from it, so an entry that was seen is still there for ``get``.
        while not self._done.empty():
            results.append(self._done.get().result())
        return results

    def parallel(self, function: Callable[[BatchFile], None], files: Iterable[BatchFile]) -> None:
        """Call ``function`` for each file on the put threads; raise the first error, last of all.

        All calls have ended when it returns, so that no put outlives its lease.  A single file
        is put by the caller: handing it over costs more than it would wait for.
        """
        files = list(files)
        if len(files) == 1:
            function(files[0])
            return
        waiting: deque[Future[None]] = deque()
        errors: list[BaseException | None] = []
        for file in files:
            # No more at once than there are threads: else all of it comes before another's first.
            if len(waiting) == self._threads:
                errors.append(waiting.popleft().exception())
            waiting.append(self._puts.submit(function, file))
        # Wait for all before one is raised: the caller releases the lease then, and a put that is
        # still running would land under the lease of somebody else.
        errors += [call.exception() for call in waiting]
        for error in filter(None, errors):
            raise error

    def close(self) -> None:
        """Cancel what has not started; do not wait for the rest."""
        # A put may hang in a dead store for minutes.  To leave it is safe: its intent stays, and
        # the next process looks for its object.
        self._commits.shutdown(wait=False, cancel_futures=True)
        self._puts.shutdown(wait=False, cancel_futures=True)
