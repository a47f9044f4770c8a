"""The table group's side of a run: what is written, and in which tables each message must be.

``tables_of`` says it from the message alone, with Python's own JSON, and the tables are read by
the Iceberg library: neither shares anything with the daemons.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secor.core.model import Chunk, TopicPartition
from secor.sandbox import Sandbox
from tests.faults.proxy import FaultProxy
from tests.faults.rest_catalog import RestCatalogServer
from tests.soak.parsed import rows as quarantined_rows

NAMESPACE = "soak"
WAREHOUSE = "warehouse"
"""The key below which tables lie in the bucket of the run."""
PAIRED = "soak-(plain|late)"
KINDS = ("sale", "view", "return")
SPLIT_TOPIC = "soak-transactions"

SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": name, "type": ["null", kind]}
        for name, kind in (("number", "long"), ("topic", "string"), ("kind", "string"))
    ],
}
"""What ``schema_file`` declares; ``note`` is added when it appears."""

CONFIG = """
[parser]
decoder = "json"
max_bad_ratio = "none"
[rows]
metadata_columns = ["_topic", "_kafka_partition", "_offset"]
[commit]
interval = "3s"
timeout = "4s"
control = "{control}"
coordinator = "{coordinator}"
keep_manifests = "100s"
[catalog.properties]
type = "rest"
uri = "{catalog}"
warehouse = "{warehouse}"
"""
_ROUTE = """
[[tables]]
table = "{table}"
{condition}
auto_create = true
evolve = true
schema_file = "{schema}"
partition_by = ["bucket(2, number)"]
[tables.properties]
"commit.manifest-merge.enabled" = "true"
"write.metadata.delete-after-commit.enabled" = "true"
"write.metadata.previous-versions-max" = "50"
"""
_ROUTES = (
    ("soak.events", ""),
    ("soak.{topic}", f'topics = "{PAIRED}"'),
    ("soak.sales", 'field = "kind"\nequals = "sale"'),
    ("soak.kind_{fields.kind}", f'topics = "{SPLIT_TOPIC}"'),
)

_TOLD = 20


@dataclass
class Values:
    """Messages: good ones of some kinds, and damaged ones; ``notes`` adds a field to them."""

    notes: bool = False

    def __call__(self, rng: random.Random, topic: str, number: int) -> bytes | None:
        """Return a message."""
        fields: dict[str, Any] = {"number": number, "topic": topic, "kind": rng.choice(KINDS)}
        if self.notes and rng.random() < 0.5:
            fields["note"] = f"n{number}"
        shape = rng.random()
        if shape < 0.02:
            fields |= rng.choice(({"number": "many"}, {"kind": None}, {"number": 1.5}))
        elif shape < 0.021:
            fields["kind"], fields["padding"] = "view", rng.randbytes(50_000).hex()
        raw = json.dumps(fields).encode()
        if shape > 0.98:
            return rng.choice((None, b"", raw[:-1], raw.replace(b"number", b"\xff\xfe"), b"[1]"))
        return raw


def tables_of(topic: str, raw: bytes | None) -> frozenset[str] | None:
    """Return the tables that a message belongs into; None for quarantine."""
    try:
        fields = json.loads(raw or b"")
    except ValueError:
        return None
    if not isinstance(fields, dict) or type(fields.get("number")) is not int:
        return None
    names = {"events"}
    if topic in ("soak-plain", "soak-late"):
        names.add(topic.replace("-", "_"))
    if fields["kind"] == "sale":
        names.add("sales")
    if topic == SPLIT_TOPIC and fields["kind"] is None:
        return None  # its template names no table
    if topic == SPLIT_TOPIC:
        names.add(f"kind_{fields['kind']}")
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class Tables:
    """The catalog of a run: ``server`` without faults, ``proxy`` as the daemons see it."""

    server: RestCatalogServer
    proxy: FaultProxy
    values: Values


def open_catalog(opened: ExitStack, folder: Path, sandbox: Sandbox, seed: int) -> Tables:
    """Start the catalog, and the proxy before it."""
    s3 = sandbox.s3
    server = opened.enter_context(
        RestCatalogServer(
            folder / "catalog.db",
            f"s3://{s3.bucket}/{WAREHOUSE}",
            {
                "s3.endpoint": s3.endpoint_url,
                "s3.region": "us-east-1",
                "s3.access-key-id": s3.access_key,
                "s3.secret-access-key": s3.secret_key,
            },
        )
    )
    server.catalog.create_namespace(NAMESPACE)
    return Tables(server, opened.enter_context(FaultProxy(server.url, seed=seed)), Values())


def configuration(tables: Tables, folder: Path, bucket: str, control: str, coordinator: str) -> str:
    """Return the sections of a table group, and its routes."""
    schema = folder / "event.avsc"
    schema.write_text(json.dumps(SCHEMA))
    routes = [
        _ROUTE.format(table=table, condition=condition, schema=schema)
        for table, condition in _ROUTES
    ]
    return CONFIG.format(
        control=control,
        coordinator=coordinator,
        catalog=tables.proxy.url,
        warehouse=f"s3://{bucket}/{WAREHOUSE}",
    ) + "".join(routes)


Where = tuple[TopicPartition, int]


@dataclass
class TableContents:
    """Compares tables and quarantine with the log: each offset once in each of its tables."""

    prefix: str
    violated: Callable[[str], None]
    rows: dict[str, dict[Where, Mapping[str, Any]]] = field(default_factory=dict)
    bad: dict[Where, bytes | None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def read(self, tables: Tables) -> None:
        """Read every table by the Iceberg library."""
        catalog = tables.server.catalog
        for identifier in catalog.list_tables(NAMESPACE):
            of_table = self.rows.setdefault(identifier[-1], {})
            scanned = catalog.load_table(identifier).scan().to_arrow().to_pylist()
            for row in scanned:
                if row["_offset"] is None:
                    self.counts["rows of another writer"] += 1
                    continue
                where = TopicPartition(row["_topic"], row["_kafka_partition"]), row["_offset"]
                if where in of_table:
                    self._tell(f"{where[0]} {where[1]} is twice in {identifier[-1]}")
                of_table[where] = row

    def stored(self, key: str, content: bytes) -> None:
        """Take an object below the group's prefix; only those in quarantine have messages."""
        parts = key.removeprefix(f"{self.prefix}/").split("/")
        if not key.startswith(f"{self.prefix}/_quarantine/") or key.endswith(".json"):
            return
        partition = TopicPartition(parts[1], int(parts[-1].split("_")[1]))
        for offset, message in quarantined_rows(key, content):
            if (partition, offset) in self.bad:
                self._tell(f"{partition} {offset} is twice in quarantine")
            self.bad[partition, offset] = message

    def logged(self, owner: TopicPartition, chunks: Iterable[Chunk], *, whole: bool) -> None:
        """Take all messages of a log; ``whole`` says that none were compacted away."""
        seen = set()
        for chunk in chunks:
            for message in chunk.records.select(["offset", "value"]).to_pylist():
                seen.add((owner, message["offset"]))
                self._compare((owner, message["offset"]), message["value"])
        if whole:
            for name, of_table in self.rows.items():
                for gone in {where for where in of_table if where[0] == owner} - seen:
                    self._tell(f"{gone} is in {name} and not in the log")

    def _compare(self, where: Where, raw: bytes | None) -> None:
        belongs = tables_of(where[0].topic, raw)
        if (where in self.bad) != (belongs is None):
            quarantined = "is" if where in self.bad else "is not"
            self._tell(f"{where} {quarantined} in quarantine: {raw!r}")
        self.counts["in quarantine"] += belongs is None
        for name in self.rows.keys() | (belongs or frozenset()):
            row = self.rows.get(name, {}).get(where)
            if (row is not None) != (name in (belongs or ())):
                there = "is" if row is not None else "is not"
                self._tell(f"{where} {there} in {name}: {raw!r}")
            if row is not None:
                self._same(where, name, row, json.loads(raw or b"{}"))

    def _same(
        self, where: Where, name: str, row: Mapping[str, Any], fields: Mapping[str, Any]
    ) -> None:
        self.counts[name] += 1
        for column in ("number", "topic", "kind", "note"):
            if row.get(column) != fields.get(column):
                self._tell(f"{where} in {name}: {column} is {row.get(column)!r}, not as {fields}")

    def _tell(self, text: str) -> None:
        self.counts["violations"] += 1
        if self.counts["violations"] <= _TOLD:
            self.violated(text)
