"""Types that a JSON Schema gives to columns, where it says something about them.

JSON itself does not say that 10 is a number with fractions, or that a text is a time.  What a
schema leaves open stays as the JSON decoder has it.
Sources: https://json-schema.org/draft/2020-12 and, for ``connect.type`` and the names of logical
types as titles, Confluent's converter of Connect's schemas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag

import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.parsing.decoders.columns import MAX_DEPTH, MOST_FIELDS
from secor.parsing.registry import RegisteredSchema


@dataclass(frozen=True, slots=True)
class ScalarShape:
    """A column of one type; ``text``: its values are text in JSON."""

    type: pa.DataType
    text: bool = False


@dataclass(frozen=True, slots=True)
class ListShape:
    """Lists, and what the schema says of their items."""

    item: Shape


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """Objects, and what the schema says of some of their fields; others stay open."""

    fields: tuple[tuple[str, Shape], ...]


Shape = ScalarShape | ListShape | ObjectShape | None
"""The type that a schema gives to a value; None where it leaves the value open."""

SCALARS: Mapping[str, ScalarShape] = {
    "integer": ScalarShape(pa.int64()),
    "number": ScalarShape(pa.float64()),
    "string": ScalarShape(pa.string(), text=True),
    "boolean": ScalarShape(pa.bool_()),
}

FORMATS: Mapping[str, ScalarShape] = {
    "date-time": ScalarShape(pa.timestamp("us", "UTC"), text=True),
    "date": ScalarShape(pa.date32(), text=True),
}

CONNECT = "org.apache.kafka.connect.data."
DEBEZIUM = "io.debezium.time."
TITLES: Mapping[tuple[Any, str], Shape] = {
    (f"{CONNECT}Date", "integer"): ScalarShape(pa.date32()),
    (f"{CONNECT}Time", "integer"): ScalarShape(pa.time32("ms")),
    (f"{CONNECT}Timestamp", "integer"): ScalarShape(pa.timestamp("ms", "UTC")),
    (f"{DEBEZIUM}Date", "integer"): ScalarShape(pa.date32()),
    (f"{DEBEZIUM}Time", "integer"): ScalarShape(pa.time32("ms")),
    (f"{DEBEZIUM}MicroTime", "integer"): ScalarShape(pa.time64("us")),
    (f"{DEBEZIUM}NanoTime", "integer"): ScalarShape(pa.time64("ns")),
    (f"{DEBEZIUM}Timestamp", "integer"): ScalarShape(pa.timestamp("ms")),
    (f"{DEBEZIUM}MicroTimestamp", "integer"): ScalarShape(pa.timestamp("us")),
    (f"{DEBEZIUM}NanoTimestamp", "integer"): ScalarShape(pa.timestamp("ns")),
    (f"{DEBEZIUM}ZonedTimestamp", "string"): ScalarShape(pa.timestamp("us", "UTC"), text=True),
    # A number or base64, as the converter is set: no double may take its digits.
    (f"{CONNECT}Decimal", "number"): None,
}
"""Logical types of Connect and of Debezium, which the converter writes as titles."""


def shape_of(registered: RegisteredSchema) -> Shape:
    """Return what a registered schema says; ConfigurationError if it is no schema."""
    try:
        documents = {name: json.loads(text) for name, text in registered.references.items()}
        root = json.loads(registered.text)
        return _Reader(documents).read(root, root)
    except (ValueError, RecursionError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"JSON Schema: {error}") from error


@dataclass(slots=True)
class _Reader:
    """Walks one schema and those that it refers to."""

    documents: Mapping[str, Any]
    open: list[int] = field(default_factory=list)
    fields: int = 0

    def read(self, node: Any, root: Any) -> Shape:
        """Return the shape of a node in the document ``root``."""
        self.fields += 1
        if self.fields > MOST_FIELDS:
            raise ConfigurationError(f"JSON Schema: more than {MOST_FIELDS} fields")
        if not isinstance(node, dict) or id(node) in self.open or len(self.open) > MAX_DEPTH:
            return None  # anything, nothing, or itself within itself
        self.open.append(id(node))
        try:
            return self._read(node, root)
        finally:
            self.open.pop()

    def _read(self, node: Mapping[str, Any], root: Any) -> Shape:
        if "$ref" in node:
            target, document = self._resolve(str(node["$ref"]), root)
            return self.read(target, document)
        for key in ("oneOf", "anyOf"):
            if key in node:
                return self._one_of(node[key], root)
        if "allOf" in node:
            own = {name: value for name, value in node.items() if name != "allOf"}
            return self._all_of([*node["allOf"], own], root)
        return self._of_type(_type_of(node), node, root)

    def _of_type(self, kind: str | None, node: Mapping[str, Any], root: Any) -> Shape:
        if kind == "object" and isinstance(node.get("properties"), dict):
            pairs = [(name, self.read(below, root)) for name, below in node["properties"].items()]
            return ObjectShape(tuple(pairs))
        if kind == "array":
            return ListShape(self.read(node.get("items"), root))
        if kind is None or kind not in SCALARS:
            return None
        if (node.get("title"), kind) in TITLES:
            return TITLES[node.get("title"), kind]
        if kind == "string" and node.get("connect.type") != "bytes":
            return FORMATS.get(str(node.get("format")), SCALARS[kind])
        return SCALARS[kind]

    def _one_of(self, nodes: Any, root: Any) -> Shape:
        """Return the shape of alternatives, if they have the same; null is none of them."""
        shapes = [self.read(node, root) for node in nodes if _type_of(node) != "null"]
        return shapes[0] if shapes and all(shape == shapes[0] for shape in shapes) else None

    def _all_of(self, nodes: Any, root: Any) -> Shape:
        shapes = [shape for node in nodes if (shape := self.read(node, root)) is not None]
        fields: dict[str, Shape] = {}
        for shape in shapes:
            if not isinstance(shape, ObjectShape):
                return shape if all(other == shape for other in shapes) else None
            for name, inner in shape.fields:
                fields[name] = inner if fields.get(name) is None else fields[name]
        return ObjectShape(tuple(fields.items())) if fields else None

    def _resolve(self, reference: str, root: Any) -> tuple[Any, Any]:
        """Return the node that a reference leads to, and its document."""
        address, fragment = urldefrag(reference)
        document = root if not address else self._document(address)
        node = document
        for step in fragment.split("/")[1:] if fragment.startswith("/") else ():
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(step)] if isinstance(node, list) else node[step]
            except (LookupError, ValueError) as error:
                raise ConfigurationError(f"JSON Schema: nothing at {reference!r}") from error
        if fragment and not fragment.startswith("/"):
            return None, document  # an anchor: says nothing here
        return node, document

    def _document(self, address: str) -> Any:
        """Return a referenced schema by the reference's name, or by its own id."""
        if address in self.documents:
            return self.documents[address]
        for name, document in self.documents.items():
            own = document.get("$id") if isinstance(document, dict) else None
            if address == own or address.endswith(f"/{name}"):
                return document
        raise ConfigurationError(f"JSON Schema: {address!r} is not among its references")


def _type_of(node: Any) -> str | None:
    """Return the one type of a node besides null; ``number`` for integers and numbers."""
    if not isinstance(node, dict):
        return None
    kind = node.get("type", "object" if "properties" in node else None)
    kinds = kind if isinstance(kind, list) else [kind]
    left = set(kinds) - {"null"} if len(kinds) > 1 else set(kinds)
    if left == {"integer", "number"}:
        return "number"
    [only] = left if len(left) == 1 else [None]
    return only if isinstance(only, str) else None
