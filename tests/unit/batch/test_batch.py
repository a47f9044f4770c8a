"""The local files of one topic partition."""

import gc
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from secor.batch.batch import OPEN_FILE, Batch, BatchState
from secor.batch.plan import TopicPlan
from secor.batch.policy import Policy, Reason
from secor.batch.sealed import SealedBatch
from secor.batch.workspace import Workspace
from secor.config.parser import Parser
from secor.core.model import DATA, Chunk, OffsetRange, Part, TopicPartition
from secor.core.naming import ConnectName
from secor.core.ports import Sink
from secor.formats import make_format
from secor.formats.text import TextFormat
from secor.parsing.offset_layout import OffsetBuckets
from secor.parsing.parts import NOWHERE, parts_of
from secor.schema.schema import RowSchema
from secor.wiring.parsers import pipeline_for
from tests.fakes.clock import FakeClock
from tests.fakes.format import PlainFormat, PlainWriter, chunk_of

TP = TopicPartition("t", 1)

MOVES: dict[BatchState, Callable[[Batch], object]] = {
    BatchState.SEALED: lambda batch: batch.seal(Reason.AGE),
    BatchState.DROPPED: lambda batch: batch.drop(),
}
POSSIBLE = {
    (BatchState.OPEN, BatchState.SEALED),
    (BatchState.OPEN, BatchState.DROPPED),
    (BatchState.SEALED, BatchState.DROPPED),
}
"""Said here once more: a test that reads the table cannot find a fault in it."""


def plan(policy: Policy | None = None) -> TopicPlan:
    return TopicPlan("g", "p/t", 1, OffsetBuckets(10), PlainFormat(), policy or Policy())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, "me")


def batch_at(
    start: int,
    workspace: Workspace,
    clock: FakeClock,
    *,
    end: int | None = None,
    max_files: int | None = None,
    policy: Policy | None = None,
) -> Batch:
    return Batch(
        TP,
        start,
        plan=plan(policy),
        workspace=workspace,
        clock=clock,
        topic_id="id",
        end=end,
        max_files=max_files,
    )


def chunk(offsets: list[int], next_offset: int | None = None) -> Chunk:
    return Chunk(TP, chunk_of(offsets), offsets[-1] + 1 if next_offset is None else next_offset)


def content(sealed: SealedBatch) -> dict[str, list[int]]:
    return {
        file.key: [json.loads(line)[0] for line in file.local.path.read_bytes().splitlines()]
        for file in sealed.files
    }


def test_each_output_partition_has_a_file_named_by_where_the_range_begins(
    workspace: Workspace, clock: FakeClock
) -> None:
    batch = batch_at(5, workspace, clock)
    batch.append(chunk([6, 8, 13]))
    batch.append(chunk([15, 21], next_offset=25))
    sealed = batch.seal(Reason.BYTES)
    assert sealed.range == OffsetRange(5, 25)
    assert content(sealed) == {
        "p/t/offset=0/1_1_00000000000000000005.plain": [6, 8],
        "p/t/offset=10/1_1_00000000000000000005.plain": [13, 15],
        "p/t/offset=20/1_1_00000000000000000005.plain": [21],
    }


def test_the_metadata_tells_batch_file_records_and_times(
    workspace: Workspace, clock: FakeClock
) -> None:
    batch = batch_at(5, workspace, clock)
    batch.append(chunk([6, 8], next_offset=10))
    info = batch.seal(Reason.BYTES).files[0].info
    assert (info.batch, info.first_offset, info.records) == (OffsetRange(5, 10), 6, 2)
    assert (info.least_timestamp, info.greatest_timestamp) == (6000, 8000)
    assert info.topic_id == "id"


