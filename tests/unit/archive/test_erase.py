"""Messages of some keys erased: these alone, whatever happens on the way, and they stay away."""

from __future__ import annotations

import hmac
import json
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c

from secor.archive.erasures import (
    ErasedLog,
    Erasures,
    LogErasures,
    Secret,
    erasure_of,
    list_key,
    read_erasures,
)
from secor.archive.objects import Archive
from secor.archive.rewrite import erasure_search
from secor.archive.rewrite.carrying_out import Rewriter
from secor.archive.rewrite.erasing import Eraser
from secor.archive.rewrite.erasure_search import PART_BYTES, Searched, SearchPart
from secor.archive.rewrite.field_search import FieldSearch
from secor.archive.rewrite.planning import RewriteLimits, RewriteResult, plan_of
from secor.batch.workspace import Workspace
from secor.core.errors import ConfigurationError, Unavailable
from secor.core.model import SCHEMA, Entry, LogRange, OffsetRange
from secor.core.ports import LogFormat
from secor.formats import make_format
from secor.parsing.decoders import make_decoder
from secor.verify.archive.report import PartitionReport
from secor.verify.archive.verifier import Verifier, verify_archive_only
from secor.verify.finding import FindingKind
from tests.fakes.archive import CLICKS, MemoryLog, OperatorLedger
from tests.fakes.store import FakeStore, nothing
from tests.unit.archive.test_rewrite import keys, put, read_messages, read_parquet

VECTORS = Path(__file__).parents[2] / "vectors" / "java-secor"
SECRET = Secret(b"the secret of the group")
KEYS = (b"a", b"ab", b"", None, b"\xff\x00\n", b"b")
END = 36
STEPS = 200
READERS = {
    "sequencefile": (partial(make_format, "sequencefile"), read_messages),
    "sequencefile gzip": (partial(make_format, "sequencefile", codec="gzip"), read_messages),
    "parquet": (partial(make_format, "parquet"), read_parquet),
    "parquet snappy": (partial(make_format, "parquet", codec="snappy"), read_parquet),
}


def rows(offsets: Iterable[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": offset,
                "timestamp": 1_700_000_000_000 + offset,
                "timestamp_type": 0,
                "key": KEYS[offset % len(KEYS)],
                "value": b"payload %d" % offset,
                "headers": [{"key": "h", "value": b"%d" % offset}],
            }
            for offset in offsets
        ],
        schema=SCHEMA,
    )


def filled(log_format: LogFormat | None = None) -> FakeStore:
    """Return a store with three batches, each in two places; half of the first one has key b."""
    store = FakeStore()
    for start in range(0, END, 12):
        batch = OffsetRange(start, start + 12)
        for place, first in (("dt=1", start), ("dt=2", start + 1)):
            records = rows(range(first, start + 12, 2))
            put(store, log_format or make_format("sequencefile"), records, batch, place)
    return store


def eraser(store: FakeStore, secret: Secret = SECRET, committed: int | None = END) -> Eraser:
    entries = lambda _: Entry(committed)  # noqa: E731
    return Eraser(Archive(store, "p"), "clicks", secret, entries, "now", "secor")


def erase(
    store: FakeStore,
    directory: Path,
    wanted: Sequence[bytes | None],
    instance: str = "a",
    *,
    tombstones: bool = False,
    **settings: Any,
) -> tuple[Searched, list[RewriteResult]]:
    workspace = Workspace(directory, instance)
    try:
        return eraser(store, **settings).run(wanted, workspace, tombstones=tombstones)
    finally:
        workspace.close()


def stored(store: FakeStore) -> list[dict[str, Any]]:
    """Return all messages that the objects hold, as they are read without the lists."""
    archive = Archive(store, "p")
    messages = [
        row
        for archived in archive.objects("clicks")
        for records in archive.read(archived)
        for row in records.to_pylist()
    ]
    return sorted(messages, key=lambda row: row["offset"])


def left(*erased: bytes | None, end: int = END) -> list[dict[str, Any]]:
    return [row for row in rows(range(end)).to_pylist() if row["key"] not in erased]


