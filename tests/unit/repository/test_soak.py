"""The soak's own eyes: what must not be is seen, what may be is not."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c

from secor.core.model import SCHEMA, Chunk, TopicPartition
from secor.formats import make_format
from tests.fakes.format import chunk_of
from tests.soak.audit import Audit, checksum
from tests.soak.changed_tables import KeyTwice, by_key, newest_files
from tests.soak.erased import Comparison, Erasing
from tests.soak.fleet import events
from tests.soak.parsed import QUARANTINE, Placement, place, value
from tests.soak.restored import Row
from tests.soak.story import Happening
from tests.soak.tables import TableContents, tables_of
from tests.soak.watch import Held, Sample, growth, recovery, went_back

TP = TopicPartition("soak-plain", 0)


def header(data: bytes) -> str:
    return base64.b64encode(crc32c(data).to_bytes(4, "big")).decode()


class Watched:
    """An audit of the bucket ``b`` and what it found."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.audit = Audit("b", self.found.append)

    def ask(
        self, method: str, target: str, status: int = 200, data: bytes = b"x", body: bytes = b""
    ) -> None:
        headers = {"if-none-match": "*", "x-amz-checksum-crc32c": header(data)}
        self.audit.answered(method, f"/b/{target}", headers, status, body)


def test_a_second_successful_put_is_seen() -> None:
    watched = Watched()
    watched.ask("PUT", "one%3D1")
    watched.ask("PUT", "one%3D1", status=412)
    assert watched.found == []
    watched.ask("PUT", "one%3D1")
    assert ["one=1 was put twice" in text for text in watched.found] == [True]


def test_only_after_an_upgrade_may_an_object_be_deleted_and_put_anew() -> None:
    watched = Watched()
    watched.ask("PUT", "of-the-older")
    watched.ask("DELETE", "of-the-older", status=204)
    assert watched.found == ["of-the-older was deleted"]
    watched.found.clear()
    watched.audit.upgraded = True
    watched.ask("PUT", "open")
    watched.ask("DELETE", "open", status=204)
    watched.ask("PUT", "open", data=b"y")
    watched.ask("PUT", "open", data=b"y")
    assert ["open was put twice" in text for text in watched.found] == [True]
    assert watched.audit.superseded == 1


def test_parts_and_repeated_completions_are_no_second_put() -> None:
    watched = Watched()
    for part in (1, 2):
        watched.ask("PUT", f"k?uploadId=u&partNumber={part}")
    for _ in range(2):
        watched.ask("POST", "k?uploadId=u")
    watched.ask("POST", "k?uploadId=v", body=b"<Error>PreconditionFailed</Error>")
    watched.ask("DELETE", "k?uploadId=v", status=204)
    assert watched.found == []
    watched.ask("POST", "k?uploadId=v")
    assert len(watched.found) == 1


def test_a_put_without_its_condition_and_a_deletion_are_seen() -> None:
    watched = Watched()
    watched.audit.answered("PUT", "/b/k", {}, 200, b"")
    watched.ask("DELETE", "k", status=204)
    assert watched.found == ["k was put without If-None-Match", "k was deleted"]


def test_an_object_that_changed_vanished_or_came_by_itself_is_seen() -> None:
    watched = Watched()
    for key in ("same", "changed", "gone"):
        watched.ask("PUT", key, data=b"first")
    watched.audit.compare([("same", crc32c(b"first")), ("changed", crc32c(b"second"))])
    watched.audit.compare([("foreign", 0)])
    assert "gone was put and is not there any more" in watched.found
    assert any(text.startswith("changed has CRC32C") for text in watched.found)
    assert "foreign is there and was never put" in watched.found
    assert not any(text.startswith("same has") for text in watched.found)


OLD, NEXT = (f"t/offset=0/1_0_{start:020d}.seq" for start in (0, 10))
JOINED = "t/offset=0/1_0_00000000000000000000.rewrite-1-to-10.seq"


