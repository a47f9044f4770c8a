"""Members of a group that use another ledger or store are given nothing to read."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from secor.adapters.kafka.agreement import (
    AgreementAnswer,
    Statement,
    Uses,
    decide,
    split,
    statement_of,
    verdict_of,
)
from secor.adapters.kafka.membership import GroupMembership
from secor.core.errors import ConfigurationError

ZOOKEEPER = Uses("host-1", "zookeeper at /secor", ("zk-1:2181", "zk-2:2181"), "s3://b", "seq")
KAFKA = Uses("host-2", "kafka", (), "s3://b", "seq")
FORMAT = replace(ZOOKEEPER, process="host-3", objects="jsonl")


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, []),
        ({"process": "host-9", "objects": "jsonl"}, []),
        ({"servers": ("zk-2:2181", "zk-3:2181")}, []),
        (
            {"servers": ("zk-9:2181",)},
            ["ledger.zookeeper.hosts: zk-1:2181, zk-2:2181, not zk-9:2181"],
        ),
        ({"ledger": "zookeeper at /x"}, ["ledger: zookeeper at /secor, not zookeeper at /x"]),
        ({"store": "s3://other"}, ["store: s3://b, not s3://other"]),
        (
            {"ledger": "kafka", "servers": (), "store": "s3://other"},
            ["ledger: zookeeper at /secor, not kafka", "store: s3://b, not s3://other"],
        ),
    ],
)
def test_ledger_and_store_must_not_differ(change: dict[str, Any], differs: list[str]) -> None:
    assert ZOOKEEPER.differences(replace(ZOOKEEPER, **change)) == differs


WITH_ID = replace(ZOOKEEPER, ledger_id="0123")


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"servers": ("10.0.0.1:2181",)}, []),  # other names of the same servers
        ({"servers": ("10.0.0.1:2181",), "ledger_id": None}, ["zk-1:2181, zk-2:2181, not 10.0.0"]),
        ({"ledger_id": None}, []),
        ({"servers": ("10.0.0.1:2181",), "ledger_id": "4567"}, ["zk-1:2181, zk-2:2181, not 10"]),
        (
            {"ledger_id": "4567"},
            ["zk-1:2181, zk-2:2181, but another ledger there (its id is 4567)"],
        ),
    ],
)
def test_ensembles_are_told_apart_by_the_id_of_the_ledger(
    change: dict[str, Any], differs: list[str]
) -> None:
    """Two of them may be at one address: ``localhost`` on two hosts."""
    differences = WITH_ID.differences(replace(WITH_ID, **change))
    assert len(differences) == len(differs)
    for difference, expected in zip(differences, differs, strict=True):
        assert expected in difference


SECOND = replace(ZOOKEEPER, process="host-4")


@pytest.mark.parametrize(
    ("statements", "agreed"),
    [
        ([Statement(KAFKA)], KAFKA),
        ([Statement(ZOOKEEPER, 3), Statement(KAFKA)], ZOOKEEPER),
        ([Statement(KAFKA), Statement(ZOOKEEPER, 3)], ZOOKEEPER),
        ([Statement(KAFKA, 2), Statement(ZOOKEEPER, 3), Statement(SECOND, 3)], KAFKA),
        ([Statement(KAFKA), Statement(ZOOKEEPER)], None),
        ([Statement(KAFKA), Statement(ZOOKEEPER), Statement(SECOND)], ZOOKEEPER),
        ([Statement(ZOOKEEPER), Statement(FORMAT)], ZOOKEEPER),
        ([Statement(KAFKA), Statement(ZOOKEEPER, 1), Statement(FORMAT)], ZOOKEEPER),
    ],
)
def test_who_was_first_decides_then_most(statements: list[Statement], agreed: Uses | None) -> None:
    assert decide(statements) == agreed


def test_what_is_said_comes_back_and_anything_else_says_nothing() -> None:
    statement = Statement(ZOOKEEPER, 7)
    own, said = split(b"abc" + statement.encode())
    assert (own, said and statement_of(said)) == (b"abc", statement)
    verdict = AgreementAnswer(WITH_ID, True, ("jsonl", "seq"), KAFKA, ("minio:9000",))
    _, said = split(verdict.encode())
    assert said is not None
    assert verdict_of(said) == verdict
    assert split(b"abc") == (b"abc", None)
    for other in (b"", b"[]", b"{}", b'{"uses": 1}', b'{"uses": {"servers": 1}}', b"\xff"):
        assert statement_of(other) is None
        assert verdict_of(other) is None


class Group:
    """Members with real assignors around one assignment, as the client calls them."""

    def __init__(self, strategy: str, *uses: Uses | None) -> None:
        self.failures: dict[str, list[BaseException]] = {}
        self.members: dict[str, GroupMembership] = {}
        self.generation = 0
        for number, it in enumerate(uses):
            self.add(f"m{number}", strategy, it)

    def add(self, name: str, strategy: str, uses: Uses | None) -> None:
        failures: list[BaseException] = []
        membership = GroupMembership(
            strategy=strategy,
            release_wait=0.0,
            assigned=lambda _: None,
            revoked=lambda _: None,
            group="g",
            uses=uses,
            refused=failures.append,
        )
        generation = SimpleNamespace(member_id=name, is_lost=lambda: False)
        membership.attach(SimpleNamespace(coordinator=SimpleNamespace(_generation=generation)))
        membership.synchronised(self.generation)
        self.members[name], self.failures[name] = membership, failures

    def rebalance(self, leader: str) -> dict[str, list[int]]:
        """Return the partitions of each member; over the wire, as a broker passes it on."""
        self.generation += 1
        joined = [
            SimpleNamespace(
                member_id=name,
                group_instance_id=None,
                metadata=ConsumerProtocolSubscription.decode(
                    membership.assignor.metadata({"clicks"}).encode()
                ),
            )
            for name, membership in self.members.items()
        ]
        cluster = SimpleNamespace(
            partitions_for_topic=lambda _: {0, 1, 2, 3}, topics=lambda: {"clicks"}
        )
        shared = self.members[leader].assignor.assign(cluster, joined)
        given = {}
        for name, membership in self.members.items():
            assignment = ConsumerProtocolAssignment.decode(shared[name].encode())
            membership.assignor.on_assignment(assignment, self.generation)
            given[name] = sorted(it.partition for it in assignment.partitions())
        return given


STRATEGIES = pytest.mark.parametrize(
    "strategy", ["cooperative-sticky", "sticky", "range", "roundrobin"]
)


@STRATEGIES
@pytest.mark.parametrize("leader", ["m0", "m1"])
def test_one_that_differs_from_a_running_member_is_given_nothing_and_fails(
    strategy: str, leader: str
) -> None:
    group = Group(strategy, ZOOKEEPER)
    assert group.rebalance("m0") == {"m0": [0, 1, 2, 3]}
    group.add("m1", strategy, KAFKA)
    assert group.rebalance(leader) == {"m0": [0, 1, 2, 3], "m1": []}
    assert group.failures["m0"] == []
    [error] = group.failures["m1"]
    assert isinstance(error, ConfigurationError)
    assert "ledger: kafka, not zookeeper at /secor" in str(error)
    assert "host-1" in str(error)


@STRATEGIES
def test_those_that_agree_share_the_partitions(strategy: str) -> None:
    group = Group(strategy, ZOOKEEPER, SECOND, FORMAT, KAFKA)
    given = group.rebalance("m3")
    assert given["m3"] == []
    assert sorted(chain(*given.values())) == [0, 1, 2, 3]
    assert [name for name, failures in group.failures.items() if failures] == ["m3"]
    del group.members["m3"]
    group.rebalance("m0")
    assert sorted(chain(*group.rebalance("m0").values())) == [0, 1, 2, 3]


@STRATEGIES
def test_two_that_start_together_and_differ_both_read_nothing(strategy: str) -> None:
    group = Group(strategy, ZOOKEEPER, KAFKA)
    assert group.rebalance("m0") == {"m0": [], "m1": []}
    for failures in group.failures.values():
        assert "none of them has read yet" in str(failures[0])


@STRATEGIES
@pytest.mark.parametrize("leader", ["m0", "m1"])
def test_a_process_of_an_earlier_version_says_nothing_and_agrees(
    strategy: str, leader: str
) -> None:
    group = Group(strategy, None, KAFKA)
    given = group.rebalance(leader)
    assert sorted(chain(*given.values())) == [0, 1, 2, 3]
    assert group.failures == {"m0": [], "m1": []}


def test_other_objects_are_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    group = Group("cooperative-sticky", ZOOKEEPER, FORMAT)
    group.rebalance("m0")
    group.rebalance("m0")
    warnings = [it.getMessage() for it in caplog.records if it.levelname == "WARNING"]
    assert len(warnings) == 2, "one a process"
    assert "jsonl and seq" in warnings[0]


def test_another_address_of_the_store_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    """It may be another name of the same servers, or another store with a bucket of that name."""
    group = Group(
        "cooperative-sticky",
        replace(ZOOKEEPER, address="minio-1:9000"),
        replace(SECOND, address=""),
        replace(SECOND, process="of an earlier version", address=None),
    )
    group.rebalance("m0")
    group.rebalance("m0")
    assert not any(group.failures.values())
    warnings = [it.getMessage() for it in caplog.records if it.levelname == "WARNING"]
    assert len(warnings) == 3, "one a process"
    assert "s3://b at its usual address and at minio-1:9000" in warnings[0]
