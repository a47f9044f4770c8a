"""Schemas of the registry that a backup has kept, compared and registered at the target's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from secor.archive.cluster_journal import ClusterJournal, kept_clusters
from secor.config.cluster import Registry
from secor.core.ports import ObjectStore
from secor.core.text import how_many
from secor.parsing.registry_recovery import (
    RegistryComparison,
    RegistryState,
    compare_registries,
    register,
    state_of,
)
from secor.restore.recovery import KindState
from secor.restore.schema_ids import SchemaIds, framed_by
from secor.wiring.cluster_keeper import registry_server

KIND = "schemas"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class KeptRegistry:
    """The schemas of one registry; ``name`` None where none was kept, ``state`` None of then."""

    name: str | None
    state: RegistryState | None
    others: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def subjects(self) -> frozenset[str]:
        """The kept subjects."""
        versions = () if self.state is None else self.state.versions
        return frozenset(subject for subject, _ in versions)


def kept_registry(
    store: ObjectStore, prefix: str, registry: Registry, until: float | None
) -> KeptRegistry:
    """Return what was kept of the registry with the target's name, or else of the newest one."""
    newest = {
        unquote(cluster): minute for cluster, minute in kept_clusters(store, prefix, KIND).items()
    }
    own = urlsplit(registry.url or "").netloc
    # The new registry mostly has another address: then what was kept last is the lost one's.
    latest = max(newest, key=lambda server: newest[server], default=None)
    name = own if own in newest else latest
    if name is None:
        return KeptRegistry(None, None)
    others = tuple(sorted(newest.keys() - {name}))
    state = ClusterJournal(store, prefix, KIND, name).state(until)
    if state.minute is None:
        return KeptRegistry(name, None, others)
    items = RegistryState.of(iter(state.contents()))
    return KeptRegistry(name, items, others, state.damaged)


def look_at_schemas(
    kept: KeptRegistry, registry: Registry, undecided: Sequence[str] = ()
) -> KindState | None:
    """Compare the registries; None where there is none in the file and none was kept.

    ``undecided`` are topics with messages that may have ids or not.
    """
    return _state(kept, registry, undecided, apply=False)


def register_schemas(
    kept: KeptRegistry, registry: Registry, undecided: Sequence[str] = ()
) -> KindState | None:
    """Register what is missing; nothing where ids change, and ``undecided`` topics are left."""
    return _state(kept, registry, undecided, apply=True)


def schema_ids(kept: KeptRegistry, registry: Registry, framed: str | None) -> SchemaIds | None:
    """Return what becomes of ids in messages; None where each schema has its id, or none is known.

    ``framed`` is an expression about the names of parts that begin with ids, such as
    ``orders-value``, besides those that are subjects.
    """
    if kept.state is None or registry.url is None:
        return None
    compared = compare_registries(kept.state, state_of(registry_server(registry)))
    # While some are missing their ids are not known: what is written now could name a wrong schema.
    if not compared.ids or compared.missing:
        return None
    chosen = re.compile("(?!)" if framed is None else framed)
    return SchemaIds(
        compared.ids,
        frozenset(version.schema_id for version in kept.state.versions.values()),
        framed_by(kept.subjects, lambda part: chosen.fullmatch(part) is not None),
    )


def _state(
    kept: KeptRegistry, registry: Registry, undecided: Sequence[str], *, apply: bool
) -> KindState | None:
    if kept.name is None and registry.url is None:
        return None
    if kept.state is None:
        what = (
            "nothing is kept of a schema registry"
            + (f" ({kept.name}) at that time" if kept.name else "")
            + ': leave registry.url out, or put "schemas" into recover.leave_out'
        )
        return KindState(KIND, 0, 0, (what,), (), is_kept=False)
    total = len(kept.state.versions)
    if registry.url is None:
        what = (
            f"{how_many(total, 'version')} of registry {kept.name} are kept: give the new"
            ' registry\'s address as registry.url, or put "schemas" into recover.leave_out'
        )
        return KindState(KIND, total, 0, (what,))
    server = registry_server(registry)
    compared = compare_registries(kept.state, state_of(server))
    refused: list[str] = []
    # Before anything is registered: once ids are given, messages with others must change, and which
    # ones begin with an id nobody has said.
    if compared.ids and undecided:
        return _of(kept, compared, [_which_have_ids(undecided)])
    # In rounds, for a schema can be registered only after those that it refers to, and the new
    # registry's answer is the only order that counts.
    while apply and not refused and (compared.missing or compared.levels):
        before = len(compared.missing)
        refused = register(server, compared)
        compared = compare_registries(kept.state, state_of(server))
        if before == len(compared.missing):
            break  # Someone else changes it, or it takes what it does not keep.
    return _of(kept, compared, refused)


def _which_have_ids(topics: Sequence[str]) -> str:
    named = ", ".join(topics[:_NAMED]) + (", …" if len(topics) > _NAMED else "")
    return (
        f"ids are taken there, so that those in messages must change, and {named} have no subject"
        f" that says whether they begin with ids: set recover.framed to an expression for the parts"
        f' that do, such as "{topics[0]}-value", or "-" if none does'
    )


def _of(kept: KeptRegistry, compared: RegistryComparison, refused: list[str]) -> KindState:
    notes = [f"of registry {kept.name}", *compared.notes]
    if kept.others:
        notes.append(f"also kept: {', '.join(kept.others)}; the name of registry.url chooses")
    damaged = [
        f"{key} cannot be read and is left out: bring a good copy back" for key in kept.damaged
    ]
    # A compatibility that is to be set counts as one more thing to do.
    total = compared.total + len(compared.levels)
    done = compared.total - len(compared.missing)
    state = KindState(KIND, total, done, tuple(refused), tuple(notes))
    return replace(state, obstacles=(*state.obstacles, *damaged))
