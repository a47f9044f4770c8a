"""Copies of quarantined messages: after the commit, and never in its way."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from kafka import errors as kafka_errors
from kafka.record import MemoryRecords
from structlog.testing import capture_logs

from secor.adapters.kafka.dead_letter_producer import DeadLetters
from secor.adapters.kafka.failures import translated
from secor.batch.batch import Batch
from secor.batch.policy import Reason
from secor.batch.sealed import SealedBatch
from secor.batch.workspace import Workspace
from secor.commit.uploader import CommittedBatch
from secor.config.load import validate
from secor.core.errors import AccessDenied, SecorError, Unavailable
from secor.core.model import Chunk, TopicPartition
from secor.wiring.plans import plan_for
from secor.wiring.service import LetterWriter
from tests.fakes.archive import OperatorLedger, messages
from tests.fakes.clock import FakeClock
from tests.fakes.observer import SilentObserver
from tests.fakes.store import FakeStore
from tests.unit.archive.parsed_world import HERE, VALUES, config


class Broker:
    """A client and the broker behind it, in memory; ``code`` answers every request."""

    def __init__(self, *, code: int = 0, partitions: int = 2) -> None:
        self.code = code
        self.partitions: set[int] | None = set(range(partitions)) or None
        self.produced: list[tuple[str, int, Any]] = []
        self.refused = 0
        self.closed = False
        self.cluster = SimpleNamespace(
            partitions_for_topic=lambda _: self.partitions,
            leader_for_partition=lambda _: 1,
            request_update=lambda: None,
        )
        self.manager = SimpleNamespace(send=self._send, wait_for=self._wait_for)
        self.net = SimpleNamespace(sleep=self._sleep)

    def __call__(self, options: object, **settings: object) -> Broker:
        assert settings["topics"] == ["bad"]
        return self

    def call(self, coroutine: Any, *args: Any, timeout: float, what: str) -> Any:
        assert timeout > 0
        try:
            coroutine(*args).send(None)
        except StopIteration as done:
            return done.value
        except kafka_errors.KafkaError as error:
            raise translated(error, what) from error
        raise AssertionError("it waits")

    def close(self) -> None:
        self.closed = True

    def _send(self, request: Any, node_id: int) -> Any:
        assert (request.acks, node_id) == (-1, 1)
        (topic,) = request.topic_data
        (part,) = topic.partition_data
        code = self.code
        if code:
            self.refused += 1
        else:
            for batch in iter(MemoryRecords(part.records).next_batch, None):
                self.produced += [(topic.name, part.index, record) for record in batch]
        answer = SimpleNamespace(error_code=code)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[answer])])

    async def _wait_for(self, answer: Any, _: float) -> Any:
        return answer

    async def _sleep(self, _: float) -> None:
        pass


def test_a_copy_has_everything_and_tells_where_it_comes_from() -> None:
    broker = Broker()
    rows = messages([5, 7])
    assert DeadLetters({}, connect=broker).send("bad", HERE, [rows]) == 2
    topic, _, first = broker.produced[0]
    assert (topic, first.value, first.key) == ("bad", b"payload 5", b"k")
    assert first.timestamp == 1_700_000_000_005
    assert first.headers == [("h", b"5"), ("secor-source", b"clicks/0/5")]
    assert broker.closed


def hostile() -> pa.RecordBatch:
    """Return what brokers deliver and the client's own producer refuses to send."""
    plain = messages([5, 6, 7, 8])
    rows = plain.to_pylist()
    rows[0] |= {"key": None, "value": None, "headers": []}
    rows[1] |= {"headers": [{"key": "h", "value": None}, {"key": "", "value": b""}]}
    rows[2] |= {"key": b"", "value": b"", "timestamp": -1}
    rows[3] |= {"value": b"x" * (2 << 20)}
    return pa.RecordBatch.from_pylist(rows, plain.schema)


def test_any_message_that_kafka_delivered_can_be_sent_on() -> None:
    broker = Broker(partitions=1)
    assert DeadLetters({}, connect=broker).send("bad", HERE, [hostile()]) == 4
    nothing, headers, empty, large = (record for _, _, record in broker.produced)
    assert (nothing.key, nothing.value) == (None, None)
    assert headers.headers[:2] == [("h", None), ("", b"")]
    assert (empty.key, empty.value, empty.timestamp) == (b"", b"", -1)
    assert len(large.value) == 2 << 20


