"""What the answers to a commit mean: a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.future import Future

from secor.adapters.kafka.commits import Fenced, Raw, commit_one
from secor.adapters.kafka.failures import is_fatal, translated
from secor.adapters.kafka.membership import Pin
from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    LeaseLost,
    OutcomeUnknown,
    SecorError,
    StopPartition,
    Unavailable,
)
from secor.core.model import TopicPartition

TP = TopicPartition("clicks", 0)


class Client:
    """Answers one commit with an error code, or fails it."""

    def __init__(self, *, code: int = 0, fault: Exception | None = None) -> None:
        self.sent: list[Any] = []
        self.manager = self
        self.coordinator = SimpleNamespace(
            coordinator=lambda: "coordinator-1", coordinator_dead=lambda _error: None
        )
        self._code, self._fault = code, fault

    def aside(self, node: str, purpose: str) -> str:
        return f"{purpose}-{node}"

    def send(self, request: Any, node_id: str) -> Future:
        assert node_id == "ledger-coordinator-1"
        self.sent.append(request)
        if self._fault is not None:
            return Future().failure(self._fault)
        partition = SimpleNamespace(error_code=self._code)
        return Future().success(SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])]))

    async def wait_for(self, future: Future, _timeout_ms: float) -> Any:
        return await future


def commit(client: Client, pin: Pin) -> None:
    coroutine = commit_one(client, "group", TP, Raw(5, "{}"), pin, 1.0)  # type: ignore[arg-type]
    with pytest.raises(StopIteration):
        coroutine.send(None)


def refused(client: Client, pin: Pin | None = None) -> BaseException:
    with pytest.raises(SecorError) as caught:
        commit(client, pin or Pin(3, "me"))
    return caught.value


CODES: list[tuple[int, type[SecorError]]] = [
    (3, Unavailable),  # no such topic
    (7, OutcomeUnknown),  # timed out in the broker
    (12, StopPartition),  # metadata too large
    (14, Unavailable),  # coordinator is loading
    (15, OutcomeUnknown),  # coordinator not available, also "not enough replicas after append"
    (16, OutcomeUnknown),  # not the coordinator
    (22, Fenced),  # illegal generation
    (25, Fenced),  # unknown member
    (27, Fenced),  # rebalance in progress
    (28, StopPartition),  # commit too large
    (29, AccessDenied),  # topic
    (30, AccessDenied),  # group
    (-1, OutcomeUnknown),
]


@pytest.mark.parametrize(("code", "kind"), CODES)
def test_every_refusal_of_the_broker_has_its_meaning(code: int, kind: type[SecorError]) -> None:
    assert type(refused(Client(code=code))) is kind


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (kafka_errors.NodeNotReadyError("busy"), Unavailable),
        (kafka_errors.KafkaConnectionError("gone"), OutcomeUnknown),
        (kafka_errors.KafkaTimeoutError(), OutcomeUnknown),
        (kafka_errors.Cancelled(), OutcomeUnknown),
    ],
)
def test_a_lost_answer_is_unknown_but_what_was_never_sent_had_no_effect(
    fault: Exception, kind: type[SecorError]
) -> None:
    assert type(refused(Client(fault=fault))) is kind


def test_the_commit_carries_the_pin_and_one_partition() -> None:
    client = Client()
    commit(client, Pin(3, "me"))
    (request,) = client.sent
    assert (request.generation_id_or_member_epoch, request.member_id) == (3, "me")
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index) == ("clicks", 0)
    assert (partition.committed_offset, partition.committed_metadata) == (5, "{}")


def test_nothing_is_sent_once_the_pin_is_gone() -> None:
    client, pin = Client(), Pin(3, "me")
    pin.alive = False
    assert isinstance(refused(client, pin), LeaseLost)
    assert not client.sent


@pytest.mark.parametrize(
    ("error", "kind", "fatal"),
    [
        (kafka_errors.TopicAuthorizationFailedError({"t"}), AccessDenied, True),
        (kafka_errors.SaslAuthenticationFailedError("no"), AccessDenied, True),
        (kafka_errors.InconsistentGroupProtocolError(), ConfigurationError, True),
        (kafka_errors.KafkaTimeoutError(), Unavailable, False),
        (kafka_errors.NotCoordinatorError(), Unavailable, False),
    ],
)
def test_errors_of_the_client_say_what_to_do(
    error: Exception, kind: type[SecorError], fatal: bool
) -> None:
    ours = translated(error, "reading")
    assert type(ours) is kind
    assert str(ours).startswith("reading: ")
    assert is_fatal(error) is fatal
