"""Six messages of a topic, consumed by a partition group into a store in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from secor.archive.objects import Archive
from secor.archive.quarantine.listing import quarantined
from secor.archive.quarantine.replay import Replay, ReplayResult
from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.config.load import validate
from secor.config.model import Config
from secor.core.model import Chunk, Entry, TopicPartition
from secor.core.naming import parse_key
from secor.formats import format_of_key
from secor.wiring.plans import plan_for, replaying_plans
from tests.fakes.archive import OperatorLedger, messages
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore

HERE = TopicPartition("clicks", 0)
DAY = 1_700_000_000
VALUES = {
    0: b'{"time": %d, "when": 1}' % DAY,
    1: b'{"when": "2023-11-15T12:00:00Z"}',
    2: b"{broken",
    3: b'{"time": %d}' % DAY,
    4: b'{"when": "2023-11-14T23:00:00Z"}',
    5: b'{"when": "2023-11-15T01:00:00Z", "bot": "yes"}',
}
WHEN = {"time_field": "when", "time_format": "iso8601"}
NO_BOTS = {"kind": "filter", "field": "bot", "exists": True, "negated": True}


def config(parser: Mapping[str, object], format: str = "sequencefile") -> Config:
    tree = {
        "group": {"name": "g", "kind": "partition"},
        "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
        "store": {"kind": "local", "local": {"directory": "/nowhere"}},
        "output": {"prefix": "p", "format": format},
        "parser": {"max_bad_ratio": "none", **parser},
    }
    made, faults = validate(tree)
    assert made is not None, faults
    return made


@dataclass
class World:
    folder: Path
    store: FakeStore = field(default_factory=FakeStore)
    ledger: OperatorLedger = field(default_factory=lambda: OperatorLedger({HERE: Entry(6)}))
    format: str = "sequencefile"
    targets: tuple[str, ...] = ()
    turn: int = 0
    grown: list[int] = field(default_factory=list)

    @property
    def archive(self) -> Archive:
        return Archive(self.store, "p", targets=self.targets)

    def workspace(self) -> Workspace:
        self.turn += 1
        return Workspace(self.folder, f"process-{self.turn}")

    def consume(self, plan: TopicPlan | None = None, topic_id: str | None = None) -> None:
        """Do what the daemon does with the messages, parsed by the field ``time``."""
        plan = plan or plan_for(config({"time_field": "time"}), "clicks")
        batch = Batch(
            HERE,
            0,
            plan=plan,
            workspace=self.workspace(),
            clock=FakeClock(),
            topic_id=topic_id,
        )
        batch.append(Chunk(HERE, messages(range(6), VALUES.get), 6))
        for file in batch.seal(Reason.AGE).files:
            self.store.put(file.key, file.local.path, file.local.crc32c, file.info.metadata())

    def replay(self, parser: Mapping[str, object], **options: bool) -> list[ReplayResult]:
        dry_run = options.get("dry_run", False)
        plans = replaying_plans(
            config(parser, self.format), "clicks", self.store, self.told, dry_run=dry_run
        )
        workspace = self.workspace()
        try:
            doing = Replay(self.archive, plans, self.ledger, workspace, FakeClock())
            return [doing.replay(one, **options) for one in quarantined(self.archive, "clicks")]
        finally:
            workspace.close()

    def told(self, version: int, fields: list[str], outvoted: list[str]) -> None:
        assert fields
        self.grown.append(version)

    def rows(self, root: str) -> dict[str, list[int]]:
        """Offsets by output partition, of the objects below ``root``."""
        found: dict[str, list[int]] = {}
        for key in sorted(self.store.objects):
            name = parse_key(root, key)
            if name is not None:
                with self.store.open(key) as file:
                    for records in format_of_key(key, file).read(file, key):
                        offsets = records.column("offset").to_pylist()
                        found.setdefault(name.output_partition, []).extend(offsets)
        return found

    @property
    def data(self) -> dict[str, list[int]]:
        return self.rows("p/clicks")

    @property
    def bad(self) -> dict[str, list[int]]:
        return self.rows("p/_quarantine/clicks")

    def once(self) -> None:
        """Every message is somewhere, and nowhere twice."""
        offsets = [
            one for where in (self.data, self.bad) for held in where.values() for one in held
        ]
        assert sorted(offsets) == list(range(6))
