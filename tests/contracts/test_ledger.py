"""What every ledger promises, on the fakes and on real servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from secor.core.errors import LeaseLost, LedgerCorrupt, OutcomeUnknown, Refused, Unavailable
from secor.core.model import Entry, Intent, Superseded
from secor.core.ports import Lease, OffsetLedger
from tests.contracts.kafka_group import PATIENCE
from tests.contracts.ledgers import LEDGERS, Ledgers

INTENT = Intent(100, 200, "f" * 32, "process 1", 1790000000.5, "backup/clicks")


@pytest.fixture(params=LEDGERS)
def ledgers(request: pytest.FixtureRequest) -> Iterator[Ledgers]:
    with LEDGERS[request.param](lambda: request.getfixturevalue("sandbox")) as given:
        yield given


def owner(ledgers: Ledgers) -> tuple[OffsetLedger, Lease]:
    """Return a process and its lease of the entry."""
    process = ledgers.process()
    ledgers.hand_over(process)
    return process, process.lease(ledgers.key, PATIENCE)


def eventually_connected(write: Callable[[], Entry]) -> None:
    """Write; again while the connection is down, which is no answer yet."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            write()
            return
        except (Unavailable, OutcomeUnknown):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_an_entry_that_never_was_reads_as_none(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    assert process.read(ledgers.key) == Entry(None)
    assert lease.read() == Entry(None)


def test_the_first_commit_makes_the_entry(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    written = lease.commit(lease.read(), 100, "topic-id-1")
    assert written == Entry(100, None, "topic-id-1")
    assert process.read(ledgers.key) == written
    assert ledgers.process().read(ledgers.key) == written


def test_a_commit_moves_the_offset_and_takes_the_intent_away_at_once(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    begun = lease.commit(lease.read(), 100, "topic-id-1")
    recorded = lease.record(begun, INTENT)
    assert recorded == Entry(100, INTENT, "topic-id-1")
    assert process.read(ledgers.key) == recorded
    done = lease.commit(recorded, 200, "topic-id-2")
    assert done == Entry(200, None, "topic-id-2")
    assert process.read(ledgers.key) == done


def test_an_intent_without_an_entry_also_sets_the_offset_to_its_start(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    assert lease.record(lease.read(), INTENT) == Entry(100, INTENT)
    assert process.read(ledgers.key) == Entry(100, INTENT)


def test_what_an_intent_supersedes_is_kept(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    old = Superseded("0" * 32, "elsewhere/clicks", ("elsewhere/views/from=clicks",))
    entry = lease.record(lease.read(), INTENT)
    changed = replace(INTENT, supersedes=(old,), fingerprint="e" * 32, also=("a/from=clicks",))
    lease.record(entry, changed)
    assert process.read(ledgers.key).intent == changed


def test_every_write_gives_the_entry_that_the_next_one_needs(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    entry = lease.read()
    for start in range(100, 400, 100):
        entry = lease.record(entry, replace(INTENT, start=start, end=start + 100))
        entry = lease.record(entry, replace(INTENT, start=start, end=start + 100, at=1.0))
        entry = lease.commit(entry, start + 100, None)
    assert process.read(ledgers.key) == Entry(400)


def test_a_topic_id_that_is_no_longer_known_is_forgotten(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    entry = lease.commit(lease.read(), 100, "topic-id-1")
    lease.commit(entry, 200, None)
    assert process.read(ledgers.key) == Entry(200, None, None)


def test_the_leader_epoch_of_a_commit_stays_until_the_next_one(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    begun = lease.commit(lease.read(), 100, "topic-id-1", 7)
    assert process.read(ledgers.key).leader_epoch == 7
    recorded = lease.record(lease.read(), INTENT)
    assert ledgers.process().read(ledgers.key).leader_epoch == 7
    assert lease.finish(recorded, 200, "topic-id-1", 8) == Entry(200, None, "topic-id-1")
    entry = process.read(ledgers.key)
    assert (entry, entry.leader_epoch) == (Entry(200, None, "topic-id-1"), 8)
    assert begun.leader_epoch == 7


def test_a_commit_without_a_leader_epoch_leaves_none_of_an_earlier_one(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    assert process.read(ledgers.key).leader_epoch is None
    lease.commit(lease.read(), 100, "topic-id-1", 7)
    lease.commit(lease.read(), 100, "topic-id-1")  # a person sets the same offset
    assert process.read(ledgers.key).leader_epoch is None
    lease.commit(lease.read(), 100, "topic-id-1", 7)
    lease.commit(lease.record(lease.read(), INTENT), 100, "topic-id-1")  # and drops the intent
    assert process.read(ledgers.key).leader_epoch is None
    lease.commit(lease.record(lease.read(), INTENT), 200, "topic-id-1")
    assert process.read(ledgers.key).leader_epoch is None
    lease.commit(lease.read(), 200, "topic-id-1", 8)
    lease.overwrite(200, None)
    assert process.read(ledgers.key).leader_epoch is None


def test_a_write_on_a_stale_reading_is_refused_and_changes_nothing(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    before = lease.read()
    begun = lease.commit(before, 100, None)
    for stale in (before, begun):
        now = lease.commit(lease.read(), 150, None)
        with pytest.raises(Refused):
            lease.record(stale, INTENT)
        with pytest.raises(Refused):
            lease.commit(stale, 200, "topic-id-1")
        assert process.read(ledgers.key) == now


def test_an_intent_that_appeared_since_the_reading_is_never_overwritten(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    seen = lease.commit(lease.read(), 100, None)
    recorded = lease.record(seen, INTENT)
    with pytest.raises(Refused):
        lease.record(seen, replace(INTENT, end=300))
    with pytest.raises(Refused):
        lease.commit(seen, 300, None)
    assert process.read(ledgers.key) == recorded


def test_a_lease_is_held_until_it_is_given_back(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    assert lease.held()
    assert lease.trust > 0
    lease.release()
    lease.release()
    assert not lease.held()
    with pytest.raises(LeaseLost):
        lease.commit(process.read(ledgers.key), 100, None)
    assert process.read(ledgers.key) == Entry(None)
    assert process.lease(ledgers.key, PATIENCE).held()


def test_the_last_commit_gives_the_lease_back(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    begun = lease.finish(lease.read(), 100, "topic-id-1")
    assert begun == Entry(100, None, "topic-id-1")
    assert not lease.held()
    with pytest.raises(LeaseLost):
        lease.commit(begun, 150, None)
    again = process.lease(ledgers.key, 0.0)
    lease.release()
    assert again.held()
    recorded = again.record(again.read(), INTENT)
    assert again.finish(recorded, 200, "topic-id-1") == Entry(200, None, "topic-id-1")
    assert process.lease(ledgers.key, 0.0).read() == Entry(200, None, "topic-id-1")


def test_a_last_commit_that_is_refused_leaves_the_lease(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    before = lease.read()
    now = lease.commit(before, 100, None)
    with pytest.raises(Refused):
        lease.finish(before, 200, None)
    assert process.read(ledgers.key) == now
    assert lease.held()
    with pytest.raises(LeaseLost):
        process.lease(ledgers.key, 0.0)
    lease.release()
    assert process.lease(ledgers.key, PATIENCE).held()


def test_what_the_holder_before_wrote_is_read(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    entry = lease.finish(lease.read(), 100, None)
    for offset in range(110, 200, 10):
        lease = process.lease(ledgers.key, PATIENCE)
        assert lease.read() == entry
        entry = lease.commit(lease.record(entry, replace(INTENT, end=offset)), offset, None)
        assert lease.read() == entry
        lease.release()


def test_one_process_holds_one_lease_of_an_entry_at_a_time(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    with pytest.raises(LeaseLost):
        process.lease(ledgers.key, 0.0)
    assert lease.held()


def test_only_one_of_two_processes_may_write(ledgers: Ledgers) -> None:
    _, lease = owner(ledgers)
    other = ledgers.process()
    with pytest.raises(LeaseLost):
        other.lease(ledgers.key, 0.0)
    lease.commit(lease.read(), 100, None)
    lease.release()
    ledgers.hand_over(other)
    successor = other.lease(ledgers.key, PATIENCE)
    assert successor.commit(successor.read(), 200, None) == Entry(200)


def test_a_process_whose_session_ended_writes_nothing(ledgers: Ledgers) -> None:
    process, lease = owner(ledgers)
    entry = lease.record(lease.read(), INTENT)
    ledgers.expire(process)
    successor = ledgers.process()
    ledgers.hand_over(successor)
    taken = successor.lease(ledgers.key, PATIENCE)
    with pytest.raises(LeaseLost):
        eventually_connected(lambda: lease.commit(entry, 200, None))
    with pytest.raises(LeaseLost):
        eventually_connected(lambda: lease.record(entry, replace(INTENT, end=300)))
    assert successor.read(ledgers.key) == entry
    assert taken.commit(taken.read(), 200, None) == Entry(200)


def test_an_entry_of_another_program_is_named_with_the_remedy(ledgers: Ledgers) -> None:
    ledgers.write_garbage(b"192.168.0.7")
    process, lease = owner(ledgers)
    fault = rf"{ledgers.key}.*192\.168\.0\.7.*secor offsets"
    with pytest.raises(LedgerCorrupt, match=fault):
        process.read(ledgers.key)
    with pytest.raises(LedgerCorrupt, match=fault):
        lease.read()


def test_a_person_settles_what_cannot_be_read(ledgers: Ledgers) -> None:
    ledgers.write_garbage(b"192.168.0.7")
    process, lease = owner(ledgers)
    assert lease.overwrite(300, None) == Entry(300)
    assert process.read(ledgers.key) == Entry(300)
    assert lease.commit(lease.read(), 400, None) == Entry(400)
