"""Schemas of a lost registry, compared with another one and registered there under their ids.

A registry takes ids and versions from outside for a subject in the mode IMPORT, which it allows
while the subject is empty.  Source:
https://docs.confluent.io/platform/current/schema-registry/develop/api.html#mode
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
        """Return whether it is the same schema, however its text is laid out."""
        return (self.kind, self._content()) == (other.kind, other._content())

    def _content(self) -> tuple[Any, ...]:
        references = sorted(
            (reference["name"], reference["subject"], reference["version"])
            for reference in self.references
        )
        if self.kind == "PROTOBUF":
            return self.schema.split(), references
        try:
            return load_json(self.schema), references
        except ValueError:
            return self.schema, references


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
    """The registry compared with what was kept: ``missing`` are in the order of registering."""

    total: int
    missing: tuple[SchemaVersion, ...]
    levels: Mapping[str, str]
    """Compatibility that is to be set, by subject."""
    conflicts: tuple[str, ...]
    notes: tuple[str, ...]


def compare_registries(kept: RegistryState, present: RegistryState) -> RegistryComparison:
    """Compare what was kept with what a registry has; conflicts say what to do."""
    by_id = {version.schema_id: version for version in present.versions.values()}
    missing: list[SchemaVersion] = []
    conflicts: list[str] = []
    for place, old in sorted(kept.versions.items()):
        there, owner = present.versions.get(place), by_id.get(old.schema_id)
        if there is not None and (there.schema_id != old.schema_id or not there.means(old)):
            conflicts.append(
                f"{old.subject} version {old.version} is another schema there (id"
                f" {there.schema_id}, was {old.schema_id}): {_WHAT_TO_DO}"
            )
        elif there is None and owner is not None and not owner.means(old):
            conflicts.append(
                f"id {old.schema_id} of {old.subject} version {old.version} is taken there by"
                f" {owner.subject} version {owner.version}: {_WHAT_TO_DO}"
            )
        elif there is None:
            missing.append(old)
    notes = []
    further = {subject for subject, _ in present.versions.keys() - kept.versions.keys()}
    if further:
        notes.append(f"the registry has {how_many(len(further), 'further subject')}, which stay")
    levels = {
        subject: level
        for subject, level in kept.compatibility.items()
        if present.compatibility.get(subject) != level
    }
    if further and GLOBAL in levels:
        # It would change what the others may do.
        notes.append(f"its compatibility of all subjects stays; the kept one is {levels[GLOBAL]}")
        del levels[GLOBAL]
    ordered = tuple(_referenced_first(missing))
    return RegistryComparison(len(kept.versions), ordered, levels, tuple(conflicts), tuple(notes))


_WHAT_TO_DO = (
    "recover to an empty registry; or delete it there for good (?permanent=true), if no message"
    ' needs it; or put "schemas" into recover.leave_out, and map ids in consumers: Secor does not'
    " change the ids in messages"
)


def _referenced_first(versions: Sequence[SchemaVersion]) -> Iterator[SchemaVersion]:
    by_place = {version.place: version for version in versions}
    given: set[Place] = set()

    def with_references(kept_version: SchemaVersion) -> Iterator[SchemaVersion]:
        if kept_version.place in given:
            return
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
    """Register what is missing under its ids, and set compatibility; return what was refused.

    A subject that is refused does not stop the others.  A subject that was started before stays
    in the mode IMPORT until all of it is there.
    """
    refused: dict[str, str] = {}
    importing: set[str] = set()
    for version in comparison.missing:
        if version.subject in refused:
            continue
        try:
            if version.subject not in importing:
                _begin_import(server, version.subject)
                importing.add(version.subject)
            body: dict[str, Any] = {
                "schema": version.schema,
                "id": version.schema_id,
                "version": version.version,
            }
            if version.kind != "AVRO":
                body["schemaType"] = version.kind
            if version.references:
                body["references"] = list(version.references)
            server.send_json("POST", f"/subjects/{_quoted(version.subject)}/versions", body)
        except (Unavailable, NotFound) as error:
            refused[version.subject] = (
                f"{version.subject} version {version.version} (id {version.schema_id}): {error}"
            )
    for version in comparison.missing:
        if version.deleted and version.subject not in refused:
            path = f"/subjects/{_quoted(version.subject)}/versions/{version.version}"
            server.send_json("DELETE", path, None)
    for subject in sorted(importing - refused.keys()):
        server.send_json("DELETE", f"/mode/{_quoted(subject)}", None)
    for subject, level in sorted(comparison.levels.items()):
        if subject not in refused:
            path = f"/config/{_quoted(subject)}" if subject else "/config"
            server.send_json("PUT", path, {"compatibility": level})
    return list(refused.values())


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
