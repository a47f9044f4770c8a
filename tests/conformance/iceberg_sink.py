"""The Apache Iceberg sink on Kafka Connect: gets each case, and what its tables then hold."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog, load_catalog

from secor.core.errors import NotFound
from secor.java.bundles import ICEBERG_SINK
from secor.java.jars import pyspark_jars
from secor.sandbox import Sandbox
from tests.conformance.message_cases import NAMESPACE, Case
from tests.conformance.message_tables import Outcome, outcome_of
from tests.conformance.servers import JSON_CONVERTER, ConnectWorker

Say = Callable[[str], None]

BATCH = 8
"""Cases of one connector.  A message that it cannot convert ends its task, and so all of them."""

ALONE = frozenset(
    {
        *("j_integer_then_text", "j_integer_then_boolean", "j_boolean_then_integer"),
        *("j_object_then_integer", "j_list_then_integer", "j_integer_then_list"),
        *("j_list_of_several_kinds", "j_name_with_a_dot_beside_an_object", "j_name_that_is_empty"),
        *("j_names_that_differ_in_capitals",),
        *("s_required_field_that_goes", "s_required_field_that_comes_later"),
        *("s_required_that_becomes_optional", "s_int32_that_becomes_string"),
    }
)
"""Tables of cases that may end the sink's task, which go to a connector of their own at once."""

AT_ONCE = 6
"""Connectors that run at the same time."""

PATIENCE = 120.0
"""Seconds that a connector may take for its rows."""

TRIES = 3
"""Fresh connectors that a case gets before its rows are missing."""

_HADOOP = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar")


@dataclass
class Batch:
    """Some cases and the connector that they go to."""

    name: str
    cases: Sequence[Case]
    begun: float = 0.0
    settled: dict[str, Outcome] = field(default_factory=dict)
    """What became of cases, by their tables."""


class IcebergSink:
    """The sink, with a worker of its own; each connector has its own topic and control topic."""

    def __init__(self, worker: ConnectWorker, sandbox: Sandbox, say: Say) -> None:
        """``sandbox`` has Kafka, the store and the REST catalog; ``worker`` runs."""
        self._worker = worker
        self._sandbox = sandbox
        self._say = say
        self._admin = AdminClient({"bootstrap.servers": sandbox.kafka})
        self._catalog = rest_catalog(sandbox)
        # Tasks that make it at the same moment fail.
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        self._number = 0

    def settings(self, topic: str, *, schemas: bool) -> dict[str, str]:
        """Return a connector's settings."""
        s3 = self._sandbox.s3
        return {
            "name": topic,
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": JSON_CONVERTER,
            "value.converter.schemas.enable": str(schemas).lower(),
            "iceberg.kafka.bootstrap.servers": self._sandbox.kafka,
            "iceberg.tables.dynamic-enabled": "true",
            "iceberg.tables.route-field": "t",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.control.topic": f"control-{topic}",
            "iceberg.control.group-id-prefix": f"of-{topic}",
            "iceberg.control.commit.interval-ms": "3000",
            "iceberg.control.commit.timeout-ms": "60000",
            "iceberg.catalog.type": "rest",
            "iceberg.catalog.uri": rest_uri(self._sandbox),
            "iceberg.catalog.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "iceberg.catalog.warehouse": f"s3://{s3.bucket}/warehouse",
            "iceberg.catalog.s3.endpoint": s3.endpoint_url,
            "iceberg.catalog.s3.access-key-id": s3.access_key,
            "iceberg.catalog.s3.secret-access-key": s3.secret_key,
            "iceberg.catalog.s3.path-style-access": "true",
            "iceberg.catalog.client.region": s3.region,
        }

    def run(self, cases: Sequence[Case]) -> dict[str, Outcome]:
        """Return what became of each case, by its table.

        Cases without all their rows are sent to a fresh connector again, each alone.
        """
        outcomes: dict[str, Outcome] = {}
        waiting = list(_batches(cases, BATCH))
        for attempt in range(TRIES + 1):
            outcomes |= self._all(waiting)
            left = [case for case in cases if not self._is_final(outcomes[case.table], case)]
            if not left or attempt == TRIES:
                break
            self._say(f"{len(left)} cases go to a connector of their own")
            waiting = [[case] for case in left]
        return outcomes

    @staticmethod
    def _is_final(outcome: Outcome, case: Case) -> bool:
        return outcome.alone if outcome.failure else len(outcome.rows) == len(case.bodies)

    def _all(self, batches: Sequence[Sequence[Case]]) -> dict[str, Outcome]:
        waiting = list(batches)
        running: list[Batch] = []
        outcomes: dict[str, Outcome] = {}
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                running.append(self._begin(waiting.pop(0)))
            time.sleep(1.0)
            for batch in list(running):
                if self._is_over(batch):
                    running.remove(batch)
                    outcomes |= batch.settled
                    self._worker.ask("DELETE", f"/connectors/{batch.name}")
        return outcomes

    def _begin(self, cases: Sequence[Case]) -> Batch:
        self._number += 1
        name = f"sink-{self._number}"
        topics = [NewTopic(name, 1, 1), NewTopic(f"control-{name}", 1, 1)]
        for future in self._admin.create_topics(topics).values():
            future.result()
        for case in cases:
            with suppress(Exception):
                self._catalog.drop_table(f"{NAMESPACE}.{case.table}")
        send(self._sandbox, name, cases)
        settings = self.settings(name, schemas=cases[0].with_schema)
        self._worker.ask("POST", "/connectors", {"name": name, "config": settings})
        return Batch(name, cases, time.monotonic())

    def _is_over(self, batch: Batch) -> bool:
        """Settle what can be settled; tell whether that is all."""
        failure = self._failure(batch)
        alone = len(batch.cases) == 1
        late = time.monotonic() - batch.begun > PATIENCE
        for case in batch.cases:
            outcome = outcome_of(self._catalog, case)
            if len(outcome.rows) == len(case.bodies):
                batch.settled[case.table] = outcome
            elif failure or late:
                outcome.failure, outcome.alone = failure, alone
                batch.settled[case.table] = outcome
        return len(batch.settled) == len(batch.cases)

    def _failure(self, batch: Batch) -> str:
        """Return why the task has failed; empty while it runs."""
        try:
            tasks = self._worker.ask("GET", f"/connectors/{batch.name}/status")["tasks"]
        except (NotFound, OSError, http.client.HTTPException):
            return ""
        for task in tasks:
            if task["state"] == "FAILED":
                return reason_of(task["trace"])
        return ""