@pytest.mark.parametrize(("make", "read"), READERS.values(), ids=list(READERS))
def test_other_readers_find_all_other_messages(
    make: Callable[[], LogFormat], read: Callable[[bytes], list[Any]], tmp_path: Path
) -> None:
    store = filled(make())
    searched, (outcome,) = erase(store, tmp_path, [b"a"])
    assert (searched.messages, searched.objects, len(outcome.done)) == (6, 6, 3)
    objects = [key for key in keys(store) if "_erased" not in key]
    assert len(objects) == 6
    assert all(".rewrite-1-to-" in key for key in objects)
    found = [row for key in objects for row in read(store.content(key))]
    assert sorted(found, key=lambda row: row["offset"]) == left(b"a")


@pytest.mark.parametrize("key", KEYS)
def test_only_this_very_key(key: bytes | None, tmp_path: Path) -> None:
    store = filled()
    searched, _ = erase(store, tmp_path, [key])
    assert searched.messages == END / len(KEYS)
    assert stored(store) == left(key)


def test_a_batch_without_such_messages_stays_and_one_without_others_keeps_its_range(
    tmp_path: Path,
) -> None:
    store = FakeStore()
    log_format = make_format("parquet")
    put(store, log_format, rows([0, 6]), OffsetRange(0, 12))
    other = put(store, log_format, rows([13, 14]), OffsetRange(12, 24))
    searched, _ = erase(store, tmp_path, [b"a", b"nobody's"])
    assert searched.found_hashes == {SECRET.hasher("clicks")(b"a")}
    assert other in keys(store)
    assert [row["offset"] for row in stored(store)] == [13, 14]
    first = next(Archive(store, "p").objects("clicks", with_info=True))
    assert first.info is not None
    assert (first.info.batch, first.info.records, first.info.erasures) == (
        OffsetRange(0, 12),
        0,
        1,
    )
    # Joined with its neighbours it is nothing special.
    put(store, log_format, rows([25, 26]), OffsetRange(24, 36))
    newest = put(store, log_format, rows([36]), OffsetRange(36, 48))
    compact(store, tmp_path)
    assert keys(store)[1:] == [f"p/clicks/offset=0/1_0_{0:020d}.rewrite-2-to-36.parquet", newest]
    assert [row["offset"] for row in stored(store)] == [13, 14, 25, 26, 36]
    # Not all that is in it was written without what the list names: readers look again.
    joined = next(Archive(store, "p").objects("clicks", with_info=True))
    assert joined.info is not None
    assert joined.info.erasures is None


def compact(store: FakeStore, directory: Path, secret: Secret | None = None) -> list[RewriteResult]:
    workspace = Workspace(directory, "compact")
    try:
        return Rewriter(
            Archive(store, "p"),
            "clicks",
            workspace,
            lambda objects, waiting: plan_of(
                "clicks", objects, waiting, RewriteLimits(9.0, 1 << 20)
            ),
            secret,
        ).run()
    finally:
        workspace.close()


def test_tombstones_keep_key_and_time(tmp_path: Path) -> None:
    store = filled()
    searched, _ = erase(store, tmp_path, [b"a"], tombstones=True)
    assert (searched.messages, searched.emptied) == (6, 6)
    expected = rows(range(END)).to_pylist()
    for row in expected:
        if row["key"] == b"a":
            row.update(value=None, headers=[])
    assert stored(store) == expected
    searched, outcomes = erase(store, tmp_path, [b"a"], tombstones=True)
    assert (searched.messages, outcomes, len(searched.found_hashes)) == (0, [], 1)
    assert len(lists(store)) == 1


def lists(store: FakeStore) -> list[str]:
    return [key for key in store.objects if "/_erased/" in key]


def crashing(step: int) -> Callable[[str, str], None]:
    calls = 0

    def crash(call: str, key: str) -> None:
        nonlocal calls
        calls += call in ("put", "delete")  # the others leave nothing behind
        if calls > step:
            raise Unavailable("the process is killed")

    return crash


