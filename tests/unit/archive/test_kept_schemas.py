"""Schemas kept with the objects: how they come there, and which plan is whose."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c

from secor.archive.kept_schemas import MOST_VERSIONS, GrowingPlans, KeptSchema, KeptSchemas
from secor.batch.plan import TopicPlan
from secor.batch.policy import Policy
from secor.core.errors import OutcomeUnknown, SchemaLost, SecorError, Unavailable
from secor.core.naming import parse_key
from secor.core.ports import ObjectStore
from secor.parsing.offset_layout import OffsetBuckets
from secor.schema.growth import Propose, changes, grow_schema
from secor.schema.new_columns import NOTHING
from tests.fakes.format import PlainFormat
from tests.fakes.store import FakeStore

A = pa.struct({"a": pa.int64()})
WIDE = pa.struct({"a": pa.float64()})
B = pa.struct({"b": pa.string()})
ROOT = "p/clicks"


class Process:
    """One process that plans for the topic; what it told, and the plans that it made."""

    def __init__(self, store: ObjectStore, generation: int = 1) -> None:
        self.kept = KeptSchemas(store, ROOT, generation)
        self.told: list[tuple[int, list[str]]] = []
        self.made: list[int] = []
        self.grows: list[bool] = []
        self.plans = GrowingPlans(self.kept, self._make, lambda *told: self.told.append(told[:2]))

    def _make(self, schema: KeptSchema, propose: Propose | None) -> TopicPlan:
        self.made.append(schema.version)
        self.grows.append(propose is not None)
        identity = schema.rows.identity
        return TopicPlan("g", ROOT, 1, OffsetBuckets(10), PlainFormat(identity), Policy())

    def grow(self, *proposals: pa.StructType) -> KeptSchema:
        for proposal in proposals:
            self.plans.propose(grow_schema(self.kept.newest().fields, proposal))
        self.plans.plan()
        return self.kept.newest()


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def test_before_anything_is_known_there_is_version_0_without_fields(store: FakeStore) -> None:
    process = Process(store)
    process.plans.plan()
    assert process.made == [0]
    assert process.kept.newest() == KeptSchema()
    assert not store.objects


def test_what_is_proposed_is_the_next_version_and_told(store: FakeStore) -> None:
    process = Process(store)
    assert process.grow(A) == KeptSchema(1, A)
    assert process.grow(WIDE, B) == KeptSchema(2, grow_schema(WIDE, B))
    assert process.told == [(1, ["a (int64)"]), (2, ["a (int64 to double)", "b (string)"])]
    assert process.made == [1, 2]
    assert list(store.objects) == ["p/_schema/clicks/1_0001.json", "p/_schema/clicks/1_0002.json"]
    assert json.loads(store.content("p/_schema/clicks/1_0001.json")) == {
        "fields": [{"name": "a", "type": "int64"}]
    }
    assert store.head("p/_schema/clicks/1_0001.json").metadata == {
        "generation": "1",
        "schema-version": "1",
    }
    assert process.grow() == KeptSchema(2, grow_schema(WIDE, B))


def test_a_kept_schema_is_not_taken_for_an_object_of_messages(store: FakeStore) -> None:
    key = Process(store).kept.key(7)
    assert parse_key(ROOT, key) is None


def test_what_the_newest_version_has_is_not_added_again(store: FakeStore) -> None:
    one, two = Process(store), Process(store)
    one.grow(WIDE)
    two.plans.propose(A)
    two.plans.plan()
    assert two.made == [1]
    assert len(store.objects) == 1


@pytest.mark.parametrize(("theirs", "versions"), [(A, 1), (B, 2)])
def test_of_two_that_grow_at_once_the_second_follows_the_first(
    store: FakeStore, theirs: pa.StructType, versions: int
) -> None:
    one, two = Process(store), Process(store)

    def first(call: str, _: str) -> None:
        if call == "put":
            store.before = lambda *_: None
            two.grow(theirs)

    store.before = first
    found = one.grow(A)
    assert found.version == versions
    assert found.fields == grow_schema(theirs, A)
    assert two.told == [(1, changes(NOTHING, theirs))]
    assert one.told == ([(2, ["a (int64)"])] if versions == 2 else [])


def test_many_threads_that_grow_at_once_lose_nothing(store: FakeStore) -> None:
    processes = [Process(store) for _ in range(4)]
    fields = [pa.struct({f"f{at}": pa.int64()}) for at in range(16)]

    def work(at: int) -> None:
        process = processes[at % len(processes)]
        process.plans.propose(fields[at])
        process.plans.plan()

    threads = [threading.Thread(target=work, args=[at]) for at in range(len(fields))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    newest = processes[0].kept.newest()
    assert sorted(newest.fields.names) == sorted(f"f{at}" for at in range(16))
    assert processes[0].kept.versions() == list(range(1, newest.version + 1))
    for version in range(1, newest.version):
        before, after = (processes[0].kept.read(at).fields for at in (version, version + 1))
        assert grow_schema(before, after) == after


@pytest.mark.parametrize(("phase", "error"), [("before", Unavailable), ("after", OutcomeUnknown)])
def test_a_proposal_stays_until_it_is_kept(
    store: FakeStore, phase: str, error: Callable[[str], SecorError]
) -> None:
    process = Process(store)

    def fail(call: str, key: str) -> None:
        if call == "put":
            setattr(store, phase, lambda *_: None)
            raise error(key)

    setattr(store, phase, fail)
    process.plans.propose(A)
    with pytest.raises(type(error("x"))):
        process.plans.plan()
    process.plans.plan()
    assert process.kept.newest() == KeptSchema(1, A)
    assert len(store.objects) == 1


def test_a_version_that_is_there_and_not_listed_is_waited_for(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    Process(store).grow(A)
    process = Process(store)
    monkeypatch.setattr(KeptSchemas, "_listed", lambda _: iter(()))
    process.plans.propose(B)
    with pytest.raises(Unavailable, match="1_0001"):
        process.plans.plan()


def test_the_plan_of_a_fingerprint_is_found_among_all_versions(store: FakeStore) -> None:
    process = Process(store)
    first = process.plans.plan()
    process.grow(A)
    second = process.plans.plan()
    process.grow(B)
    newest = Process(store).plans.plan()
    other = Process(store)
    for plan in (first, second, newest):
        assert other.plans.plan(plan.fingerprint).fingerprint == plan.fingerprint
        # An intent of the version before settles under the schema that its range was cut for.
        assert other.plans.plan(plan.earlier_fingerprint).fingerprint == plan.fingerprint
    assert other.plans.plan("another").fingerprint == newest.fingerprint
    assert len({first.fingerprint, second.fingerprint, newest.fingerprint}) == 3


def test_earlier_versions_that_are_gone_are_passed_over(store: FakeStore) -> None:
    process = Process(store)
    before = process.plans.plan()
    process.grow(A)
    lost = process.plans.plan()
    process.grow(B)
    newest = process.plans.plan()
    store.delete(process.kept.key(1))
    other = Process(store)
    assert other.plans.plan(before.fingerprint).fingerprint == before.fingerprint
    assert other.plans.plan(lost.fingerprint).fingerprint == newest.fingerprint


def test_generations_and_other_files_do_not_meet(store: FakeStore, tmp_path: Path) -> None:
    for name in ("1_12.json", "1_00001.json", "x_0001.json", "1_0001.json.bak", "11_0003.json"):
        path = tmp_path / name
        path.write_bytes(b"")
        store.put(f"p/_schema/clicks/{name}", path, 0, {})
    one, two = Process(store, generation=1), Process(store, generation=2)
    assert one.kept.versions() == two.kept.versions() == []
    one.grow(A)
    assert two.kept.newest().version == 0
    two.grow(B)
    assert one.kept.newest().fields == A


def test_versions_that_an_earlier_secor_put_below_the_topic_go_on_there(
    store: FakeStore, tmp_path: Path
) -> None:
    body = tmp_path / "body"
    body.write_text(KeptSchema(1, A).rows.describe())
    store.put(f"{ROOT}/_schema/1_0001.json", body, crc32c(body.read_bytes()), {})
    process = Process(store)
    assert process.kept.newest() == KeptSchema(1, A)
    assert process.grow(B) == KeptSchema(2, grow_schema(A, B))
    assert list(store.objects) == [f"{ROOT}/_schema/1_0001.json", f"{ROOT}/_schema/1_0002.json"]
    Process(store, generation=2).grow(B)
    assert list(store.objects)[2:] == ["p/_schema/clicks/2_0001.json"]


def test_there_is_an_end_of_versions(store: FakeStore) -> None:
    process = Process(store)
    for version in range(1, MOST_VERSIONS + 1):
        process.kept.add(KeptSchema(version, A))
    process.plans.propose(B)
    process.plans.plan()
    assert process.kept.newest() == KeptSchema(MOST_VERSIONS, A)
    assert process.grows == [False]


def test_a_schema_that_cannot_be_read_stops_and_is_named(store: FakeStore, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"")
    store.put("p/_schema/clicks/1_0002.json", body, 0, {})
    process = Process(store)
    with pytest.raises(SchemaLost, match=r"^p/_schema/clicks/1_0002\.json: is no JSON.*a copy"):
        process.plans.plan()
    with pytest.raises(SchemaLost, match=r"1_0001\.json: .* is gone"):
        process.kept.read(1)
