"""What others do to tables, topic and ledger of a group, on real servers."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from secor.cli.main import run
from secor.config.load import load
from secor.sandbox import Sandbox
from secor.wiring.table_catalogs import open_tables
from tests.integration.daemons import Daemon, Start, create_topic, wait_until, write_config

ROLLED, DROPPED, RENAMED, CHANGED, KEPT = "rolled", "dropped", "renamed", "changed", "kept"
TABLES = (ROLLED, DROPPED, RENAMED, CHANGED, KEPT)
COMPLETE = (ROLLED, RENAMED, CHANGED, KEPT)
"""Those that have every row in the end."""


@dataclass
class Scene:
    """A group that puts each message into every table of ``TABLES``."""

    sandbox: Sandbox
    config: Path
    topic: str
    start: Start
    capsys: pytest.CaptureFixture[str]
    ids: list[int] = field(default_factory=list)
    starts: int = 0

    @property
    def library(self) -> Catalog:
        """The Iceberg library, as others use it."""
        tables, _ = open_tables(load(self.config, {}))
        return tables.library

    def table(self, name: str) -> Table:
        """Load a table as it is now."""
        return self.library.load_table((self.topic, name))

    def produce(self, partitions: int) -> None:
        """Produce 20 rows to each partition."""
        producer = KafkaProducer(bootstrap_servers=self.sandbox.kafka)
        for number in range(len(self.ids), len(self.ids) + 20 * partitions):
            producer.send(self.topic, b'{"id": %d}' % number, partition=number % partitions)
            self.ids.append(number)
        producer.flush()
        producer.close()

    def rows(self, name: str) -> list[int]:
        """Return the ids in a table."""
        try:
            rows = cast(pa.Table, self.table(name).scan().to_arrow())
        except NoSuchTableError:
            return []
        return sorted(rows.column("id").to_pylist())

    def wait_for_rows(self, *names: str, what: str) -> None:
        """Wait until tables have all that was produced; never may a row be there twice."""

        def there() -> bool:
            seen = [self.rows(name) for name in names]
            assert all(len(it) == len(set(it)) for it in seen), "a row is there twice"
            return all(it == self.ids for it in seen)

        wait_until(there, what)

    def secor(self, *arguments: str, exit_code: int = 0) -> str:
        """Run a command on the group; return what it prints."""
        code = run([*arguments[:2], str(self.config), *arguments[2:]])
        said = self.capsys.readouterr()
        assert code == exit_code, said
        return said.out

    def wait_for_stop(self, name: str, words: str, *, produce: int = 0) -> None:
        """Wait until ``status`` says that a table is stopped, and why.

        Before each look, produce to so many partitions: workers that have no messages do not
        make a table again.
        """

        def stopped() -> bool:
            if produce:
                self.produce(produce)
            return self.is_stopped(name, words)

        wait_until(stopped, f"{name} is stopped: {words}")

    def is_stopped(self, name: str, words: str) -> bool:
        """Tell whether ``status`` says that a table is stopped for this reason."""
        run(["tables", "status", str(self.config), "--json"])
        seen = json.loads(self.capsys.readouterr().out)["tables"]
        why = {it["table"]: f"{it['why']} {it['stopped']}" for it in seen}
        return words in why.get(f"{self.topic}.{name}", "")

    def daemon(self) -> Daemon:
        """Start the service."""
        self.starts += 1
        return self.start(self.config, self.config.parent / f"{self.starts}.log")


def scene_of(
    sandbox: Sandbox,
    folder: Path,
    start: Start,
    capsys: pytest.CaptureFixture[str],
) -> Scene:
    topic = "accidents"
    create_topic(sandbox, topic, 2)
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{folder / 'catalog.db'}",
        "warehouse": f"s3://{sandbox.s3.bucket}/{topic}-warehouse",
    }
    more = "[catalog.properties]\n"
    more += "".join(f"{key} = {json.dumps(it)}\n" for key, it in properties.items())
    for name in TABLES:
        more += f'[[tables]]\ntable = "{topic}.{name}"\nauto_create = true\n'
    config = write_config(
        folder,
        sandbox,
        group=topic,
        topic=topic,
        ledger="kafka",
        settings={
            "group": {"name": topic, "kind": "table"},
            "kafka": {"metadata_max_age": "1s"},
            "parser": {"decoder": "json"},
            "policy": {"max_messages": 1000, "max_age": "1s"},
            "commit": {"interval": "1s", "timeout": "4s", "control": "none"},
            "rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset"]},
        },
        more=more,
    )
    return Scene(sandbox, config, topic, start, capsys)


@pytest.mark.timeout(900)
def test_accidents_of_tables_topic_and_ledger_cost_no_row(
    sandbox: Sandbox,
    tmp_path: Path,
    start: Start,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scene = scene_of(sandbox, tmp_path, start, capsys)
    daemon = scene.daemon()
    for _ in range(2):
        scene.produce(2)
        scene.wait_for_rows(*TABLES, what="rows before any accident")
    tables_are_changed(scene)
    tables_are_gone(scene)
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0
    topic_is_made_again(scene)
    entries_are_lost(scene)


def tables_are_changed(scene: Scene) -> None:
    """One is rolled back, one gets another spec and a column, one is compacted and expired."""
    table = scene.table(ROLLED)
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    with scene.table(CHANGED).update_spec() as spec:
        spec.add_field("id", IdentityTransform(), "by_id")
    with scene.table(CHANGED).update_schema() as schema:
        schema.add_column("more", LongType())
    table = scene.table(KEPT)
    table.overwrite(cast(pa.Table, table.scan().to_arrow()))
    scene.table(KEPT).maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    with closing(KafkaAdminClient(bootstrap_servers=scene.sandbox.kafka)) as admin:
        admin.create_partitions({scene.topic: 3})
    scene.produce(3)
    scene.wait_for_rows(DROPPED, RENAMED, CHANGED, KEPT, what="rows of the tables that go on")
    scene.wait_for_stop(ROLLED, "was rolled back")
    scene.secor("tables", "replay", f"{scene.topic}.{ROLLED}")
    scene.wait_for_rows(ROLLED, what="rows that were removed, and those that waited")


def tables_are_gone(scene: Scene) -> None:
    """One is renamed and back, one is dropped and made again by the next batch."""
    scene.library.rename_table((scene.topic, RENAMED), (scene.topic, "elsewhere"))
    scene.wait_for_stop(RENAMED, "the catalog has no such table")
    scene.library.rename_table((scene.topic, "elsewhere"), (scene.topic, RENAMED))
    given_up = len(scene.ids)
    scene.library.drop_table((scene.topic, DROPPED))
    scene.wait_for_stop(DROPPED, "was dropped and recreated", produce=3)
    scene.wait_for_rows(*COMPLETE, what="rows of the tables that go on")

    def accepted() -> bool:
        if scene.is_stopped(DROPPED, "was dropped and recreated"):  # another worker was later
            scene.secor("tables", "accept", f"{scene.topic}.{DROPPED}")
            scene.produce(3)
        return scene.rows(DROPPED)[-60:] == scene.ids[-60:]

    wait_until(accepted, "rows after the accept")
    scene.wait_for_rows(*COMPLETE, what="rows of all tables that are complete")
    rows = scene.rows(DROPPED)
    assert len(rows) == len(set(rows))
    assert set(rows) <= set(scene.ids[given_up:])


def topic_is_made_again(scene: Scene) -> None:
    """Its tables stop until a person accepts it.

    A Kafka ledger forgets a topic that is deleted: its successor is stored at once.
    """
    with closing(KafkaAdminClient(bootstrap_servers=scene.sandbox.kafka)) as admin:
        admin.delete_topics([scene.topic])
        wait_until(lambda: scene.topic not in admin.list_topics(), "the topic is gone")
        admin.create_topics({scene.topic: {"num_partitions": 2, "replication_factor": 1}})
    scene.produce(2)
    scene.secor("tables", "commit", "--now")  # manifests of the same ranges go
    daemon = scene.daemon()
    for name in TABLES:
        scene.wait_for_stop(name, "was recreated")
        scene.secor("tables", "accept", f"{scene.topic}.{name}")
    scene.wait_for_rows(*COMPLETE, what="rows of the new topic beside those of the old")
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0


def entries_are_lost(scene: Scene) -> None:
    """The service refuses to begin anew; ``recover`` rebuilds the entries."""
    with closing(KafkaAdminClient(bootstrap_servers=scene.sandbox.kafka)) as admin:
        admin.delete_groups([scene.topic])
    scene.produce(2)
    refused = scene.daemon()
    wait_until(lambda: refused.text().count('"reason": "ledger_lost"') >= 2, "it refuses")
    refused.send(signal.SIGTERM)
    refused.wait()
    scene.secor("offsets", "recover", "--yes")
    daemon = scene.daemon()
    scene.wait_for_rows(*COMPLETE, what="rows after the entries were rebuilt")
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0