@pytest.mark.parametrize("keys_file_is_lost", [False, True])
def test_a_crash_at_any_step_is_finished_by_the_next_run(
    keys_file_is_lost: bool, tmp_path: Path
) -> None:
    """Whatever the next run erases, or if it compacts: a plan that was put is carried out."""
    for step in range(STEPS):
        store = filled()
        store.before = crashing(step)
        crashed = False
        try:
            erase(store, tmp_path, [b"a", None])
        except Unavailable:
            crashed = True
        store.before = nothing
        found = [row["offset"] for row in stored(store)]
        assert len(found) == len(set(found))
        assert set(found) >= {row["offset"] for row in left(b"a", None)}
        if keys_file_is_lost and lists(store):
            erase(store, tmp_path, [b"b"])
            assert stored(store) == left(b"a", None, b"b")
        elif not keys_file_is_lost:
            erase(store, tmp_path, [b"a", None])
            assert stored(store) == left(b"a", None)
            assert len(lists(store)) == 1
            assert len(keys(store)) == 7
        if not crashed:
            return
    raise AssertionError("more steps than expected")


@pytest.mark.parametrize("others", [b"a", b"b"])
@pytest.mark.slow
def test_a_second_run_at_any_step_changes_nothing(others: bytes, tmp_path: Path) -> None:
    for step in range(0, STEPS, 3):
        store = filled()
        calls = 0

        def other(call: str, key: str, step: int = step, store: FakeStore = store) -> None:
            nonlocal calls
            calls += 1
            if calls == step + 1:
                store.before = nothing
                erase(store, tmp_path, [others], "b")
                assert others not in [row["key"] for row in stored(store)]

        store.before = other
        erase(store, tmp_path, [b"a"])
        store.before = nothing
        if calls <= step:
            return
        assert stored(store) == left(b"a", others)
        assert len(keys(store)) == 6 + len({b"a", others})
    raise AssertionError("more steps than expected")


def test_a_compaction_finishes_an_erasure_or_says_that_it_needs_the_secret(
    tmp_path: Path,
) -> None:
    store = filled()
    store.before = crashing(3)  # behind the list, the plan and an object
    with pytest.raises(Unavailable):
        erase(store, tmp_path, [b"a"])
    store.before = nothing
    with pytest.raises(ConfigurationError, match=r"set erase\.secret"):
        compact(store, tmp_path)
    compact(store, tmp_path, SECRET)
    assert stored(store) == left(b"a")


def test_another_secret_erases_and_reads_nothing(tmp_path: Path) -> None:
    store = filled()
    erase(store, tmp_path, [b"a"])
    before = dict(store.objects)
    with pytest.raises(ConfigurationError, match="was made with another secret"):
        erase(store, tmp_path, [b"b"], secret=Secret(b"another secret, by mistake"))
    with pytest.raises(ConfigurationError, match="was made with another secret"):
        read_erasures(store, "p/clicks", Secret(b"another secret, by mistake")).require()
    assert store.objects == before


def test_a_list_tells_no_keys_and_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    store = filled()
    key = b"alice@example.com"
    erase(store, tmp_path, [key])
    (where,) = lists(store)
    assert where == list_key("p/clicks", 1)
    assert b"alice" not in store.content(where)
    assert SECRET.hasher("clicks")(key) != SECRET.hasher("views")(key)
    for damaged in (b"", b"[]", store.content(where).replace(b'"version":1', b'"version":9')):
        store.objects[where] = replace(store.objects[where], content=damaged)
        with pytest.raises(ConfigurationError, match="list of"):
            erase(store, tmp_path, [key])


def by_field(store: FakeStore, directory: Path, *values: str, **settings: Any) -> FieldSearch:
    """Erase the messages whose ``user.id`` is one of the values."""
    search = FieldSearch(make_decoder("json"), "user.id", frozenset(values))
    workspace = Workspace(directory, "a")
    tombstones = settings.pop("tombstones", False)
    try:
        replace(eraser(store, **settings), search=search).run((), workspace, tombstones=tombstones)
    finally:
        workspace.close()
    return search


def of_users() -> FakeStore:
    """Return a store with three batches of JSON messages of four users, and one without JSON."""
    store = FakeStore()
    for start in range(0, END, 12):
        records = rows(range(start, start + 12))
        values = [b'{"user": {"id": %d}}' % (offset % 4) for offset in range(start, start + 12)]
        values[5] = b"no JSON" if not start else values[5]
        at = SCHEMA.get_field_index("value")
        records = records.set_column(at, SCHEMA.field("value"), pa.array(values, pa.binary()))
        put(store, make_format("sequencefile"), records, OffsetRange(start, start + 12))
    return store


