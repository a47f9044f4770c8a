from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from secor.archive.objects import Archive
from secor.core.model import Chunk, Entry, LogRange, OffsetRange, TopicPartition
from secor.formats import make_format
from secor.verify.archive.inventory import Cause, Inventory
from secor.verify.archive.verifier import Verifier, verify_archive_only
from secor.verify.evidence import partition_record
from tests.fakes.archive import CLICKS, MemoryLog, OperatorLedger, Shelf, messages


class AbortedLog(MemoryLog):
    """A log in which a transaction of the offsets 12 to 14 was aborted; 15 is its marker."""

    def read_uncommitted(
        self, topic_partition: TopicPartition, start: int, end: int
    ) -> Iterator[Chunk]:
        for chunk in self.read(topic_partition, start, end):
            committed = chunk.records.column("offset").to_pylist()
            offsets = sorted({*committed, *(it for it in (12, 13, 14) if start <= it < end)})
            yield Chunk(topic_partition, messages(offsets), end)
            return


def test_holes_have_their_causes(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "bucket", make_format("sequencefile"))
    shelf.put(messages([0, 1, 4]), OffsetRange(0, 6), least_timestamp=5000, greatest_timestamp=7000)
    shelf.put(messages([8, 9, 10, 11, 16, 18]), OffsetRange(8, 20))
    shelf.put(messages([20]), OffsetRange(20, 25))
    log = AbortedLog()
    log.put(CLICKS, messages([9, 10, 11, 16, 18]), 20)
    log.ranges[CLICKS] = LogRange(9, 20)
    archive = Archive(shelf.store, "backup")
    ledger = OperatorLedger({CLICKS: Entry(20)})
    [report] = Verifier(archive, log, ledger, inventories=True).verify("clicks", [0])
    record = partition_record(report, shelf.store, log.read_uncommitted, lambda _: None)
    assert (record.start, record.end, record.messages) == (0, 20, 9)
    assert {cause: it.ranges for cause, it in record.holes.items()} == {
        "unseen": ((2, 4), (5, 6)),
        "uncovered": ((6, 8),),
        "aborted": ((12, 15),),
        "compacted": ((15, 16), (17, 18), (19, 20)),
    }
    assert (record.first_time, record.last_time) == (
        "1970-01-01T00:00:05+00:00",
        "1970-01-01T00:00:07+00:00",
    )
    assert [it.key.rpartition("_")[2][:20] for it in record.objects] == ["0" * 20, f"{8:020d}"]


def test_text_below_the_log_has_holes_that_nobody_knows(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "bucket", make_format("text"))
    shelf.put(messages([0, 3]), OffsetRange(0, 5))
    shelf.put(messages([5, 6]), OffsetRange(5, 8))
    log = MemoryLog()
    log.put(CLICKS, messages([5, 6]), 8)
    ledger = OperatorLedger({CLICKS: Entry(8)})
    archive = Archive(shelf.store, "backup")
    [report] = Verifier(archive, log, ledger, inventories=True).verify("clicks", [0])
    assert report.inventory is not None
    assert report.inventory.messages == 4
    assert {cause: it.ranges for cause, it in report.inventory.holes.items()} == {
        Cause.UNKNOWN: [OffsetRange(0, 5)],
        Cause.COMPACTED: [OffsetRange(7, 8)],
    }
    [alone] = verify_archive_only(archive, "clicks", inventories=True)
    assert alone.inventory is not None
    assert (alone.inventory.messages, alone.inventory.end) == (4, 8)


def test_what_a_parser_leaves_out_is_no_compaction() -> None:
    inventory = Inventory(10, [])
    logged = np.array([8, 10, 11, 14])
    inventory.window(20, np.array([8, 10]), logged, np.array([11]))
    assert {cause: it.ranges for cause, it in inventory.holes.items()} == {
        Cause.FILTERED: [OffsetRange(11, 12)],
        Cause.COMPACTED: [OffsetRange(12, 14), OffsetRange(15, 20)],
    }
