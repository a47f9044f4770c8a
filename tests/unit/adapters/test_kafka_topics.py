from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable

import pytest

from secor.adapters.kafka.metadata_queries import id_text
from secor.adapters.kafka.topics import TopicWatch, named_topics, topic_pattern
from secor.core.errors import AccessDenied, ConfigurationError


@pytest.mark.parametrize(
    ("pattern", "exclude", "topic", "wanted"),
    [
        ("clicks-.*", None, "clicks-nl", True),
        ("clicks", None, "clicks-nl", False),
        ("a|ab", None, "ab", True),
        (".*", "test-.*", "test-clicks", False),
        (".*", "test", "test-clicks", True),
        (".*", "a|b", "b", False),
    ],
)
def test_patterns_are_for_whole_names(
    pattern: str, exclude: str | None, topic: str, wanted: bool
) -> None:
    assert bool(re.compile(topic_pattern(pattern, exclude)).match(topic)) is wanted


def test_a_bad_expression_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"\(a"):
        topic_pattern("(a", None)


def test_named_topics_may_be_excluded_but_not_all() -> None:
    assert named_topics(["a", "b"], "b") == ["a"]
    with pytest.raises(ConfigurationError):
        named_topics(["a"], ".*")


class Cluster:
    """The client's metadata, as far as the watch looks at it."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[object], None]] = []
        self.unauthorized_topics: set[str] = set()
        self.ids: dict[str, uuid.UUID] = {}

    def metadata_request(self) -> str:
        return "a request"

    def add_listener(self, listener: Callable[[object], None]) -> None:
        self.listeners.append(listener)

    def ask(self) -> None:
        assert self.metadata_request() == "a request"

    def refresh(self, **ids: int) -> None:
        self.ids = {name: uuid.UUID(int=number) for name, number in ids.items()}
        for listener in self.listeners:
            listener(self)

    def topic_id(self, topic: str) -> uuid.UUID | None:
        return self.ids.get(topic)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0} if topic in self.ids else None


def looks(watch: TopicWatch, assigned: set[str]) -> tuple[set[str], set[str]] | None:
    look = watch.look(lambda: assigned)
    return None if look is None else (look.anew, look.same)


def test_a_topic_with_another_id_was_made_anew() -> None:
    cluster = Cluster()
    watch = TopicWatch(cluster, [])
    cluster.refresh(a=1, b=2)
    assert looks(watch, {"a", "b"}) == (set(), {"a", "b"})
    assert looks(watch, {"a", "b"}) is None
    cluster.refresh(b=2)
    assert looks(watch, {"a", "b"}) == (set(), {"b"})
    cluster.refresh(a=9, b=2)
    assert looks(watch, {"a", "b"}) == ({"a"}, {"b"})
    cluster.refresh(a=9, b=2)
    assert looks(watch, {"a", "b"}) == (set(), {"a", "b"})


def test_the_id_to_compare_with_is_that_of_the_assignment() -> None:
    cluster = Cluster()
    watch = TopicWatch(cluster, [])
    cluster.refresh(a=1)
    watch.look(set)
    watch.assigned({"a"})
    cluster.refresh(a=2)
    assert looks(watch, {"a"}) == ({"a"}, set())


def test_a_topic_that_came_back_after_it_was_revoked_is_no_surprise() -> None:
    cluster = Cluster()
    watch = TopicWatch(cluster, [])
    cluster.refresh(a=1)
    watch.assigned({"a"})
    watch.look(lambda: {"a"})
    cluster.refresh()
    watch.look(set)
    cluster.refresh(a=2)
    watch.assigned({"a"})
    assert looks(watch, {"a"}) == (set(), {"a"})


def test_a_missing_topic_is_told_once_until_it_was_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster()
    watch = TopicWatch(cluster, ["late"])
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            cluster.refresh()
            watch.look(set)
    assert [record.getMessage().split(" does")[0] for record in caplog.records] == ["topic late"]


def test_a_look_tells_when_its_metadata_was_asked_for_not_when_it_came() -> None:
    cluster = Cluster()
    watch = TopicWatch(cluster, [])
    first = watch.look(lambda: {"a"})
    assert first is not None
    assert first.asked_at == 0.0
    before = time.monotonic()
    cluster.ask()
    after = time.monotonic()
    cluster.refresh(a=1)
    look = watch.look(lambda: {"a"})
    assert look is not None
    assert before <= look.asked_at <= after


def test_topics_that_may_not_be_read_are_named() -> None:
    cluster = Cluster()
    cluster.refresh()
    cluster.unauthorized_topics = {"secret"}
    with pytest.raises(AccessDenied, match="secret"):
        TopicWatch(cluster, []).look(set)


def test_ids_are_written_as_kafkas_tools_write_them() -> None:
    assert id_text(uuid.UUID("53c3c5d4-5b4a-4b57-9d3f-3a4a4f0ee8c1")) == "U8PF1FtKS1edPzpKTw7owQ"
    assert id_text(uuid.UUID(int=0)) is None
    assert id_text(None) is None