def test_messages_are_erased_by_a_field_and_stay_away_without_secret_and_parser(
    tmp_path: Path,
) -> None:
    store = of_users()
    everything, old = stored(store), dict(store.objects)
    search = by_field(store, tmp_path, "3", "30")
    assert (search.unread, search.found_values) == (1, {"3"})
    expected = [row for row in everything if row["offset"] % 4 != 3]
    assert stored(store) == expected
    [number] = lists(store)
    assert b'"version":2' in store.content(number)
    assert b"user" not in store.content(number)
    # Old objects are brought back: nobody needs the secret to leave the messages out.
    rewritten = [key for key in store.objects if ".rewrite-" in key and "_rewrites" not in key]
    for key in rewritten:
        del store.objects[key]
    store.objects |= {key: one for key, one in old.items() if key not in store.objects}
    assert stored(store) == everything
    known = read_erasures(store, "p/clicks", None).require()
    again = known.of(0, 1, None)
    archive = Archive(store, "p")
    kept = [
        row
        for archived in archive.objects("clicks")
        for records in archive.read(archived)
        for row in again.without(records).to_pylist()
    ]
    assert kept == expected
    by_field(store, tmp_path, "3")
    assert stored(store) == expected


def test_by_a_field_messages_become_tombstones_and_what_is_later_waits(tmp_path: Path) -> None:
    store = of_users()
    by_field(store, tmp_path, "1", committed=24, tombstones=True)
    for row in stored(store):
        erased = row["offset"] % 4 == 1 and row["offset"] < 24 and row["offset"] != 5
        assert (row["value"] is None) == erased
        assert (row["headers"] == []) == erased


def test_values_that_no_message_has_put_no_list(tmp_path: Path) -> None:
    store = of_users()
    before = dict(store.objects)
    assert by_field(store, tmp_path, "4", "").found_values == set()
    assert store.objects == before


def test_what_is_not_committed_waits(tmp_path: Path) -> None:
    store = filled()
    searched, _ = erase(store, tmp_path, [b"a"], committed=24)
    assert (searched.later, searched.messages) == (2, 4)
    assert stored(store) == [*left(b"a", end=24), *rows(range(24, END)).to_pylist()]
    with pytest.raises(ConfigurationError, match="the ledger has no entry"):
        erase(store, tmp_path, [b"a"], committed=None)
    erase(store, tmp_path, [b"a"])
    assert stored(store) == left(b"a")


def test_objects_that_cannot_be_searched_are_named(tmp_path: Path) -> None:
    store = filled()
    foreign = put(store, make_format("sequencefile"), rows([36]), OffsetRange(36, 37))
    described = store.objects[foreign]
    store.objects[foreign] = replace(described, metadata=described.metadata | {"batch-end": "?"})
    legacy = make_format("sequencefile", keys="legacy")
    keyless = [
        put(store, log_format, rows([start]), OffsetRange(start, start + 1))
        for start, log_format in ((37, make_format("text")), (38, legacy))
    ]
    cut = put(store, make_format("parquet"), rows([39]), OffsetRange(39, 40))
    content = store.content(cut)[:-5]
    store.objects[cut] = replace(store.objects[cut], content=content)
    searched, _ = erase(store, tmp_path, [b"a", None], committed=40)
    assert set(searched.unsearchable) == {foreign, *keyless, cut}
    assert searched.messages == 12
    assert {foreign, *keyless, cut} <= set(keys(store))


def java_secors(vector: str) -> FakeStore:
    """Return a store with what the real Java Secor has written of partition 0."""
    store = FakeStore()
    root = VECTORS / "s3" / vector
    for path in sorted(root.rglob("1_0_*")):
        content = path.read_bytes()
        key = f"p/clicks/{path.relative_to(root / 'c_raw')}"
        store.put(key, content, crc32c(content), {})
    return store


def java_secors_messages() -> list[dict[str, Any]]:
    lines = (VECTORS / "source" / "c_raw.jsonl").read_text().splitlines()
    of_zero = [row for row in map(json.loads, lines) if row["partition"] == 0]
    return sorted(of_zero, key=lambda row: int(row["offset"]))


