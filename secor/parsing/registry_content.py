"""Everything that a schema registry holds: subjects, versions, ids, references, compatibility.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html; Karapace
and Apicurio's ``/apis/ccompat/v7`` have the same interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from secor.core.errors import NotFound, Unavailable
from secor.parsing.registry_server import RegistryServer

GLOBAL = ""
"""The name of the item with what holds for all subjects; no subject is called so."""
AT_ONCE = 1000
"""Schemas that are asked for in one request."""

Version = dict[str, Any]


def registry_content(server: RegistryServer) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each subject with what there is of it.

    ``{"compatibility": "FULL", "versions": {"1": {"id", "schema", "type", "references"}}}``;
    ``compatibility`` None where the subject has none of its own.  Versions that were deleted
    softly have ``"deleted": true``: messages may still have their ids.  Under ``GLOBAL`` there
    is the compatibility of all others.  Raises ``Unavailable``, ``AccessDenied``.
    """
    yield GLOBAL, {"compatibility": _compatibility(server, "/config")}
    subjects: dict[str, dict[str, Version]] = {}
    present = {_place(schema) for schema in _schemas(server, deleted=False)}
    for listed_schema in _schemas(server, deleted=True):
        version = _version(server, listed_schema)
        if _place(listed_schema) not in present:
            version["deleted"] = True
        subjects.setdefault(listed_schema["subject"], {})[str(listed_schema["version"])] = version
    for subject, versions in sorted(subjects.items()):
        own = _compatibility(server, f"/config/{quote(subject, safe='')}")
        yield subject, {"compatibility": own, "versions": versions}


def _schemas(server: RegistryServer, *, deleted: bool) -> Iterator[dict[str, Any]]:
    """Give all versions of all subjects, page by page, each once."""
    seen: set[tuple[str, int]] = set()
    offset = 0
    while True:
        wanted = "true" if deleted else "false"
        page = server.get_json(f"/schemas?deleted={wanted}&offset={offset}&limit={AT_ONCE}")
        new = [entry for entry in page if _place(entry) not in seen]
        seen.update(map(_place, new))
        yield from new
        # A registry that knows no pages answers all of it each time.
        if len(page) < AT_ONCE or not new:
            return
        offset += len(page)


def _place(listed: Any) -> tuple[str, int]:
    try:
        return str(listed["subject"]), int(listed["version"])
    except (KeyError, TypeError, ValueError) as error:
        raise Unavailable(f"schema registry: a schema without subject or version: {error}") from (
            error
        )


def _version(server: RegistryServer, listed: dict[str, Any]) -> Version:
    try:
        version: Version = {"id": int(listed["id"]), "schema": listed["schema"]}
    except (KeyError, TypeError, ValueError) as error:
        raise Unavailable(
            f"schema registry: {server.url}/schemas lists {listed.get('subject')} without"
            f" {error}; check that it has Confluent's interface"
        ) from error
    version["type"] = listed.get("schemaType") or "AVRO"
    if listed.get("references"):
        version["references"] = listed["references"]
    return version


def _compatibility(server: RegistryServer, path: str) -> str | None:
    try:
        answer = server.get_json(path)
    except NotFound:
        return None
    level = answer.get("compatibilityLevel") or answer.get("compatibility")
    return None if level is None else str(level)
