"""ACLs and quotas under the target's names; which cluster is meant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from secor.adapters.kafka.cluster_admin import AccessRule, Quota
from secor.archive.cluster_journal import ClusterJournal
from secor.core.errors import ConfigurationError
from secor.wiring.cluster_keeper import access_items
from secor.wiring.recover_access import (
    RenamedRules,
    renamed_rules,
    state_of_quotas,
    state_of_rules,
)
from secor.wiring.recover_kept import kept_cluster
from tests.fakes.store import FakeStore

ALLOW = AccessRule("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")
DENY = replace(ALLOW, principal="User:mallory", permission="DENY")
PREFIX = replace(DENY, name="ord", pattern="PREFIXED")
EVERY = replace(DENY, name="*")
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