def test_keys_are_erased_from_objects_of_java_secor(tmp_path: Path) -> None:
    """It names where its batches begin alone: the next one, or the ledger, says where they end."""
    store = java_secors("msgpack")
    everything, source = stored(store), java_secors_messages()
    key = bytes.fromhex(next(row["key"] for row in source if row["key"]))
    gone = [row["offset"] for row in source if row["key"] == key.hex()]
    searched, (outcome,) = erase(store, tmp_path, [key, b"nobody's"], committed=40)
    assert (searched.unsearchable, searched.messages, outcome.failed) == ({}, len(gone), [])
    assert stored(store) == [row for row in everything if row["offset"] not in gone]
    infos = [one.info for one in Archive(store, "p").objects("clicks", with_info=True)]
    assert [info.batch for info in infos if info is not None] in (
        [OffsetRange(0, 20)],
        [OffsetRange(20, 40)],
        [OffsetRange(0, 20), OffsetRange(20, 40)],
    )
    # Java Secor goes on, or is taken over: nothing of it is looked at that is not committed.
    again, _ = erase(java_secors("msgpack"), tmp_path, [key], committed=20)
    assert again.later == 1


def test_by_a_field_messages_of_java_secor_are_erased_that_have_no_keys(tmp_path: Path) -> None:
    store = java_secors("seq_default")
    everything = stored(store)
    search = FieldSearch(make_decoder("json"), "id", frozenset(["0"]))
    workspace = Workspace(tmp_path, "a")
    eraser_of_all = replace(eraser(store, committed=40), search=search)
    searched, _ = eraser_of_all.run((), workspace, tombstones=False)
    workspace.close()
    assert (search.damaged, searched.unsearchable, searched.messages) == ({}, {}, 1)
    assert stored(store) == [row for row in everything if row["offset"] != 0]


def test_lines_of_text_are_not_called_searched(tmp_path: Path) -> None:
    store = FakeStore()
    text = put(store, make_format("text"), rows(range(END)), OffsetRange(0, END))
    search = by_field(store, tmp_path, "3")
    assert search.damaged == {text: "its format keeps no offsets"}


def test_a_batch_that_overlaps_another_is_not_written_again(tmp_path: Path) -> None:
    store = filled()
    other = put(store, make_format("sequencefile"), rows([30, 40]), OffsetRange(30, 48), "dt=1")
    searched, _ = erase(store, tmp_path, [b"a"], committed=48)
    assert other in searched.unsearchable
    assert "overlaps" in searched.unsearchable[other]
    assert searched.messages == 4
    assert other in keys(store)


def test_what_comes_back_is_left_out_noticed_and_erased_again(tmp_path: Path) -> None:
    store = filled()
    before = dict(store.objects)
    erase(store, tmp_path, [b"a"])
    # A person brings all old objects back, and deletes those that took their place.
    for key in [key for key in store.objects if "rewrite-1" in key]:
        del store.objects[key]
    store.objects.update(before)
    assert stored(store) == left()
    archive = Archive(store, "p")
    erasures = read_erasures(store, "p/clicks", SECRET).require()
    read = [
        row
        for archived in archive.objects("clicks", with_info=True)
        for records in archive.read(archived)
        for row in erasures.of_object(archived.name, archived.info).without(records).to_pylist()
    ]
    assert sorted(read, key=lambda row: row["offset"]) == left(b"a")
    report = verified(store)
    assert report.counts == {FindingKind.EXTRA: 6}
    assert "erased, and there again" in report.findings[0].details["text"]
    (report,) = verify_archive_only(archive, "clicks", secret=SECRET)
    assert report.counts == {FindingKind.EXTRA: 6}
    store_with_late_put = dict(before)
    erase(store, tmp_path, [b"b"])
    assert stored(store) == left(b"a", b"b")
    # A put that comes late is read by nobody, and goes with the next run.
    store.objects.update(store_with_late_put)
    assert stored(store) == left(b"a", b"b")
    erase(store, tmp_path, [b"b"])
    assert not store.objects.keys() & store_with_late_put.keys()


