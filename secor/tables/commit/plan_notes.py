"""Notes on a fingerprint: the versions of tables that it was made of, for an intent's successor.

Which tables a process has open depends on the messages that it has read, and no successor can
guess that.  So the process notes it below ``<prefix>/_plans/`` before it makes anything under a
plan.  If a note is missing, the successor supersedes the intent and waits; no row is lost.

Why a topic has no plan, because a table cannot be made or used, is noted there, too: neither the
ledger nor the brokers know it, and commands show it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from secor.core.errors import CorruptFile, NotFound
from secor.core.model import StoredObject
from secor.core.naming import topic_directory
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.core.text import load_json
from secor.tables.catalog import AddColumn, MakeOptional, SchemaChange, WidenColumn
from secor.tables.staging.table_version import TableVersion

DIRECTORY = "_plans"

STOP = "stopped-"
"""Names of notes about topics without a plan begin with this, those of plans are fingerprints."""

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class NotedVersion:
    """One table of a plan; ids are None where there was no such table.

    ``declined`` are the changes of its schema that the catalog did not take.
    """

    table: str
    schema_id: int | None = None
    spec_id: int | None = None
    declined: frozenset[SchemaChange] = frozenset()


class PlanNotes:
    """The notes below a group's prefix; for any thread."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        parts = [part for part in prefix.split("/") if part]
        self._root = "/".join([*parts, DIRECTORY]) + "/"

    def key(self, topic: str, fingerprint: str) -> str:
        """Return the key of a note."""
        return f"{self._root}{topic_directory(topic)}/{fingerprint}.json"

    def put(
        self, topic: str, fingerprint: str, versions: Mapping[str, TableVersion | None]
    ) -> None:
        """Note the versions, once.

        Raises ``Unavailable``, ``AccessDenied``, ``OutcomeUnknown``.
        """
        body = json.dumps([_data(name, versions[name]) for name in sorted(versions)])
        put_bytes(self._store, self.key(topic, fingerprint), body.encode() + b"\n")

    def read(self, topic: str, fingerprint: str) -> Sequence[NotedVersion]:
        """Return what was noted; empty where nothing was.

        Raises ``CorruptFile``, ``Unavailable``, ``AccessDenied``.
        """
        key = self.key(topic, fingerprint)
        try:
            with self._store.open(key) as file:
                body = file.read()
        except NotFound:
            return ()
        try:
            return [_version(data) for data in load_json(body)]
        except (ValueError, LookupError, TypeError, AttributeError, pa.ArrowException) as error:
            raise CorruptFile(f"{key}: no note of Secor's ({error})") from error

    def note_stop(self, topic: str, why: str) -> None:
        """Note why a topic has no plan.

        Raises ``Unavailable``, ``AccessDenied``, ``OutcomeUnknown``.
        """
        # Named by the reason: the same one, from however many processes, is noted once.
        name = f"{STOP}{hashlib.sha256(why.encode()).hexdigest()[:_DIGITS]}"
        body = json.dumps({"stopped": why}).encode() + b"\n"
        put_bytes(self._store, self.key(topic, name), body)

    def stops(self, topic: str) -> Iterator[str]:
        """Give the reasons why a topic has no plan.  Raises ``Unavailable``, ``AccessDenied``."""
        for key in self._stop_keys(topic):
            try:
                why = load_json(read_bytes(self._store, key) or b"")["stopped"]
            except (ValueError, LookupError, TypeError):
                continue  # anybody may have put it
            yield str(why)

    def clear_stops(self, topic: str) -> None:
        """Forget why a topic had no plan.  Raises ``Unavailable``, ``AccessDenied``."""
        # A list first: deleting while the store still lists may pass over some.
        for key in list(self._stop_keys(topic)):
            self._store.delete(key)

    def _stop_keys(self, topic: str) -> Iterator[str]:
        for stored in self._store.list(f"{self._root}{topic_directory(topic)}/{STOP}"):
            yield stored.key

    def list(self) -> Iterator[tuple[str, StoredObject]]:
        """Give all notes, each with its fingerprint."""
        for stored in self._store.list(self._root):
            name = stored.key.rpartition("/")[2]
            if name.endswith(".json"):
                yield name.removesuffix(".json"), stored


def _data(name: str, version: TableVersion | None) -> dict[str, object]:
    if version is None:
        return {"table": name, "schema": None, "spec": None, "declined": []}
    declined = sorted((_change_data(change) for change in version.declined), key=str)
    return {
        "table": name,
        "schema": version.schema_id,
        "spec": version.spec_id,
        "declined": declined,
    }


def _change_data(change: SchemaChange) -> dict[str, object]:
    data: dict[str, object] = {"change": type(change).__name__, "path": list(change.path)}
    if not isinstance(change, MakeOptional):
        # Arrow's own form: there is no other text of a type that can be read back.
        data["type"] = pa.schema([pa.field("type", change.type)]).serialize().to_pybytes().hex()
    return data


def _version(data: Mapping[str, Any]) -> NotedVersion:
    schema_id, spec_id = data["schema"], data["spec"]
    if not isinstance(data["table"], str) or not (
        isinstance(schema_id, int | None) and isinstance(spec_id, int | None)
    ):
        raise ValueError(f"not the version of a table: {data!r}"[:80])
    declined = frozenset(_change(change) for change in data["declined"])
    return NotedVersion(data["table"], schema_id, spec_id, declined)


def _change(data: Mapping[str, Any]) -> SchemaChange:
    path = tuple(map(str, data["path"]))
    if data["change"] == MakeOptional.__name__:
        return MakeOptional(path)
    kind = {item.__name__: item for item in (AddColumn, WidenColumn)}[data["change"]]
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(data["type"])))
    return kind(path, schema.field(0).type)
