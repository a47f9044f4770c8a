"""Verifying what a sink of Kafka Connect has stored, by itself and with ours behind it."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from crc32c import crc32c

from secor.batch.batch import Batch
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.config.model import Config
from secor.core.model import Chunk, Entry
from secor.verify.archive.parsed_objects import Parsing
from secor.verify.archive.report import ArchiveReport, PartitionReport
from secor.verify.archive.verifier import Verifier, verify_archive_only
from secor.verify.finding import FindingKind
from secor.wiring.archives import archive_of
from secor.wiring.plans import plan_for
from tests.fakes.archive import MemoryLog, OperatorLedger, messages
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore
from tests.unit.archive.parsed_world import HERE, config

REGIONS = ("eu", "us", "asia")
END = 90
DIRECTORY = "region={}"


def value(offset: int) -> bytes:
    """Return a message that names its directory and its offset, for the tests' own reading."""
    return json.dumps({"n": offset, "region": REGIONS[offset % 7 % 3]}).encode()


def of_region(layout: str = "region={region}", kind: str = "jsonlines") -> Config:
    made = config({"layout": layout, "decoder": "json" if kind == "jsonlines" else "none"}, kind)
    naming = "confluent" if kind == "jsonlines" else "{topic}+{partition}+{offset:010}.bin"
    output = made.output.model_copy(update={"naming": naming, "codec": "none"})
    return made.model_copy(update={"output": output})


class Bucket:
    """A store with a connector's objects, made of the lines of each."""

    def __init__(self, settings: Config) -> None:
        self.settings = settings
        self.store = FakeStore()
        self.extension = ".json" if settings.output.format == "jsonlines" else ".bin"

    def put(self, directory: str, offsets: Sequence[int], start: int | None = None) -> str:
        """Put an object as a sink does, without metadata; ``start`` may be that of others."""
        first = offsets[0] if start is None else start
        key = f"p/clicks/{directory}/clicks+0+{first:010d}{self.extension}"
        self.overwrite(key, b"".join(value(offset) + b"\n" for offset in offsets))
        return key

    def overwrite(self, key: str, body: bytes) -> None:
        """Put an object whether there is one or not."""
        self.store.objects.pop(key, None)
        self.store.put(key, body, crc32c(body), {})

    def stored(self) -> Mapping[int, list[str]]:
        """Return the objects of each message, by what is in them."""
        keys = defaultdict(list)
        for key, stored in self.store.objects.items():
            for line in stored.content.splitlines():
                keys[json.loads(line)["n"]].append(key)
        return keys

    def ours(self, folder: Path, start: int, end: int) -> None:
        """Store a batch as the daemon does."""
        batch = Batch(
            HERE,
            start,
            plan=plan_for(self.settings, "clicks"),
            workspace=Workspace(folder, f"process-{start}"),
            clock=FakeClock(),
        )
        batch.append(Chunk(HERE, messages(range(start, end), value), end))
        for file in batch.seal(Reason.MESSAGES).files:
            self.store.put(file.key, file.local.path, file.local.crc32c, file.info.metadata())

    def verified(
        self, committed: int, nulls: Iterable[int] = (), *, begin: int = 0, step: int = 8
    ) -> PartitionReport:
        log = MemoryLog(step=step)
        none = set(nulls)
        values = messages(range(begin, END), lambda n: None if n in none else value(n))
        log.put(HERE, values, END)
        archive = archive_of(self.settings, "clicks", self.store)
        parsing = Parsing(plan_for(self.settings, "clicks", limited=False).parser)
        ledger = OperatorLedger({HERE: Entry(committed)})
        [report] = Verifier(archive, log, ledger, parsing=parsing).verify("clicks", [0])
        return report


def twice_of(report: PartitionReport) -> dict[tuple[str, ...], tuple[int, int, int]]:
    """Return range and number of what several objects have, by their keys."""
    details = [found.details for found in report.findings if found.kind is FindingKind.TWICE]
    return {
        tuple(sorted(found["text"].removeprefix("in ").split(", "))): (
            found["start"],
            found["end"],
            found["count"],
        )
        for found in details
    }


