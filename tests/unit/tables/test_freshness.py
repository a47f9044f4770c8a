"""What others change of a table is taken over, at the end of a batch."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from secor.core.errors import SchemaGrew, SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.tables.catalog import AddColumn, NewTable, Table
from secor.tables.freshness import PATIENCE, Freshness, RefreshThread
from tests.fakes.clock import FakeClock
from tests.unit.tables.worker_world import WorkerWorld, chunk_of

FLIGHTS = TopicPartition("flights", 0)
UUID = frozenset({"uuid"})


def test_a_partition_is_interrupted_once_and_again_after_a_while() -> None:
    clock = FakeClock()
    freshness = Freshness(clock)
    assert not freshness.interrupts(FLIGHTS, "old", UUID)
    freshness.show("new", UUID)
    assert not freshness.interrupts(FLIGHTS, "new", UUID)
    assert freshness.interrupts(FLIGHTS, "old", UUID)
    assert freshness.interrupts(TopicPartition("flights", 1), "old", UUID)
    assert not freshness.interrupts(FLIGHTS, "old", UUID), "it follows an open intent"
    clock.advance(PATIENCE)
    assert freshness.interrupts(FLIGHTS, "old", UUID)


def test_a_batch_for_a_table_that_is_gone_ends_at_once() -> None:
    freshness = Freshness(FakeClock())
    freshness.show("changed", UUID)
    assert freshness.interrupts(FLIGHTS, "old", UUID)
    freshness.show("made again", frozenset({"another"}))
    assert freshness.interrupts(FLIGHTS, "changed", UUID)
    freshness.show("missing", frozenset())
    assert freshness.interrupts(FLIGHTS, "made again", frozenset({"another"}))


def test_a_column_that_somebody_adds_is_filled_from_the_next_batch_on(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    schema = pa.schema([pa.field("id", pa.int64())])
    table = world.catalog.create_table("db.flights", NewTable(schema))
    batch = world.open(world.plans("flights", None), 0)
    batch.append(chunk_of([{"id": 1, "new": 1}], FLIGHTS))
    world.catalog.update_schema(table, [AddColumn(("new",), pa.int64())])
    batch.append(chunk_of([{"id": 2, "new": 2}], FLIGHTS, 1))
    for refresh in world.plans._refreshes():
        refresh()
    with pytest.raises(SchemaGrew) as raised:
        batch.append(chunk_of([{"id": 3, "new": 3}], FLIGHTS, 2))
    assert raised.value.offset == 2
    world.offset = 2
    world.write({"id": 3, "new": 3})
    assert world.rows() == [{"id": 3, "new": 3}]


def test_a_partition_spec_that_somebody_changes_is_followed(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    schema = pa.schema([pa.field("id", pa.int64())])
    world.catalog.create_table("db.flights", NewTable(schema))
    first = world.stage({"id": 1})
    with world.catalog.library.load_table("db.flights").update_spec() as update:
        update.add_field("id", "bucket[4]", "id_bucket")
    second = world.stage({"id": 2})
    world.commit([*first, *second])
    assert [it.tables[0].spec_id for it in (*first, *second)] == [0, 1]
    assert sorted(row["id"] for row in world.rows()) == [1, 2]


def test_the_thread_looks_again_whatever_one_look_met() -> None:
    looked, told = threading.Event(), list[SecorError]()

    def fail() -> None:
        raise Unavailable("no answer")

    thread = RefreshThread(lambda: [fail, looked.set], told.append, interval=0.001)
    assert looked.wait(60)
    thread.close()
    assert str(told[0]) == "no answer"


def test_partitions_that_ask_while_a_table_is_looked_at_share_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    schema = pa.schema([pa.field("id", pa.int64())])
    table = world.catalog.create_table("db.flights", NewTable(schema))
    world.plans("flights", None)
    (topic,) = vars(world.plans)["_topics"].values()
    before, partitions = vars(topic)["_asked"], 20
    load, loads, all_asked = world.catalog.load_table, [], threading.Event()

    def load_slowly(name: str) -> Table:
        loaded = load(name)
        if threading.current_thread() is not threading.main_thread():
            loads.append(name)
            assert all_asked.wait(60)
        return loaded

    monkeypatch.setattr(world.catalog, "load_table", load_slowly)
    with ThreadPoolExecutor(partitions) as pool:
        asked = [pool.submit(world.plans, "flights", None) for _ in range(partitions)]
        while vars(topic)["_asked"] < before + partitions:
            threading.Event().wait(0.01)
        world.catalog.update_schema(table, [AddColumn(("new",), pa.int64())])
        all_asked.set()
        fingerprints = [plan.result().fingerprint for plan in asked]
    assert len(loads) == 2, "what the first one sees may be older than the others' questions"
    assert len(set(fingerprints)) == 2
    assert fingerprints.count(world.plans("flights", None).fingerprint) == partitions - 1
