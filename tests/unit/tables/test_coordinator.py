from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from secor.core.errors import Unavailable
from secor.core.model import Entry, StoredObject, TopicPartition
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.control import ControlEvent, EventKind, PartitionAnswer
from secor.tables.cycle import State, Timing
from secor.tables.staging.manifest import Manifest, ReplayOf
from secor.tables.staging.staged_manifests import Staging
from tests.unit.tables.world import CLICKS, CLUSTER, EVENTS, GROUP, OTHER, PREFIX, TableWorld

ASKING = Timing(interval=10.0, timeout=4.0)


@pytest.fixture
def world() -> TableWorld:
    made = TableWorld()
    made.server.make(EVENTS)
    made.server.make("db.other")
    return made


def complete(commit: str, *partitions: TopicPartition) -> ControlEvent:
    answers = tuple(PartitionAnswer(topic_partition, 5) for topic_partition in partitions)
    return ControlEvent(EventKind.DATA_COMPLETE, GROUP, commit, 1, "worker", answers)


def test_every_table_is_committed_once_a_cycle(world: TableWorld) -> None:
    coordinator = world.coordinator()
    world.stage(world.manifest(0, 5, [EVENTS, "db.other"]))
    coordinator.step()
    assert {result.table for result in world.observer.results} == {EVENTS, "db.other"}
    assert coordinator.state is State.IDLE
    world.stage(world.manifest(5, 9))
    coordinator.step()
    assert world.live() == ["0-5@0"]
    world.clock.advance(10)
    coordinator.step()
    assert world.live() == ["0-5@0", "5-9@0"]
    assert world.live("db.other") == ["0-5@0"]


def test_it_asks_and_commits_as_soon_as_all_have_answered(world: TableWorld) -> None:
    world.topics.known = {CLICKS, OTHER}
    coordinator = world.coordinator(ASKING)
    coordinator.step()
    (asked,) = world.channel.sent
    assert asked.kind is EventKind.START_COMMIT
    assert asked.epoch == int(world.clock.now())
    world.stage(world.manifest(0, 5))
    world.channel.incoming = [complete(asked.commit, CLICKS)]
    assert coordinator.step() > 0
    assert world.live() == []
    world.channel.incoming = [complete(asked.commit, OTHER)]
    coordinator.step()
    assert world.live() == ["0-5@0"]
    kinds = [event.kind for event in world.channel.sent]
    assert kinds == [EventKind.START_COMMIT, EventKind.COMMIT_TO_TABLE, EventKind.COMMIT_COMPLETE]
    assert world.observer.missing == [0]


def test_after_the_timeout_it_commits_what_there_is(world: TableWorld) -> None:
    world.topics.known = {CLICKS, OTHER}
    coordinator = world.coordinator(ASKING)
    coordinator.step()
    world.stage(world.manifest(0, 5, timestamp=900))
    world.stage(world.manifest(0, 5, topic_partition=OTHER, timestamp=900))
    world.clock.advance(4)
    coordinator.step()
    assert world.live() == ["0-5@0", "0-5@1"]
    assert world.observer.missing == [2]
    assert world.record().valid_through is None


def test_where_it_discards_a_cycle_without_all_answers_commits_nothing(world: TableWorld) -> None:
    world.topics.known = {CLICKS, OTHER}
    coordinator = world.coordinator(Timing(interval=10.0, timeout=4.0, discards=True))
    world.stage(world.manifest(0, 5))
    coordinator.step()
    world.clock.advance(4)
    coordinator.step()
    assert world.live() == []
    assert world.observer.discarded == [2]
    world.clock.advance(6)
    coordinator.step()
    asked = world.channel.sent[-1]
    world.channel.incoming = [complete(asked.commit, CLICKS, OTHER)]
    coordinator.step()
    assert world.live() == ["0-5@0"]


