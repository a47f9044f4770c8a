from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from secor.core.errors import (
    AccessDenied,
    SecorError,
    TargetRefused,
    TransactionAborted,
    TransactionBroken,
    Unavailable,
    WriterFenced,
)
from secor.core.model import TopicPartition
from secor.core.transactions import BrokerCode, ProduceAnswer, Request
from secor.restore.writer.decisions import WriterAction, decide
from secor.restore.writer.model import (
    TRANSITIONS,
    BatchPlacement,
    NotAllowed,
    WriterEvent,
    WriterLimits,
    WriterState,
    transition,
)
from secor.restore.writer.writer import TransactionalWriter
from tests.fakes.transactions import FakeCluster
from tests.simulation.restore_world import rows

CLICKS = TopicPartition("clicks", 0)
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def writer_of(cluster: FakeCluster, name: str = "secor:job:clicks:0") -> TransactionalWriter:
    limits = WriterLimits(batch_records=4)
    return TransactionalWriter(
        cluster, name, clock=cluster.clock, rng=random.Random(1), limits=limits
    )


def ready(cluster: FakeCluster) -> TransactionalWriter:
    writer = writer_of(cluster)
    writer.initialise()
    writer.begin()
    return writer


def write_and_commit(writer: TransactionalWriter, count: int) -> None:
    writer.write(CLICKS, rows(0, count))
    writer.commit()


def values(cluster: FakeCluster) -> list[object]:
    cluster.settle()
    return [row["value"] for row in cluster.visible(CLICKS)]


@VERSIONS
def test_a_transaction_is_visible_as_a_whole_when_it_is_committed(version: int) -> None:
    cluster = FakeCluster({"clicks": 1}, version=version)
    writer = ready(cluster)
    writer.write(CLICKS, rows(10, 20))
    assert values(cluster) == []
    writer.commit()
    assert values(cluster) == [b"%d" % number for number in range(10, 20)]
    assert writer.placements == [
        BatchPlacement(CLICKS, 0, 4, 10, 13),
        BatchPlacement(CLICKS, 4, 4, 14, 17),
        BatchPlacement(CLICKS, 8, 2, 18, 19),
    ]


@VERSIONS
def test_what_is_aborted_is_never_visible_and_the_writer_goes_on(version: int) -> None:
    cluster = FakeCluster({"clicks": 1}, version=version)
    writer = ready(cluster)
    writer.write(CLICKS, rows(0, 5))
    writer.abort()
    writer.begin()
    writer.write(CLICKS, rows(5, 7))
    writer.commit()
    assert values(cluster) == [b"5", b"6"]
    assert writer.state is WriterState.READY


@VERSIONS
def test_a_transaction_without_records_asks_nobody(version: int) -> None:
    cluster = FakeCluster({"clicks": 1}, version=version)
    writer = ready(cluster)
    writer.commit()
    writer.begin()
    writer.abort()
    assert set(cluster.calls) == {"init_producer_id"}


@VERSIONS
def test_who_initialises_later_fences(version: int) -> None:
    cluster = FakeCluster({"clicks": 1}, version=version)
    earlier = ready(cluster)
    earlier.write(CLICKS, rows(0, 2))
    later = ready(cluster)
    with pytest.raises(WriterFenced):
        earlier.commit()
    assert earlier.state is WriterState.FENCED
    with pytest.raises(NotAllowed):
        earlier.begin()
    later.write(CLICKS, rows(0, 2))
    later.commit()
    assert values(cluster) == [b"0", b"1"]


RETRIED = [
    ("init_producer_id", BrokerCode.CONCURRENT_TRANSACTIONS),
    ("init_producer_id", BrokerCode.NOT_COORDINATOR),
    ("produce", BrokerCode.NOT_LEADER_OR_FOLLOWER),
    ("produce", BrokerCode.NOT_ENOUGH_REPLICAS),
    ("produce", BrokerCode.REQUEST_TIMED_OUT),
    ("commit", BrokerCode.COORDINATOR_NOT_AVAILABLE),
    ("commit", BrokerCode.COORDINATOR_LOAD_IN_PROGRESS),
    ("find_coordinator", BrokerCode.COORDINATOR_NOT_AVAILABLE),
]


