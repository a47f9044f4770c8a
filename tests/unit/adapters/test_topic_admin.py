"""Topics are made together, and each that is refused is named."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors as kafka_errors

from secor.adapters.kafka import topic_admin
from secor.adapters.kafka.topic_admin import MOST_PARTITIONS, TopicAdmin, TopicDefinition
from secor.core.errors import AccessDenied, SecorError, Unavailable

DENIED = kafka_errors.TopicAuthorizationFailedError
EXISTS = kafka_errors.TopicAlreadyExistsError
BUSY = kafka_errors.ThrottlingQuotaExceededError


class Client:
    """As much of ``KafkaAdminClient`` as is used: ``refuses`` are errors by topic."""

    def __init__(self, **_options: object) -> None:
        self.refuses: dict[str, type[kafka_errors.KafkaError]] = {}
        self.requests: list[list[str]] = []
        self.awaited: list[list[str]] = []

    def create_topics(self, new: list[Any], **_options: object) -> dict[str, Any]:
        self.requests.append([topic.name for topic in new])
        answers = [
            {"name": it.name, "error_code": self._code(it.name), "error_message": "why"}
            for it in new
        ]
        return {"topics": answers}

    def _code(self, topic: str) -> int:
        return self.refuses[topic].errno if topic in self.refuses else 0

    def wait_for_topics(self, names: list[str], timeout_ms: int) -> None:
        self.awaited.append(names)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    client = Client()
    monkeypatch.setattr(topic_admin, "KafkaAdminClient", lambda **_options: client)
    return client


def make(**partitions: int) -> None:
    TopicAdmin({}).create({name: TopicDefinition(count, {}) for name, count in partitions.items()})


def test_many_topics_are_one_request_and_awaited_together(client: Client) -> None:
    client.refuses = {"b": EXISTS}
    make(a=1, b=2, c=3)
    assert client.requests == [["a", "b", "c"]]
    assert client.awaited == [["a", "c"]], "who made the other one waits for it"


def test_a_request_makes_no_more_partitions_than_controllers_take(client: Client) -> None:
    make(a=MOST_PARTITIONS, b=MOST_PARTITIONS - 1, c=1, d=MOST_PARTITIONS + 1)
    assert client.requests == [["a"], ["b", "c"], ["d"]]


@pytest.mark.parametrize(
    ("refuses", "kind"),
    [({"a": BUSY, "c": DENIED}, AccessDenied), ({"a": BUSY, "c": BUSY}, Unavailable)],
)
def test_each_topic_that_is_refused_is_named_and_the_others_are_made(
    client: Client, refuses: dict[str, type[kafka_errors.KafkaError]], kind: type[SecorError]
) -> None:
    client.refuses = refuses
    with pytest.raises(kind, match=r"making the topic a: .*; making the topic c: "):
        make(a=1, b=1, c=1)
    assert client.awaited == [["b"]]


def test_without_topics_nobody_is_asked(client: Client) -> None:
    make()
    assert client.requests == []