def test_messages_of_one_key_stay_together_and_those_without_with_their_source() -> None:
    broker = Broker(partitions=7)
    plain = messages(range(20))
    rows = [row | {"key": None} if row["offset"] % 2 else row for row in plain.to_pylist()]
    batch = pa.RecordBatch.from_pylist(rows, plain.schema)
    DeadLetters({}, connect=broker).send("bad", TopicPartition("clicks", 9), [batch])
    places = {(record.key, partition) for _, partition, record in broker.produced}
    assert len(places) == 2
    assert (None, 9 % 7) in places


def test_what_one_broker_refuses_keeps_no_other_message_back() -> None:
    broker = Broker(code=kafka_errors.MessageSizeTooLargeError.errno, partitions=1)
    with pytest.raises(Unavailable, match="2 batches of messages were refused: Message"):
        DeadLetters({}, connect=broker).send("bad", HERE, [hostile()])
    assert broker.refused == 2
    assert broker.closed


def test_a_broker_that_is_not_the_leader_is_asked_again_until_the_time_is_over() -> None:
    broker = Broker(code=kafka_errors.NotLeaderForPartitionError.errno, partitions=1)
    with pytest.raises(Unavailable, match="NotLeaderForPartitionError"):
        DeadLetters({}, timeout=0.05, connect=broker).send("bad", HERE, [messages([5])])
    assert broker.refused > 1


@pytest.mark.parametrize(
    ("broker", "kind", "said"),
    [
        (Broker(partitions=0), Unavailable, "bad does not exist"),
        (Broker(code=29), AccessDenied, "TopicAuthorizationFailed"),
    ],
)
def test_a_topic_that_is_not_there_or_not_allowed_is_told(
    broker: Broker, kind: type[SecorError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        DeadLetters({}, connect=broker).send("bad", HERE, [messages([5])])
    assert broker.closed


class Letters(DeadLetters):
    def __init__(self, store: FakeStore, error: Unavailable | None = None) -> None:
        super().__init__({})
        self.store = store
        self.error = error
        self.offsets: list[int] = []

    def send(self, topic: str, source: TopicPartition, batches: Iterable[pa.RecordBatch]) -> int:
        assert (topic, source) == ("bad", HERE)
        assert self.store.objects, "before the commit"
        if self.error is not None:
            raise self.error
        for batch in batches:
            self.offsets += batch.column("offset").to_pylist()
        return len(self.offsets)


def sealed(folder: Path) -> SealedBatch:
    plan = plan_for(config({"time_field": "time"}), "clicks")
    batch = Batch(HERE, 0, plan=plan, workspace=Workspace(folder, "p"), clock=FakeClock())
    batch.append(Chunk(HERE, messages(range(6), VALUES.get), 6))
    return batch.seal(Reason.AGE)


def upload(store: FakeStore, letters: Letters, folder: Path) -> object:
    ledger = OperatorLedger()
    lease = ledger.lease(HERE, 1.0)
    lease.commit(lease.read(), 0, None)
    lease.release()
    writer = LetterWriter(
        letters,
        {"clicks": "bad"}.get,
        ledger=ledger,
        store=store,
        clock=FakeClock(),
        owner="me",
        observer=SilentObserver(),
        rng=random.Random(1),
        request_lifetime=60.0,
    )
    return writer.upload(sealed(folder), lambda: True)


def test_quarantined_messages_are_copied_after_the_commit(tmp_path: Path) -> None:
    store = FakeStore()
    letters = Letters(store)
    assert upload(store, letters, tmp_path) == CommittedBatch()
    assert letters.offsets == [1, 2, 4, 5]


def test_copies_that_cannot_be_sent_change_nothing_but_a_log_line(tmp_path: Path) -> None:
    store = FakeStore()
    with capture_logs() as logs:
        assert upload(store, Letters(store, Unavailable("no broker")), tmp_path) == CommittedBatch()
    assert [line["event"] for line in logs] == ["dead_letters_failed"]


def test_a_group_does_not_read_its_own_dead_letters() -> None:
    tree = {
        "group": {"name": "g", "kind": "partition"},
        "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics_pattern": "clicks.*"},
        "store": {"kind": "local", "local": {"directory": "/nowhere"}},
        "parser": {"dead_letter_topic": "clicks-bad"},
    }
    _, faults = validate(tree)
    assert "reads clicks-bad itself" in faults["parser.dead_letter_topic"]