@VERSIONS
@pytest.mark.parametrize(("call", "code"), RETRIED)
def test_what_passes_is_tried_again_with_the_same_sequences(
    version: int, call: str, code: BrokerCode
) -> None:
    cluster = FakeCluster({"clicks": 1}, version=version)
    cluster.refuse = {call: [code, code]}
    if call == "find_coordinator":
        cluster.refuse["commit"] = [BrokerCode.NOT_COORDINATOR] * 3
    writer = ready(cluster)
    writer.write(CLICKS, rows(0, 9))
    writer.commit()
    assert values(cluster) == [b"%d" % number for number in range(9)]


ENDS: list[tuple[str, BrokerCode, type[SecorError], WriterState]] = [
    ("produce", BrokerCode.MESSAGE_TOO_LARGE, TargetRefused, WriterState.DEAD),
    ("produce", BrokerCode.TOPIC_AUTHORIZATION_FAILED, AccessDenied, WriterState.DEAD),
    ("produce", BrokerCode.OUT_OF_ORDER_SEQUENCE_NUMBER, TransactionBroken, WriterState.DEAD),
    ("produce", BrokerCode.DUPLICATE_SEQUENCE_NUMBER, TransactionBroken, WriterState.DEAD),
    ("produce", BrokerCode.UNKNOWN, TransactionBroken, WriterState.DEAD),
    ("produce", BrokerCode.INVALID_PRODUCER_EPOCH, WriterFenced, WriterState.FENCED),
    ("produce", BrokerCode.TRANSACTION_ABORTABLE, TransactionAborted, WriterState.READY),
    ("commit", BrokerCode.INVALID_TXN_STATE, TransactionBroken, WriterState.DEAD),
    ("commit", BrokerCode.PRODUCER_FENCED, WriterFenced, WriterState.FENCED),
    ("commit", BrokerCode.TRANSACTION_ABORTABLE, TransactionAborted, WriterState.READY),
    ("commit", BrokerCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AccessDenied, WriterState.DEAD),
]


@VERSIONS
@pytest.mark.parametrize(("call", "code", "error", "state"), ENDS)
def test_what_cannot_go_on_ends_the_transaction_unseen(
    version: int, call: str, code: BrokerCode, error: type[SecorError], state: WriterState
) -> None:
    cluster = FakeCluster({"clicks": 1}, version=version)
    cluster.refuse = {call: [code]}
    writer = ready(cluster)
    with pytest.raises(error):
        write_and_commit(writer, 9)
    assert writer.state is state
    assert values(cluster) == []


@pytest.mark.parametrize(
    ("call", "code", "right"),
    [
        ("produce", BrokerCode.TOPIC_AUTHORIZATION_FAILED, "Write on the topic clicks"),
        (
            "produce",
            BrokerCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "Write on transactional ids that begin with secor:job:",
        ),
        (
            "init_producer_id",
            BrokerCode.CLUSTER_AUTHORIZATION_FAILED,
            "ids that begin with secor:job:, on the targets, and on the job's offsets topic",
        ),
    ],
)
def test_a_right_that_is_missing_is_named(call: str, code: BrokerCode, right: str) -> None:
    cluster = FakeCluster({"clicks": 1})
    cluster.refuse = {call: [code]}
    with pytest.raises(AccessDenied) as told:
        write_and_commit(ready(cluster), 9)
    assert str(told.value).endswith(right)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (BrokerCode.NOT_ENOUGH_REPLICAS, "lower it"),
        (BrokerCode.KAFKA_STORAGE_ERROR, "look whether it is full"),
    ],
)
def test_a_target_that_is_full_is_asked_for_the_transactions_time_and_not_too_often(
    code: BrokerCode, advice: str
) -> None:
    cluster = FakeCluster({"clicks": 1})
    cluster.refuse = {"produce": [code] * 1000}
    writer = ready(cluster)
    with pytest.raises(TransactionBroken, match="time is over") as told:
        write_and_commit(writer, 9)
    assert str(told.value).endswith(advice)
    limits = WriterLimits()
    assert cluster.clock.monotonic() >= limits.transaction_timeout
    assert cluster.calls.count("produce") < 2 * limits.transaction_timeout


