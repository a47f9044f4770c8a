from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from secor.core.model import Offsets, TopicPartition
from secor.verify.tables import AGAIN, RoutedMessages, beyond, compare, offsets_of, repeated
from secor.wiring.table_routes import routing_parser
from tests.unit.tables.worker_world import WorkerWorld, chunk_of
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
    assert str(finding) == "clicks/0: extra in db.t: [9, 10), 1 message"


def of(*offsets: int) -> Offsets:
    return np.array(offsets, np.int64)


ROUTED = RoutedMessages(
    of(1, 2, 3, 7, 8, 9), {"db.all": of(1, 2, 3, 7), "db.late": of(3, 7)}, of(8)
)
WHOLE = {"db.all": of(1, 2, 3, 7), "db.late": of(3, 7)}


def found(
    stored: Mapping[str, Offsets], quarantined: Offsets, *silent: str
) -> tuple[list[str], int, int]:
    result = compare(CLICKS, ROUTED, stored, quarantined, silent)
    return [str(it) for it in result.findings], result.left_out, result.unknown


def test_a_message_belongs_into_every_table_of_its_routes_or_into_quarantine() -> None:
    assert found(WHOLE, of(8)) == ([], 1, 0)  # 9 is filtered
    assert found({**WHOLE, "db.late": of(7)}, of(8))[0] == [
        "clicks/0: missing in db.late: [3, 4), 1 message"
    ]
    assert found({"db.all": WHOLE["db.all"]}, of(8))[0] == [
        "clicks/0: missing in db.late: [3, 8), 2 messages"
    ]
    in_quarantine = {"db.all": of(1, 2, 7), "db.late": of(7)}
    assert found(in_quarantine, of(3, 8)) == ([], 1, 0)
    lost = {"db.all": of(1, 2), "db.late": of()}
    assert found(lost, of(3)) == (["clicks/0: missing in every table: [7, 9), 2 messages"], 1, 0)


def test_a_message_in_a_table_and_in_quarantine_is_named() -> None:
    assert found(WHOLE, of(3, 8))[0] == [
        "clicks/0: in quarantine and in a table: [3, 4), 1 message"
    ]


def test_tables_that_tell_no_offsets_may_have_what_is_nowhere_else() -> None:
    assert found({"db.late": of(3, 7)}, of(8), "db.all") == ([], 1, 2)


def test_the_routes_say_where_messages_belong(tmp_path: Path) -> None:
    tables = [
        {"table": "db.{topic}"},
        {"table": "db.kind_{fields.kind}", "field": "id", "matches": "[0-9]+"},
    ]
    filters = [{"kind": "filter", "field": "drop", "equals": True, "negated": True}]
    settings = {"parser": {"decoder": "json", "transforms": filters}}
    config = WorkerWorld(tmp_path, tables, settings).config
    parser, routed = routing_parser(config, "flights")
    given = [{"id": 1, "kind": "a"}, {"id": "x"}, {"id": 2}, b"{", {"drop": True}]
    bad = parser.split(chunk_of(given, TopicPartition("flights", 0)))
    assert {name: list(offsets) for name, offsets in routed.take().items()} == {
        "db.flights": [0, 1],
        "db.kind_a": [0],
    }
    assert [part.records.column("offset").to_pylist() for part in bad] == [[2, 3]]
    assert routed.take() == {}


def test_what_was_erased_from_one_table_is_missing_in_no_other() -> None:
    def with_erased(stored: Mapping[str, Offsets], **erased: Offsets) -> tuple[list[str], object]:
        by_table = {f"db.{name}": offsets for name, offsets in erased.items()}
        result = compare(CLICKS, ROUTED, stored, of(8), erased=by_table)
        return [str(finding) for finding in result.findings], result.erased

    absent = {**WHOLE, "db.late": of(7)}
    assert with_erased(absent, late=of(3)) == ([], {"db.late": 1})
    assert with_erased(absent, all=of(3))[0] == [
        f"clicks/0: extra in db.all: [3, 4), 1 message{AGAIN}",
        "clicks/0: missing in db.late: [3, 4), 1 message",
    ]
    # The other table has lost it, and nobody has erased it there.
    nowhere = {"db.all": of(1, 2, 7), "db.late": of(7)}
    assert with_erased(nowhere, late=of(3))[0] == ["clicks/0: missing in db.all: [3, 4), 1 message"]
    assert with_erased(nowhere, late=of(3), all=of(3)) == ([], {"db.all": 1, "db.late": 1})
    # One that is erased does not count for another that is missing.
    fewer = {"db.all": of(2, 7), "db.late": of(7)}
    assert with_erased(fewer, late=of(3), all=of(3))[0] == [
        "clicks/0: missing in every table: [1, 2), 1 message"
    ]
