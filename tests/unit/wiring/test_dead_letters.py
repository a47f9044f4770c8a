"""Copies of quarantined messages: after the commit, and never in its way."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka import errors as kafka_errors
from structlog.testing import capture_logs

from secor.adapters.kafka.dead_letter_producer import DeadLetters
from secor.batch.batch import Batch, SealedBatch
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.commit.uploader import Committed
from secor.config.load import validate
from secor.core.errors import Unavailable
from secor.core.model import Chunk, TopicPartition
from secor.wiring.dead_letters import LetterWriter
from secor.wiring.plans import plan_for
from tests.fakes.archive import OperatorLedger, messages
from tests.fakes.clock import FakeClock
from tests.fakes.observer import SilentObserver
from tests.fakes.store import FakeStore
from tests.unit.archive.parsed_world import HERE, VALUES, config


class Future:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def get(self, timeout: float) -> None:
        assert timeout > 0
        if self.error is not None:
            raise self.error


class Producer:
    """A producer in memory; ``error`` is the answer to every message."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.sent: list[dict[str, Any]] = []
        self.closed = False

    def __call__(self, **options: object) -> Producer:
        assert options["acks"] == "all"
        return self

    def send(self, topic: str, **message: object) -> Future:
        self.sent.append({"topic": topic, **message})
        return Future(self.error)

    def close(self, timeout: float) -> None:
        self.closed = timeout > 0


def test_a_copy_has_everything_and_tells_where_it_comes_from() -> None:
    producer = Producer()
    rows = messages([5, 7])
    assert DeadLetters({}, producer=producer).send("bad", HERE, [rows]) == 2
    first = producer.sent[0]
    assert (first["topic"], first["value"], first["key"]) == ("bad", b"payload 5", b"k")
    assert first["timestamp_ms"] == 1_700_000_000_005
    assert first["headers"] == [("h", b"5"), ("secor-source", b"clicks/0/5")]
    assert producer.closed


def test_a_broker_that_refuses_is_unavailable() -> None:
    producer = Producer(kafka_errors.KafkaTimeoutError("slow"))
    with pytest.raises(Unavailable, match="bad: messages of clicks/0"):
        DeadLetters({}, producer=producer).send("bad", HERE, [messages([5])])
    assert producer.closed


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
    )
    return writer.upload(sealed(folder), lambda: True)


def test_quarantined_messages_are_copied_after_the_commit(tmp_path: Path) -> None:
    store = FakeStore()
    letters = Letters(store)
    assert upload(store, letters, tmp_path) == Committed()
    assert letters.offsets == [1, 2, 4, 5]


def test_copies_that_cannot_be_sent_change_nothing_but_a_log_line(tmp_path: Path) -> None:
    store = FakeStore()
    with capture_logs() as logs:
        assert upload(store, Letters(store, Unavailable("no broker")), tmp_path) == Committed()
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