def test_an_object_is_deleted_only_when_another_has_its_range() -> None:
    watched = Watched()
    watched.audit.rewritten = True
    for key in (OLD, NEXT):
        watched.ask("PUT", key)
    watched.ask("DELETE", OLD, status=204)
    assert watched.found == [f"{OLD} was deleted"]
    watched.found.clear()
    watched.ask("PUT", JOINED)
    watched.ask("DELETE", OLD, status=204)
    assert watched.found == []
    assert watched.audit.replaced == 1
    for key in (NEXT, JOINED):
        watched.ask("DELETE", key, status=204)
    assert watched.found == [f"{NEXT} was deleted", f"{JOINED} was deleted"]


def test_a_late_put_of_a_replaced_object_has_to_be_the_same_and_to_go_again() -> None:
    watched = Watched()
    watched.audit.rewritten = True
    for method, key in (("PUT", OLD), ("PUT", JOINED), ("DELETE", OLD), ("PUT", OLD)):
        watched.ask(method, key)
    assert watched.found == []
    watched.audit.compare([(OLD, crc32c(b"x")), (JOINED, crc32c(b"x"))])
    assert watched.found == [f"{OLD} was deleted and is there again"]
    watched.ask("PUT", OLD, data=b"changed")
    assert "was put twice" in watched.found[-1]


def rows_of(*offsets: int) -> list[tuple[int, Row]]:
    return [(offset, (7, b"key-%d" % (offset % 3), b"value", ())) for offset in offsets]


def batch_of(rows: Sequence[tuple[int, Row]]) -> pa.RecordBatch:
    columns: list[dict[str, Any]] = [
        {"offset": offset, "timestamp": time, "key": key, "value": value, "headers": []}
        for offset, (time, key, value, _) in rows
    ]
    return pa.RecordBatch.from_pylist(columns, schema=SCHEMA)


def compared(erasing: Erasing, stored: Sequence[tuple[int, Row]]) -> list[str]:
    found: list[str] = []
    comparison = Comparison([erasing], found.append)
    comparison.stored(TP, "k", [batch_of(stored)])
    comparison.logged(TP, rows_of(0, 1, 2, 3, 4, 5), whole=True)
    return found


def test_a_message_that_is_lost_changed_or_back_from_the_dead_is_seen() -> None:
    erasing = Erasing(TP.topic, frozenset({b"key-0"}), False, {TP: 3}, most={TP: 5})
    assert compared(erasing, rows_of(1, 2, 4, 5)) == []
    assert compared(erasing, rows_of(1, 2, 3, 4, 5)) == []  # perhaps committed in time
    assert compared(erasing, rows_of(0, 1, 2, 4, 5)) == [f"{TP} offset 0 was erased and is in k"]
    assert compared(erasing, rows_of(1, 2, 5)) == [f"{TP} offset 4 is lost"]
    assert compared(erasing, rows_of(1, 2, 4, 5, 6)) == [
        f"{TP} offset 6 is in k and not in the log"
    ]
    changed = [(2, (7, b"key-2", b"other", ())), *rows_of(1, 4, 5)]
    assert ["offset 2 is changed" in text for text in compared(erasing, changed)] == [True]
    assert "is in k and in k" in compared(erasing, rows_of(1, 1, 2, 4, 5))[0]


def test_a_tombstone_of_an_erased_message_is_none_of_another() -> None:
    erasing = Erasing(TP.topic, frozenset({b"key-0"}), True, {TP: 3}, most={TP: 3})
    emptied = [(0, (7, b"key-0", None, ()))]
    assert compared(erasing, [*emptied, *rows_of(1, 2, 3, 4, 5)]) == []
    assert compared(erasing, rows_of(1, 2, 3, 4, 5)) == [f"{TP} offset 0 is lost"]
    late = [*emptied, *rows_of(1, 2), (3, (7, b"key-0", None, ())), *rows_of(4, 5)]
    assert ["offset 3 is changed" in text for text in compared(erasing, late)] == [True]


