"""Messages that a writer cannot take, at whatever stage: in quarantine, and the rest is stored."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from secor.batch.parse_trail import death_of
from secor.batch.plan import OutputStream, TopicPlan
from secor.batch.policy import Policy
from secor.core.errors import DiskFull, SchemaGrew
from secor.core.model import QUARANTINE, Chunk, Part, TopicPartition
from secor.core.ports import Sink
from secor.core.small_objects import put_bytes
from secor.parsing.parts import release_part
from secor.parsing.quarantine_limits import BadLimits
from tests.fakes.failing_format import FailingFormat, Refuse, refuse
from tests.fakes.format import PlainFormat, PlainWriter
from tests.fakes.ledger import LedgerServer
from tests.fakes.source import FakeBroker
from tests.unit.consume.test_poison_messages import KEY, Deadly, Death, Machine, stored


class LosslessFormat(PlainFormat):
    """Keeps the reason of a message in quarantine in the place of its value."""

    def create(self, sink: Sink, seed: bytes) -> PlainWriter:
        return LosslessWriter(sink)


class LosslessWriter(PlainWriter):
    def append(self, records: pa.RecordBatch) -> None:
        at = records.schema.get_field_index("value")
        reasons = pa.array([reason.encode() for reason in release_part(records)[1]], pa.binary())
        super().append(records.set_column(at, records.schema.field(at), reasons))


class PickyMachine(Machine):
    refuse: Refuse = staticmethod(lambda stage, offsets: None)
    max_messages = 4

    def plan(self, topic: str, fingerprint: str | None) -> TopicPlan:
        quarantine = OutputStream("root/_quarantine/clicks", LosslessFormat())
        plan = super().plan(topic, fingerprint)
        return replace(
            plan,
            log_format=FailingFormat(PlainFormat(), self.refuse),
            policy=Policy(max_messages=self.max_messages),
            streams={QUARANTINE: quarantine},
        )

    def reasons(self) -> list[str]:
        return sorted(
            bytes.fromhex(json.loads(line)[1]).decode()
            for key in self.store.objects
            if key.startswith("root/_quarantine/")
            for line in self.store.content(key).splitlines()
        )


@pytest.fixture
def machine(tmp_path: Path, broker: FakeBroker, server: LedgerServer) -> PickyMachine:
    return PickyMachine(tmp_path, broker, server)


@pytest.mark.parametrize("stage", ["append", "close"])
@pytest.mark.parametrize("offsets", [[5], [0, 1, 2, 3, 17, 39], list(range(40))])
def test_messages_that_cannot_be_written_are_in_quarantine_and_the_rest_is_stored(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer, stage: str, offsets: list[int]
) -> None:
    machine.refuse = refuse(stage, *offsets)
    broker.logs[KEY].produce(40)
    assert machine.live(200)
    assert stored(machine, "root/clicks/") == sorted({*range(40)} - {*offsets})
    assert stored(machine, "root/_quarantine/clicks/") == offsets
    assert server.entry(KEY).committed == 40
    why = "process: this message cannot be written: ArrowInvalid: value out of range"
    assert set(machine.reasons()) == {why}


def test_of_messages_that_cannot_be_together_the_later_one_is_in_quarantine(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer
) -> None:
    def look(stage: str, written: set[int]) -> None:
        if stage == "close" and {1, 3} <= written:
            raise OverflowError

    machine.refuse = look
    broker.logs[KEY].produce(8)
    assert machine.live(100)
    assert stored(machine, "root/_quarantine/clicks/") == [3]
    assert server.entry(KEY).committed == 8


def test_an_error_of_no_message_stops_the_partition_and_not_the_process(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer
) -> None:
    tries = iter(range(1000))

    def look(stage: str, written: set[int]) -> None:
        if stage == "close" and next(tries) % 2 == 0:
            raise ValueError("now and then")

    machine.refuse = look
    broker.logs[KEY].produce(4)
    assert machine.live(30)
    assert not [key for key in machine.store.objects if key.endswith(".skip")]


def test_messages_that_fail_in_no_chunk_stop_their_partition_and_not_the_process(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer
) -> None:
    def look(stage: str, written: set[int]) -> None:
        if stage == "close" and len(written) > 4:  # a chunk has 4 messages
            raise ValueError("too much")

    machine.refuse = look
    machine.max_messages = 8
    broker.logs[KEY].produce(8)
    assert machine.live(30)
    assert server.entry(KEY).committed == 0
    assert not [key for key in machine.store.objects if key.endswith(".skip")]
    [stopped] = {note for note in machine.notes if note.startswith("stopped")}
    assert "[0, 8) cannot be written, and no single one is known to be the cause: " in stopped


class Growing(Deadly):
    """Needs a wider schema at an offset, until a schema of that offset is there."""

    def __init__(self, offset: int) -> None:
        super().__init__(set())
        self.offset = offset
        self.schema = 0

    @property
    def identity(self) -> str:
        return f"{self.parser.identity} {self.schema}"

    def split(self, chunk: Chunk) -> Sequence[Part]:
        offsets = chunk.records.column("offset").to_pylist()
        if self.offset in offsets and self.schema < self.offset:
            raise SchemaGrew(self.offset)
        return self.parser.split(chunk)


class GrowingMachine(PickyMachine):
    """Begins at the committed offset with the schema of what is stored, as the service does."""

    def plan(self, topic: str, fingerprint: str | None) -> TopicPlan:
        parser = self.parser
        assert isinstance(parser, Growing)
        parser.schema = self.server.entry(KEY).committed or 0
        return super().plan(topic, fingerprint)


def test_a_message_before_one_that_needs_a_wider_schema_is_in_quarantine(
    tmp_path: Path, broker: FakeBroker, server: LedgerServer
) -> None:
    """The batch that ends for the schema is closed on another way than one that is due."""
    machine = GrowingMachine(tmp_path, broker, server)
    machine.parser = Growing(10)
    machine.max_messages = 100
    machine.refuse = refuse("close", 5)
    broker.logs[KEY].produce(100 + 10)
    assert machine.live(200)
    assert stored(machine, "root/_quarantine/clicks/") == [5]
    assert server.entry(KEY).committed == 110
    assert machine.started == 1


class Failing(Deadly):
    """Fails in the parser instead of killing."""

    error: Exception

    def split(self, chunk: Chunk) -> Sequence[Part]:
        if self.deadly & set(chunk.records.column("offset").to_pylist()):
            raise self.error
        return self.parser.split(chunk)


class OwnError(Exception):
    """Of a class that only its library, or a plug-in, knows."""


@pytest.mark.parametrize(
    "error",
    [
        UnicodeEncodeError("utf-8", "\ud7ff", 0, 1, "surrogates"),
        OwnError("no such city"),
        OSError("Arrow's, of a value"),
        OSError(errno.EOVERFLOW, "a time that the C library does not know"),
    ],
)
def test_an_error_of_a_parser_is_one_of_its_message(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer, error: Exception
) -> None:
    machine.parser = parser = Failing({17, 18})
    parser.error = error
    broker.logs[KEY].produce(40)
    assert machine.live(200)
    assert stored(machine, "root/_quarantine/clicks/") == [17, 18]
    assert server.entry(KEY).committed == 40


@pytest.mark.parametrize("dies_at", ["root/_suspects/", "root/_quarantine/", "root/clicks/"])
def test_the_decision_is_taken_once_and_its_reason_is_that_of_every_process(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer, dies_at: str
) -> None:
    machine.refuse = refuse("close", 5)
    broker.logs[KEY].produce(20)

    def die(call: str, key: str) -> None:
        if call == "put" and key.startswith(dies_at) and decisions(machine):
            raise Death

    machine.store.after = die
    assert not machine.live(100)
    before = dict(machine.store.objects)
    machine.store.after = lambda *_: None
    machine.refuse = lambda stage, offsets: None  # a newer version could write it
    assert machine.live(100)
    assert {key: machine.store.objects[key] for key in before} == before
    assert stored(machine, "root/clicks/") == [at for at in range(20) if at != 5]
    assert stored(machine, "root/_quarantine/clicks/") == [5]
    assert machine.reasons() == [
        "process: this message cannot be written: ArrowInvalid: value out of range"
    ]
    assert server.entry(KEY).committed == 20


@pytest.mark.parametrize("stage", ["append", "close"])
def test_a_message_that_kills_while_it_is_written_is_in_quarantine_after_four_deaths(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer, stage: str
) -> None:
    def look(at: str, written: set[int]) -> None:
        if at == stage and 17 in written:
            raise Death

    machine.refuse = look
    broker.logs[KEY].produce(40)
    assert [machine.live() for _ in range(5)] == [False, False, False, False, True]
    assert stored(machine, "root/_quarantine/clicks/") == [17]
    assert stored(machine, "root/clicks/") == [at for at in range(40) if at != 17]
    assert server.entry(KEY).committed == 40


class Limited(Deadly):
    """A parser with the limits of a pipeline."""

    def __init__(self, limits: BadLimits) -> None:
        super().__init__(set())
        self.limits = limits

    def count_bad(self, chunk: Chunk, bad: Mapping[int, str]) -> None:
        self.limits.add(chunk, bad)

    def refuse_share(
        self, topic_partition: TopicPartition, messages: int, bad: int, reason: str
    ) -> None:
        self.limits.refuse_share(topic_partition, messages, bad, reason)


def decisions(machine: PickyMachine) -> list[str]:
    return [key for key in machine.store.objects if key.endswith(".skip")]


@pytest.mark.parametrize(("fetched", "most"), [(4, 50), (10, 0), (400, 0)])
def test_a_cause_that_fails_all_messages_stops_the_partition_until_it_is_gone(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer, fetched: int, most: int
) -> None:
    machine.parser = Limited(BadLimits(max_ratio=0.5))
    machine.fetched = fetched
    machine.refuse = refuse("close", *range(400))  # a library is broken, a column's type is wrong
    broker.logs[KEY].produce(400)
    assert machine.live(300)
    few = len(decisions(machine))
    assert few <= most
    assert any("more than max_bad_ratio = 0.5 allows" in note for note in machine.notes)
    machine.refuse = lambda stage, offsets: None
    assert machine.live(300)
    assert len(decisions(machine)) == few
    assert len(stored(machine, "root/clicks/")) == 400 - few
    assert server.entry(KEY).committed == 400


def test_messages_that_cannot_be_written_count_against_the_limit_of_bad_ones(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer
) -> None:
    machine.parser = Limited(BadLimits(max_messages=2))
    machine.refuse = refuse("close", 3, 13, 23)
    broker.logs[KEY].produce(40)
    assert machine.live(200)
    assert stored(machine, "root/_quarantine/clicks/") == [3, 13]
    assert any("max_bad_messages = 2" in note for note in machine.notes)
    assert server.entry(KEY).committed == 20


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left"),
        OSError(errno.EIO, "I/O"),
        TimeoutError("without a number"),
        MemoryError(),
    ],
)
def test_what_the_machine_lacks_is_no_message_s_fault(
    machine: PickyMachine, broker: FakeBroker, error: Exception
) -> None:
    def look(stage: str, written: set[int]) -> None:
        if 17 in written:
            raise error

    machine.refuse = look
    broker.logs[KEY].produce(40)
    with pytest.raises(type(error)):
        machine.live(100)
    noted = death_of(machine.directory / "process-1")
    assert (noted is not None) is isinstance(error, MemoryError)
    assert decisions(machine) == []
    machine.refuse = lambda stage, offsets: None
    assert machine.live(100)
    assert stored(machine, "root/clicks/") == list(range(40))


def test_a_full_disk_is_waited_for_also_while_messages_are_tried(
    machine: PickyMachine, broker: FakeBroker, server: LedgerServer
) -> None:
    full = iter([False, True, True] + [False] * 1000)

    def look(stage: str, written: set[int]) -> None:
        if stage == "close" and 5 in written:
            if next(full):
                raise DiskFull("no room")
            raise ValueError("5")

    machine.refuse = look
    broker.logs[KEY].produce(40)
    assert machine.live(200)
    assert stored(machine, "root/_quarantine/clicks/") == [5]
    assert server.entry(KEY).committed == 40


def test_a_large_suspected_range_is_divided_into_few_pieces(
    machine: PickyMachine, broker: FakeBroker
) -> None:
    """Two processes may have died while they closed a file of millions of messages."""
    for process in "ab":
        key = f"root/_suspects/clicks/1_0_{0:020d}-{1_000_000:020d}.{process}.died"
        put_bytes(machine.store, key, b"{}\n")
    machine.fetched = machine.max_messages = 2500
    broker.logs[KEY].produce(2500)
    assert machine.live(20)
    assert machine.parser.sizes == [1000, 1000, 500]
    assert stored(machine, "root/clicks/") == list(range(2500))
