"""Schemas of the registry that a backup has kept, compared and registered at the target's."""

from __future__ import annotations

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
from secor.wiring.cluster_keeper import registry_server

KIND = "schemas"


@dataclass(frozen=True, slots=True)
class KeptRegistry:
    """The schemas of one registry; ``name`` None where none was kept, ``state`` None of then."""

    name: str | None
    state: RegistryState | None
    others: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


def kept_registry(
    store: ObjectStore, prefix: str, registry: Registry, until: float | None
) -> KeptRegistry:
    """Return what was kept of the registry with the target's name, or else of the newest one."""
    newest = {unquote(it): minute for it, minute in kept_clusters(store, prefix, KIND).items()}
    own = urlsplit(registry.url or "").netloc
    name = own if own in newest else max(newest, key=lambda commit: newest[commit], default=None)
    if name is None:
        return KeptRegistry(None, None)
    others = tuple(sorted(newest.keys() - {name}))
    state = ClusterJournal(store, prefix, KIND, name).state(until)
    if state.minute is None:
        return KeptRegistry(name, None, others)
    items = RegistryState.of(iter(state.contents()))
    return KeptRegistry(name, items, others, state.damaged)


def look_at_schemas(kept: KeptRegistry, registry: Registry) -> KindState | None:
    """Compare the registries; None where there is none in the file and none was kept."""
    return _state(kept, registry, apply=False)


def register_schemas(kept: KeptRegistry, registry: Registry) -> KindState | None:
    """Register what is missing, unless ids are taken by other schemas; nothing is done then."""
    return _state(kept, registry, apply=True)


def _state(kept: KeptRegistry, registry: Registry, *, apply: bool) -> KindState | None:
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
    if apply and not compared.conflicts and (compared.missing or compared.levels):
        refused = register(server, compared)
        compared = compare_registries(kept.state, state_of(server))
    return _of(kept, compared, refused)


def _of(kept: KeptRegistry, compared: RegistryComparison, refused: list[str]) -> KindState:
    notes = [f"of registry {kept.name}", *compared.notes]
    if kept.others:
        notes.append(f"also kept: {', '.join(kept.others)}; the name of registry.url chooses")
    obstacles = [*compared.conflicts, *refused]
    damaged = [
        f"{it} cannot be read and is left out: bring a good copy back" for it in kept.damaged
    ]
    # A compatibility that is to be set counts as one more thing to do.
    total = compared.total + len(compared.levels)
    done = compared.total - len(compared.missing) - len(compared.conflicts)
    state = KindState(KIND, total, done, tuple(obstacles), tuple(notes))
    return replace(state, obstacles=(*state.obstacles, *damaged))
