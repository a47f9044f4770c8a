"""What ``secor tables commit`` prints of its cycle."""

from __future__ import annotations

from collections.abc import Iterator

from secor.core.errors import SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.core.text import how_many
from secor.tables.commit_result import Result, TableResult
from secor.tables.observer import Backlog
from secor.tables.refused_files import describe


class CycleReport:
    """A ``TableObserver`` that keeps what a command prints."""

    def __init__(self) -> None:
        self._results: list[TableResult] = []
        self._errors: list[SecorError] = []
        self._missing = 0

    def leading(self, leads: bool, epoch: int) -> None:
        """Say nothing."""

    def cycle_ended(self, seconds: float, missing: int) -> None:
        """Keep how many partitions did not answer."""
        self._missing = missing

    def cycle_discarded(self, missing: int) -> None:
        """A cycle ended without a commit; see ``TableObserver``."""
        self._errors.append(
            Unavailable(f"nothing committed: {missing} topic partitions did not answer")
        )

    def cycle_failed(self, error: SecorError) -> None:
        """Keep it."""
        self._errors.append(error)

    def timestamp_from_future(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Say nothing: valid-through ignores it."""

    def table_committed(self, result: TableResult) -> None:
        """Keep it."""
        self._results.append(result)

    def staged(self, backlog: Backlog) -> None:
        """Say nothing."""

    @property
    def wrong(self) -> bool:
        """Something was not committed."""
        return bool(self._errors) or any(
            it.error or it.stopped or it.refused for it in self._results
        )

    def lines(self) -> Iterator[str]:
        """Give what to print."""
        for error in self._errors:
            yield f"failed: {error}"
        if self._missing:
            yield f"{how_many(self._missing, 'topic partition')} did not answer in time"
        for result in self._results:
            if result.result is Result.COMMITTED:
                rows = how_many(result.records, "row")
                yield f"{result.table}: {rows} in {how_many(result.files, 'file')} committed"
            elif result.error is not None:
                yield f"{result.table}: {result.result}: {result.error}"
            else:
                yield f"{result.table}: nothing new"
            for key, why in sorted(result.stopped.items()):
                yield f"{result.table}: {key} is stopped: {why}"
            for sentence in describe(result.table, result.refused):
                yield f"{result.table}: {sentence}"
        if not self._results and not self._errors:
            yield "nothing is staged"