def test_a_checksum_header_is_big_endian() -> None:
    assert checksum(header(b"abc")) == crc32c(b"abc")
    assert checksum(None) is None


def held(*amounts: tuple[int, int]) -> list[Held]:
    return [Held(10.0 * i, mib << 20, files) for i, (mib, files) in enumerate(amounts)]


def warming_up(after: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return [*((min(200, 60 + 12 * i), 20) for i in range(13)), *after]


def test_steady_growth_after_the_warm_up_is_a_leak() -> None:
    grows = [(200 + i, 20) for i in range(36)]
    leaks = [(200, 20 + 2 * i) for i in range(36)]
    rough = [(200 + i + 40 * (i % 3), 20) for i in range(36)]
    assert growth(held(*warming_up(grows))) == (
        "memory grew from 200 to 229 MiB after the first 120 s, 290 MiB an hour"
    )
    assert "open files grew" in (growth(held(*warming_up(leaks))) or "")
    assert "memory grew" in (growth(held(*warming_up(rough))) or "")


def test_what_a_process_comes_to_once_is_no_leak() -> None:
    flat = [(200, 20)] * 36
    waves = [(200 + 100 * (i % 2), 20 + 40 * (i % 2)) for i in range(36)]
    begins_to_coordinate = [(202, 20)] * 16 + [(249, 40)] * 20
    backlog = [(200 + 5 * i, 20) for i in range(12)] + [(260, 20)] * 24
    little = [(300 + i // 3, 20) for i in range(36)]
    for later in (flat, waves, begins_to_coordinate, backlog, little):
        assert growth(held(*warming_up(later))) is None


def test_a_short_life_proves_no_growth() -> None:
    assert growth(held(*[(200 + 50 * i, 20) for i in range(24)])) is None


def test_what_two_daemons_held_in_ten_minutes_is_no_leak() -> None:
    """Measured: least MiB in each half minute, of a steady stream and of a storm."""
    stream = (29, 230, 281, 290, 304, 296, 295, 313, 316, 302, 291, 302, 292, 292, 304, 305, 295)
    storm = (29, 87, 270, 271, 281, 281, 288, 288, 288, 288)
    for least in (stream, storm):
        samples = [Held(30.0 * i, mib << 20, 60) for i, mib in enumerate(least)]
        assert growth(samples) is None


def test_recovery_counts_from_the_end_of_a_fault_to_the_commit_of_what_was_there() -> None:
    samples = [
        Sample(at, {TP: committed}, {TP: end})
        for at, committed, end in [(0, 0, 10), (10, 5, 20), (20, 15, 30), (30, 20, 40)]
    ]
    assert recovery(Happening("killed", "", 1, 5), samples) == 25
    assert recovery(Happening("killed", "", 1, 25), samples) is None
    assert recovery(Happening("killed", "", 1, None), samples) is None


def test_a_committed_offset_that_goes_back_is_seen() -> None:
    before = Sample(0, {TP: 7}, {TP: 9})
    assert went_back([before], Sample(1, {TP: 7}, {TP: 9})) == []
    assert went_back([], Sample(1, {TP: 0}, {TP: 9})) == []
    assert len(went_back([before], Sample(1, {TP: 6}, {TP: 9}))) == 1


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("Traceback (most recent call last):", "a traceback"),
        ('{"event": "stopped", "reason": "error"}', "stopped"),
        ('{"event": "messages_lost"}', "messages_lost"),
    ],
)
def test_logs_are_searched_for_what_must_not_be_in_them(
    line: str, fault: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text(f'{{"event": "retried", "kind": "unavailable"}}\n{line}\n')
    counts, faults = events([log])
    assert counts["retried unavailable"] == 1
    assert len(faults) == 1
    assert fault in faults[0]


CHUNK = [
    b'{"number": 1, "topic": "soak-lines", "kind": "sale", "at": 1795262400}',
    b'{"number": 2, "topic": "soak-lines", "kind": "sale", "at": 1795176000}',
    b'{"number": 3, "topic": "soak-lines", "kind": "debug", "at": 1795262400}',
    b'{"number": 4, "topic": "soak-lines", "kind": "sale"',
    None,
]
LINES = TopicPartition("soak-lines", 0)
TODAY, BEFORE = "dt=2026-11-21/hr=12", "dt=2026-11-20/hr=12"


def lines(*offsets: int) -> bytes:
    found = [json.loads(CHUNK[offset] or b"") | {"_offset": offset} for offset in offsets]
    return gzip.compress(b"".join(json.dumps(one).encode() + b"\n" for one in found))


def quarantined(*offsets: int) -> bytes:
    body = io.BytesIO()
    writer = make_format("sequencefile").create(body, b"seed")
    writer.append(chunk_of(list(offsets), [CHUNK[offset] for offset in offsets]))
    writer.close()
    return body.getvalue()


RIGHT = {
    f"soak/soak-lines/{TODAY}/1_0_00000000000000000000.json.gz": lines(0),
    f"soak/soak-lines/{BEFORE}/1_0_00000000000000000001.json.gz": lines(1),
    "soak/_quarantine/soak-lines/1_0_00000000000000000003.seq": quarantined(3, 4),
}


def placed(objects: dict[str, bytes], *, whole: bool = True) -> list[str]:
    """What the audit finds where the log has all of ``CHUNK``."""
    found: list[str] = []
    placement = Placement("soak", found.append)
    for key, content in objects.items():
        placement.stored(key, content)
    chunk = Chunk(LINES, chunk_of(list(range(len(CHUNK))), CHUNK), len(CHUNK))
    placement.logged(LINES, [chunk], whole=whole)
    return found


def test_messages_that_are_where_they_belong_are_well() -> None:
    assert placed(RIGHT) == []


@pytest.mark.parametrize(
    ("key", "content", "fault"),
    [
        (
            f"soak-lines/{BEFORE}/1_0_00000000000000000001.json.gz",
            lines(),
            "soak-lines/0 1 is lost",
        ),
        (f"soak-lines/{TODAY}/1_0_00000000000000000000.json.gz", lines(0, 1), "1 is in soak"),
        (f"soak-lines/{TODAY}/1_0_00000000000000000002.json.gz", lines(2), "should be left out"),
        (f"soak-lines/{TODAY}/1_0_00000000000000000009.json.gz", lines(0), "0 is in soak"),
        ("_quarantine/soak-lines/1_0_00000000000000000003.seq", quarantined(3), "4 is lost"),
        ("_quarantine/soak-lines/1_0_00000000000000000000.seq", quarantined(0), "it belongs into"),
        (
            f"soak-lines/{TODAY}/1_1_00000000000000000000.json.gz",
            lines(0),
            "soak-lines/0 0 is lost",
        ),
    ],
    ids=["lost", "elsewhere", "not left out", "twice", "not in quarantine", "no reason", "other"],
)
def test_messages_elsewhere_twice_or_nowhere_are_seen(key: str, content: bytes, fault: str) -> None:
    objects = dict(RIGHT)
    if "1_1_" in key:
        del objects[f"soak/{key}".replace("1_1_", "1_0_")]
    assert any(fault in text for text in placed(objects | {f"soak/{key}": content}))


def test_a_message_that_changed_is_seen_and_one_that_was_compacted_is_no_fault() -> None:
    key = f"soak/soak-lines/{TODAY}/1_0_00000000000000000000.json.gz"
    other = gzip.decompress(lines(0)).replace(b'"number": 1', b'"number": 7')
    assert "as {'number': 7" in placed(RIGHT | {key: gzip.compress(other)})[0]
    more = gzip.decompress(lines(0)) + other.replace(b'"_offset": 0', b'"_offset": 8')
    compacted = RIGHT | {key: gzip.compress(more)}
    assert placed(compacted, whole=False) == []
    assert "not in the log" in placed(compacted)[0]


def test_what_the_soak_writes_has_every_kind_of_place() -> None:
    rng = random.Random(1)
    found = Counter(place(value(rng, "soak-plain", number)) for number in range(2000))
    assert found[None] > 100
    assert found[QUARANTINE] > 50
    assert len(found) == 5


def test_what_others_write_is_not_looked_at_and_what_may_be_deleted_never_comes_back() -> None:
    found: list[str] = []
    audit = Audit(
        "b",
        found.append,
        of_others=lambda key: "/metadata/" in key,
        may_be_deleted=lambda key: key.startswith("staged/"),
    )
    headers = {"if-none-match": "*"}
    audit.answered("PUT", "/b/t/metadata/1.json", {}, 200, b"")
    audit.answered("PUT", "/b/staged/1", headers, 200, b"")
    audit.answered("DELETE", "/b/staged/1", {}, 204, b"")
    audit.compare([("t/metadata/1.json", 0)])
    assert found == []
    audit.answered("PUT", "/b/staged/1", headers, 200, b"")
    audit.compare([("staged/1", 0)])
    assert [text.partition(":")[0] for text in found] == [
        "staged/1 was put twice",
        "staged/1 was deleted and is there again",
    ]


def test_a_message_belongs_into_the_tables_of_its_routes() -> None:
    sale = b'{"number": 1, "topic": "x", "kind": "sale"}'
    assert tables_of("soak-plain", sale) == frozenset({"events", "soak_plain", "sales"})
    assert tables_of("soak-transactions", sale) == frozenset({"events", "sales", "kind_sale"})
    assert tables_of("soak-lines", sale.replace(b"sale", b"view")) == frozenset({"events"})
    for bad in (None, b"", b"[1]", sale[:-1], sale.replace(b"1", b'"many"')):
        assert tables_of("soak-plain", bad) is None


def contents_of(offsets: list[int], log: list[bytes]) -> list[str]:
    found: list[str] = []
    contents = TableContents("soak", found.append)
    owner = TopicPartition("soak-lines", 0)
    row = {"number": 1, "topic": "x", "kind": "view", "note": None}
    contents.rows["events"] = {(owner, offset): row for offset in offsets}
    chunk = Chunk(owner, chunk_of(list(range(len(log))), [*log]), len(log))
    contents.logged(owner, [chunk], whole=True)
    return found


def test_a_row_that_is_missing_changed_or_foreign_is_seen() -> None:
    view = b'{"number": 1, "topic": "x", "kind": "view"}'
    assert contents_of([0, 1], [view, view]) == []
    assert ["is not in events" in text for text in contents_of([0], [view, view])] == [True]
    [changed] = contents_of([0], [view.replace(b"1", b"2")])
    assert "number is 1" in changed
    [foreign] = contents_of([0, 1], [view])
    assert "not in the log" in foreign
    assert any("in quarantine" in text for text in contents_of([], [b"{"]))


def hudi_file(group: str, instant: int) -> str:
    return f"{group}-0_0-1-2_{instant:017d}.parquet"


def test_of_a_hudi_table_the_newest_completed_file_of_each_group_counts() -> None:
    timeline = [f"{5:017d}_{6:017d}.commit", f"{7:017d}_{8:017d}.commit", f"{9:017d}.inflight"]
    names = [hudi_file("a", 5), hudi_file("a", 7), hudi_file("a", 9), hudi_file("b", 5), ".x"]
    assert newest_files(timeline, names) == [hudi_file("a", 7), hudi_file("b", 5)]
    archived = [hudi_file("c", 3), hudi_file("c", 6)]  # 6 was never completed
    assert newest_files(timeline, archived) == [hudi_file("c", 3)]
    assert newest_files([], names) == []


def test_a_key_that_is_there_twice_is_seen() -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "note": None, "_hoodie_file_name": "x"},
        {"id": 2, "note": "n"},
    ]
    assert by_key(rows) == {1: {"id": 1}, 2: {"id": 2, "note": "n"}}
    with pytest.raises(KeyTwice):
        by_key([*rows, {"id": 2, "note": "m"}])
