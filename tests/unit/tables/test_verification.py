import numpy as np
import pyarrow as pa

from secor.tables.verification import beyond, missing, offsets_of, repeated
from tests.unit.tables.world import CLICKS, OTHER


def rows(*places: tuple[str | None, int | None, int | None]) -> pa.RecordBatch:
    topics, partitions, offsets = zip(*places, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(topics, pa.string()), pa.array(partitions, pa.int32()), pa.array(offsets)],
        ["_topic", "_kafka_partition", "_offset"],
    )


def test_offsets_are_gathered_by_where_rows_came_from() -> None:
    batches = [rows(("clicks", 0, 5), ("clicks", 1, 2), ("clicks", 0, 3)), rows(("clicks", 0, 4))]
    found = offsets_of([*batches, rows((None, None, None))])
    assert {key: list(offsets) for key, offsets in found.items()} == {CLICKS: [3, 4, 5], OTHER: [2]}
    assert offsets_of([]) == {}


def test_what_is_there_twice_is_named_once() -> None:
    offsets = {CLICKS: np.array([1, 2, 2, 2, 7, 7]), OTHER: np.array([1, 2])}
    (finding,) = repeated("db.t", offsets)
    assert str(finding) == "clicks/0: twice in db.t: [2, 8), 2 messages"


def test_what_is_beyond_the_vector_is_extra() -> None:
    offsets = {CLICKS: np.array([1, 2, 9]), OTHER: np.array([100])}
    (finding,) = beyond("db.t", offsets, {CLICKS: 9})
    assert (finding.kind, finding.start, finding.end, finding.count) == ("extra", 9, 10, 1)


def test_what_no_table_has_is_missing_below_the_bound() -> None:
    log = np.array([1, 2, 3, 7, 8])
    stored = [np.array([1, 3]), np.array([2])]
    assert missing(CLICKS, log, 7, stored) is None
    finding = missing(CLICKS, log, 9, stored)
    assert finding is not None
    assert str(finding) == "clicks/0: missing in every table: [7, 9), 2 messages"
    assert missing(CLICKS, np.array([], np.int64), 9, []) is None
