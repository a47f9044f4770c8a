"""Keeping what a cluster has besides messages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import TopicPartition as ClientPartition
from kafka import errors as kafka_errors

from secor.adapters.kafka import group_admin
from secor.adapters.kafka.group_admin import GroupAdmin
from secor.adapters.ledger_codec import encode_metadata
from secor.archive.objects import Archive
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import AccessDenied, ConfigurationError, CorruptFile
from secor.core.model import Committed, TopicPartition
from secor.service.metrics import Metrics
from secor.service.monitoring.kept_cluster import KeptClusterBoard
from secor.wiring import cluster_keeper
from secor.wiring.cluster_keeper import ClusterLooker, kinds_of
from secor.wiring.kept_groups import choose_cluster, decode_offsets, encode_offsets, group_items
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore

CLICKS, ORDERS = TopicPartition("clicks", 0), TopicPartition("orders", 1)


def config(folder: Path, kafka: str = "", more: str = "", kind: str = "backup") -> Config:
    path = folder / "group.toml"
    path.write_text(
        f"""
[group]
name = "backup"
kind = "{kind}"
[kafka]
bootstrap_servers = ["b:1"]
topics_pattern = ".*"
{kafka}
[store.s3]
bucket = "b"
[output]
prefix = "backup"
{more}
"""
    )
    return load(path, {})


@dataclass
class FakeGroups:
    """What groups have committed; ``denied`` ones may not be seen."""

    committed: dict[str, dict[TopicPartition, Committed]]
    denied: set[str] = field(default_factory=set)
    requests: list[int] = field(default_factory=list)

    def states(self) -> dict[str, str]:
        return dict.fromkeys(self.committed, "empty")

    def offsets_of(self, groups: Collection[str]) -> tuple[dict[str, Any], list[str]]:
        self.requests.append(len(groups))
        known = {it: self.committed[it] for it in groups if it not in self.denied}
        return known, sorted(self.denied & set(groups))


def items(config: Config, groups: FakeGroups) -> tuple[dict[str, object], list[str]]:
    refused: list[str] = []
    given = dict(group_items(config, cast(GroupAdmin, groups), refused.extend))
    return given, refused


def test_groups_are_chosen_and_those_of_secor_left_out(tmp_path: Path) -> None:
    at_3 = {CLICKS: Committed(3)}
    groups = FakeGroups(
        {
            **dict.fromkeys(("shop", "console-consumer-7", "backup", "secor-restore-x"), at_3),
            "partition": {CLICKS: Committed(3, encode_metadata(None, "topic-id"))},
            "idle": {},
        }
    )
    given, _ = items(config(tmp_path, 'keep_groups_exclude = "console-.*"'), groups)
    assert given == {"shop": {"clicks": {"0": 3}}}
    given, _ = items(config(tmp_path, 'keep_groups = "console-.*"'), groups)
    assert list(given) == ["console-consumer-7"]


def test_ten_thousand_groups_take_a_hundred_requests_and_denied_ones_are_named(
    tmp_path: Path,
) -> None:
    names = [f"g{number:05}" for number in range(10_000)]
    groups = FakeGroups({name: {CLICKS: Committed(1)} for name in names}, {"g00007"})
    given, refused = items(config(tmp_path), groups)
    assert len(given) == 9_999
    assert refused == ["g00007"]
    assert groups.requests == [100] * 100


def test_offsets_come_back_as_they_were() -> None:
    offsets = {CLICKS: Committed(3, "a note"), ORDERS: Committed(7)}
    assert decode_offsets("shop", encode_offsets(offsets)) == offsets
    faulty: list[object] = [None, [], {"clicks": 3}, {"clicks": {"x": 1}}, {"clicks": {"0": [1]}}]
    for wrong in faulty:
        with pytest.raises(CorruptFile, match="shop"):
            decode_offsets("shop", wrong)


def test_kinds_follow_the_configuration_and_other_groups_keep_nothing(tmp_path: Path) -> None:
    assert kinds_of(config(tmp_path)) == ["groups", "acls", "quotas"]
    less = config(tmp_path, 'keep_groups = "none"\nkeep_access = false')
    assert kinds_of(less) == []
    registry = config(tmp_path, "", '[registry]\nurl = "http://registry:8081"')
    assert kinds_of(registry)[-1] == "schemas"
    for kafka, more in (("keep_access = false", ""), ("", '[registry]\nurl = "http://r:1"')):
        with pytest.raises(ConfigurationError, match="backup"):
            config(tmp_path, kafka, more, kind="partition")


class Looked:
    """A looker over a fake cluster."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.clock, self.metrics = FakeStore(), FakeClock(), Metrics()
        self.board = KeptClusterBoard(self.metrics, self.clock)
        self.groups: dict[str, object] = {"shop": {"clicks": {"0": 3}}}
        self.error: Exception | None = None
        reader = SimpleNamespace(
            topics=lambda *_: ["clicks", "orders"], cluster_id=lambda: "c1", close=lambda: None
        )
        monkeypatch.setattr(cluster_keeper, "KafkaReader", lambda _: reader)
        monkeypatch.setattr(ClusterLooker, "_items", lambda _, kind: self.items(kind))
        self.looker = ClusterLooker(config(folder), self.store, self.board, self.clock)

    def items(self, kind: str) -> list[tuple[str, object]]:
        if kind == "quotas" and self.error is not None:
            raise self.error
        return list(self.groups.items()) if kind == "groups" else []

    def look(self, *assigned: TopicPartition) -> None:
        self.looker.look(assigned, cast(Any, SimpleNamespace(is_set=lambda: False)))

    def failures(self) -> float:
        return self.metrics.cluster_failures.labels("quotas")._value.get()


