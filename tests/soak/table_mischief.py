"""What is done to the catalog, to its tables and to the control topic of a table group."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.structs import TopicPartition as KafkaPartition
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from tests.faults.proxy import Fault, Rule
from tests.soak.tables import NAMESPACE, Tables

CONTROL_TOPIC = "secor-control-soak"


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that lasts ``seconds``, from ``begin`` to ``end``, at one ``target``."""

    target: str
    detail: str
    seconds: float
    begin: Callable[[], object]
    end: Callable[[], object] = lambda: None


class TableMischief:
    """Makes deeds; ``kafka`` is the broker's address, None without a control topic."""

    def __init__(self, tables: Tables, kafka: str | None, seed: int) -> None:
        self._tables = tables
        self._kafka = kafka
        self._rng = random.Random(f"tables {seed}")

    def kinds(self) -> dict[str, tuple[int, Callable[[], Deed]]]:
        """Return what makes a deed, and its weight, by name."""
        kinds: dict[str, tuple[int, Callable[[], Deed]]] = {
            "catalog out": (3, self._out),
            "catalog slow": (2, lambda: self._rule(Fault.DELAY, "POST", 0.7)),
            "catalog refuses": (2, lambda: self._rule(Fault.SLOW_DOWN, None, 0.8)),
            "catalog fails": (2, lambda: self._rule(Fault.ERROR, "POST", 0.7)),
            "catalog does not answer": (4, lambda: self._rule(Fault.LOST, "POST", 0.7)),
            "another writer": (3, self._append),
            "snapshots expire": (1, self._expire),
        }
        if self._kafka is not None:
            kinds["control topic deleted"] = (1, lambda: self._control(self._delete, "deleted"))
            kinds["control topic truncated"] = (1, lambda: self._control(self._truncate, "cut"))
            kinds["rubbish announced"] = (1, lambda: self._control(self._rubbish, "rubbish"))
        return kinds

    def _out(self) -> Deed:
        def out(is_out: bool) -> None:
            self._tables.proxy.outage = is_out

        seconds = self._rng.uniform(3, 25)
        detail = f"every request is reset, for {seconds:.0f} s"
        return Deed("catalog", detail, seconds, lambda: out(True), lambda: out(False))

    def _rule(self, fault: Fault, method: str | None, probability: float) -> Deed:
        late = self._rng.uniform(1, 12)
        rule = Rule(fault, method, probability=probability, seconds=late)
        proxy = self._tables.proxy
        what = method or "request"
        return Deed(
            "catalog",
            f"{probability:.0%} of every {what}: {fault}",
            self._rng.uniform(4, 15),
            lambda: proxy.set(rule),
            proxy.set,
        )

    def _append(self) -> Deed:
        def append(table: Table) -> None:
            schema = table.schema().as_arrow()
            row = pa.table([pa.nulls(1, it.type) for it in schema], schema=schema)
            table.append(row)

        return Deed("other writer", "appends a row to every table", 0.0, self._to_all(append))

    def _expire(self) -> Deed:
        before = datetime.now(UTC) - timedelta(seconds=40)

        def expire(table: Table) -> None:
            table.maintenance.expire_snapshots().older_than(before).commit()

        return Deed("other writer", "all but those of the last 40 s", 0.0, self._to_all(expire))

    def _to_all(self, act: Callable[[Table], object]) -> Callable[[], None]:
        """Do it to every table, as far as store and daemons let us."""

        def to_all() -> None:
            catalog = self._tables.server.catalog
            for identifier in catalog.list_tables(NAMESPACE):
                with suppress(CommitFailedException, OSError):
                    act(catalog.load_table(identifier))

        return to_all

    def _control(self, act: Callable[[str], None], detail: str) -> Deed:
        assert self._kafka is not None
        address = self._kafka

        def begin() -> None:
            with suppress(KafkaError):
                act(address)

        return Deed("control topic", detail, 0.0, begin)

    def _delete(self, address: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=address)
        admin.delete_topics([CONTROL_TOPIC])
        admin.close()

    def _truncate(self, address: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=address)
        admin.delete_records({KafkaPartition(CONTROL_TOPIC, 0): -1})
        admin.close()

    def _rubbish(self, address: str) -> None:
        producer = KafkaProducer(bootstrap_servers=address, max_block_ms=5000)
        for size in (0, 1, 10, 1000, 100_000):
            producer.send(CONTROL_TOPIC, self._rng.randbytes(size))
        producer.flush(5)
        producer.close(timeout=5)
