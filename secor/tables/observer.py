"""Reports of the coordinator to metrics, log and status page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from secor.core.errors import SecorError

if TYPE_CHECKING:  # the status page of every group knows this module
    from secor.core.model import TopicPartition
    from secor.tables.commit.commit_result import TableResult


@dataclass(frozen=True, slots=True)
class Backlog:
    """Files that are staged and not in all of their tables yet; ``oldest`` in seconds since the
    epoch.

    ``by_table`` has what each single table lacks; ``lag`` how many offsets each is behind the
    logs of its topics, as far as that is known.
    """

    manifests: int
    files: int
    size: int
    oldest: float | None
    rows: int = 0
    by_table: Mapping[str, Backlog] = field(default_factory=dict)
    lag: Mapping[str, int] = field(default_factory=dict)


class TableObserver(Protocol):
    """Called from the coordinator's thread; must not block or raise."""

    def leading(self, leads: bool, epoch: int) -> None:
        """This process coordinates, or ceases to."""

    def cycle_ended(self, seconds: float, missing: int) -> None:
        """A cycle went through; so many topic partitions had not answered."""

    def cycle_discarded(self, missing: int) -> None:
        """A cycle ended without a commit: so many topic partitions had not answered."""

    def cycle_failed(self, error: SecorError) -> None:
        """A cycle found no ledger, store or broker; the next tries again."""

    def timestamp_from_future(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """A batch has a message of this time (ms), which is yet to come; reported once."""

    def table_committed(self, result: TableResult) -> None:
        """A table was committed, had nothing new, is stopped or could not be reached."""

    def staged(self, backlog: Backlog) -> None:
        """So much was staged when a cycle had ended."""
