"""Schemas of a lost registry, compared with another one and registered there.

A registry takes ids and versions from outside for a subject in the mode IMPORT, which it allows
while the subject is empty.  Source:
https://docs.confluent.io/platform/current/schema-registry/develop/api.html#mode
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from secor.core.errors import CorruptFile, NotFound, Unavailable
from secor.core.text import how_many, load_json
from secor.parsing.registry_content import GLOBAL, registry_content
from secor.parsing.registry_server import RegistryServer

Place = tuple[str, int]
"""A subject and a version."""

_IMPORT = "IMPORT"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a subject; ``deleted`` softly: messages may still have its id."""

    subject: str
    version: int
    schema_id: int
    kind: str
    schema: str
    references: tuple[Mapping[str, Any], ...]
    deleted: bool

    @property
    def place(self) -> Place:
        """The subject and the version."""
        return self.subject, self.version

    def means(self, other: SchemaVersion) -> bool:
        """Tell whether it is the same schema, however its text is laid out."""
        return self.meaning == other.meaning

    @property
    def meaning(self) -> tuple[str, str, str]:
        """Its text and the schemas that it is about, as it can be compared."""
        references = sorted(
            (reference["name"], reference["subject"], reference["version"])
            for reference in self.references
        )
        text = self.schema
        if self.kind == "PROTOBUF":
            text = " ".join(text.split())
        else:
            with suppress(ValueError):
                text = json.dumps(load_json(text))
        return self.kind, text, repr(references)


@dataclass(frozen=True, slots=True)
class RegistryState:
    """All versions of a registry, and the compatibility of subjects; ``GLOBAL`` for the others."""

    versions: Mapping[Place, SchemaVersion]
    compatibility: Mapping[str, str]

    @classmethod
    def of(cls, items: Iterator[tuple[str, Any]]) -> RegistryState:
        """Read what ``registry_content`` gives.  Raises ``CorruptFile``."""
        versions: dict[Place, SchemaVersion] = {}
        compatibility: dict[str, str] = {}
        for subject, content in items:
            try:
                if content.get("compatibility"):
                    compatibility[subject] = str(content["compatibility"])
                for number, fields in content.get("versions", {}).items():
                    version = SchemaVersion(
                        subject,
                        int(number),
                        int(fields["id"]),
                        str(fields["type"]),
                        str(fields["schema"]),
                        tuple(fields.get("references", ())),
                        bool(fields.get("deleted")),
                    )
                    versions[version.place] = version
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise CorruptFile(f"kept subject {subject}: is none ({error!r})") from error
        return cls(versions, compatibility)


@dataclass(frozen=True, slots=True)
class RegistryComparison:
    """The registry compared with what was kept: ``missing`` are in the order of registering.

    ``ids`` are those of kept schemas that have another one there; ``appended`` are the subjects
    that have other versions there, behind which the kept ones come.
    """

    total: int
    missing: tuple[SchemaVersion, ...]
    levels: Mapping[str, str]
    """Compatibility that is to be set, by subject."""
    ids: Mapping[int, int]
    appended: frozenset[str]
    notes: tuple[str, ...]


