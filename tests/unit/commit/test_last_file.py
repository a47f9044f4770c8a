"""A batch's last file: put after all others; where it stands, they do; the first one is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from secor.batch.plan import OutputStream, TopicPlan, WrittenBatch
from secor.batch.sealed import SealedBatch
from secor.commit.uploader import AbandonedBatch, CommittedBatch
from secor.core.errors import ObjectConflict, OutcomeUnknown
from secor.core.model import DATA, Chunk, OffsetRange, Part, TopicPartition
from tests.fakes.format import PlainFormat
from tests.unit.commit.commit_world import CommitWorld


class Described:
    """Names the batch's files, one a line."""

    def key(self, topic_partition: TopicPartition, offsets: OffsetRange) -> str:
        return f"root/_staged/{topic_partition}/{offsets.start}-{offsets.end}"

    def body(self, batch: WrittenBatch) -> bytes:
        return "\n".join([batch.fingerprint, *(file.key for file in batch.files)]).encode()


class ToTables:
    """All messages to the stream of a table, by odd and even offsets."""

    identity = "to tables"

    def split(self, chunk: Chunk) -> list[Part]:
        offsets = chunk.records.column("offset").to_numpy()
        return [
            Part(name, chunk.records.filter(offsets % 2 == rest), stream)
            for rest, name, stream in ((0, "even", "table"), (1, "odd", "table"))
            if (offsets % 2 == rest).any()
        ]


@pytest.fixture
def commits(tmp_path: Path) -> CommitWorld:
    return CommitWorld(tmp_path)


def plan(commits: CommitWorld, identity: str = "plain") -> TopicPlan:
    """Return a plan whose files have unique names in another place."""
    stream = OutputStream(
        "s3://lake/data", PlainFormat(identity), lambda name: f"s3://lake/data/{name}"
    )
    made = replace(commits.plan(identity), parser=ToTables(), streams={"table": stream})
    return replace(made, last_file=Described())


def batch_of(commits: CommitWorld, offsets: list[int], identity: str = "plain") -> SealedBatch:
    return commits.batch(offsets, 4, plan=plan(commits, identity))


LAST = "root/_staged/clicks/0/0-4"


def keys(batch: SealedBatch) -> list[str]:
    assert batch.last is not None
    return [*(file.key for file in batch.files), batch.last.key]


def test_it_is_put_after_all_others_and_before_the_commit(commits: CommitWorld) -> None:
    batch = batch_of(commits, [0, 1, 2])
    assert isinstance(commits.upload(batch), CommittedBatch)
    assert [key for key, _ in commits.store.audit] == keys(batch)
    assert keys(batch)[-1] == LAST
    assert commits.calls.index("commit") > commits.calls.index("put")
    body = commits.store.objects[LAST].content.decode().split("\n")
    assert body == [batch.fingerprint, *keys(batch)[:-1]]


@pytest.mark.parametrize("identity", ["plain", "another"])
def test_where_it_stands_nothing_is_put_or_deleted(commits: CommitWorld, identity: str) -> None:
    """Whoever put it had put everything else before, under whatever configuration."""
    first = batch_of(commits, [0, 1], identity)
    commits.intend(first)
    assert first.last is not None
    commits.place(replace(first, files=(*first.files, first.last)))
    before = dict(commits.store.objects)
    batch = batch_of(commits, [0, 1, 2])
    upload = commits.upload if identity == "plain" else commits.settle
    assert isinstance(upload(batch), CommittedBatch)
    assert commits.store.objects == before
    assert commits.entry.committed == 4


def test_one_that_lands_while_ours_is_put_is_right(commits: CommitWorld) -> None:
    """Ours becomes orphans, which nothing names."""
    first = batch_of(commits, [0, 1, 3])
    commits.intend(first)
    batch = batch_of(commits, [0, 1])
    last = first.last
    assert last is not None
    puts = iter([lambda: None, lambda: None, lambda: commits.place(replace(first, files=(last,)))])
    commits.on("before", "put", *puts)
    assert isinstance(commits.upload(batch), CommittedBatch)
    assert commits.store.objects[LAST].content.decode().split("\n")[1:] == keys(first)[:-1]


def test_one_of_another_topic_under_that_name_stops_the_partition(commits: CommitWorld) -> None:
    other = commits.batch([0], 4, plan=plan(commits), topic_id="made again")
    assert other.last is not None
    commits.place(replace(other, files=(other.last,)))
    outcome = commits.upload(batch_of(commits, [0]))
    assert isinstance(outcome, AbandonedBatch)
    assert isinstance(outcome.error, ObjectConflict)


@pytest.mark.parametrize("recovering", [False, True])
def test_one_of_another_group_with_our_prefix_stops_the_partition(
    commits: CommitWorld, recovering: bool
) -> None:
    """Its files are another table's: taken for ours, our rows would be in no table."""
    other = commits.batch([0], 4, plan=replace(plan(commits), group="neighbour"))
    assert other.last is not None
    commits.place(replace(other, files=(other.last,)))
    batch = batch_of(commits, [0])
    if recovering:
        commits.intend(batch)
    outcome = commits.upload(batch)
    assert isinstance(outcome, AbandonedBatch)
    assert isinstance(outcome.error, ObjectConflict)
    assert "by group neighbour" in str(outcome.error)
    assert commits.entry.committed != 4


def test_files_of_an_earlier_try_are_found_by_their_names(commits: CommitWorld) -> None:
    """No listing: they tell range, settings and content, wherever they lie."""
    first = batch_of(commits, [0, 1, 2])
    commits.intend(first)
    commits.place(replace(first, files=first.files[:1]))
    commits.calls.clear()
    batch = batch_of(commits, [0, 1, 2])
    assert keys(batch) == keys(first)
    assert isinstance(commits.upload(batch), CommittedBatch)
    assert sorted(commits.keys) == sorted(keys(batch))


def test_what_compaction_has_removed_since_makes_another_file(commits: CommitWorld) -> None:
    """The last file must not tell sizes and rows of a file with other content."""
    first = batch_of(commits, [0, 1, 2])
    commits.intend(first)
    commits.place(replace(first, files=first.files[:1]))
    batch = batch_of(commits, [0, 1])
    assert isinstance(commits.upload(batch), CommittedBatch)
    named = commits.store.objects[LAST].content.decode().split("\n")[1:]
    assert first.files[0].key not in named
    assert set(named) <= set(commits.keys)


def test_a_lost_answer_of_its_put_is_settled(commits: CommitWorld) -> None:
    batch = batch_of(commits, [0])
    commits.on("after", "put", lambda: None)
    commits.fail("after", "put", OutcomeUnknown("lost"))
    assert isinstance(commits.upload(batch), CommittedBatch)
    assert commits.keys == sorted(keys(batch))


def test_directories_of_unique_names_are_in_no_intent(commits: CommitWorld) -> None:
    """Recovery lists what an intent names: not a table's data."""
    assert plan(commits).roots == ("root/clicks",)
    assert plan(commits).stream(DATA).root == "root/clicks"


def test_a_batch_without_messages_has_one_too(commits: CommitWorld) -> None:
    batch = commits.batch([], 4, plan=plan(commits))
    assert isinstance(commits.upload(batch), CommittedBatch)
    assert commits.keys == [LAST]
