"""The loop, where messages need a wider schema than the batch was begun with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from secor.archive.kept_schemas import GrowingPlans, KeptSchema, KeptSchemas
from secor.arrow.nested_arrays import JSON
from secor.batch.plan import OutputStream, TopicPlan
from secor.batch.policy import Policy
from secor.config.parser import Parser
from secor.consume.partition_status import ReadingState
from secor.core.errors import DiskFull, Unavailable
from secor.core.model import QUARANTINE, Intent
from secor.schema.growth import GrowthFinder, Propose
from secor.wiring.parsers import pipeline_for
from tests.fakes.format import PlainFormat
from tests.fakes.ledger import LedgerServer
from tests.fakes.source import FakeBroker, FakeLog
from tests.unit.consume.world import KEY, Process

ROOT = "root/clicks"
DATA = f"{ROOT}/all/"
SETTINGS = Parser.model_validate({"decoder": "json", "layout": "all", "max_bad_ratio": None})


def plan_of(schema: KeptSchema, propose: Propose | None) -> TopicPlan:
    rows = schema.rows
    growth = GrowthFinder(rows, propose) if propose is not None else None
    return TopicPlan(
        "backup",
        ROOT,
        1,
        pipeline_for(SETTINGS, typed=True, schema=rows, growth=growth),
        PlainFormat(rows.identity),
        Policy(max_messages=10),
        streams={QUARANTINE: OutputStream("root/_quarantine/clicks", PlainFormat())},
    )


class Growing(Process):
    """A process of a topic whose schema is kept."""

    def __init__(self, directory: Path, broker: FakeBroker, server: LedgerServer) -> None:
        super().__init__(directory, broker, server)
        self.kept = KeptSchemas(self.store, ROOT, 1)
        self.begin()

    def begin(self) -> None:
        """Forget what only this process knows."""
        self.growing = GrowingPlans(self.kept, plan_of, lambda *_: None)
        self.plans = lambda _, tried: self.growing.plan(tried)

    def batches(self) -> list[tuple[int, int, str]]:
        """Return start and end of each stored batch, and the fields that it was stored with."""
        versions = [self.kept.read(at) for at in (0, *self.kept.versions())]
        fingerprints = {
            plan_of(schema, self.growing.propose).fingerprint: schema.fields.names
            for schema in versions
        }
        batches = []
        for stored in self.store.list(DATA):
            metadata = self.store.head(stored.key).metadata or {}
            names = ",".join(fingerprints[metadata["fingerprint"]])
            batches.append((int(metadata["batch-start"]), int(metadata["batch-end"]), names))
        return batches


@pytest.fixture
def log(broker: FakeBroker) -> FakeLog:
    return broker.logs[KEY]


@pytest.fixture
def process(tmp_path: Path, broker: FakeBroker, server: LedgerServer) -> Iterator[Growing]:
    process = Growing(tmp_path, broker, server)
    process.source.assign([KEY])
    yield process
    process.workspace.close()


def json_of(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_the_batch_ends_before_the_first_message_that_needs_more(
    process: Growing, log: FakeLog, server: LedgerServer
) -> None:
    log.say(*[json_of(a=1)] * 5, *[json_of(a=1, b="x")] * 4, json_of(a=1.5), *[json_of(a=2)] * 10)
    process.run(seconds=0.0)
    assert process.batches() == [(0, 5, "a"), (5, 9, "a,b"), (9, 20, "a,b")]
    assert process.offsets(DATA) == list(range(20))
    assert process.kept.versions() == [1, 2, 3]
    assert str(process.kept.newest().fields.field("a").type) == "double"
    assert server.entry(KEY).committed == 20


def test_growth_waits_for_nothing_but_the_upload_of_what_came_before(
    process: Growing, log: FakeLog
) -> None:
    log.say(json_of(a=1), json_of(b=1), json_of(c=1), json_of(d=1))
    before = process.clock.monotonic()
    process.run(seconds=0.0)
    assert process.clock.monotonic() == before
    assert process.consumer.status()[0].next_offset == 4


def test_a_gap_before_the_first_message_that_needs_more_is_passed(
    process: Growing, log: FakeLog, server: LedgerServer
) -> None:
    log.say(json_of(a=1), json_of(a=1), json_of(b=1), *[json_of(b=1)] * 10)
    log.compact([0, 1])
    process.run()
    assert process.offsets(DATA) == list(range(2, 13))
    assert server.entry(KEY).committed == 13


def test_what_is_in_conflict_is_in_quarantine_and_ends_no_batch(
    process: Growing, log: FakeLog, server: LedgerServer
) -> None:
    log.say(*[json_of(a=1)] * 4)
    process.run()
    log.say(*[json_of(a="x"), json_of(a=1)] * 3)
    process.run()
    assert process.batches() == [(0, 10, "a")]
    assert len(list(process.store.list("root/_quarantine/clicks/"))) == 1
    assert server.entry(KEY).committed == 10


def crash(process: Growing) -> None:
    """Take everything from it, and give it the topic partition anew."""
    process.source.revoke([KEY])
    process.run(2)
    process.begin()
    process.source.assign([KEY])


def test_a_batch_under_way_is_stored_by_the_version_that_it_was_begun_with(
    process: Growing, log: FakeLog, server: LedgerServer
) -> None:
    log.say(*[json_of(a=1)] * 3)
    process.run()
    first = process.growing.plan()
    process.growing.propose(pa.struct({"z": JSON}))
    assert process.growing.plan().fingerprint != first.fingerprint
    intent = Intent(0, 2, first.fingerprint, "other", 0.0, ROOT)
    server.put(KEY, b"0", intent, "id-of-clicks+")
    log.say(*[json_of(a=1)] * 9)
    crash(process)
    process.run()
    assert process.batches() == [(0, 2, "a"), (2, 12, "a")]
    log.say(json_of(z=[1]), *[json_of(a=1)] * 10)
    process.run()
    assert process.batches() == [(0, 2, "a"), (2, 12, "a"), (12, 23, "a,z")]
    assert process.kept.versions() == [1, 2]


def test_a_batch_begun_under_another_configuration_grows_and_ends_where_it_has_to(
    process: Growing, log: FakeLog, server: LedgerServer
) -> None:
    log.say(*[json_of(a=1)] * 3, *[json_of(b=1)] * 9)
    intent = Intent(0, 5, "another", "other", 0.0, "elsewhere/clicks")
    server.put(KEY, b"0", intent, "id-of-clicks+")
    process.run(80, seconds=1.0)  # it supersedes, so the first commit waits
    process.consumer.drain()
    process.run()
    assert process.batches() == [(0, 5, "a,b"), (5, 12, "a,b")]
    assert process.offsets(DATA) == list(range(12))


def test_a_store_that_does_not_answer_keeps_the_growth_waiting(
    process: Growing, log: FakeLog, server: LedgerServer
) -> None:
    log.say(*[json_of(a=1)] * 3)
    process.run()
    down = True

    def before(call: str, key: str) -> None:
        if down and "_schema" in key:
            raise Unavailable("down")

    process.store.before = before
    log.say(*[json_of(b=1)] * 10)
    process.run(seconds=1.0)
    assert server.entry(KEY).committed == 3
    down = False
    process.run(seconds=1.0)
    assert process.offsets(DATA) == list(range(13))
    assert process.kept.versions() == [1, 2]


def test_a_schema_that_cannot_be_read_stops_the_partition_until_it_is_mended(
    process: Growing, log: FakeLog, tmp_path: Path
) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"")
    process.store.put(process.kept.key(1), body, 0, {})
    log.say(json_of(a=1))
    process.run()
    assert process.state() is ReadingState.STOPPED
    process.store.delete(process.kept.key(1))
    process.run(seconds=10.0)
    assert process.state() is ReadingState.READING


def test_a_full_disk_where_the_batch_ends_loses_nothing(
    process: Growing, log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.say(*[json_of(a=1)] * 3, *[json_of(b=1)] * 9)
    create = process.workspace.create
    full = iter([True])

    def fail() -> object:
        if next(full, False):
            raise DiskFull("no room")
        return create()

    monkeypatch.setattr(process.workspace, "create", fail)
    process.run(seconds=1.0)
    assert process.offsets(DATA) == list(range(12))


def test_the_policy_of_the_plan_that_is_found_is_what_counts_at_the_end(
    process: Growing, log: FakeLog
) -> None:
    growing = process.plans
    process.plans = lambda *asked: replace(growing(*asked), upload_on_shutdown=False)
    log.say(json_of(a=1), json_of(a=1))
    process.run()
    process.consumer.drain()
    process.run()
    assert process.consumer.drained
    assert process.batches() == []
