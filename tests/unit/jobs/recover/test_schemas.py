"""Schemas of a lost registry, registered at another one under their ids."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from secor.archive.cluster_journal import ClusterJournal
from secor.config.cluster import Registry as Settings
from secor.jobs.recover.schemas import (
    KeptRegistry,
    kept_registry,
    look_at_schemas,
    register_schemas,
    schema_ids,
)
from secor.parsing.registry_content import registry_content
from secor.parsing.registry_server import Credentials, RegistryServer
from secor.restore.recovery import KindState
from tests.fakes.registry import Registry, running_registry
from tests.fakes.store import FakeStore

MONEY, ORDER = '{"type": "string"}', '{"type": "long"}'
LATER = '{"type": "double"}'


@pytest.fixture
def target() -> Iterator[Registry]:
    with running_registry() as registry:
        yield registry


@pytest.fixture
def kept() -> KeptRegistry:
    """Keep a registry with references, ids with gaps, and a version that was deleted."""
    store = FakeStore()
    with running_registry() as lost:
        lost.register(9, MONEY, subject="money", version=2)
        named = [{"name": "money", "subject": "money", "version": 2}]
        lost.register(3, ORDER, subject="orders-value", references=named)
        lost.register(12, LATER, subject="orders-value", version=3, kind="JSON")
        lost.deleted.add(("orders-value", 1))
        lost.compatibility["money"] = "FULL"
        server = RegistryServer(lost.url, Credentials())
        journal = ClusterJournal(store, "backup", "schemas", urlsplit(lost.url).netloc)
        journal.append(lambda: list(registry_content(server)), lambda: 2_000_000.0)
    return kept_registry(store, "backup", Settings(), None)


def settings(registry: Registry) -> Settings:
    return Settings(url=registry.url)


def state(found: KindState | None) -> KindState:
    assert found is not None
    return found


def test_an_empty_registry_gets_the_ids_that_were(kept: KeptRegistry, target: Registry) -> None:
    assert state(look_at_schemas(kept, settings(target))).left == 3 + 1, "and a compatibility"
    assert target.subjects == {}
    done = state(register_schemas(kept, settings(target)))
    assert done.is_complete, done.obstacles
    assert {place: it["id"] for place, it in target.subjects.items()} == {
        ("money", 2): 9,
        ("orders-value", 1): 3,
        ("orders-value", 3): 12,
    }
    posted = [it for it in target.requests if it.startswith("POST")]
    assert posted[0] == "POST /subjects/money/versions", "what is referenced comes first"
    assert target.schemas[12]["schemaType"] == "JSON"
    assert target.schemas[3]["references"][0]["name"] == "money"
    assert target.deleted == {("orders-value", 1)}
    assert target.compatibility["money"] == "FULL"
    assert target.modes == {}
    requests = len(target.requests)
    assert state(register_schemas(kept, settings(target))).is_complete
    assert not any(it.startswith(("P", "D")) for it in target.requests[requests:])


def test_it_goes_on_where_it_was_interrupted(kept: KeptRegistry, target: Registry) -> None:
    target.register(3, ORDER, subject="orders-value", references=[])
    target.subjects["orders-value", 1]["references"] = [
        {"name": "money", "subject": "money", "version": 2}
    ]
    target.modes["orders-value"] = "IMPORT"
    assert state(register_schemas(kept, settings(target))).is_complete
    assert target.modes == {}


def test_an_id_that_is_taken_is_another_one_there(kept: KeptRegistry, target: Registry) -> None:
    target.register(12, '"bytes"', subject="others")
    planned = state(look_at_schemas(kept, settings(target)))
    assert "1 id of schemas change, in messages too: 12 is 13" in planned.notes
    done = state(register_schemas(kept, settings(target)))
    assert done.is_complete, done.obstacles
    assert target.subjects["orders-value", 3]["id"] == 13
    assert target.subjects["orders-value", 1]["id"] == 3
    assert target.subjects["others", 1]["schema"] == '"bytes"'
    ids = schema_ids(kept, settings(target), None)
    assert ids is not None
    assert ids.new == {12: 13}
    assert ids.known == {3, 9, 12}
    assert ids.is_framed("orders-value")
    assert not ids.is_framed("orders-key")


def test_a_schema_that_the_registry_has_under_another_id_keeps_that(
    kept: KeptRegistry, target: Registry
) -> None:
    target.register(12, '"bytes"', subject="others")
    target.register(40, LATER, subject="others", version=2, kind="JSON")
    assert state(register_schemas(kept, settings(target))).is_complete
    ids = schema_ids(kept, settings(target), None)
    assert ids is not None
    assert ids.new == {12: 40}


def test_versions_come_behind_others_of_their_subject_and_references_follow(
    kept: KeptRegistry, target: Registry
) -> None:
    target.register(77, '"bytes"', subject="money", version=2)
    target.register(3, '"int"', subject="others")
    done = state(register_schemas(kept, settings(target)))
    assert done.is_complete, done.obstacles
    assert target.subjects["money", 3]["schema"] == MONEY
    (reference,) = target.subjects["orders-value", 1]["references"]
    assert reference == {"name": "money", "subject": "money", "version": 3}
    ids = schema_ids(kept, settings(target), None)
    assert ids is not None
    assert ids.new == {9: 78, 3: target.subjects["orders-value", 1]["id"]}


def test_a_schema_that_is_incompatible_there_is_refused_by_name(
    kept: KeptRegistry, target: Registry
) -> None:
    target.register(77, '"bytes"', subject="money")
    target.incompatible = True
    found = state(register_schemas(kept, settings(target)))
    assert "incompatible with an earlier one of money" in found.obstacles[0]
    assert schema_ids(kept, settings(target), None) is None


def test_where_ids_change_topics_without_a_subject_are_asked_for(
    kept: KeptRegistry, target: Registry
) -> None:
    assert state(look_at_schemas(kept, settings(target), ["dead"])).obstacles == ()
    target.register(12, '"bytes"', subject="others")
    found = state(register_schemas(kept, settings(target), ["dead"]))
    assert "dead have no subject" in found.obstacles[0]
    assert list(target.subjects) == [("others", 1)]
    assert state(register_schemas(kept, settings(target))).is_complete
    ids = schema_ids(kept, settings(target), "dead-(key|value)")
    assert ids is not None
    assert ids.is_framed("dead-key")


def test_the_same_content_laid_out_otherwise_is_the_same(
    kept: KeptRegistry, target: Registry
) -> None:
    target.register(9, '{ "type" : "string" }', subject="money", version=2)
    found = state(look_at_schemas(kept, settings(target)))
    assert (found.obstacles, found.left) == ((), 2 + 1)


def test_other_subjects_stay_and_keep_their_compatibility(
    kept: KeptRegistry, target: Registry
) -> None:
    target.register(50, LATER, subject="others")
    target.compatibility[""] = "NONE"
    done = state(register_schemas(kept, settings(target)))
    assert done.is_complete
    assert target.compatibility[""] == "NONE"
    assert any("1 further subject, which stay" in it for it in done.notes)


def test_a_registry_that_takes_no_ids_is_told(kept: KeptRegistry, target: Registry) -> None:
    target.takes_ids = False
    found = state(register_schemas(kept, settings(target)))
    assert (found.left, len(found.obstacles)) == (3 + 1, 2)
    assert "answered 405" in found.obstacles[0]


def test_what_is_kept_needs_an_address_and_what_is_not_kept_is_told(
    kept: KeptRegistry, target: Registry
) -> None:
    assert "registry.url" in state(look_at_schemas(kept, Settings())).obstacles[0]
    nothing = KeptRegistry(None, None)
    assert look_at_schemas(nothing, Settings()) is None
    assert not state(look_at_schemas(nothing, settings(target))).is_complete
