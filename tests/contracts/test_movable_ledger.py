"""A ledger that is moved, on real servers: between ZooKeeper and Kafka, and to another root."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from secor.adapters.kafka import KafkaLedger, KafkaMovableLedger, KafkaOperatorLedger
from secor.adapters.zookeeper import Options, ZooKeeperLedger, ZooKeeperMovableLedger
from secor.archive.repair.relocation import MovableLedger, plan_relocation, relocate
from secor.core.errors import LeaseLost, LedgerCorrupt, LedgerMoved, Refused, Unavailable
from secor.core.model import Entry, Intent, TopicPartition
from secor.core.ports import OffsetLedger
from secor.core.relocation import Direction, KeptEntry, Relocation
from secor.sandbox import Sandbox
from tests.contracts.kafka_group import PATIENCE, Broker
from tests.contracts.ledgers import ZooKeeperLedgers, eventually
from tests.fakes.movable_ledger import Crash

INTENT = Intent(7, 20, "f" * 32, "process 1", 1790000000.5, "backup/clicks")


def patiently(act: Callable[[], object]) -> None:
    """Act; a coordinator that has only just been chosen says that it loads its groups."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            act()
            return
        except Unavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)


class World:
    """A group with entries in one ledger, and another ledger to move them to."""

    def __init__(self, sandbox: Sandbox, opened: ExitStack) -> None:
        self.zookeepers = ZooKeeperLedgers(sandbox.zookeeper, opened)
        self.broker = Broker(sandbox.kafka)
        self.group = self.zookeepers.group = self.broker.name("group")
        self.topic = self.broker.topic(partitions=3)
        self.opened = opened
        self.entries = {
            TopicPartition(self.topic, 0): Entry(5, None, "id-1", leader_epoch=3),
            TopicPartition(self.topic, 1): Entry(7, INTENT, "id-1", leader_epoch=4),
            TopicPartition(self.topic, 2): Entry(0),
        }

    def zookeeper(self, root: str = "") -> ZooKeeperMovableLedger:
        options = Options(
            hosts=self.zookeepers.address, session_timeout=8.0, connect_timeout=PATIENCE
        )
        root = self.zookeepers.root + root
        ledger = ZooKeeperMovableLedger(options, root=root, group=self.group)
        self.opened.callback(ledger.close)
        return ledger

    def kafka(self) -> KafkaMovableLedger:
        ledger = KafkaMovableLedger(self.broker.options, group=self.group)
        self.opened.callback(ledger.close)
        return ledger

    def fill(self, ledger: MovableLedger) -> None:
        ledger.identify()
        for topic_partition, entry in self.entries.items():
            patiently(partial(ledger.keep, topic_partition, None, entry, None))

    def operator(self, ledger: MovableLedger) -> ZooKeeperLedger | KafkaOperatorLedger:
        """Return the ledger as commands use it."""
        operator: ZooKeeperLedger | KafkaOperatorLedger
        if isinstance(ledger, ZooKeeperMovableLedger):
            operator = self.zookeepers.process(root=ledger._layout.path)
        else:
            operator = KafkaOperatorLedger(self.broker.options, group=self.group)
            self.opened.callback(operator.close)
        return operator

    def move(self, source: MovableLedger, target: MovableLedger) -> None:
        places = source.identify(), target.identify()
        patiently(target.record)
        plan = plan_relocation(source, target, places, lambda key: key in self.entries)
        if not plan.done:
            relocate(source, target, plan, lambda: None, time="2026-11-27T08:00:00Z", by="me@host")


@pytest.fixture
def world(sandbox: Sandbox) -> Iterator[World]:
    with ExitStack() as opened:
        yield World(sandbox, opened)


Pair = Callable[[World], tuple[MovableLedger, MovableLedger]]
PAIRS: dict[str, Pair] = {
    "zookeeper to kafka": lambda world: (world.zookeeper(), world.kafka()),
    "kafka to zookeeper": lambda world: (world.kafka(), world.zookeeper()),
    "to another root": lambda world: (world.zookeeper(), world.zookeeper("/new")),
}


