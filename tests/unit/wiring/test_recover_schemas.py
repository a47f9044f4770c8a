"""Schemas of a lost registry, registered at another one under their ids."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from secor.archive.cluster_journal import ClusterJournal
from secor.config.cluster import Registry as Settings
from secor.parsing.registry_content import registry_content
from secor.parsing.registry_server import Credentials, RegistryServer
from secor.restore.recovery import KindState
from secor.wiring.recover_schemas import (
    KeptRegistry,
    kept_registry,
    look_at_schemas,
    register_schemas,
)
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


def test_an_id_that_is_taken_is_refused_by_name_and_nothing_is_changed(
    kept: KeptRegistry, target: Registry
) -> None:
    target.register(12, MONEY, subject="others")
    found = state(register_schemas(kept, settings(target)))
    assert not found.is_complete
    (conflict,) = found.obstacles
    assert "id 12 of orders-value version 3 is taken there by others version 1" in conflict
    assert "does not change the ids in messages" in conflict
    assert list(target.subjects) == [("others", 1)]


def test_a_version_that_is_another_schema_is_refused_by_name(
    kept: KeptRegistry, target: Registry
) -> None:
    target.register(77, MONEY, subject="money", version=2)
    (conflict,) = state(look_at_schemas(kept, settings(target))).obstacles
    assert "money version 2 is another schema there (id 77, was 9)" in conflict


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