def test_messages_that_come_later_are_others(tmp_path: Path) -> None:
    store = filled()
    erase(store, tmp_path, [b"a"])
    put(store, make_format("sequencefile"), rows([36, 37]), OffsetRange(36, 48))
    erasures = read_erasures(store, "p/clicks", SECRET).of(0, 1, None)
    assert erasures.without(rows([36, 37])).num_rows == 2
    erase(store, tmp_path, [b"a"], committed=48)
    assert [row["offset"] for row in stored(store)][-1] == 37
    assert len(lists(store)) == 2


def verified(store: FakeStore, secret: Secret | None = SECRET) -> PartitionReport:
    log = MemoryLog()
    log.records[CLICKS] = rows(range(END))
    log.ranges[CLICKS] = LogRange(0, END)
    ledger = OperatorLedger({CLICKS: Entry(END)})
    archive = Archive(store, "p")
    (report,) = Verifier(archive, log, ledger, secret=secret, inventories=True).verify(
        "clicks", [0]
    )
    return report


@pytest.mark.parametrize("tombstones", [False, True])
def test_verify_counts_what_is_erased_and_still_finds_what_is_missing(
    tombstones: bool, tmp_path: Path
) -> None:
    store = filled()
    erase(store, tmp_path, [b"a"], tombstones=tombstones)
    report = verified(store)
    assert (report.counts.total(), report.erased) == (0, 6)
    assert report.compared == (END if tombstones else END - 6)
    with pytest.raises(ConfigurationError, match=r"set erase\.secret"):
        verified(store, None)
    store.delete(next(key for key in keys(store) if "/dt=2/" in key))
    report = verified(store)
    assert report.counts == {FindingKind.MISSING: 6}
    # Another value than that of the log is none of an erased message.
    where = next(key for key in keys(store) if "/dt=1/" in key)
    changed = store.content(where).replace(b"payload 2", b"Payload 2")
    store.objects[where] = replace(store.objects[where], content=changed)
    assert verified(store).counts[FindingKind.DIFFERENT] == 1


def test_evidence_tells_of_erased_offsets(tmp_path: Path) -> None:
    store = filled()
    erase(store, tmp_path, [b"a"])
    inventory = verified(store).inventory
    assert inventory is not None
    (hole,) = inventory.holes.items()
    assert (hole[0], hole[1].offsets, inventory.messages) == ("erased", 6, END - 6)


def test_a_group_without_keys_is_told_what_is_erased_from_its_source(tmp_path: Path) -> None:
    """Lines of text record neither keys nor offsets: they are compared in the order of the log."""
    store = FakeStore()
    kept = rows(range(END)).filter(pa.array([key not in (b"a", None) for key in KEYS] * 6))
    put(store, make_format("text"), kept, OffsetRange(0, END))
    assert verified(store).counts.total()
    eraser(store).note([b"a", None], tombstones=False)
    report = verified(store)
    assert (report.counts.total(), report.erased, report.compared) == (0, 12, END - 12)


def test_what_is_in_quarantine_is_named(tmp_path: Path) -> None:
    """Whole messages of a group that parses wait there, also those of keys that are noted."""
    store = FakeStore()
    root = Archive(store, "p").quarantine.root("clicks")
    for start in range(0, END, 12):
        batch = OffsetRange(start, start + 12)
        key = put(store, make_format("sequencefile"), rows(range(start + 2, start + 5)), batch)
        moved = key.replace("p/clicks", root)
        store.objects[moved] = store.objects.pop(key)
    before = dict(store.objects)
    waiting = eraser(store, committed=24).note([KEYS[2], b"nobody"], tombstones=False)
    assert (waiting.messages, waiting.objects, waiting.later) == (2, 2, 1)
    assert [part.start for part in waiting.ranges] == [0, 12]
    assert all(key.startswith(root) for part in waiting.ranges for key in part.inputs)
    assert before.items() <= store.objects.items()
    assert not eraser(store).note([b"nobody"], tombstones=False).ranges[2:]


def of_lists(*logs: ErasedLog) -> LogErasures:
    erasure = erasure_of("clicks", SECRET, [b"a"], logs, tombstones=False, at="", by="")
    return Erasures("p/clicks", {1: erasure}, SECRET).of(0, 1, "id")