def test_an_abort_that_is_answered_with_abort_ends_the_writer() -> None:
    cluster = FakeCluster({"clicks": 1})
    cluster.refuse = {
        "commit": [BrokerCode.TRANSACTION_ABORTABLE],
        "abort": [BrokerCode.TRANSACTION_ABORTABLE],
    }
    writer = ready(cluster)
    writer.write(CLICKS, rows(0, 2))
    with pytest.raises(TransactionBroken):
        writer.commit()
    assert writer.state is WriterState.DEAD


@pytest.mark.parametrize("call", ["produce", "commit"])
def test_no_call_waits_beyond_the_transactions_time(call: str) -> None:
    cluster = FakeCluster({"clicks": 1})
    writer = ready(cluster)
    began = cluster.clock.monotonic()

    def silent(name: str) -> None:
        if name == f"before {call}":
            cluster.clock.advance(10)
            raise Unavailable("no answer")

    cluster.hook = silent
    with pytest.raises(TransactionBroken, match="time is over"):
        write_and_commit(writer, 2)
    assert cluster.clock.monotonic() - began < 60 + 3 * 10
    assert writer.state is WriterState.DEAD


def test_initialising_gives_up_and_says_so() -> None:
    cluster = FakeCluster({"clicks": 1})
    cluster.refuse = {"init_producer_id": [BrokerCode.CONCURRENT_TRANSACTIONS] * 10_000}
    with pytest.raises(Unavailable, match="INIT_PRODUCER_ID: CONCURRENT_TRANSACTIONS"):
        writer_of(cluster).initialise()


@pytest.mark.parametrize("state", list(WriterState))
@pytest.mark.parametrize("event", list(WriterEvent))
def test_the_table_says_what_each_state_allows(state: WriterState, event: WriterEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert transition(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(NotAllowed):
            transition(state, event)


def test_no_way_leads_back_from_fenced_and_dead() -> None:
    assert not [it for it in TRANSITIONS if it[0] in (WriterState.FENCED, WriterState.DEAD)]


@pytest.mark.parametrize("request_", list(Request))
@pytest.mark.parametrize("code", list(BrokerCode))
def test_every_code_of_every_request_has_a_decision(request_: Request, code: BrokerCode) -> None:
    action = decide(request_, code)
    assert (action is WriterAction.GO_ON) == (code is BrokerCode.NONE)


def test_a_code_that_is_not_known_rebuilds() -> None:
    assert BrokerCode.of(9999) is BrokerCode.UNKNOWN
    assert decide(Request.PRODUCE, BrokerCode.UNKNOWN) is WriterAction.REBUILD


class Late(FakeCluster):
    """Tells in ``calls`` when somebody has waited for the answer to a batch."""

    def produce(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes, *, wait: float
    ) -> Callable[[], ProduceAnswer]:
        answer = super().produce(transactional_id, topic_partition, batch, wait=wait)

        def waited() -> ProduceAnswer:
            self.calls.append("answered")
            return answer()

        return waited


def test_an_abort_waits_for_the_batch_that_is_on_its_way() -> None:
    cluster = Late({"clicks": 1})
    writer = ready(cluster)
    writer.write(CLICKS, rows(0, 10))
    writer.abort()
    done = [call for call in cluster.calls if call in ("produce", "answered", "abort")]
    assert done == ["produce", "answered", "produce", "answered", "abort"]
    assert values(cluster) == []