def test_forged_answers_only_make_it_earlier(world: TableWorld) -> None:
    coordinator = world.coordinator(ASKING)
    coordinator.step()
    world.put(world.manifest(0, 5))
    asked = world.channel.sent[0].commit
    world.channel.incoming = [complete("", CLICKS), complete(asked, CLICKS, OTHER)]
    coordinator.step()
    assert world.live() == []  # the ledger does not have it
    world.move(CLICKS, 5)
    world.clock.advance(10)
    coordinator.step()
    world.clock.advance(4)
    coordinator.step()
    assert world.live() == ["0-5@0"]


def test_a_table_that_fails_holds_no_other_back_and_keeps_its_manifests(world: TableWorld) -> None:
    coordinator = world.coordinator(keep=0.0)
    key = world.stage(world.manifest(0, 5, [EVENTS, "db.other"]))
    server, gone = world.server, world.server.tables["db.other"]
    del server.tables["db.other"]
    for _ in range(3):
        coordinator.step()
        world.clock.advance(10)
    assert world.live() == ["0-5@0"]
    assert [found.key for found in world.staging.find()] == [key]
    server.tables["db.other"] = gone
    for _ in range(2):
        coordinator.step()
        world.clock.advance(10)
    assert world.live("db.other") == ["0-5@0"]
    assert world.staging.find() == []


def test_a_replay_is_finished_when_its_manifest_goes_and_then_forgotten(world: TableWorld) -> None:
    """Else the tables would keep its key for ever, and it could not be told from a new one."""
    coordinator = world.coordinator(keep=0.0)
    world.stage(world.manifest(0, 5))
    files = world.table_files(EVENTS, 0, 5, " replayed")
    replayed = replace(
        world.manifest(0, 5, []), tables=(files,), replay=ReplayOf("bad.txt", "3-7", ())
    )
    world.put(replayed)
    for _ in range(2):
        coordinator.step()
        world.clock.advance(10)
    assert world.staging.find() == []
    world.stage(world.manifest(5, 9))
    coordinator.step()
    assert world.record().replays == ()
    world.put(replayed)  # by somebody who has slept
    for _ in range(2):
        world.clock.advance(10)
        coordinator.step()
    assert world.live() == ["0-5 replayed", "0-5@0", "5-9@0"]


def test_manifests_go_after_a_time_when_all_tables_have_them(world: TableWorld) -> None:
    coordinator = world.coordinator(keep=25.0)
    world.stage(world.manifest(0, 5, [EVENTS, "db.other"]))
    world.stage(world.manifest(5, 6, []))
    present = []
    for _ in range(4):
        coordinator.step()
        present.append(len(world.staging.find()))
        world.clock.advance(10)
    assert present == [2, 2, 2, 0]
    assert world.live() == ["0-5@0"]


def test_manifests_of_a_topic_that_was_made_again_go_as_soon_as_the_tables_have_them(
    world: TableWorld,
) -> None:
    coordinator = world.coordinator(keep=3600.0)
    world.stage(world.manifest(0, 5, topic_id="old"))
    lacking = world.stage(world.manifest(5, 9, [EVENTS, "db.other"], topic_id="old"))
    world.stage(world.manifest(9, 12, [], topic_id=None))
    del world.server.tables["db.other"]
    for _ in range(2):
        coordinator.step()
        world.clock.advance(10)
    assert len(world.staging.find()) == 3
    world.topics.topic_ids = {CLICKS.topic: "new"}
    coordinator.step()
    assert lacking in {it.key for it in world.staging.find()}  # a table has not got it yet
    assert [it.range.start for it in world.staging.find()] == [5, 9]


@pytest.mark.parametrize("topic_id", ["new", None])
def test_manifests_of_an_earlier_topic_count_whatever_the_ledger_says_of_the_present_one(
    world: TableWorld, topic_id: str | None
) -> None:
    """The same range of the present topic has the same key: it could never be staged."""
    world.stage(world.manifest(0, 5, topic_id="old"))
    world.ledger.entries[CLICKS] = Entry(0, topic_id=topic_id)  # accepted before it was committed
    world.topics.topic_ids = {CLICKS.topic: "new"}
    coordinator = world.coordinator(keep=3600.0)
    for _ in range(2):
        coordinator.step()
        world.clock.advance(10)
    assert world.live() == ["0-5@0"]
    assert world.staging.find() == []
    world.put(world.manifest(0, 5, topic_id="new"))
    coordinator.step()
    assert [it.range.end for it in world.staging.find()] == [5]
    assert world.observer.results[-1].result is not Result.COMMITTED, "the ledger has not moved"


