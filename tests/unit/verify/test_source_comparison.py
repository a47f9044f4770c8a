"""Rows that differ are looked at again until both sides are comparable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from secor.core.errors import ConfigurationError
from secor.verify.source.columns import pair_columns
from secor.verify.source.comparison import LogTail, compare_with_source
from secor.verify.source.report import SourceComparison, lsn_text
from secor.verify.source.values import SourceColumn
from tests.fakes.clock import FakeClock

SOURCES = [SourceColumn("id", "int4", "integer"), SourceColumn("note", "text", "text")]
SCHEMA = pa.schema([("id", pa.int32()), ("note", pa.string()), ("_offset", pa.int64())])
Rows = dict[int, str]


class FakeSource:
    """A database whose log is at ``position``."""

    def __init__(self, rows: Rows, position: int = 100, slot: int | None = None) -> None:
        self.data, self.position, self.slot = rows, position, slot

    @contextmanager
    def snapshot(self) -> Iterator[FakeSource]:
        yield self

    def delivered(self) -> int | None:
        return self.slot

    def rows(self) -> Iterator[Sequence[Sequence[str | None]]]:
        yield [(str(key), note) for key, note in self.data.items()]

    def rows_of(self, keys: Sequence[Sequence[str]]) -> Iterator[Sequence[Sequence[str | None]]]:
        yield [(key, self.data[int(key)]) for (key,) in keys if int(key) in self.data]


class FakeTable:
    """A table that becomes the next of ``versions`` at each refresh."""

    def __init__(self, *versions: Rows, tails: Sequence[LogTail]) -> None:
        self._versions, self._tails = list(versions), list(tails)

    def refresh(self) -> bool:
        changed = len(self._versions) > 1
        if changed:
            self._versions.pop(0)
        return changed

    def scan(self) -> Iterator[pa.RecordBatch]:
        rows = self._versions[0]
        yield pa.RecordBatch.from_pydict({"id": list(rows), "note": list(rows.values())})

    def tail(self) -> LogTail:
        return self._tails.pop(0) if len(self._tails) > 1 else self._tails[0]


def tail(*keys: int, position: int | None = None) -> LogTail:
    return LogTail(frozenset((key,) for key in keys), position)


def compare(
    folder: Path, source: FakeSource, table: FakeTable, clock: FakeClock | None = None
) -> SourceComparison:
    result = SourceComparison("db.t", "public.t")
    columns = pair_columns(SOURCES, SCHEMA, ["id"], result)
    clock = clock or FakeClock()
    compare_with_source(source, table, columns, result, folder, rows=9, clock=clock, wait=20)
    return result


def test_a_row_that_differs_is_wrong_once_the_log_shows_every_change(tmp_path: Path) -> None:
    clock = FakeClock()
    source = FakeSource({1: "a", 2: "b", 3: "c"})
    table = FakeTable({1: "a", 2: "x", 4: "d"}, tails=[tail(position=99), tail(position=100)])
    result = compare(tmp_path, source, table, clock)
    assert sorted(it.text.split(": the")[0] for it in result.differences) == [
        "different: id=2: note is b in the source, x in the table",
        "missing: id=3",
        "surplus: id=4",
    ]
    assert (result.unsettled, result.undelivered, clock.slept) == (0, False, [2.0])


def test_a_slot_that_has_confirmed_everything_shows_it_too(tmp_path: Path) -> None:
    clock = FakeClock()
    table = FakeTable({1: "x"}, tails=[tail()])
    result = compare(tmp_path, FakeSource({1: "a"}, slot=100), table, clock)
    assert (result.wrong, result.undelivered, clock.slept) == ({"different": 1}, False, [])


def test_changes_on_their_way_are_waited_for(tmp_path: Path) -> None:
    late = tail(1, position=200)
    table = FakeTable({1: "old"}, {1: "old"}, {1: "a"}, tails=[late, late, tail()])
    result = compare(tmp_path, FakeSource({1: "a"}), table)
    assert (result.findings, result.unsettled) == (0, 0)


def test_a_row_that_waits_for_its_commit_is_counted_and_not_wrong(tmp_path: Path) -> None:
    table = FakeTable({1: "old", 2: "b"}, tails=[tail(1, position=200)])
    result = compare(tmp_path, FakeSource({1: "a", 2: "b"}), table)
    assert (result.findings, result.unsettled, result.proves_nothing) == (0, 1, False)
    assert "a longer --wait" in "\n".join(result.lines())


def test_the_report_says_when_the_connector_may_be_behind(tmp_path: Path) -> None:
    table = FakeTable({1: "old"}, tails=[tail(position=5)])
    result = compare(tmp_path, FakeSource({1: "a"}), table)
    assert (result.wrong, result.undelivered) == ({"different": 1}, True)
    assert f"everything up to {lsn_text(100)}" in "\n".join(result.lines())


def test_rows_without_a_common_key_are_refused() -> None:
    result = SourceComparison("db.t", "public.t")
    with pytest.raises(ConfigurationError, match="uid: the source does not have it"):
        pair_columns(SOURCES, SCHEMA, ["uid"], result)
    with pytest.raises(ConfigurationError, match="id: integer in the source, binary in"):
        pair_columns(SOURCES, pa.schema([("id", pa.binary())]), ["id"], result)


def test_positions_are_shown_as_postgresql_shows_them() -> None:
    assert lsn_text(0x16_B374D848) == "LSN 16/B374D848"
