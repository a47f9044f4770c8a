"""Messages that kill every process which parses them: the group comes out by itself."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from secor.batch import parse_trail
from secor.batch.parse_trail import FILE, ParseTrail, death_of
from secor.batch.plan import OutputStream, TopicPlan
from secor.batch.policy import Policy
from secor.batch.workspace import Workspace
from secor.commit.uploader import Uploader
from secor.consume.backpressure import BufferLimits
from secor.consume.consumer import Consumer
from secor.consume.poison_messages import REASON, PoisonMessages, overlaps
from secor.consume.positioning import PositionFinder
from secor.core.errors import RestartPartition, SecorError
from secor.core.model import QUARANTINE, Chunk, OffsetRange, Part, TopicPartition
from secor.core.naming import topic_of
from secor.parsing.offset_layout import OffsetBuckets
from secor.parsing.parts import quarantine_part
from tests.fakes.clock import FakeClock
from tests.fakes.executor import InlineExecutor
from tests.fakes.format import PlainFormat
from tests.fakes.ledger import LedgerServer
from tests.fakes.observer import SilentObserver
from tests.fakes.source import FakeBroker
from tests.fakes.store import FakeStore

KEY = TopicPartition("clicks", 0)
MIB = 1 << 20


class Death(BaseException):
    """The process is gone."""


class Deadly:
    """Kills the process at some offsets; notes the size of chunks."""

    def __init__(self, deadly: set[int]) -> None:
        self.parser = OffsetBuckets(1000)
        self.deadly = deadly
        self.sizes: list[int] = []

    @property
    def identity(self) -> str:
        return self.parser.identity

    def split(self, chunk: Chunk) -> Sequence[Part]:
        offsets = chunk.records.column("offset").to_pylist()
        if self.deadly & set(offsets):
            raise Death
        self.sizes.append(len(offsets))
        return self.parser.split(chunk)


class Noting(SilentObserver):
    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def quarantined(self, topic_partition: TopicPartition, stage: str, messages: int) -> None:
        self.notes.append(f"{stage} {messages}")

    def died(self, topic_partition: TopicPartition, suspected: OffsetRange) -> None:
        self.notes.append(f"died {suspected.start}-{suspected.end}")

    def left_out(self, topic_partition: TopicPartition, offset: int, reason: str) -> None:
        self.notes.append(f"left out {offset}")

    def stopped(self, topic_partition: TopicPartition, error: SecorError) -> None:
        self.notes.append(f"stopped {error}")


class Machine:
    """One process after the other, in one directory."""

    fetched = 4

    def __init__(self, directory: Path, broker: FakeBroker, server: LedgerServer) -> None:
        self.directory = directory
        self.broker = broker
        self.server = server
        self.store = FakeStore()
        self.clock = FakeClock()
        self.parser = Deadly(set())
        self.notes: list[str] = []
        self.started = 0

    def plan(self, topic: str, fingerprint: str | None) -> TopicPlan:
        quarantine = OutputStream("root/_quarantine/clicks", PlainFormat())
        return TopicPlan(
            *("group", "root/clicks", 1, self.parser, PlainFormat(), Policy(max_messages=4)),
            streams={QUARANTINE: quarantine},
        )

    def live(self, rounds: int = 40) -> bool:
        """Run a process; tell whether it survived.  It leaves its directory behind."""
        self.started += 1
        name = f"process-{self.started}"
        workspace = Workspace(self.directory, name)
        trail = ParseTrail(workspace.directory)
        consumer = self._consumer(name, workspace, trail)
        try:
            for _ in range(rounds):
                consumer.run_once(0.0)
                self.clock.advance(1.0)
            return True
        except Death:
            return False
        finally:
            trail.close()
            os.close(workspace._lock)

    def _consumer(self, name: str, workspace: Workspace, trail: ParseTrail) -> Consumer:
        observer, rng = Noting(self.notes), random.Random(1)
        ledger = self.server.client(name)
        source = self.broker.source(most=self.fetched)
        suspects = PoisonMessages(
            store=self.store,
            clock=self.clock,
            observer=observer,
            trail=trail,
            deaths=workspace.deaths,
            quarantine=quarantine_part,
            workspace=workspace,
        )
        source.assign([KEY])
        return Consumer(
            source=source,
            positioning=PositionFinder(
                ledger=ledger,
                source=source,
                store=self.store,
                plans=self.plan,
                clock=self.clock,
                observer=observer,
                rng=rng,
                poison_messages=suspects,
            ),
            uploader=Uploader(
                ledger=ledger,
                store=self.store,
                clock=self.clock,
                owner=name,
                observer=observer,
                rng=rng,
                request_lifetime=5.0,
            ),
            executor=InlineExecutor(),
            workspace=workspace,
            limits=BufferLimits(MIB, MIB),
            clock=self.clock,
            observer=observer,
        )


@pytest.fixture
def machine(tmp_path: Path, broker: FakeBroker, server: LedgerServer) -> Machine:
    return Machine(tmp_path, broker, server)


def stored(machine: Machine, below: str) -> list[int]:
    return sorted(
        message.as_py()
        for found in machine.store.list(below)
        for batch in PlainFormat().read(machine.store.open(found.key), found.key)
        for message in batch.column("offset")
    )


def live_until_it_survives(machine: Machine, most: int) -> int:
    """Return how many processes died."""
    for deaths in range(most + 1):
        if machine.live():
            return deaths
    raise AssertionError(f"{most} processes died")


def test_a_message_that_kills_is_in_quarantine_after_four_deaths(
    machine: Machine, broker: FakeBroker, server: LedgerServer
) -> None:
    machine.parser.deadly = {17}
    broker.logs[KEY].produce(40)
    assert live_until_it_survives(machine, 6) == 4
    assert machine.notes == [
        *("died 16-20", "died 16-20", "died 17-18", "died 17-18"),
        *("left out 17", "process 1"),
    ]
    assert stored(machine, "root/clicks/") == [at for at in range(40) if at != 17]
    assert stored(machine, "root/_quarantine/clicks/") == [17]
    assert server.entry(KEY).committed == 40
    broker.logs[KEY].produce(12)
    assert machine.live()
    assert stored(machine, "root/clicks/")[-12:] == list(range(40, 52))


def test_one_by_one_only_where_processes_died_and_only_until_it_is_committed(
    machine: Machine, broker: FakeBroker
) -> None:
    machine.parser.deadly = {17}
    broker.logs[KEY].produce(40)
    assert [machine.live() for _ in range(2)] == [False, False]
    machine.parser.deadly = set()  # it was something else, such as a lack of memory
    machine.parser.sizes.clear()
    assert machine.live()
    assert machine.parser.sizes.count(1) == 4
    assert stored(machine, "root/clicks/") == list(range(40))
    machine.parser.sizes.clear()
    broker.logs[KEY].produce(10)
    assert machine.live()
    assert 1 not in machine.parser.sizes[:-1]
    assert not [key for key in machine.store.objects if key.endswith(".skip")]


def test_one_death_changes_nothing(machine: Machine, broker: FakeBroker) -> None:
    machine.parser.deadly = {17}
    broker.logs[KEY].produce(40)
    assert not machine.live()
    before = machine.plan("clicks", None).fingerprint
    machine.parser.deadly = set()
    assert machine.live()
    assert 1 not in machine.parser.sizes
    fingerprints = {
        (machine.store.head(found.key).metadata or {})["fingerprint"]
        for found in machine.store.list("root/clicks/")
    }
    assert fingerprints == {before}


def test_several_messages_that_kill_come_out_one_after_the_other(
    machine: Machine, broker: FakeBroker
) -> None:
    machine.parser.deadly = {5, 6, 30}
    broker.logs[KEY].produce(40)
    assert live_until_it_survives(machine, 12) <= 10
    assert stored(machine, "root/_quarantine/clicks/") == [5, 6, 30]
    assert stored(machine, "root/clicks/") == sorted({*range(40)} - {5, 6, 30})


def test_an_intent_that_was_open_before_the_decision_is_superseded(
    machine: Machine, broker: FakeBroker, server: LedgerServer
) -> None:
    broker.logs[KEY].produce(20)

    def die(call: str, key: str) -> None:
        if call == "put" and key.startswith("root/clicks/"):
            raise Death

    machine.store.after = die
    assert not machine.live()  # the object is there, and its batch not committed
    machine.store.after = lambda *_: None
    assert server.entry(KEY).intent is not None
    machine.parser.deadly = {5}
    live_until_it_survives(machine, 6)
    assert stored(machine, "root/clicks/") == [at for at in range(20) if at != 5]
    assert stored(machine, "root/_quarantine/clicks/") == [5]
    assert server.entry(KEY).committed == 20


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(6))
def test_whatever_dies_after_the_decision_makes_the_same_objects(
    machine: Machine, broker: FakeBroker, number: int, after: bool
) -> None:
    machine.parser.deadly = {5}
    broker.logs[KEY].produce(20)
    assert [machine.live() for _ in range(4)] == [False] * 4
    calls = iter(range(100))

    def die(call: str, _: str) -> None:
        if call == "put" and next(calls) == number:
            raise Death

    setattr(machine.store, "after" if after else "before", die)
    machine.live()
    seen = {
        key: machine.store.content(key) for key in machine.store.objects if "_suspects" not in key
    }
    machine.store.before = machine.store.after = lambda *_: None
    assert live_until_it_survives(machine, 1) == (number == 0 and not after)  # a lost note
    assert {key: machine.store.content(key) for key in seen} == seen
    assert stored(machine, "root/clicks/") == [at for at in range(20) if at != 5]
    assert stored(machine, "root/_quarantine/clicks/") == [5]


class _Restarting(Deadly):
    def split(self, chunk: Chunk) -> Sequence[Part]:
        if self.deadly:
            self.deadly = set()
            raise RestartPartition("not now")
        return super().split(chunk)


def test_an_error_that_the_process_survives_is_no_death(
    machine: Machine, broker: FakeBroker
) -> None:
    machine.parser = _Restarting({1})
    broker.logs[KEY].produce(20)
    assert machine.live()
    assert not machine.parser.deadly
    assert death_of(machine.directory / "process-1") is None


@pytest.mark.parametrize("note", [b"", b"\n", b"\x00" * 9, b"[1]\n", b"{}\n", b'["a","b",1,2]'])
def test_a_note_that_is_none_is_no_death(tmp_path: Path, note: bytes) -> None:
    (tmp_path / FILE).write_bytes(note)
    assert death_of(tmp_path) is None
    assert death_of(tmp_path / "nothing") is None


def test_foreign_objects_beside_the_notes_are_passed_over(
    machine: Machine, broker: FakeBroker
) -> None:
    strange = [
        "1_0_x.skip",
        "1_0_00000000000000000009-00000000000000000001.p.died",
        "a/b",
        f"1_0_{'9' * 20}.skip",
        f"1_0_{1:020d}-{'9' * 20}.p.died",
        "x.died",
    ]
    for name in strange:
        machine.store.put(f"root/_suspects/clicks/{name}", b"", 0, {})
    broker.logs[KEY].produce(20)
    assert machine.live()
    assert stored(machine, "root/clicks/") == list(range(20))


def test_what_ranges_have_in_common() -> None:
    ranges = [OffsetRange(0, 10), OffsetRange(5, 15), OffsetRange(20, 30), OffsetRange(5, 15)]
    assert overlaps(ranges) == (OffsetRange(5, 10), OffsetRange(5, 15))
    assert overlaps(ranges[:1]) == ()


def test_the_directory_is_no_topics() -> None:
    assert topic_of("_suspects") is None
    assert REASON.startswith("process: 2 ")


def test_threads_that_record_one_death_at_once_do_not_meet(tmp_path: Path) -> None:
    """All partitions of a topic are located at once after a death."""
    store, errors = FakeStore(), list[BaseException]()
    death = parse_trail.Death(KEY, 0, 4, "process")
    plan = TopicPlan(
        "backup", "root/clicks", 1, OffsetBuckets(1000), PlainFormat(), Policy(max_messages=10)
    )
    suspects = PoisonMessages(
        store=store,
        clock=FakeClock(),
        observer=SilentObserver(),
        trail=ParseTrail(tmp_path),
        deaths=[death],
        quarantine=quarantine_part,
        workspace=Workspace(tmp_path / "local", "process"),
    )

    def locate() -> None:
        try:
            suspects.watched(KEY, plan, 0, 0.0)
        except ValueError as error:
            errors.append(error)

    other = threading.Thread(target=locate)

    def meet(call: str, _: str) -> None:
        if call == "put" and not other.is_alive() and not other.ident:
            other.start()
            other.join(0.2)

    store.before = meet
    locate()
    other.join()
    assert errors == []
    assert len([key for key in store.objects if key.endswith(".died")]) == 1