def test_one_that_slept_deletes_no_manifest_that_took_the_name_meanwhile(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = world.stage(world.manifest(0, 5, topic_id="old"))
    coordinator = world.coordinator(keep=3600.0)
    coordinator.step()
    world.clock.advance(10)
    world.topics.topic_ids = {CLICKS.topic: "new"}
    commit = world.committer.commit

    def sleep_after_the_commit(*arguments: Any) -> TableResult:
        result = commit(*arguments)
        world.store.delete(key)
        world.put(world.manifest(0, 5, topic_id="new"))
        return result

    monkeypatch.setattr(world.committer, "commit", sleep_after_the_commit)
    coordinator.step()
    assert [it.key for it in world.staging.find()] == [key]


def test_a_manifest_that_took_the_name_of_an_earlier_topic_s_is_read(world: TableWorld) -> None:
    def topics_read() -> list[str | None]:
        staged = world.staging.read({CLICKS: 5}, {CLICKS: "new"})
        return [it.manifest.topic_id for it in staged if it.manifest is not None]

    key = world.put(world.manifest(0, 5, topic_id="old"))
    assert topics_read() == ["old"]
    world.store.delete(key)
    world.clock.advance(10)
    world.put(world.manifest(0, 5, topic_id="new"))
    assert topics_read() == ["new"]


def two_files(world: TableWorld, start: int, end: int) -> Manifest:
    manifest = world.manifest(start, end)
    (of_table,) = manifest.tables
    (file,) = of_table.files
    files = (file, replace(file, path=f"{file.path} again"))
    return replace(manifest, tables=(replace(of_table, files=files),))


def test_of_what_all_tables_have_only_an_outline_is_kept(world: TableWorld) -> None:
    coordinator = world.coordinator()
    world.stage(two_files(world, 0, 5))
    world.stage(world.manifest(5, 9, [EVENTS, "db.other"]))
    del world.server.tables["db.other"]
    for _ in range(3):
        coordinator.step()
        world.clock.advance(10)
    kept = {item.range.start: item for item in world.staged()}
    assert kept[0].outlined
    assert kept[0].manifest is not None
    assert [len(it.files) for it in kept[0].manifest.tables] == [1]
    assert not kept[5].outlined  # a table lacks it


def test_a_manifest_that_is_needed_again_is_read_again(world: TableWorld) -> None:
    coordinator = world.coordinator()
    world.stage(two_files(world, 0, 5))
    for _ in range(2):
        coordinator.step()
        world.clock.advance(10)
    table = world.server.tables[EVENTS]  # as it was before, by somebody who restored it
    table.properties, table.refs, table.snapshots, table.files = {}, {}, {}, {}
    world.clock.advance(10)
    for _ in range(2):
        coordinator.step()
        world.clock.advance(10)
    assert [it.result for it in world.observer.results[-2:]] == [Result.FAILED, Result.COMMITTED]
    assert world.live() == ["0-5@0", "0-5@0 again"]


def test_what_is_put_while_the_manifests_are_listed_is_not_passed_over(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing is no snapshot: the second of two puts may show, and the first not."""
    coordinator = world.coordinator()
    coordinator.step()  # it lists once more when it begins
    listing = world.store.list

    def list_slowly(prefix: str) -> Iterator[StoredObject]:
        shown = list(listing(prefix))
        if not shown:
            world.stage(world.manifest(0, 5))
            key = world.stage(world.manifest(5, 9))
            yield world.store.head(key)
        else:
            yield from shown

    monkeypatch.setattr(world.store, "list", list_slowly)
    for _ in range(3):
        world.clock.advance(10)
        coordinator.step()
    assert world.live() == ["0-5@0", "5-9@0"]


def test_a_manifest_that_another_coordinator_deletes_after_the_listing_stops_nothing(
    world: TableWorld,
) -> None:
    """Nor a table whose vector does not name the partition, since none of its rows are there."""
    key = world.stage(world.manifest(0, 5, ["db.other"]))
    world.stage(world.manifest(0, 3, topic_partition=OTHER))
    coordinator = world.coordinator()

    def another_commits_and_deletes(call: str, opened: str) -> None:
        if (call, opened) == ("open", key):
            world.store.before = lambda call, opened: None
            assert world.commit("db.other").result is Result.COMMITTED
            world.store.delete(key)

    world.store.before = another_commits_and_deletes
    for _ in range(3):
        coordinator.step()
        world.clock.advance(10)
    assert [it.stopped for it in world.observer.results if it.stopped] == []
    assert (world.live(), world.live("db.other")) == (["0-3@1"], ["0-5@0"])


@pytest.mark.parametrize("listed_again", [False, True])
def test_what_is_listed_again_and_cannot_be_found_is_a_fault_of_the_store(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, listed_again: bool
) -> None:
    """What is not listed again was deleted by another coordinator."""
    other = world.coordinator()
    world.staging = Staging(world.store, PREFIX, GROUP)
    slow = world.coordinator()
    key = world.stage(world.manifest(0, 5))
    world.stage(world.manifest(5, 9))
    listing = world.store.list
    listings: list[list[StoredObject]] = []
    deleted: list[str] = []

    def list_and_sleep(prefix: str) -> Iterator[StoredObject]:
        listings.append(list(listing(prefix)))
        number = len(listings)
        stored = listings[-1]
        if number == 2:  # the first one looks for sources alone
            other.step()
            world.store.delete(key)
            deleted.append(key)
        yield from listings[1] if listed_again and deleted else stored

    monkeypatch.setattr(world.store, "list", list_and_sleep)
    slow.step()
    assert deleted
    assert world.live() == ["0-5@0", "5-9@0"]
    stopped = [it for it in world.observer.results if it.stopped]
    assert bool(stopped) is listed_again


@pytest.mark.parametrize("what", ["list", "open"])
def test_a_store_that_is_out_is_asked_again(world: TableWorld, what: str) -> None:
    world.stage(world.manifest(0, 5))
    coordinator = world.coordinator()

    def before(call: str, key: str) -> None:
        if call == what:
            raise Unavailable("the store is out")

    world.store.before = before
    coordinator.step()
    assert len(world.observer.failures) == 1
    assert coordinator.state is State.IDLE
    world.store.before = lambda call, key: None
    world.clock.advance(10)
    coordinator.step()
    assert world.live() == ["0-5@0"]


def test_brokers_that_are_out_when_it_asks_end_the_cycle(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def partitions() -> frozenset[TopicPartition]:
        raise Unavailable("the brokers are out")

    monkeypatch.setattr(world.topics, "partitions", partitions)
    coordinator = world.coordinator(ASKING)
    coordinator.step()
    assert coordinator.state is State.IDLE
    assert world.channel.sent == []
    assert len(world.observer.failures) == 1


def test_an_entry_that_cannot_be_read_holds_its_partition_back(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    world.stage(world.manifest(0, 3, topic_partition=OTHER))
    world.ledger.corrupt.add(CLICKS)
    world.coordinator().step()
    assert world.live() == ["0-3@1"]


def test_valid_through_needs_every_partition(world: TableWorld) -> None:
    world.topics.known = {CLICKS, OTHER}
    coordinator = world.coordinator()
    world.stage(world.manifest(0, 5, timestamp=900))
    coordinator.step()
    assert world.record().valid_through is None
    world.stage(world.manifest(5, 9, timestamp=950))
    world.stage(world.manifest(0, 5, topic_partition=OTHER, timestamp=800))
    world.clock.advance(10)
    coordinator.step()
    assert world.record().valid_through == 800


def test_an_idle_partition_does_not_hold_valid_through_back(world: TableWorld) -> None:
    world.topics.known = {CLICKS, OTHER}
    world.topics.log_ends = {CLICKS: 20, OTHER: 0}
    world.stage(world.manifest(0, 5, timestamp=900))
    world.coordinator().step()
    assert world.record().valid_through == 900


def test_a_message_from_the_future_does_not_move_valid_through_and_is_reported_once(
    world: TableWorld,
) -> None:
    world.topics.log_ends = {CLICKS: 20}
    now = int(world.clock.now() * 1000)
    coordinator = world.coordinator()
    world.stage(world.manifest(0, 5, timestamp=900))
    world.stage(world.manifest(5, 9, timestamp=now + 86_400_000))
    for _ in range(2):
        coordinator.step()
        world.clock.advance(10)
    assert world.record().valid_through == 900
    assert world.observer.from_future == [(CLICKS, now + 86_400_000)]


def test_a_clock_that_is_a_little_ahead_moves_valid_through_to_now_at_most(
    world: TableWorld,
) -> None:
    world.topics.log_ends = {CLICKS: 20}
    now = int(world.clock.now() * 1000)
    world.stage(world.manifest(0, 5, timestamp=now + 30_000))
    world.coordinator().step()
    assert world.record().valid_through == now
    assert world.observer.from_future == []


def test_valid_through_does_not_pass_messages_behind_an_open_transaction(
    world: TableWorld,
) -> None:
    world.topics.known = {CLICKS, OTHER}
    world.topics.log_ends = {CLICKS: 20, OTHER: 0}
    world.topics.withheld = {OTHER: 500}
    world.stage(world.manifest(0, 5, timestamp=900))
    coordinator = world.coordinator()
    coordinator.step()
    assert world.record().valid_through is None
    world.topics.withheld = {}
    world.stage(world.manifest(5, 9, timestamp=950))
    world.clock.advance(10)
    coordinator.step()
    assert world.record().valid_through == 950


def test_the_backlog_is_what_some_table_does_not_have(world: TableWorld) -> None:
    coordinator = world.coordinator()
    world.stage(world.manifest(0, 5, [EVENTS, "db.other"]))
    del world.server.tables["db.other"]
    coordinator.step()
    world.clock.advance(10)
    coordinator.step()
    assert [backlog.manifests for backlog in world.observer.backlogs] == [1, 1]


def test_two_coordinators_take_each_file_once(world: TableWorld) -> None:
    first, second = world.coordinator(), world.coordinator()
    for number in range(6):
        world.stage(world.manifest(number * 5, number * 5 + 5))
        (first if number % 2 else second).step()
        (second if number % 2 else first).step()
        world.clock.advance(10)
    assert world.live() == sorted(f"{n * 5}-{n * 5 + 5}@0" for n in range(6))
    assert world.record().vector.next_offset(CLUSTER, CLICKS) == 30


def test_it_says_when_it_begins_and_ceases_to_lead(world: TableWorld) -> None:
    leads = True
    coordinator = world.coordinator()
    coordinator._leads = lambda: leads
    coordinator.step()
    leads = False
    coordinator.step()
    assert coordinator.state is State.STANDBY
    assert world.observer.led == [True, False]
    results = len([it for it in world.observer.results if it.result is Result.COMMITTED])
    world.stage(world.manifest(0, 5))
    world.clock.advance(100)
    coordinator.step()
    assert world.live() == []
    assert results == 0


def test_one_that_is_given_up_says_that_it_leads_no_more(world: TableWorld) -> None:
    coordinator = world.coordinator()
    coordinator.step_down()
    assert world.observer.led == []
    coordinator.step()
    coordinator.step_down()
    coordinator.step_down()
    assert coordinator.state is State.STANDBY
    assert world.observer.led == [True, False]