def read(ledger: OffsetLedger, entries: dict[TopicPartition, Entry]) -> dict[object, object]:
    found = {key: ledger.read(key) for key in entries}
    return {key: (entry, entry.leader_epoch) for key, entry in found.items()}


@pytest.mark.parametrize("pair", PAIRS)
def test_every_part_of_the_entries_moves_and_comes_back(world: World, pair: str) -> None:
    source, target = PAIRS[pair](world)
    world.fill(source)
    expected = {key: (entry, entry.leader_epoch) for key, entry in world.entries.items()}
    for here, there in ((source, target), (target, source)):
        world.move(here, there)
        with pytest.raises(LedgerMoved, match=r"were moved from .* to .* 2026-11-27.* me@host"):
            world.operator(here).refuse_relocated()
        for topic_partition in world.entries:
            with pytest.raises(LedgerMoved, match="were moved from"):
                world.operator(here).read(topic_partition)
        operator = world.operator(there)
        operator.refuse_relocated()
        assert read(operator, world.entries) == expected
        assert operator.entries() == world.entries


@pytest.mark.parametrize("pair", PAIRS)
def test_a_crash_after_any_write_is_finished_by_the_same_move(world: World, pair: str) -> None:
    source, target = PAIRS[pair](world)
    world.fill(source)
    crashes = 0
    with pytest.MonkeyPatch.context() as patched:
        for ledger in (source, target):
            patched.setattr(ledger, "keep", crashing(ledger.keep))
            if isinstance(ledger, ZooKeeperMovableLedger):
                patched.setattr(ledger, "write_record", crashing(ledger.write_record))
        while _crashes(partial(world.move, source, target)):
            crashes += 1
            assert any(_closed(world.operator(ledger)) for ledger in (source, target)), crashes
    assert crashes >= 3 * len(world.entries)
    world.operator(target).refuse_relocated()
    assert world.operator(target).entries() == world.entries
    assert _closed(world.operator(source))


def crashing(write: Callable[..., None]) -> Callable[..., None]:
    """Return a write after which the process ends: the next one goes on behind it."""

    def write_and_crash(*arguments: object) -> None:
        write(*arguments)
        raise Crash

    return write_and_crash


def _crashes(act: Callable[[], None]) -> bool:
    try:
        act()
    except Crash:
        return True
    return False


def _closed(ledger: ZooKeeperLedger | KafkaOperatorLedger) -> bool:
    try:
        ledger.refuse_relocated()
    except LedgerMoved:
        return True
    return False


MARK = Relocation(Direction.MOVED_TO, "Kafka (cluster c)", "c", "2026-11-27T08:00:00Z", "me@host")


def test_a_process_that_runs_is_stopped_by_the_record_in_zookeeper(world: World) -> None:
    """It has a lease, has read before, and does not look again: its writes are refused."""
    movable = world.zookeeper()
    world.fill(movable)
    key = TopicPartition(world.topic, 0)
    process = world.zookeepers.process()
    process.check()
    lease = process.lease(key, PATIENCE)
    entry = lease.read()
    assert movable.users()[0].startswith("process ")
    movable.identify()
    movable.write_record(MARK)
    with pytest.raises(Refused, match="/ledger has changed"):
        lease.commit(entry, 6, "id-1")
    lease.release()
    with pytest.raises(LedgerMoved, match="to Kafka"):
        process.lease(key, PATIENCE)
    with pytest.raises(LedgerMoved, match="to Kafka"):
        process.read(key)
    with pytest.raises(LedgerMoved, match="to Kafka"):
        world.zookeepers.process().check()
    eventually(lambda: movable.users() == [], "free")
    assert movable.kept()[key].entry.committed == 5


def test_a_first_entry_is_not_made_in_a_zookeeper_ledger_that_is_closed(world: World) -> None:
    process = world.zookeepers.process()
    process.check()
    key = TopicPartition("later", 0)
    entry = process.read(key)
    movable = world.zookeeper()
    movable.identify()
    movable.write_record(MARK)
    with pytest.raises(Refused):
        process.lease(key, PATIENCE).finish(entry, 0, None)
    with pytest.raises(LedgerMoved):
        process.read(key)