def test_it_seals_exactly_at_the_end_of_the_intent_that_it_follows(
    workspace: Workspace, clock: FakeClock
) -> None:
    batch = batch_at(0, workspace, clock, end=5, policy=Policy(max_messages=1))
    assert batch.append(chunk([0, 2])) is None
    assert batch.due() is None, "the intent overrules the policy"
    rest = batch.append(chunk([4, 6, 7]))
    assert rest is not None
    assert (rest.records.column("offset").to_pylist(), rest.next_offset) == ([6, 7], 8)
    assert batch.due() is Reason.INTENT
    assert batch.seal(Reason.INTENT).range == OffsetRange(0, 5)


def test_a_chunk_that_ends_with_the_intent_leaves_no_rest(
    workspace: Workspace, clock: FakeClock
) -> None:
    batch = batch_at(0, workspace, clock, end=5)
    assert batch.append(chunk([2, 4])) is None
    assert batch.complete


def test_it_is_full_where_a_message_needs_a_file_too_many(
    workspace: Workspace, clock: FakeClock
) -> None:
    batch = batch_at(0, workspace, clock, max_files=2)
    assert batch.append(chunk([2, 13])) is None
    assert batch.due() is None
    rest = batch.append(chunk([14, 15, 22, 27, 31]))
    assert rest is not None
    assert batch.due() is Reason.FILES
    assert (batch.files, batch.messages, batch.next_offset) == (2, 4, 22)
    following = batch_at(batch.next_offset, workspace, clock, max_files=2)
    assert following.append(rest) is None
    assert (following.messages, following.next_offset) == (3, 32)
    stored = content(batch.seal(Reason.FILES))
    assert list(stored.values()) == [[2], [13, 14, 15]]


def test_a_batch_with_an_end_has_all_its_files(workspace: Workspace, clock: FakeClock) -> None:
    batch = batch_at(0, workspace, clock, end=40, max_files=1)
    assert batch.append(chunk([2, 13, 22, 31], next_offset=40)) is None
    assert (batch.files, batch.due()) == (4, Reason.INTENT)


def test_messages_are_counted_and_their_times_kept(workspace: Workspace, clock: FakeClock) -> None:
    batch = batch_at(0, workspace, clock, policy=Policy(max_messages=3))
    clock.advance(50)
    began = clock.monotonic()
    batch.append(chunk([2, 4]))
    assert batch.due() is None
    clock.advance(7)
    batch.append(chunk([5]))
    assert (batch.messages, batch.due()) == (3, Reason.MESSAGES)
    assert (batch.first_timestamp, batch.last_timestamp) == (2000, 5000)
    sealed = batch.seal(Reason.MESSAGES)
    assert (sealed.opened, sealed.first_timestamp) == (began, 2000)


def test_a_gap_across_the_end_of_the_intent_completes_it(
    workspace: Workspace, clock: FakeClock
) -> None:
    batch = batch_at(0, workspace, clock, end=5)
    rest = batch.append(chunk([9]))
    assert rest is not None
    assert rest.records.column("offset").to_pylist() == [9]
    assert (batch.messages, batch.next_offset, batch.complete) == (0, 5, True)


def test_a_lost_range_is_skipped_but_belongs_to_the_batch(
    workspace: Workspace, clock: FakeClock
) -> None:
    batch = batch_at(3, workspace, clock)
    batch.skip(7)
    batch.append(chunk([7]))
    assert batch.seal(Reason.AGE).range == OffsetRange(3, 8)


def test_a_skip_goes_no_further_than_the_end_of_the_intent(
    workspace: Workspace, clock: FakeClock
) -> None:
    batch = batch_at(3, workspace, clock, end=5)
    batch.skip(7)
    assert batch.seal(Reason.INTENT).range == OffsetRange(3, 5)


def test_progress_without_messages_comes_of_age(workspace: Workspace, clock: FakeClock) -> None:
    batch = batch_at(0, workspace, clock, policy=Policy(max_age=60))
    assert batch.empty
    batch.append(Chunk(TP, chunk_of([]), 4))
    clock.advance(60)
    assert batch.due() is Reason.AGE
    sealed = batch.seal(Reason.AGE)
    assert (sealed.range, sealed.files) == (OffsetRange(0, 4), ())


