"""A batch's last file: put after all others; where it stands, they do; the first one is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from secor.batch.batch import SealedBatch
from secor.batch.last_file import WrittenBatch
from secor.batch.plan import Lane, TopicPlan
from secor.commit.uploader import Committed, Dropped
from secor.core.errors import ObjectConflict, OutcomeUnknown
from secor.core.model import DATA, Chunk, OffsetRange, Part, TopicPartition
from tests.fakes.format import PlainFormat
from tests.unit.commit.commit_world import Rituals


class Described:
    """Names the batch's files, one a line."""

    def key(self, topic_partition: TopicPartition, offsets: OffsetRange) -> str:
        return f"root/_staged/{topic_partition}/{offsets.start}-{offsets.end}"

    def body(self, batch: WrittenBatch) -> bytes:
        return "\n".join([batch.fingerprint, *(file.key for file in batch.files)]).encode()


class ToTables:
    """All messages to the lane of a table, by odd and even offsets."""

    identity = "to tables"

    def split(self, chunk: Chunk) -> list[Part]:
        offsets = chunk.records.column("offset").to_numpy()
        return [
            Part(name, chunk.records.filter(offsets % 2 == rest), lane)
            for rest, name, lane in ((0, "even", "table"), (1, "odd", "table"))
            if (offsets % 2 == rest).any()
        ]


@pytest.fixture
def rituals(tmp_path: Path) -> Rituals:
    return Rituals(tmp_path)


def plan(rituals: Rituals, identity: str = "plain") -> TopicPlan:
    """Return a plan whose files have unique names in another place."""
    lane = Lane("s3://lake/data", PlainFormat(identity), lambda name: f"s3://lake/data/{name}")
    made = replace(rituals.plan(identity), parser=ToTables(), lanes={"table": lane})
    return replace(made, last_file=Described())


def batch_of(rituals: Rituals, offsets: list[int], identity: str = "plain") -> SealedBatch:
    return rituals.batch(offsets, 4, plan=plan(rituals, identity))


LAST = "root/_staged/clicks/0/0-4"


def keys(batch: SealedBatch) -> list[str]:
    assert batch.last is not None
    return [*(file.key for file in batch.files), batch.last.key]


def test_it_is_put_after_all_others_and_before_the_commit(rituals: Rituals) -> None:
    batch = batch_of(rituals, [0, 1, 2])
    assert isinstance(rituals.upload(batch), Committed)
    assert [key for key, _ in rituals.store.audit] == keys(batch)
    assert keys(batch)[-1] == LAST
    assert rituals.calls.index("commit") > rituals.calls.index("put")
    body = rituals.store.objects[LAST].content.decode().split("\n")
    assert body == [batch.fingerprint, *keys(batch)[:-1]]


@pytest.mark.parametrize("identity", ["plain", "another"])
def test_where_it_stands_nothing_is_put_or_deleted(rituals: Rituals, identity: str) -> None:
    """Whoever put it had put everything else before, under whatever configuration."""
    first = batch_of(rituals, [0, 1], identity)
    rituals.intend(first)
    assert first.last is not None
    rituals.place(replace(first, files=(*first.files, first.last)))
    before = dict(rituals.store.objects)
    batch = batch_of(rituals, [0, 1, 2])
    upload = rituals.upload if identity == "plain" else rituals.settle
    assert isinstance(upload(batch), Committed)
    assert rituals.store.objects == before
    assert rituals.entry.committed == 4


def test_one_that_lands_while_ours_is_put_is_right(rituals: Rituals) -> None:
    """Ours becomes orphans, which nothing names."""
    first = batch_of(rituals, [0, 1, 3])
    rituals.intend(first)
    batch = batch_of(rituals, [0, 1])
    last = first.last
    assert last is not None
    puts = iter([lambda: None, lambda: None, lambda: rituals.place(replace(first, files=(last,)))])
    rituals.on("before", "put", *puts)
    assert isinstance(rituals.upload(batch), Committed)
    assert rituals.store.objects[LAST].content.decode().split("\n")[1:] == keys(first)[:-1]


def test_one_of_another_topic_under_that_name_stops_the_partition(rituals: Rituals) -> None:
    other = rituals.batch([0], 4, plan=plan(rituals), topic_id="made again")
    assert other.last is not None
    rituals.place(replace(other, files=(other.last,)))
    outcome = rituals.upload(batch_of(rituals, [0]))
    assert isinstance(outcome, Dropped)
    assert isinstance(outcome.error, ObjectConflict)


def test_files_of_an_earlier_try_are_found_by_their_names(rituals: Rituals) -> None:
    """No listing: they tell range, settings and content, wherever they lie."""
    first = batch_of(rituals, [0, 1, 2])
    rituals.intend(first)
    rituals.place(replace(first, files=first.files[:1]))
    rituals.calls.clear()
    batch = batch_of(rituals, [0, 1, 2])
    assert keys(batch) == keys(first)
    assert isinstance(rituals.upload(batch), Committed)
    assert sorted(rituals.keys) == sorted(keys(batch))


def test_what_compaction_has_removed_since_makes_another_file(rituals: Rituals) -> None:
    """The last file must not tell sizes and rows of a file with other content."""
    first = batch_of(rituals, [0, 1, 2])
    rituals.intend(first)
    rituals.place(replace(first, files=first.files[:1]))
    batch = batch_of(rituals, [0, 1])
    assert isinstance(rituals.upload(batch), Committed)
    named = rituals.store.objects[LAST].content.decode().split("\n")[1:]
    assert first.files[0].key not in named
    assert set(named) <= set(rituals.keys)


def test_a_lost_answer_of_its_put_is_settled(rituals: Rituals) -> None:
    batch = batch_of(rituals, [0])
    rituals.on("after", "put", lambda: None)
    rituals.fail("after", "put", OutcomeUnknown("lost"))
    assert isinstance(rituals.upload(batch), Committed)
    assert rituals.keys == sorted(keys(batch))


def test_directories_of_unique_names_are_in_no_intent(rituals: Rituals) -> None:
    """Recovery lists what an intent names: not a table's data."""
    assert plan(rituals).roots == ("root/clicks",)
    assert plan(rituals).lane(DATA).root == "root/clicks"


def test_a_batch_without_messages_has_one_too(rituals: Rituals) -> None:
    batch = rituals.batch([], 4, plan=plan(rituals))
    assert isinstance(rituals.upload(batch), Committed)
    assert rituals.keys == [LAST]