def compare_registries(kept: RegistryState, present: RegistryState) -> RegistryComparison:
    """Compare what was kept with what a registry has, and choose ids for what is missing.

    A kept schema that is there in its subject under another id or version is there; a missing
    one keeps its id unless that is taken by another schema.
    """
    owners = {version.schema_id: version for version in present.versions.values()}
    places: dict[Place, Place] = {}
    missing: list[SchemaVersion] = []
    ids_there: dict[int, set[int]] = {}
    for kept_version in _referenced_first(list(kept.versions.values())):
        # What it refers to has been looked at before (_referenced_first), so its number there is
        # known.
        wanted = _with_references_at(kept_version, places)
        there = _same_schema(wanted, present)
        if there is None:
            missing.append(wanted)
        else:
            places[kept_version.place] = there.place
            ids_there.setdefault(kept_version.schema_id, set()).add(there.schema_id)
    taken = {
        kept_version.schema_id: kept_version
        for kept_version in missing
        # An id means one schema in all subjects of a registry, so a missing version cannot have one
        # that another schema has.
        if not _is_free(kept_version, owners) and kept_version.schema_id not in ids_there
    }
    # A registry gives a schema that it knows the id that it has already, whatever the subject.
    by_meaning = {version.meaning: version.schema_id for version in present.versions.values()}
    # Above the kept ids, too: else a new id could be that of another kept schema, and its messages
    # would be decoded by the wrong one.
    highest = max(
        [*owners, *(kept_version.schema_id for kept_version in kept.versions.values())], default=0
    )
    chosen = {
        old: by_meaning.get(taken[old].meaning, highest + 1 + place)
        for place, old in enumerate(sorted(taken))
    }
    # The same schema may be in several subjects, and its id is one of theirs.
    chosen |= {old: old if old in ids else min(ids) for old, ids in ids_there.items()}
    missing = [
        replace(kept_version, schema_id=chosen.get(kept_version.schema_id, kept_version.schema_id))
        for kept_version in missing
    ]
    further = {place for place in present.versions if place not in places.values()}
    appended = {subject for subject, _ in further}.intersection(
        kept_version.subject for kept_version in missing
    )
    ids = {old: new for old, new in chosen.items() if old != new}
    others = {subject for subject, _ in present.versions.keys() - kept.versions.keys()}
    notes = list(_notes(others, ids, appended))
    levels = {
        subject: level
        for subject, level in kept.compatibility.items()
        if present.compatibility.get(subject) != level
    }
    if others and GLOBAL in levels:
        # It would change what the others may do.
        notes.append(f"its compatibility of all subjects stays; the kept one is {levels[GLOBAL]}")
        del levels[GLOBAL]
    return RegistryComparison(
        len(kept.versions), tuple(missing), levels, ids, frozenset(appended), tuple(notes)
    )


def _notes(
    others: Collection[str], ids: Mapping[int, int], appended: Collection[str]
) -> Iterator[str]:
    if others:
        yield f"the registry has {how_many(len(others), 'further subject')}, which stay"
    if ids:
        named = ", ".join(f"{old} is {new}" for old, new in sorted(ids.items())[:_NAMED])
        more = ", …" if len(ids) > _NAMED else ""
        yield f"{how_many(len(ids), 'id')} of schemas change, in messages too: {named}{more}"
    if appended:
        yield f"behind other versions there: {', '.join(sorted(appended))}"


_NAMED = 5


def _same_schema(wanted: SchemaVersion, present: RegistryState) -> SchemaVersion | None:
    """Return where a registry has a schema in its subject: at the same version, or elsewhere."""
    there = present.versions.get(wanted.place)
    if there is not None and there.means(wanted):
        return there
    # Only in its own subject: compatibility is checked there, and deserialisers may ask for
    # subjects.
    others = [
        version
        for version in present.versions.values()
        if version.subject == wanted.subject and version.means(wanted)
    ]
    return min(others, key=lambda version: (version.schema_id, version.version), default=None)


def _is_free(wanted: SchemaVersion, owners: Mapping[int, SchemaVersion]) -> bool:
    owner = owners.get(wanted.schema_id)
    return owner is None or owner.means(wanted)


def _with_references_at(version: SchemaVersion, places: Mapping[Place, Place]) -> SchemaVersion:
    """Return a schema that refers to versions as they are numbered in the other registry."""
    references = []
    for reference in version.references:
        place = str(reference["subject"]), int(reference["version"])
        references.append({**reference, "version": places.get(place, place)[1]})
    return replace(version, references=tuple(references))