def test_an_empty_batch_is_never_due(workspace: Workspace, clock: FakeClock) -> None:
    batch = batch_at(0, workspace, clock, policy=Policy(max_age=1, minute_mark=0))
    clock.advance(1e6)
    assert batch.due() is None


def test_the_age_begins_with_the_first_progress(workspace: Workspace, clock: FakeClock) -> None:
    batch = batch_at(0, workspace, clock, policy=Policy(max_age=60))
    clock.advance(1e6)
    batch.append(chunk([0]))
    assert batch.due() is None


def test_dropping_deletes_the_files(workspace: Workspace, clock: FakeClock) -> None:
    batch = batch_at(0, workspace, clock)
    batch.append(chunk([0]))
    batch.drop()
    assert [path for path in workspace.directory.iterdir() if path.name != ".lock"] == []


def test_the_size_counts_memory_and_disk(workspace: Workspace, clock: FakeClock) -> None:
    batch = batch_at(0, workspace, clock)
    batch.append(chunk([0]))
    assert batch.size == batch.buffered - OPEN_FILE > 0
    assert batch.seal(Reason.AGE).size > 0


PARSED = Parser.model_validate({"decoder": "json", "layout": "all"})


def rows(first: int, count: int) -> Chunk:
    offsets = list(range(first, first + count))
    values: list[bytes | None] = [b'{"n": %d}' % offset for offset in offsets]
    return Chunk(TP, chunk_of(offsets, values), first + count)


def typed(name: str, workspace: Workspace, clock: FakeClock) -> Batch:
    rows_setting = {"orc": "stripe_rows", "avro": "block_rows"}.get(name, "row_group_rows")
    schema = RowSchema.parse('{"fields": [{"name": "n", "type": "int64"}]}', "schema")
    log_format = make_format(name, schema=schema, **{rows_setting: 10})
    parser = pipeline_for(PARSED, typed=True)
    stored = TopicPlan("g", "p/t", 1, parser, log_format, Policy())
    return Batch(TP, 0, plan=stored, workspace=workspace, clock=clock)


@pytest.mark.parametrize("name", ["typed-parquet", "orc", "avro"])
def test_what_is_on_disk_counts_and_goes_with_the_batch(
    name: str, workspace: Workspace, clock: FakeClock
) -> None:
    batch = typed(name, workspace, clock)
    batch.append(rows(0, 25))
    files = [path for path in workspace.directory.iterdir() if path.name != ".lock"]
    in_writers = batch.buffered - OPEN_FILE * batch.files
    assert batch.size == in_writers + sum(path.stat().st_size for path in files)
    assert batch.size > in_writers > 0
    batch.drop()
    del batch
    gc.collect()
    assert [path.name for path in workspace.directory.iterdir()] == [".lock"]
    assert workspace.open_files == 0


@pytest.mark.parametrize("name", ["typed-parquet", "orc", "avro"])
def test_a_sealed_batch_leaves_only_its_files(
    name: str, workspace: Workspace, clock: FakeClock
) -> None:
    batch = typed(name, workspace, clock)
    batch.append(rows(0, 25))
    sealed = batch.seal(Reason.BYTES)
    local = {file.local.path for file in sealed.files}
    assert {path for path in workspace.directory.iterdir() if path.name != ".lock"} == local
    assert workspace.open_files == 0


def test_a_dropped_file_is_not_made_again_by_a_footer(
    workspace: Workspace, clock: FakeClock
) -> None:
    stored = TopicPlan("g", "p/t", 1, OffsetBuckets(10), make_format("parquet"), Policy())
    batch = Batch(TP, 0, plan=stored, workspace=workspace, clock=clock)
    batch.append(chunk([1, 2, 3]))
    batch.drop()
    del batch
    gc.collect()
    assert [path.name for path in workspace.directory.iterdir()] == [".lock"]