def test_a_list_is_of_its_logs() -> None:
    for log in (ErasedLog(0, 1, "id", 1), ErasedLog(0, 1, None, 1)):
        assert of_lists(log).without(rows([0, 6])).to_pylist() == rows([6]).to_pylist()
    for log in (ErasedLog(1, 1, "id", 9), ErasedLog(0, 2, "id", 9), ErasedLog(0, 1, "other", 9)):
        assert not of_lists(log)


def test_a_key_that_a_format_does_not_keep_is_no_null_key() -> None:
    erasure = erasure_of(
        "clicks", SECRET, [None], [ErasedLog(0, 1, None, 99)], tombstones=False, at="", by=""
    )
    erased = Erasures("p/clicks", {1: erasure}, SECRET).of(0, 1, None)
    records = rows([3])
    assert not erased.without(records).num_rows
    unknown = pa.nulls(1, SCHEMA.field("timestamp_type").type)
    records = records.set_column(2, SCHEMA.field("timestamp_type"), unknown)
    assert erased.without(records).num_rows == 1


def test_hashes_are_hmac() -> None:
    for secret in (b"short", b"x" * 64, b"x" * 65):
        hashed = Secret(secret).hasher("clicks")
        for key, text in ((b"a", b"clicks\0key\0a"), (None, b"clicks\0null")):
            assert hashed(key) == hmac.digest(secret, text, "sha256")[:16]


def test_a_search_in_parts_finds_the_same_in_the_same_order(tmp_path: Path) -> None:
    store, numbers = filled(), []
    damaged = sorted(key for key in store.objects if "dt=1" in key)[1]
    broken = store.objects[damaged]
    store.objects[damaged] = replace(broken, content=broken.content[:40])
    here = eraser(store, committed=24)

    def in_tasks(parts: Sequence[SearchPart]) -> list[Searched]:
        numbers.append(len(parts))
        sent = pickle.loads(pickle.dumps(parts))  # noqa: S301  # our own
        return [part.run(Archive(store, "p")) for part in sent]

    for least, parts in ((1, 2), (PART_BYTES, 1)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(erasure_search._divided, "__defaults__", (least,))
            there = replace(here, search_in_tasks=in_tasks)
            for wanted in ([b"a", None], [b"nobody"]):
                expected = here.look(wanted, tombstones=False)
                assert there.look(wanted, tombstones=False) == expected
                assert expected.later == 2
                assert damaged in expected.unsearchable
        assert set(numbers) == {parts}
        numbers.clear()
    searched, outcomes = replace(here, search_in_tasks=in_tasks).run(
        [b"a"], Workspace(tmp_path / "local", "w"), tombstones=False
    )
    assert searched.messages == 2  # of the batch that can be read
    assert sum(len(outcome.done) for outcome in outcomes) == 1


def test_gaps_of_aborted_transactions_are_not_called_erased(tmp_path: Path) -> None:
    """Their messages have an erased key, too, and are in no object: holes of the log stay holes."""
    store = FakeStore()
    stored_offsets = [offset for offset in range(END) if offset % 12 not in (3, 6, 11)]
    for start in range(0, END, 12):
        inside = [offset for offset in stored_offsets if start <= offset < start + 12]
        put(store, make_format("sequencefile"), rows(inside), OffsetRange(start, start + 12))
    erase(store, tmp_path, [KEYS[0]])
    kept = [offset for offset in stored_offsets if offset % len(KEYS)]
    assert [row["offset"] for row in stored(store)] == kept
    log = MemoryLog()
    log.put(CLICKS, rows(stored_offsets), END)
    verifier = Verifier(
        Archive(store, "p"),
        log,
        OperatorLedger({CLICKS: Entry(END)}),
        secret=SECRET,
        inventories=True,
    )
    (report,) = verifier.verify("clicks", [0])
    assert (report.findings, report.compared) == ([], len(kept))
    assert report.erased == len(stored_offsets) - len(kept)
    assert report.inventory is not None
    holes = {cause.value: of.offsets for cause, of in report.inventory.holes.items()}
    assert holes == {"erased": report.erased, "compacted": END - len(stored_offsets)}
