"""What was erased in a run, and the comparison of every message with what is left in the store.

Messages are read from the broker by librdkafka; from the store all objects count, also those that
no reader of Secor would look at any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from secor.core.model import TopicPartition
from tests.soak.restored import Row

Ends = Mapping[TopicPartition, int]


@dataclass(slots=True)
class Erasing:
    """Keys of a topic that were to be erased, by as many runs of the command as it took.

    ``settled`` is the committed offsets before the last run, when it ended well; None until then.
    ``most`` is the committed offsets after it, which was ``over`` at a second of the story: nothing
    behind them may be touched.
    """

    topic: str
    keys: frozenset[bytes | None]
    tombstones: bool
    settled: Ends | None = None
    over: float = 0.0
    most: Ends = field(default_factory=dict)

    def must(self, owner: TopicPartition, offset: int, key: bytes | None) -> bool:
        """Tell whether a message has to be erased."""
        settled = self.settled or {}
        return owner.topic == self.topic and key in self.keys and offset < settled.get(owner, 0)

    def may(self, owner: TopicPartition, offset: int, key: bytes | None) -> bool:
        """Tell whether a message can have been erased."""
        return owner.topic == self.topic and key in self.keys and offset < self.most.get(owner, 0)


def stored_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Row]]:
    """Give offset and content of messages as Secor's readers give them."""
    for batch in batches:
        for row in batch.to_pylist():
            headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
            yield row["offset"], (row["timestamp"], row["key"], row["value"], headers)


@dataclass(slots=True)
class Comparison:
    """Compares stored messages with those of the log; ``counts`` is what was found."""

    erasings: Collection[Erasing]
    violated: Callable[[str], None]
    compared: int = 0
    erased: int = 0
    emptied: int = 0
    unlogged: int = 0
    _stored: dict[tuple[TopicPartition, int], tuple[str, Row]] = field(default_factory=dict)

    def stored(self, owner: TopicPartition, key: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Add the messages of an object."""
        for offset, row in stored_rows(batches):
            other = self._stored.setdefault((owner, offset), (key, row))
            if other[0] != key or other[1] is not row:
                self.violated(f"{owner} offset {offset} is in {other[0]} and in {key}")
            self._look_for_erased(owner, offset, key, row)

    def _look_for_erased(self, owner: TopicPartition, offset: int, key: str, row: Row) -> None:
        _, message_key, value, headers = row
        for erasing in self.erasings:
            if erasing.must(owner, offset, message_key) and not (
                erasing.tombstones and value is None and not headers
            ):
                self.violated(f"{owner} offset {offset} was erased and is in {key}")

    def logged(
        self, owner: TopicPartition, rows: Iterable[tuple[int, Row]], *, whole: bool
    ) -> None:
        """Compare with all messages of a log; it is not ``whole`` where it may be compacted."""
        for offset, row in rows:
            where, found = self._stored.pop((owner, offset), (None, None))
            self._compare(owner, offset, row, where, found)
        rest = [offset for tp, offset in self._stored if tp == owner]
        for offset in rest:
            key, _ = self._stored.pop((owner, offset))
            self.unlogged += 1
            if whole:
                self.violated(f"{owner} offset {offset} is in {key} and not in the log")

    def _compare(
        self, owner: TopicPartition, offset: int, row: Row, where: str | None, found: Row | None
    ) -> None:
        time, key, _, _ = row
        may = [erasing for erasing in self.erasings if erasing.may(owner, offset, key)]
        if found is None:
            self.erased += 1
            if all(erasing.tombstones for erasing in may):
                self.violated(f"{owner} offset {offset} is lost")
        elif found == row:
            self.compared += 1
        elif found == (time, key, None, ()) and any(erasing.tombstones for erasing in may):
            self.emptied += 1
        else:
            self.violated(f"{owner} offset {offset} is changed in {where}: {found!r:.200}")

    def __str__(self) -> str:
        return (
            f"{self.compared:,} messages equal, {self.erased:,} erased, {self.emptied:,} without"
            f" their value, {self.unlogged:,} no longer in the log, by"
            f" {len(self.erasings)} erasures"
        )