def batch_in(state: BatchState, workspace: Workspace, clock: FakeClock) -> Batch:
    batch = batch_at(0, workspace, clock)
    if state is not BatchState.OPEN:
        MOVES[state](batch)
    return batch


@pytest.mark.parametrize("after", list(MOVES))
@pytest.mark.parametrize("before", list(BatchState))
def test_a_batch_is_sealed_once_and_dropped_once(
    before: BatchState, after: BatchState, workspace: Workspace, clock: FakeClock
) -> None:
    batch = batch_in(before, workspace, clock)
    assert batch.state is before
    if (before, after) in POSSIBLE:
        MOVES[after](batch)
        assert batch.state is after
    else:
        with pytest.raises(AssertionError, match="does not go"):
            MOVES[after](batch)
        assert batch.state is before


def test_the_fingerprint_changes_with_everything_that_changes_objects() -> None:
    base = plan()
    variants = [
        TopicPlan("h", base.root, 1, base.parser, base.log_format, base.policy),
        TopicPlan("g", "q/t", 1, base.parser, base.log_format, base.policy),
        TopicPlan("g", base.root, 2, base.parser, base.log_format, base.policy),
        TopicPlan("g", base.root, 1, OffsetBuckets(11), base.log_format, base.policy),
        TopicPlan("g", base.root, 1, base.parser, PlainFormat("other"), base.policy),
    ]
    assert len({base.fingerprint, *(variant.fingerprint for variant in variants)}) == 6
    sequencefile = make_format("sequencefile")
    stored = TopicPlan("g", "root/clicks", 1, OffsetBuckets(10), sequencefile, Policy())
    # What the version before wrote into its intents and objects.
    assert stored.earlier_fingerprint == "0fd692a01c9c0a79"
    assert stored.fingerprint != stored.earlier_fingerprint
    other_policy = TopicPlan("g", base.root, 1, base.parser, base.log_format, Policy(max_bytes=1))
    assert other_policy.fingerprint == base.fingerprint