def expected_twice(bucket: Bucket, end: int) -> dict[tuple[str, ...], tuple[int, int, int]]:
    """Return the same by a plain reading of the objects."""
    offsets: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for offset, keys in bucket.stored().items():
        if len(keys) > 1 and offset < end:
            offsets[tuple(sorted(keys))].append(offset)
    return {keys: (min(own), max(own) + 1, len(own)) for keys, own in offsets.items()}


def run_of_sink(
    bucket: Bucket, offsets: range, flush: int, chance: random.Random, *, shared: bool
) -> None:
    """Store messages by region; the sink is killed somewhere, so that some directories lack."""
    waiting: dict[str, list[int]] = defaultdict(list)
    start = offsets.start

    def flush_all() -> None:
        for directory, own in waiting.items():
            bucket.put(directory, own, start if shared else None)
        waiting.clear()

    for offset in offsets:
        if not waiting:
            start = offset
        waiting[DIRECTORY.format(json.loads(value(offset))["region"])].append(offset)
        if max(map(len, waiting.values())) == flush:
            flush_all()
    if chance.random() < 0.5:
        flush_all()


@pytest.mark.parametrize("shared", [False, True], ids=["own-starts", "shared-starts"])
@pytest.mark.parametrize("seed", range(12))
def test_what_a_killed_sink_stored_twice_is_named_exactly(
    seed: int, shared: bool, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    bucket = Bucket(of_region())
    run_of_sink(bucket, range(70), chance.randrange(2, 9), chance, shared=shared)
    again = chance.randrange(20, 60)
    run_of_sink(bucket, range(again, 70), chance.randrange(2, 9), chance, shared=shared)
    end = min({*range(70)} - bucket.stored().keys(), default=70)
    bucket.ours(tmp_path, end, END)
    report = bucket.verified(END, step=chance.choice([1, 3, 8, 100]))
    assert twice_of(report) == expected_twice(bucket, END)
    missing = set(range(END)) - bucket.stored().keys()
    assert report.counts[FindingKind.MISSING] == len(missing)
    assert set(report.counts) <= {FindingKind.MISSING, FindingKind.TWICE}


@pytest.mark.parametrize("kind", ["jsonlines", "text"])
def test_objects_of_one_directory_are_compared_each_from_its_own_offset(
    kind: str, tmp_path: Path
) -> None:
    bucket = Bucket(of_region("partition={kafka_partition}", kind))
    bucket.put("partition=0", range(20))
    first = bucket.put("partition=0", range(20, 40))
    bucket.put("partition=0", range(40, 60))
    assert not bucket.verified(60).counts
    second = bucket.put("partition=0", range(33, 47))
    report = bucket.verified(60)
    assert twice_of(report) == expected_twice(bucket, 60)
    assert twice_of(report)[first, second] == (33, 40, 7)
    bucket.store.delete(first)
    report = bucket.verified(60)
    assert report.counts == {FindingKind.MISSING: 13, FindingKind.TWICE: 7}
    [missing] = [found for found in report.findings if found.kind is FindingKind.MISSING]
    assert (missing.details["start"], missing.details["end"]) == (20, 33)


def test_what_lies_behind_the_committed_offset_is_extra(tmp_path: Path) -> None:
    bucket = Bucket(of_region("partition={kafka_partition}"))
    bucket.put("partition=0", range(20))
    over, behind = (bucket.put("partition=0", range(start, start + 20)) for start in (20, 40))
    report = bucket.verified(32)
    found = {
        one.details["key"]: (one.kind, *(one.details[name] for name in ("start", "count", "text")))
        for one in report.findings
    }
    assert found == {
        over: (FindingKind.EXTRA, 32, 8, "8 messages more than the log has for it below 32"),
        behind: (FindingKind.EXTRA, 40, 20, "not committed"),
    }
    # Ours go on at the committed offset: the two objects are then known to overlap.
    bucket.store.delete(behind)
    bucket.ours(tmp_path, 32, END)
    report = bucket.verified(END)
    assert twice_of(report) == expected_twice(bucket, END)
    assert report.counts == {FindingKind.TWICE: 8}


def test_directories_of_a_clock_are_counted_together(tmp_path: Path) -> None:
    bucket = Bucket(of_region())
    for start in range(0, 40, 10):
        bucket.put(f"hour={start // 20}", range(start, start + 10))
    bucket.ours(tmp_path, 40, END)
    report = bucket.verified(END)
    assert not report.counts
    bucket.put("hour=9", range(33, 37))
    report = bucket.verified(END)
    assert report.counts == {FindingKind.EXTRA: 4}
    assert any("not those that the configuration gives" in note for note in report.notes)


@pytest.mark.parametrize("stored", [True, False])
def test_messages_without_a_value_may_be_left_out_by_the_sink(stored: bool) -> None:
    nulls = (3, 4, 19, 30)
    bucket = Bucket(of_region("partition={kafka_partition}"))
    for start, end in ((0, 20), (20, 40)):
        there = [offset for offset in range(start, end) if stored or offset not in nulls]
        bucket.put("partition=0", there, start)
    report = bucket.verified(40, nulls)
    assert not report.counts, report.findings
    assert report.passed_over == (0 if stored else 4)
    assert report.compared == (40 if stored else 36)
    assert report.by_offset == 0


def test_a_log_that_begins_within_an_object_hides_what_is_in_it() -> None:
    bucket = Bucket(of_region())
    for start, end in ((0, 30), (30, 60)):
        by_region: dict[str, list[int]] = defaultdict(list)
        for offset in range(start, end):
            by_region[json.loads(value(offset))["region"]].append(offset)
        for region, offsets in by_region.items():
            bucket.put(DIRECTORY.format(region), offsets)
    report = bucket.verified(60, begin=17)
    assert not report.counts, report.findings
    assert any("3 objects of the connector began below" in note for note in report.notes)


def test_objects_lie_in_the_topics_own_directory_where_the_layout_is_empty(tmp_path: Path) -> None:
    bucket = Bucket(of_region(""))
    for start in range(0, 60, 20):
        key = f"p/clicks/clicks+0+{start:010d}.json"
        lines = b"".join(value(offset) + b"\n" for offset in range(start, start + 20))
        bucket.overwrite(key, lines)
    bucket.ours(tmp_path, 60, END)
    assert "p/clicks/clicks+0+0000000060.json" in bucket.store.objects
    assert len(bucket.stored()) == END
    report = bucket.verified(END)
    assert not report.counts, report.findings
    assert report.compared == END


def test_a_text_object_with_other_bytes_is_named() -> None:
    bucket = Bucket(of_region("partition={kafka_partition}", "text"))
    bucket.put("partition=0", range(10))
    key = bucket.put("partition=0", range(10, 20))
    bucket.overwrite(key, bucket.store.objects[key].content.replace(b'"n": 12', b'"n": 99'))
    [found] = bucket.verified(20).findings
    where = (found.details["start"], found.details["key"])
    assert (found.kind, *where) == (FindingKind.DIFFERENT, 12, key)


def test_the_archive_alone_takes_a_connector_in_between_for_no_loss(tmp_path: Path) -> None:
    bucket = Bucket(of_region("partition={kafka_partition}"))
    bucket.ours(tmp_path, 0, 20)
    bucket.put("partition=0", range(20, 40))
    bucket.ours(tmp_path, 40, END)
    assert not bucket.verified(END).counts
    archive = archive_of(bucket.settings, "clicks", bucket.store)
    [report] = verify_archive_only(archive, "clicks", parsed=True)
    assert not report.counts
    assert any("[20, 40)" in remark for remark in ArchiveReport([report]).remarks)
