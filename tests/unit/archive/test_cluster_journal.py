"""The journal of a cluster's groups, ACLs, quotas and schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from crc32c import crc32c

from secor.archive import cluster_journal
from secor.archive.cluster_journal import ClusterJournal, WrittenEntry, kept_clusters, seconds_of
from secor.core.errors import OutcomeUnknown, Unavailable
from tests.fakes.store import FakeStore

MINUTE = 60.0
START = seconds_of("20261121T1000Z")


class Cluster:
    """Items that change, and a clock that a look takes a second of."""

    def __init__(self, **items: object) -> None:
        self.items: dict[str, object] = dict(items)
        self.now = START + 1
        self.looks = 0

    def look(self) -> Iterable[tuple[str, object]]:
        self.looks += 1
        self.now += 1
        yield from self.items.items()

    def clock(self) -> float:
        return self.now


class Killed(BaseException):
    """The process dies."""


def journal(store: FakeStore, cluster: str = "c1") -> ClusterJournal:
    return ClusterJournal(store, "backup", "groups", cluster)


def kept(store: FakeStore, until: float | None = None) -> dict[str, object]:
    return dict(journal(store).state(until).contents())


def names(store: FakeStore) -> list[str]:
    return [key.rpartition("/")[2].removesuffix(".jsonl.gz") for key in sorted(store.objects)]


def test_an_entry_is_put_only_when_something_changed_and_the_first_of_an_hour_is_full() -> None:
    store, cluster = FakeStore(), Cluster(a={"t": {"0": 1}}, b={"t": {"0": 2}})
    writer = journal(store)
    assert writer.append(cluster.look, cluster.clock).changes == 2
    cluster.now += MINUTE
    assert writer.append(cluster.look, cluster.clock) == WrittenEntry(0, 0)
    cluster.now += MINUTE
    cluster.items["a"] = {"t": {"0": 5}}
    assert writer.append(cluster.look, cluster.clock).changes == 1
    cluster.now += MINUTE
    del cluster.items["b"]
    assert writer.append(cluster.look, cluster.clock).changes == 1
    assert names(store) == ["20261121T1001Z-000", "20261121T1003Z-000", "20261121T1004Z-000"]
    assert kept(store) == {"a": {"t": {"0": 5}}}
    cluster.now = START + 3600
    assert writer.append(cluster.look, cluster.clock) == WrittenEntry(0, 0), "nothing changed"
    cluster.items["c"] = {}
    assert writer.append(cluster.look, cluster.clock).changes == 2, "all of it"


def test_the_state_of_a_time_has_nothing_that_is_later() -> None:
    store, cluster = FakeStore(), Cluster(a={"n": 0})
    writer = journal(store)
    for number in range(5):
        cluster.items["a"] = {"n": number}
        writer.append(cluster.look, cluster.clock)
        cluster.now += MINUTE
    for number in range(5):
        minute = START + MINUTE * (number + 1)
        assert kept(store, minute) == {"a": {"n": number}}
        assert kept(store, minute + 59) == {"a": {"n": number}}
    assert kept(store, START) == {}


def test_there_is_at_most_one_entry_a_minute_and_a_second_writer_goes_on_from_the_first() -> None:
    store, cluster = FakeStore(), Cluster(a={"n": 0})
    first, second = journal(store), journal(store)
    first.append(cluster.look, cluster.clock)
    cluster.items["a"] = {"n": 1}
    assert second.append(cluster.look, cluster.clock) == WrittenEntry(0, 0)
    cluster.now += MINUTE
    assert second.append(cluster.look, cluster.clock).changes == 1
    cluster.now += MINUTE
    cluster.items["a"] = {"n": 0}
    assert first.append(cluster.look, cluster.clock).changes == 1, "it has read what second wrote"
    assert kept(store) == {"a": {"n": 0}}


def test_a_writer_that_slept_for_days_goes_on_from_what_another_wrote() -> None:
    store, cluster = FakeStore(), Cluster(a={"n": 0})
    slept, other = journal(store), journal(store)
    slept.append(cluster.look, cluster.clock)
    cluster.now += 86400
    cluster.items["a"] = {"n": 1}
    other.append(cluster.look, cluster.clock)
    cluster.now += 86400
    cluster.items["a"] = {"n": 0}
    assert slept.append(cluster.look, cluster.clock).changes == 1
    assert kept(store) == {"a": {"n": 0}}


def test_two_writers_that_look_at_once_leave_one_entry() -> None:
    store, cluster = FakeStore(), Cluster(a={"n": 0})
    slow, fast = journal(store), journal(store)

    def slowly() -> Iterable[tuple[str, object]]:
        fast.append(cluster.look, cluster.clock)
        cluster.items["a"] = {"n": 1}
        return cluster.look()

    assert slow.append(slowly, cluster.clock) == WrittenEntry(0, 0)
    assert kept(store) == {"a": {"n": 0}}
    cluster.now += MINUTE
    assert slow.append(cluster.look, cluster.clock).changes == 1
    assert kept(store) == {"a": {"n": 1}}


def failing(error: BaseException) -> Callable[[str, str], None]:
    def hook(call: str, key: str) -> None:
        if call == "put" and "-001" in key:
            raise error

    return hook


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("error", [Killed(), Unavailable("no answer"), OutcomeUnknown("lost")])
@pytest.mark.parametrize("full", [True, False])
def test_a_crash_between_two_parts_leaves_a_state_that_was(
    monkeypatch: pytest.MonkeyPatch, moment: str, error: BaseException, full: bool
) -> None:
    monkeypatch.setattr(cluster_journal, "PART_BYTES", 1)
    store, cluster = FakeStore(), Cluster(a={"n": 0}, b={"n": 0})
    writer = journal(store)
    writer.append(cluster.look, cluster.clock)
    cluster.now += 3600 if full else MINUTE
    cluster.items = {"b": {"n": 1}, "c": {"n": 1}, "d": {"n": 1}}
    setattr(store, moment, failing(error))
    with pytest.raises(type(error)):
        writer.append(cluster.look, cluster.clock)
    store.before = store.after = lambda call, key: None
    state = kept(store)
    assert state["b"] == {"n": 1}
    assert state["a"] == {"n": 0}, "an entry without its end takes nothing away"
    again = journal(store) if isinstance(error, Killed) else writer
    cluster.now += MINUTE
    again.append(cluster.look, cluster.clock)
    assert kept(store) == cluster.items


def test_an_entry_that_cannot_be_read_is_named_and_the_next_one_is_full() -> None:
    store, cluster = FakeStore(), Cluster(a={"n": 0})
    journal(store).append(cluster.look, cluster.clock)
    key = "backup/_cluster/groups/c1/20261121T1002Z-000.jsonl.gz"
    store.put(key, b"torn", crc32c(b"torn"), {})
    state = journal(store).state()
    assert state.damaged == (key,)
    assert dict(state.contents()) == {"a": {"n": 0}}
    cluster.now += 2 * MINUTE
    assert journal(store).append(cluster.look, cluster.clock).changes == 1
    assert journal(store).state().damaged == ()


def test_a_process_with_a_slow_clock_follows_one_whose_clock_was_ahead() -> None:
    store, cluster = FakeStore(), Cluster(a={"n": 0})
    cluster.now += 86400
    journal(store).append(cluster.look, cluster.clock)
    cluster.now -= 86400
    cluster.items["a"] = {"n": 1}
    assert journal(store).append(cluster.look, cluster.clock).changes == 1
    assert kept(store) == {"a": {"n": 1}}
    assert names(store) == ["20261122T1001Z-000", "20261122T1002Z-000"]


def test_it_compacts_itself_and_what_is_left_after_a_crash_is_a_state_that_was() -> None:
    store, cluster = FakeStore(), Cluster(a={"n": 0}, b={})
    writer = journal(store)
    for number in range(180):
        cluster.items["a"] = {"n": number}
        writer.append(cluster.look, cluster.clock)
        cluster.now += MINUTE - 1
    present = kept(store)
    assert writer.compact(cluster.now) == 0, "two days are kept whole"
    deletions = 0

    def dies(call: str, key: str) -> None:
        nonlocal deletions
        deletions += call == "delete"
        if deletions == 7:
            raise Killed

    store.before = dies
    later = START + 3 * 86400
    with pytest.raises(Killed):
        writer.compact(later)
    store.before = lambda call, key: None
    minute = START + 31 * MINUTE
    assert kept(store, minute) == {"a": {"n": 30}, "b": {}}
    writer.compact(later)
    assert names(store) == [f"20261121T{it}Z-000" for it in ("1001", "1100", "1200", "1300")]
    assert writer.compact(START + 20 * 86400) == 2
    assert writer.compact(START + 500 * 86400) == 1
    assert kept(store) == present == {"a": {"n": 179}, "b": {}}, "a cluster that is gone"
    cluster.now = START + 501 * 86400
    cluster.items["a"] = {"n": -1}
    writer.append(cluster.look, cluster.clock)
    assert writer.compact(cluster.now) == 1
    assert kept(store) == {"a": {"n": -1}, "b": {}}


def test_clusters_are_kept_apart() -> None:
    store, cluster = FakeStore(), Cluster(a={"n": 0})
    journal(store).append(cluster.look, cluster.clock)
    cluster.now += MINUTE
    cluster.items.clear()
    journal(store, "after").append(cluster.look, cluster.clock)
    assert kept(store) == {"a": {"n": 0}}
    newest = {"after": "20261121T1002Z", "c1": "20261121T1001Z"}
    assert kept_clusters(store, "backup", "groups") == newest
