"""Daemons that leave out what is erased (``erase.apply``), and a verification that knows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from secor.archive.applied_erasures import AppliedErasures
from secor.archive.erasures import ErasedLog, Secret, agree, erasure_of, read_erasures
from secor.archive.objects import Archive
from secor.batch.unwritable import LimitedParser
from secor.config.load import validate
from secor.core.errors import ConfigurationError
from secor.core.model import DATA, Chunk, Entry, LogRange, OffsetRange, TopicPartition
from secor.formats import make_format
from secor.parsing.offset_layout import OffsetBuckets
from secor.verify.archive.report import PartitionReport
from secor.verify.archive.verifier import Verifier
from secor.wiring.plans import growing_plans
from tests.fakes.archive import CLICKS, MemoryLog, OperatorLedger, Shelf
from tests.fakes.observer import SilentObserver
from tests.fakes.store import FakeStore
from tests.unit.archive.test_erase import KEYS, rows

SECRET = Secret(b"the secret of the group")
ROOT = "p/clicks"
COUNTED: list[tuple[TopicPartition, str, int]] = []


def put_list(store: FakeStore, *keys: bytes | None, tombstones: bool = False) -> None:
    wanted = erasure_of(
        "clicks",
        SECRET,
        keys,
        [ErasedLog(0, 1, None, 6)],
        tombstones=tombstones,
        at="now",
        by="a test",
    )
    agree(store, read_erasures(store, ROOT, SECRET), wanted)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def applied(store: FakeStore) -> Iterator[AppliedErasures]:
    erasures = AppliedErasures(store, SECRET, lambda *left_out: COUNTED.append(left_out))
    COUNTED.clear()
    yield erasures
    erasures.close()


def split(erasures: AppliedErasures, offsets: Sequence[int]) -> list[pa.RecordBatch]:
    parser = erasures.parser(ROOT, 1, OffsetBuckets())
    chunk = Chunk(CLICKS, rows(offsets), offsets[-1] + 1)
    return [part.records for part in parser.split(chunk)]


def test_messages_of_listed_keys_are_not_stored_at_any_offset(
    store: FakeStore, applied: AppliedErasures
) -> None:
    assert split(applied, range(12)) == [rows(range(12))]
    put_list(store, b"a", None)
    wanted = [offset for offset in range(12) if KEYS[offset % len(KEYS)] not in (b"a", None)]
    assert split(applied, range(12)) == [rows(wanted)]
    assert split(applied, [100_000 * len(KEYS)]) == []  # the key a, and nothing else
    assert COUNTED == [(CLICKS, "erased", 4), (CLICKS, "erased", 1)]


def test_tombstones_keep_their_key(store: FakeStore, applied: AppliedErasures) -> None:
    put_list(store, b"ab", tombstones=True)
    [records] = split(applied, range(12))
    for row in records.to_pylist():
        assert (row["value"] is None) == (row["key"] == b"ab")


def test_a_parser_that_leaves_out_has_another_fingerprint(applied: AppliedErasures) -> None:
    parser = OffsetBuckets()
    assert applied.parser(ROOT, 1, parser).identity != parser.identity


def test_lists_that_come_later_are_applied(store: FakeStore, applied: AppliedErasures) -> None:
    parser = applied.parser(ROOT, 1, OffsetBuckets())
    put_list(store, b"a")
    applied.parser(ROOT, 1, OffsetBuckets())  # as the thread does once a minute
    [part] = parser.split(Chunk(CLICKS, rows(range(12)), 12))
    assert b"a" not in part.records.column("key").to_pylist()


def test_the_plans_of_a_process_apply_lists(store: FakeStore, applied: AppliedErasures) -> None:
    put_list(store, b"a")
    tree = {
        "group": {"name": "g"},
        "kafka": {"bootstrap_servers": ["h:1"], "topics": ["clicks"]},
        "store": {"kind": "local", "local": {"directory": "/nowhere"}},
        "output": {"prefix": "p"},
    }
    config, faults = validate(tree)
    assert config is not None, faults
    count = lambda *_: None  # noqa: E731
    plans = growing_plans(config, store, SilentObserver(), count, applied)
    [part] = plans("clicks", None).parser.split(Chunk(CLICKS, rows(range(6)), 6))
    assert part.records.num_rows == 5
    usual = growing_plans(config, store, SilentObserver(), count)("clicks", None)
    assert usual.fingerprint != plans("clicks", None).fingerprint


@pytest.mark.parametrize("output", ["text", "jsonlines"])
def test_parsed_messages_of_listed_keys_are_not_placed_nor_in_quarantine(
    output: str, store: FakeStore, applied: AppliedErasures
) -> None:
    put_list(store, b"a", b"b")
    tree = {
        "group": {"name": "g", "kind": "partition"},
        "kafka": {"bootstrap_servers": ["h:1"], "topics": ["clicks"]},
        "store": {"kind": "local", "local": {"directory": "/nowhere"}},
        "erase": {"apply": True, "secret": "x" * 16},
        "output": {"prefix": "p", "format": output},
        "parser": {"time_field": "time", "max_bad_ratio": "none"},
    }
    config, faults = validate(tree)
    assert config is not None, faults
    records = rows(range(6))
    values = pa.array([b'{"time": 1700000000}'] * 5 + [b"no JSON"], pa.binary())
    records = records.set_column(4, records.schema.field("value"), values)
    count = lambda *_: None  # noqa: E731
    plans = growing_plans(config, store, SilentObserver(), count, applied)
    parser = plans("clicks", None).parser
    assert isinstance(parser, LimitedParser)  # messages that kill a process count to its limits
    [part] = parser.split(Chunk(CLICKS, records, 6))
    assert (part.stream, part.records.num_rows) == (DATA, 4)


def test_a_list_of_another_secret_stops_before_anything_is_stored(store: FakeStore) -> None:
    put_list(store, b"a")
    count = lambda *_: None  # noqa: E731
    other = AppliedErasures(store, Secret(b"another secret, by mistake"), count)
    with pytest.raises(ConfigurationError, match="was made with another secret"):
        other.parser(ROOT, 1, OffsetBuckets())
    other.close()


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ({"erase": {"apply": True}}, "needs erase.secret"),
        (
            {
                "group": {"name": "g", "kind": "table"},
                "erase": {"apply": True, "secret": "x" * 16},
            },
            "secor tables erase",
        ),
    ],
)
def test_it_needs_a_secret_and_objects_of_its_own(tree: dict[str, object], why: str) -> None:
    usual: dict[str, object] = {
        "group": {"name": "g"},
        "kafka": {"bootstrap_servers": ["h:1"], "topics": ["clicks"]},
        "store": {"kind": "local", "local": {"directory": "/nowhere"}},
    }
    config, faults = validate({**usual, **tree})
    assert config is None
    assert why in str(faults)


def verified(directory: Path, *, beyond: bool) -> PartitionReport:
    """Verify an archive without the key a, of which the list counts below offset 6 alone."""
    shelf = Shelf(directory / "bucket", make_format("sequencefile"), "p")
    left = [offset for offset in range(12) if KEYS[offset % len(KEYS)] != b"a"]
    shelf.put(rows(left), OffsetRange(0, 12))
    fake = FakeStore()
    put_list(fake, b"a")
    for key in fake.objects:
        shelf.put_bytes(key, fake.content(key), {})
    log = MemoryLog()
    log.put(CLICKS, rows(range(12)), 12)
    log.ranges[CLICKS] = LogRange(0, 12)
    ledger = OperatorLedger({CLICKS: Entry(12)})
    archive = Archive(shelf.store, "p")
    [report] = Verifier(archive, log, ledger, secret=SECRET, erased_beyond=beyond).verify(
        "clicks", [0]
    )
    return report


def test_what_was_stored_before_a_list_was_applied_is_right(store: FakeStore) -> None:
    put_list(store, b"a")
    erased = read_erasures(store, ROOT, SECRET).of(0, 1, None, beyond=True)
    assert erased.back_again(rows(range(12))).tolist() == [0]
    gone, _ = erased.erased(rows(range(12)))
    assert gone.nonzero()[0].tolist() == [0, 6]


def test_a_verification_counts_what_daemons_have_not_stored(tmp_path: Path) -> None:
    strict = verified(tmp_path / "strict", beyond=False)
    assert len(strict.findings) == 1
    report = verified(tmp_path / "beyond", beyond=True)
    assert report.findings == []
    assert report.erased == 2