def test_java_secor_and_earlier_versions_find_no_offset_in_a_closed_entry(world: World) -> None:
    movable = world.zookeeper()
    world.fill(movable)
    key = TopicPartition(world.topic, 0)
    movable.keep(key, movable.kept()[key], Entry(5), MARK)
    path = f"{world.zookeepers.root}/consumers/{world.group}/offsets/{key}"
    text = world.zookeepers.raw.get(path)[0]
    assert text.startswith(b'{"secor":2,"moved_to":"Kafka (cluster c)"')
    with pytest.raises(ValueError, match="invalid literal"):
        int(text)
    world.zookeepers.raw.set(path, text.replace(b'"secor":2', b'"secor":3'))
    with pytest.raises(LedgerCorrupt):
        world.zookeepers.process().read(key)


def test_a_consumer_of_java_secor_that_is_registered_uses_the_ledger(world: World) -> None:
    movable = world.zookeeper()
    ids = f"{world.zookeepers.root}/consumers/{world.group}/ids"
    world.zookeepers.raw.create(f"{ids}/old-consumer-1", b"", makepath=True, ephemeral=True)
    assert movable.users() == ["old-consumer-1"]


def test_the_id_of_a_zookeeper_ledger_is_its_own_and_stays(world: World) -> None:
    first, second = world.zookeepers.process(), world.zookeepers.process()
    first.check()
    second.check()
    other = world.zookeepers.process(group="another")
    other.check()
    assert first.id == second.id
    assert first.id
    assert other.id != first.id
    movable = world.zookeeper()
    assert movable.place().id == first.id
    assert world.zookeeper("/new").place().id is None


def test_two_moves_of_a_zookeeper_ledger_at_once_are_refused(world: World) -> None:
    one, other = world.zookeeper(), world.zookeeper()
    world.fill(one)
    other.record()
    one.record()
    one.write_record(MARK)
    with pytest.raises(Refused):
        other.write_record(MARK)
    key = TopicPartition(world.topic, 0)
    with pytest.raises(Refused):
        other.keep(key, other.kept()[key], Entry(5), MARK)


def test_a_member_of_the_group_keeps_its_kafka_ledger_from_being_moved(world: World) -> None:
    movable = world.kafka()
    world.fill(movable)
    source = world.broker.source(world.group, [world.topic])
    world.opened.callback(source.close)
    ledger = KafkaLedger(source, group=world.group)
    key = TopicPartition(world.topic, 0)
    eventually(lambda: key in source.membership.pins, "assigned")
    assert movable.users()
    with pytest.raises(LeaseLost, match="running members"):
        movable.keep(key, movable.kept()[key], Entry(5), MARK)
    assert ledger.read(key).committed == 5


def test_a_process_that_joins_a_group_with_a_closed_entry_reads_none_of_them(world: World) -> None:
    """Not even those that are not closed (yet), or missing: it looks at all, once it has joined."""
    movable = world.kafka()
    world.fill(movable)
    closed, other = TopicPartition(world.topic, 0), TopicPartition(world.topic, 1)
    kept = movable.kept()[closed]
    movable.keep(closed, KeptEntry(kept.entry, None, kept.version), kept.entry, MARK)
    source = world.broker.source(world.group, [world.topic])
    world.opened.callback(source.close)
    eventually(lambda: other in source.membership.pins, "assigned")
    ledger = KafkaLedger(source, group=world.group)
    for topic_partition in (closed, other, TopicPartition("later", 0)):
        with pytest.raises(LedgerMoved, match=r"were moved from Kafka to Kafka \(cluster c\)"):
            ledger.read(topic_partition)


def test_another_programs_commit_in_the_group_is_no_record(world: World) -> None:
    movable = world.kafka()
    world.fill(movable)
    world.broker.commit(world.group, TopicPartition(world.topic, 2), 3, "somebody's")
    world.operator(movable).refuse_relocated()
    with pytest.raises(LedgerCorrupt, match="/2: the metadata"):
        movable.kept()