def reason_of(trace: str) -> str:
    """Return the innermost cause of a Java stack trace, without what differs each time."""
    causes = [line for line in trace.splitlines() if line.startswith("Caused by: ")]
    text = causes[-1].removeprefix("Caused by: ") if causes else trace.splitlines()[0]
    name, _, message = text.partition(": ")
    message = message.partition(", topic: ")[0]  # and where it was
    return f"{name.rpartition('.')[2]}: {message}"[:160].rstrip(": ")


def _batches(cases: Sequence[Case], size: int) -> Iterator[Sequence[Case]]:
    """Give cases of one converter each."""
    for with_schema in (False, True):
        chosen = [case for case in cases if case.with_schema is with_schema]
        yield from ([case] for case in chosen if case.table in ALONE)
        together = [case for case in chosen if case.table not in ALONE]
        for begin in range(0, len(together), size):
            yield together[begin : begin + size]


def send(sandbox: Sandbox, topic: str, cases: Sequence[Case]) -> None:
    """Write the messages of cases to the only partition of a topic."""
    producer = Producer({"bootstrap.servers": sandbox.kafka})
    for case in cases:
        for value in case.messages():
            producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def rest_uri(sandbox: Sandbox) -> str:
    """Return where the REST catalog of the sink is."""
    return f"http://127.0.0.1:{sandbox.plan.ports['rest']}"


def rest_catalog(sandbox: Sandbox) -> Catalog:
    """Open the sink's catalog."""
    s3 = sandbox.s3
    settings: dict[str, Any] = {
        "type": "rest",
        "uri": rest_uri(sandbox),
        "s3.endpoint": s3.endpoint_url,
        "s3.region": s3.region,
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": s3.secret_key,
    }
    return load_catalog("sink", **settings)


@contextmanager
def running_sink(folder: Path, sandbox: Sandbox, say: Say) -> Iterator[IcebergSink]:
    """Start the worker."""
    hadoop = [path for pattern in _HADOOP for path in pyspark_jars().glob(pattern)]
    worker = ConnectWorker.for_posted(folder, sandbox.kafka, ICEBERG_SINK, say, hadoop)
    try:
        worker.start()
        yield IcebergSink(worker, sandbox, say)
    finally:
        worker.stop()