def test_only_the_process_with_the_first_partition_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Looked(tmp_path, monkeypatch)
    looked.look()
    looked.look(ORDERS, TopicPartition("clicks", 1))
    assert not looked.store.objects
    assert looked.board.rows() == []
    looked.clock.advance(61)
    looked.look(CLICKS)
    assert {key.split("/")[2] for key in looked.store.objects} == {"groups", "acls", "quotas"}
    assert [row["kind"] for row in looked.board.rows()] == ["acls", "groups", "quotas"]
    assert Archive(looked.store, "backup").topics() == []
    assert choose_cluster(looked.store, "backup", "groups", None) == "c1"


def test_a_missing_right_costs_nothing_else_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Looked(tmp_path, monkeypatch)
    looked.error = AccessDenied("no right")
    looked.look(CLICKS)
    assert {key.split("/")[2] for key in looked.store.objects} == {"groups", "acls"}
    assert looked.failures() == 1
    looked.clock.advance(61)
    looked.look(CLICKS)
    assert looked.failures() == 1, "quotas are asked for every ten minutes"
    looked.clock.advance(600)
    looked.error = None
    looked.look(CLICKS)
    assert looked.board.rows()[-1]["error"] is None


def test_of_several_clusters_the_newest_that_is_not_the_target_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Looked(tmp_path, monkeypatch)
    with pytest.raises(ConfigurationError, match="has no groups"):
        choose_cluster(looked.store, "backup", "groups", None)
    looked.look(CLICKS)
    assert choose_cluster(looked.store, "backup", "groups", None, target="c1") == "c1"
    with pytest.raises(ConfigurationError, match="kept are: c1"):
        choose_cluster(looked.store, "backup", "groups", "c2")


def test_a_coordinator_that_is_loading_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    place = ClientPartition("clicks", 0)
    answers: list[dict[ClientPartition, type[kafka_errors.KafkaError]]] = [
        {place: kafka_errors.NotCoordinatorError},
        {place: kafka_errors.CoordinatorLoadInProgressError},
        {place: kafka_errors.NoError},
    ]
    client = SimpleNamespace(alter_group_offsets=lambda *_: answers.pop(0))
    monkeypatch.setattr(group_admin, "KafkaAdminClient", lambda **_: client)
    monkeypatch.setattr("time.sleep", lambda _: None)
    admin = GroupAdmin({})
    assert not admin.commit("shop", {TopicPartition("clicks", 0): Committed(7)})
    assert not answers
