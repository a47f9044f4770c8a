"""ACLs and quotas under the target's names, groups one by one, and the cluster that is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NoReturn, cast

import pytest
from kafka import errors as kafka_errors

from secor.adapters.kafka import cluster_admin
from secor.adapters.kafka.cluster_admin import AccessRule, Quota
from secor.adapters.kafka.failures import translated
from secor.adapters.kafka.group_admin import GroupAdmin
from secor.adapters.kafka.topic_admin import TopicDescription
from secor.archive.cluster_journal import ClusterJournal
from secor.archive.kept_topics import KeptTopic
from secor.core.errors import AccessDenied, ConfigurationError, SecorError
from secor.core.model import Committed, TopicPartition
from secor.jobs.recover.access import (
    RenamedRules,
    fault_as_obstacle,
    renamed_rules,
    state_of_quotas,
    state_of_rules,
)
from secor.jobs.recover.groups import RestoredGroups, commit_groups
from secor.jobs.recover.kept import check_prefix, kept_cluster
from secor.jobs.recover.recovery import Recovery
from secor.jobs.recover.schemas import KeptRegistry
from secor.restore.recovery import KindState
from secor.wiring.cluster_keeper import access_items
from tests.fakes.store import FakeStore
from tests.unit.jobs.restore.test_requests import Cluster, job_over

ALLOW = AccessRule("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")
DENY = replace(ALLOW, principal="User:mallory", permission="DENY")
PREFIX = replace(DENY, name="ord", pattern="PREFIXED")
EVERY = replace(DENY, name="*")
PLACE = TopicPartition("orders", 0)
GROUP = replace(ALLOW, resource="GROUP", name="shop")
OTHER = replace(DENY, name="secret")


def test_without_other_names_and_for_all_topics_every_rule_stays() -> None:
    rules = (ALLOW, DENY, PREFIX, EVERY, GROUP, OTHER)
    assert renamed_rules(rules, {"orders"}, "{topic}", is_whole=True).rules == rules


def test_rules_follow_the_names_of_topics() -> None:
    renamed = renamed_rules([ALLOW, PREFIX, EVERY, GROUP], {"orders"}, "new-{topic}", is_whole=True)
    assert renamed.rules == (
        replace(ALLOW, name="new-orders"),
        replace(PREFIX, name="new-ord"),
        EVERY,
        GROUP,
    )


@pytest.mark.parametrize("template", ["{topic}-new", "all", "{topic}{topic}"])
def test_a_prefix_that_would_be_about_other_topics_is_refused_by_name(template: str) -> None:
    renamed = renamed_rules([PREFIX], {"orders"}, template, is_whole=True)
    assert renamed.undecided == (PREFIX,)
    state = state_of_rules(renamed, [])
    assert not state.is_complete
    assert "DENY User:mallory READ on TOPIC ord (PREFIXED)" in state.obstacles[0]


def test_a_rule_about_a_topic_that_is_not_restored_is_named() -> None:
    renamed = renamed_rules([DENY, OTHER], {"orders"}, "{topic}", is_whole=False)
    assert renamed.elsewhere == (OTHER,)
    state = state_of_rules(renamed, [DENY, ALLOW])
    assert state.is_complete
    assert "DENY User:mallory READ on TOPIC secret (LITERAL)" in state.notes[0]
    assert "further rule" in state.notes[1]


def test_a_missing_rule_is_left_to_do() -> None:
    state = state_of_rules(RenamedRules((ALLOW, DENY), (), ()), [ALLOW])
    assert (state.done, state.left) == (1, 1)


def test_a_quota_with_another_value_is_not_written_over() -> None:
    wanted = Quota((("user", "alice"),), {"producer_byte_rate": 5.0})
    assert state_of_quotas([wanted], [wanted]).is_complete
    assert state_of_quotas([wanted], []).left == 1
    other = Quota(wanted.entity, {"producer_byte_rate": 6.0})
    (obstacle,) = state_of_quotas([wanted], [other]).obstacles
    assert "producer_byte_rate=6" in obstacle
    assert "--force" in obstacle


def keep(store: FakeStore, kind: str, cluster: str, at: float, name: str) -> None:
    item = (name, [] if kind == "acls" else {"t": {"0": 1}})
    ClusterJournal(store, "backup", kind, cluster).append(lambda: [item], lambda: at)


def test_kinds_of_several_clusters_are_never_mixed() -> None:
    store = FakeStore()
    keep(store, "groups", "old", 1_000_000, "of-old")
    keep(store, "acls", "old", 1_000_000, "of-old")
    keep(store, "groups", "lost", 2_000_000, "of-lost")
    keep(store, "acls", "target", 3_000_000, "of-target")
    kept = kept_cluster(store, "backup", until=None, wanted=None, target="target")
    assert (kept.cluster, list(kept.states), list(kept.others)) == ("lost", ["groups"], ["old"])
    assert [it.group for it in kept.group_offsets()] == ["of-lost"]
    named = kept_cluster(store, "backup", until=None, wanted="old", target="target")
    assert sorted(named.states) == ["acls", "groups"]
    with pytest.raises(ConfigurationError, match="kept are: lost, old, target"):
        kept_cluster(store, "backup", until=None, wanted="typo", target="target")


def test_a_state_before_the_first_look_is_nothing_kept() -> None:
    store = FakeStore()
    keep(store, "groups", "lost", 2_000_000, "g")
    kept = kept_cluster(store, "backup", until=1_000_000, wanted=None, target="target")
    assert kept.cluster == "lost"
    assert kept.states == {}
    nothing = kept_cluster(FakeStore(), "backup", until=None, wanted=None, target="target")
    assert nothing.cluster is None


def test_what_the_keeper_writes_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    quota = Quota((("client-id", None), ("user", "a")), {"request_percentage": 50.0})
    monkeypatch.setattr(
        "secor.adapters.kafka.cluster_admin.read_access_rules", lambda _: [ALLOW, DENY]
    )
    monkeypatch.setattr("secor.adapters.kafka.cluster_admin.read_quotas", lambda _: [quota])
    store = FakeStore()
    for kind in ("acls", "quotas"):
        journal = ClusterJournal(store, "backup", kind, "lost")
        journal.append(lambda kind=kind: list(access_items(kind, {})), lambda: 2_000_000.0)  # type: ignore[misc]
    kept = kept_cluster(store, "backup", until=None, wanted=None, target="target")
    assert kept.access_rules() == [ALLOW, DENY]
    assert kept.quotas() == [quota]


@dataclass
class Groups:
    """Groups of a target; ``denied`` may not be committed for."""

    present: dict[str, dict[TopicPartition, Committed]]
    denied: set[str]
    running: set[str]

    def states(self) -> dict[str, str]:
        return {it: "stable" if it in self.running else "empty" for it in self.present}

    def offsets_of(
        self, groups: Sequence[str]
    ) -> tuple[dict[str, dict[TopicPartition, Committed]], list[str]]:
        return {it: dict(self.present[it]) for it in groups}, []

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, SecorError]:
        if group in self.denied:
            raise AccessDenied(f"group {group}: allow this user Read on it")
        self.present.setdefault(group, {}).update(offsets)
        return {}


def test_a_group_that_is_refused_does_not_stop_the_later_ones() -> None:
    wanted = {it: {PLACE: Committed(10, "note")} for it in ("a-denied", "b-running", "c", "d")}
    groups = Groups({"b-running": {}, "d": {PLACE: Committed(12)}}, {"a-denied"}, {"b-running"})
    admin = cast(GroupAdmin, groups)
    restored = RestoredGroups(wanted, {"exact": 4}, (), ())
    state = commit_groups(admin, restored, force=False)
    assert (state.total, state.done) == (4, 2)
    running, denied = sorted(state.obstacles, reverse=True, key=lambda it: "running" in it)
    assert "b-running is running (stable)" in running
    assert "allow this user Read" in denied
    assert groups.present["c"] == {PLACE: Committed(10, "note")}
    assert groups.present["d"] == {PLACE: Committed(12)}, "it has consumed more since"
    groups.denied, groups.running = set(), set()
    assert commit_groups(admin, restored, force=False).is_complete


def test_an_offset_that_is_behind_is_only_set_by_force() -> None:
    groups = Groups({"shop": {PLACE: Committed(3)}}, set(), set())
    admin = cast(GroupAdmin, groups)
    restored = RestoredGroups({"shop": {PLACE: Committed(10)}}, {"exact": 1}, (), ())
    assert not commit_groups(admin, restored, force=False).is_complete
    assert groups.present["shop"] == {PLACE: Committed(3)}
    assert commit_groups(admin, restored, force=True).is_complete
    assert groups.present["shop"] == {PLACE: Committed(10)}


def test_a_kind_that_fails_is_an_obstacle_and_not_the_end() -> None:
    def fail() -> KindState:
        raise AccessDenied("allow this user Alter on the cluster")

    state = fault_as_obstacle("acls", 3, fail)
    what = 'allow this user Alter on the cluster; or put "acls" into recover.leave_out'
    assert (state.left, state.obstacles) == (3, (what,))


class OldClient:
    """A client of brokers that lack every request that it makes."""

    def __init__(self, *_arguments: object, **_options: object) -> None: ...

    def describe_acls(self, _filter: object) -> NoReturn:
        raise kafka_errors.IncompatibleBrokerVersion("no DescribeAcls")

    def call(self, _coroutine: object, *, timeout: float, what: str) -> NoReturn:
        raise translated(kafka_errors.IncompatibleBrokerVersion("no such request"), what)

    def close(self) -> None: ...


class OldBrokers(Cluster):
    """Brokers with topics of one ``settings``, which may be changed."""

    def __init__(self, topics: Mapping[str, int], settings: Mapping[str, str]) -> None:
        super().__init__(dict(topics))
        self.settings = settings
        self.altered: dict[str, Mapping[str, str | None]] = {}

    def describe(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        known = super().describe(names)
        return {name: replace(known[name], settings=self.settings) for name in known}

    def alter(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        self.altered |= topics
        return {}


def test_an_old_target_is_named_for_the_kinds_that_it_cannot_take_and_gets_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_admin, "KafkaAdminClient", OldClient)
    monkeypatch.setattr(cluster_admin, "Client", OldClient)
    store = FakeStore()
    for kind, item in (
        ("acls", ("TOPIC:LITERAL:t0000", [asdict(replace(ALLOW, name="t0000"))])),
        ("quotas", ("user=alice", {"entity": {"user": "alice"}, "values": {"rate": 1.0}})),
    ):
        journal = ClusterJournal(store, "backup", kind, "lost")
        journal.append(lambda item=item: [item], lambda: 1e9)  # type: ignore[misc]
    brokers = OldBrokers({"t0000": 10}, {"retention.ms": "-1"})
    kept = KeptTopic("t0000", "id", 10, 1, {"retention.ms": "86400000"})
    job = replace(job_over(brokers, 1), kept_topic=lambda _topic: kept)
    lost = kept_cluster(store, "backup", until=None, wanted=None, target="new")
    recovery = Recovery(job, lost, KeptRegistry(None, None))
    states = {state.kind: state for state in recovery.bring_back(force=False, hold=False)}
    for kind in ("acls", "quotas"):
        (obstacle,) = states[kind].obstacles
        assert "too old" in obstacle
        assert f'"{kind}" into recover.leave_out' in obstacle
        assert (states[kind].done, states[kind].total) == (0, 1)
    assert brokers.altered == {"t0000": {"retention.ms": "86400000"}}, "what is after them is done"


@pytest.mark.parametrize(
    "key", ["logs/backup/_cluster/groups/c/20261121T1000Z-000.jsonl.gz", "logs/backup/t/offset=0/1"]
)
def test_a_prefix_above_that_of_the_group_is_refused_with_the_right_one(key: str) -> None:
    store = FakeStore()
    store.put(key, b"", 0, {})
    with pytest.raises(ConfigurationError, match=r'set source\.prefix = "logs/backup"'):
        check_prefix(store, "logs", ["backup"])


def test_a_topic_of_the_right_prefix_is_none() -> None:
    store = FakeStore()
    store.put("logs/backup/t/offset=0/1_0_0.seq", b"", 0, {})
    check_prefix(store, "logs/backup", ["t", "empty"])
