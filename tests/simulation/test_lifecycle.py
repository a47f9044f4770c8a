"""A restore, a stream, a recovery and a finalizer in the middle of rewrites and expiries.

To the storm of erasures come: expiry, answers of the store that are lost, a restore that is being
read and a stream that has a cursor while steps are taken, and a ledger that is rebuilt after each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from secor.archive.beginning import read_beginnings
from secor.archive.expire import Expiry, choose_by_size
from secor.archive.finalize.finalizer import Finalizer
from secor.archive.finalize.periods import Periods
from secor.archive.finalize.stored_time import StoredTime
from secor.archive.objects import Archive
from secor.archive.repair.recover_ledger import plan_recovery
from secor.archive.rewrite.carrying_out import Rewriter
from secor.archive.rewrite.planning import RewriteLimits, plan_of
from secor.batch.workspace import Workspace
from secor.core.errors import ArchiveIncomplete, OutcomeUnknown
from secor.core.model import OffsetRange
from secor.formats import make_format
from secor.parsing.layout import Layout
from secor.parsing.zones import Zone
from secor.restore.model import Piece, SourcePartition
from secor.restore.sources.archive import ArchiveSource, TopicListings
from secor.spark import reading, source
from secor.spark.cursor import Cursor
from secor.spark.options import ReadOptions, Selection
from secor.spark.planning import tasks_of
from tests.fakes.archive import CLICKS, MemoryLog, OperatorLedger
from tests.fakes.store import FakeStore, nothing
from tests.simulation.test_erasures import SECRET, World
from tests.unit.archive.test_erase import KEYS, rows
from tests.unit.archive.test_rewrite import put

STEPS = 25
SEEDS = range(8)
OPTIONS = ReadOptions("anywhere", selection=Selection(topics=("clicks",)), secret=SECRET)
FROM = SourcePartition("s", "clicks", 0)


@dataclass
class LivingArchive(World):
    """One topic partition whose archive is read by everybody at every step."""

    beginning: int = 0
    restored: list[int] = field(default_factory=list)
    restored_to: int = 0
    reading: Iterator[Piece] | None = None
    streamed: list[int] = field(default_factory=list)
    stream: source.ObjectStream = field(default_factory=lambda: source.ObjectStream(OPTIONS))
    cursor: Cursor = field(default_factory=dict)

    def expire(self) -> None:
        """Let the oldest objects go until any number of bytes is left."""
        expiry = Expiry(Archive(self.store, "p"), "clicks", "a test", "old", lambda: "now")
        logs = expiry.logs()
        choose_by_size(logs, self.rng.choice([4_000, 12_000, 1 << 30]))
        expiry.run(logs)

    def lost_answer(self) -> None:
        """Compact or erase or expire, and never learn of one put that it was done."""
        left = self.rng.randint(1, 12)

        def after(call: str, key: str) -> None:
            nonlocal left
            left -= call == "put"
            if left == 0:
                raise OutcomeUnknown(f"{key}: no answer")

        self.store.after = after
        with suppress(OutcomeUnknown):
            self.rng.choice([self.compact, self.erase_one, self.expire])()
        self.store.after = nothing
        self.look()

    def look(self) -> None:
        """Read as everybody does."""
        before, self.store.before = self.store.before, nothing
        after, self.store.after = self.store.after, nothing
        self.beginning = read_beginnings(self.store, "p/clicks").of(0, 1)
        super().look()
        self._restore()
        self._stream()
        self._recover()
        self.store.before, self.store.after = before, after

    def is_left(self, offset: int) -> bool:
        """Tell whether a message that was ever stored is neither erased nor expired."""
        return offset >= self.beginning and not self.is_of(self.begun, offset)

    @property
    def offsets(self) -> set[int]:
        """The offsets that any object ever had and that have not expired."""
        return {offset for offset in super().offsets if offset >= self.beginning}

    def _restore(self) -> None:
        """Read a few pieces more; where an object is gone, list again, as a restore does."""
        for _ in range(self.rng.randint(0, 3)):
            if self.reading is None:
                self.reading = self._source().pieces(FROM, self.restored_to)
            try:
                piece = next(self.reading, None)
            except ArchiveIncomplete as error:
                if "since the archive was listed" not in str(error):
                    raise
                self.reading = None
                continue
            if piece is None:
                self.reading = None
                return
            self.restored += piece.records.column("offset").to_pylist()
            self.restored_to = piece.next_offset

    def restore_the_rest(self) -> None:
        """Read to the end, as a restore that was started anew."""
        for piece in self._source().pieces(FROM, self.restored_to):
            self.restored += piece.records.column("offset").to_pylist()
        self.reading = None

    def _source(self) -> ArchiveSource:
        archive = Archive(self.store, "p")
        listings = TopicListings(lambda: 0.0)
        return ArchiveSource(
            "s",
            lambda _: archive,
            lambda: ["clicks"],
            listings=listings,
            secret=SECRET,
        )

    def _stream(self) -> None:
        """Do one batch of the stream, now and then with a query that was started anew."""
        if self.rng.random() < 0.3:
            self.stream = source.ObjectStream(OPTIONS)
        elif self.rng.random() < 0.5:
            return
        end = self.stream.latest()
        self.read_up_to(end)

    def read_up_to(self, end: Cursor) -> None:
        """Give what is between the cursor and ``end``."""
        objects = self.stream.between(self.cursor, end)
        given = self.stream.given(objects, self.cursor, end)
        for records in reading.read_tasks(OPTIONS, tasks_of(objects, OPTIONS, given=given)):
            self.streamed += records.column("offset").to_pylist()
        self.cursor = end
        assert len(self.streamed) == len(set(self.streamed))

    def _recover(self) -> None:
        """Rebuild a lost ledger: it says what is committed, and no batch is begun again."""
        log = MemoryLog()
        log.put(CLICKS, rows(sorted(super().offsets)), self.committed)
        planned = plan_recovery(
            OperatorLedger({}),
            Archive(self.store, "p"),
            CLICKS,
            generation=1,
            log=log,
            owner="a person",
            now=0.0,
        )
        assert planned is not None
        assert (planned.committed, planned.intent) == (self.committed, None)

    def last_batch(self) -> None:
        """Put one more batch, so that a stream gets what it left of the one before."""
        batch = OffsetRange(self.committed, self.committed + 1)
        put(self.store, make_format("sequencefile"), rows([self.committed]), batch, "dt=1")
        self.committed = batch.end


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
def test_everybody_reads_each_message_once_and_nothing_that_is_gone(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    world = LivingArchive(rng, Workspace(tmp_path, "storm"))

    @contextmanager
    def opened(options: ReadOptions) -> Iterator[Archive]:
        yield Archive(world.store, "p")

    monkeypatch.setattr(source, "open_archive", opened)
    monkeypatch.setattr(reading, "open_archive", opened)
    for _ in range(4):
        world.batch()
    steps = [world.erase_one, world.compact, world.expire]
    for _ in range(STEPS):
        kind = rng.choice(["batch", "killed", "meanwhile", "whole", "late", "lost"])
        step, other = rng.choice(steps), rng.choice([*steps, world.batch])
        if kind == "batch":
            world.batch()
        elif kind == "late":
            world.late_put()
        elif kind == "lost":
            world.lost_answer()
        elif kind == "whole":
            step()
            world.look()
        else:
            world.interrupted(step, other if kind == "meanwhile" else None)
    world.last_batch()
    world.look()
    world.read_up_to(world.stream.latest())
    world.restore_the_rest()
    wanted = {offset for offset in world.offsets if world.is_left(offset)}
    for read in (world.streamed, world.restored):
        assert len(read) == len(set(read))
        assert set(read) >= wanted


def test_a_finalizer_marks_once_and_calls_nothing_late_while_days_are_rewritten(
    tmp_path: Path,
) -> None:
    """It looks at every put and delete of a compaction and an erasure, and of what they left."""
    clock = 1_000.0
    store = FakeStore(now=lambda: clock)
    log_format = make_format("sequencefile")
    for start in range(0, 48, 8):
        for day, first in (("dt=2023-11-14", start), ("dt=2023-11-15", start + 1)):
            records = rows(range(first, start + 8, 2))
            put(store, log_format, records, OffsetRange(start, start + 8), day)
    through = datetime(2023, 11, 16, tzinfo=UTC).timestamp()
    progress = [StoredTime(CLICKS, 48, through, "is up to date")]
    periods = Periods(Layout("dt={time:%Y-%m-%d}", Zone("UTC")))
    marked: list[str] = []

    def finalize() -> None:
        before, store.before = store.before, nothing
        finalizer = Finalizer(
            store, "p/clicks", "clicks", periods, delay=0.0, now=lambda: clock, by="a test"
        )
        outcome = finalizer.run(progress)
        marked.extend(period.period.path for period in outcome.marked)
        assert (outcome.late, outcome.failed, outcome.waiting) == ([], [], [])
        store.before = before

    def looking(call: str, key: str) -> None:
        nonlocal clock
        clock += 1_000.0  # a mark, and a rewrite long after it
        if call in ("put", "delete"):
            finalize()

    store.before = looking
    world = World(random.Random(1), Workspace(tmp_path, "storm"), store, committed=48)
    compact = partial(plan_of, "clicks", limits=RewriteLimits(1e12, 1 << 20))
    Rewriter(Archive(store, "p"), "clicks", world.workspace, compact, SECRET).run()
    world.erase(KEYS[0])
    finalize()
    assert marked == ["dt=2023-11-14", "dt=2023-11-15"]
    assert any("rewrite-2" in key for key in store.objects)