def _referenced_first(versions: Sequence[SchemaVersion]) -> Iterator[SchemaVersion]:
    by_place = {version.place: version for version in versions}
    given: set[Place] = set()

    def with_references(kept_version: SchemaVersion) -> Iterator[SchemaVersion]:
        if kept_version.place in given:
            return
        # Before its references: damaged ones may go in a circle.
        given.add(kept_version.place)
        for reference in kept_version.references:
            other = by_place.get((str(reference["subject"]), int(reference["version"])))
            if other is not None:
                yield from with_references(other)
        yield kept_version

    for kept_version in sorted(
        versions, key=lambda version: (version.schema_id, version.subject, version.version)
    ):
        yield from with_references(kept_version)


def register(server: RegistryServer, comparison: RegistryComparison) -> list[str]:
    """Register what is missing, and set compatibility; return what was refused.

    Subjects without other versions get the chosen ids.  The others take schemas as they take
    those of producers: behind their versions, under ids of the registry's choice, and only if
    they are compatible.  A subject that is refused does not stop the others.  One that was begun
    before stays in the mode IMPORT until all of it is there.
    """
    refused: dict[str, str] = {}
    importing: set[str] = set()
    for version in _registrable(comparison):
        if version.subject in refused:
            continue
        imported = version.subject not in comparison.appended
        try:
            if imported and version.subject not in importing:
                _begin_import(server, version.subject)
                importing.add(version.subject)
            body = _registered(version, with_id=imported)
            server.send_json("POST", f"/subjects/{_quoted(version.subject)}/versions", body)
        except (Unavailable, NotFound) as error:
            refused[version.subject] = (
                f"{version.subject} version {version.version} (id {version.schema_id}): {error}"
            )
    for version in comparison.missing:
        # Deleted only when all are registered: others may refer to them. They are registered at all
        # because messages have their ids.
        if version.deleted and version.subject in importing - refused.keys():
            path = f"/subjects/{_quoted(version.subject)}/versions/{version.version}"
            server.send_json("DELETE", path, None)
    # Last: a subject in the mode IMPORT takes no schemas of producers, and one that is not empty
    # cannot return to it.
    for subject in sorted(importing - refused.keys()):
        server.send_json("DELETE", f"/mode/{_quoted(subject)}", None)
    for subject, level in sorted(comparison.levels.items()):
        if subject not in refused:
            path = f"/config/{_quoted(subject)}" if subject else "/config"
            server.send_json("PUT", path, {"compatibility": level})
    return list(refused.values())


def _registrable(comparison: RegistryComparison) -> list[SchemaVersion]:
    """Return what can be registered now, in order.

    A version of a subject with others is known once it is registered: what refers to it comes the
    next time; of a subject that is imported all of it, for that is done once.
    """
    unknown = {
        version.place for version in comparison.missing if version.subject in comparison.appended
    }
    waiting: set[Place] = set()
    for version in comparison.missing:  # What is referred to comes first.
        referred = {
            (str(reference["subject"]), int(reference["version"]))
            for reference in version.references
        }
        if referred & (unknown | waiting):
            waiting.add(version.place)
    whole = {subject for subject, _ in waiting} - comparison.appended
    return [
        version
        for version in comparison.missing
        if version.place not in waiting and version.subject not in whole
    ]


def _registered(version: SchemaVersion, *, with_id: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": version.schema}
    if with_id:
        body |= {"id": version.schema_id, "version": version.version}
    if version.kind != "AVRO":
        body["schemaType"] = version.kind
    if version.references:
        body["references"] = list(version.references)
    return body


def _begin_import(server: RegistryServer, subject: str) -> None:
    path = f"/mode/{_quoted(subject)}"
    try:
        if server.get_json(path).get("mode") == _IMPORT:
            return
    except NotFound:
        pass  # It has none of its own.
    server.send_json("PUT", path, {"mode": _IMPORT})


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def state_of(server: RegistryServer) -> RegistryState:
    """Return what a registry has now.  Raises ``Unavailable``, ``AccessDenied``."""
    return RegistryState.of(registry_content(server))