class CountingFormat(PlainFormat):
    """Counts the calls of its writers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def create(self, sink: Sink, seed: bytes) -> PlainWriter:
        log_format = self

        class Writer(PlainWriter):
            def append(self, records: pa.RecordBatch) -> None:
                log_format.calls += 1
                super().append(records)

        return Writer(sink)


def divided(
    workspace: Workspace, clock: FakeClock, *, rows_of_chunk: int, chunks: int
) -> tuple[Batch, CountingFormat]:
    """Offsets of chunks that are divided among 20 files."""
    log_format = CountingFormat()
    stored = replace(plan(), parser=EveryTwentieth(), log_format=log_format)
    batch = Batch(TP, 0, plan=stored, workspace=workspace, clock=clock)
    for first in range(0, rows_of_chunk * chunks, rows_of_chunk):
        batch.append(chunk(list(range(first, first + rows_of_chunk))))
    return batch, log_format


class EveryTwentieth:
    """Puts each offset into one of 20 output partitions, by turns."""

    identity = "every-twentieth"

    def split(self, chunk: Chunk) -> list[Part]:
        offsets = chunk.records.column("offset").to_numpy()
        return [
            Part(f"p={place}", chunk.records.filter(pa.array(offsets % 20 == place)))
            for place in range(20)
        ]


def test_the_small_parts_of_a_chunk_wait_until_they_are_worth_a_call(
    workspace: Workspace, clock: FakeClock
) -> None:
    batch, log_format = divided(workspace, clock, rows_of_chunk=100, chunks=10)
    assert log_format.calls == 0
    assert batch.buffered > batch.size > 1000 * 8
    sealed = batch.seal(Reason.AGE)
    assert log_format.calls == 20
    assert sorted(content(sealed).values()) == [list(range(at, 1000, 20)) for at in range(20)]
    for file in sealed.files:
        least = file.info.first_offset
        assert (file.info.records, file.info.least_timestamp) == (50, least * 1000)
        assert file.info.greatest_timestamp == (least + 980) * 1000


def test_large_parts_do_not_wait(workspace: Workspace, clock: FakeClock) -> None:
    _, log_format = divided(workspace, clock, rows_of_chunk=40_000, chunks=2)
    assert log_format.calls == 2 * 20


def test_so_much_may_wait_and_no_more(
    workspace: Workspace, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secor.batch.framing.MOST_WAITING", 1_000_000)
    batch, log_format = divided(workspace, clock, rows_of_chunk=100, chunks=30)
    assert 20 <= log_format.calls < 20 * 30
    assert batch.seal(Reason.AGE).files[0].info.records == 150


def test_a_dropped_batch_forgets_what_waits(workspace: Workspace, clock: FakeClock) -> None:
    batch, log_format = divided(workspace, clock, rows_of_chunk=100, chunks=1)
    batch.drop()
    assert log_format.calls == 0
    assert [path.name for path in workspace.directory.iterdir()] == [".lock"]


class ByThirds:
    """Puts offsets into three output partitions by turns; those of a fourth are left out."""

    identity = "by-thirds"

    def split(self, chunk: Chunk) -> list[Part]:
        codes = chunk.records.column("offset").to_numpy() % 4
        places = [(DATA, f"p={place}") for place in range(3)]
        return list(parts_of(chunk.records, np.where(codes == 3, NOWHERE, codes), places))


@pytest.mark.parametrize("timestamps", [True, False])
def test_parts_that_are_rendered_together_make_the_files_of_each(
    workspace: Workspace, clock: FakeClock, timestamps: bool
) -> None:
    stored = replace(plan(), parser=ByThirds(), log_format=TextFormat())
    batch = Batch(TP, 0, plan=stored, workspace=workspace, clock=clock)
    for first in (0, 10):
        taken = chunk(list(range(first, first + 10)))
        if not timestamps:
            column = taken.records.schema.get_field_index("timestamp")
            some = pa.array([None, *range(first + 1, first + 10)], pa.int64())
            records = taken.records.set_column(column, "timestamp", some)
            taken = replace(taken, records=records)
        batch.append(taken)
        assert batch.size == sum(len(data) for data in texts(batch).values())
    assert texts(batch) == {
        f"p={place}": b"".join(b"%d\n" % at for at in range(place, 20, 4)) for place in range(3)
    }
    facts = [
        (it.info.first_offset, it.info.records, it.info.least_timestamp, it.info.greatest_timestamp)
        for it in batch.seal(Reason.AGE).files
    ]
    if timestamps:
        assert facts == [(at, 5, at * 1000, (at + 16) * 1000) for at in range(3)]
    else:
        assert facts[1:] == [(at, 5, at, at + 16) for at in (1, 2)]
        assert facts[0] == (0, 5, 4, 16)


def test_text_tells_how_many_messages_without_a_value_it_left_out(
    workspace: Workspace, clock: FakeClock
) -> None:
    stored = replace(plan(), log_format=TextFormat())
    batch = Batch(TP, 0, plan=stored, workspace=workspace, clock=clock)
    taken = chunk([0, 1, 2])
    column = taken.records.schema.get_field_index("value")
    values = pa.array([None, b"1", None], pa.binary())
    batch.append(replace(taken, records=taken.records.set_column(column, "value", values)))
    (file,) = batch.seal(Reason.AGE).files
    assert (file.info.records, file.info.left_out) == (3, 2)


def texts(batch: Batch) -> dict[str, bytes]:
    return {place: file.local.path.read_bytes() for (_, place), file in batch._files.items()}


def test_names_of_a_connector_are_in_the_fingerprint() -> None:
    stored = plan()
    named = replace(stored, names_of_connect=ConnectName())
    parquet = replace(named, codec_extension=".snappy")
    assert len({it.fingerprint for it in (stored, named, parquet)}) == 3
    assert named.earlier_fingerprint == stored.earlier_fingerprint
