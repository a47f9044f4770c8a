"""Workers, coordinators and tables in one thread, with faults at every call between them.

Workers do what the commit protocol promises: a manifest is put before the ledger moves, and a
range has one manifest.  Coordinators are the real ones, over a store, a ledger, a catalog and a
channel in memory.  What is promised is read from the tables' live files.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from secor.core.errors import ConfigurationError, OutcomeUnknown, SecorError, Unavailable
from secor.core.model import Entry, OffsetRange, StoredObject, TopicPartition
from secor.core.small_objects import put_bytes
from secor.tables.catalog import CommitResult, Outcome, Table
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest
from secor.tables.commit.cycle_commit import CycleCommit
from secor.tables.commit.group_record import GroupRecord, Lineage, lineage
from secor.tables.commit.merging import BranchMerge, MergeResult
from secor.tables.commit.refused_files import FileState, RefusedFile
from secor.tables.commit.selection import EVERY_OPERATION
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.control import ControlEvent, EventKind, PartitionAnswer
from secor.tables.coordinator import Coordinator, Identity
from secor.tables.cycle import Timing
from secor.tables.repair.lost_entries import ProofReader, quarantined_after
from secor.tables.repair.set_aside import FileDecisions, find_staged_file
from secor.tables.repair.settle import StateAcceptance
from secor.tables.staging.file_messages import StagedFile
from secor.tables.staging.manifest import DataFile, Manifest, ReplayOf, TableFiles
from secor.tables.staging.staged_manifests import Staging
from tests.fakes.archive import OperatorLedger
from tests.fakes.store import FakeStore
from tests.fakes.table_catalog import FakeCatalog, TableServer
from tests.simulation.invariants import Violated
from tests.simulation.scheduler import Crash, Host, Hub
from tests.unit.tables.world import CLUSTER, GROUP, PREFIX, Recorder

PARTITIONS = (TopicPartition("clicks", 0), TopicPartition("clicks", 1))
ADDED = TopicPartition("clicks", 2)
"""A partition that appears later."""
QUIET = TopicPartition("quiet", 0)
"""A partition without messages, which nobody reads."""
LONGEST_BATCH = 8
TABLES = ("db.all", "db.odd")
TIMING = Timing(interval=5.0, timeout=3.0)
KEEP = 60.0
SHARES = ((0.0, 0.0), (0.0, 1.0), (0.5, 1.0))

Row = tuple[TopicPartition, int]


def is_bad(offset: int) -> bool:
    """Tell whether a message is in quarantine at first, and in its tables once it is replayed."""
    return offset % 7 == 3


def belongs(table: str, offset: int) -> bool:
    """Tell whether a message is for a table: all are for one, and odd offsets for the other."""
    return table == "db.all" or offset % 2 == 1


@dataclass(frozen=True)
class Point:
    """One side of one call across a port."""

    number: int
    host: str
    name: str
    phase: str


Fault = Callable[[Point], str | None]
"""Returns what happens at a point: ``crash``, ``stall``, ``fail``, ``late``, or nothing."""


def no_fault(point: Point) -> str | None:
    return None


@dataclass
class HubClock:
    """A ``Clock`` of the hub's time."""

    hub: Hub

    def now(self) -> float:
        return self.hub.now

    def monotonic(self) -> float:
        return self.hub.now

    def sleep(self, seconds: float) -> None:
        self.hub.sleep(seconds)


class Channel:
    """A topic in memory that loses, repeats and reorders."""

    def __init__(self, rng: random.Random, loss: float) -> None:
        self.rng = rng
        self.loss = loss
        self.readers: dict[str, list[ControlEvent]] = {}

    def send(self, event: ControlEvent) -> None:
        for queue in self.readers.values():
            if self.rng.random() < self.loss / 3:
                queue.append(self._forged(event))
            if self.rng.random() < self.loss:
                continue
            for _ in range(2 if self.rng.random() < self.loss else 1):
                queue.insert(self.rng.randint(0, len(queue)), event)

    def _forged(self, event: ControlEvent) -> ControlEvent:
        answers = tuple(PartitionAnswer(key, 10**9, 10**15) for key in (*PARTITIONS, ADDED, QUIET))
        return replace(
            event,
            kind=self.rng.choice(list(EventKind)),
            commit=self.rng.choice((event.commit, "forged")),
            epoch=self.rng.choice((0, event.epoch, 1 << 60)),
            sender="somebody",
            answers=answers,
            manifest="no/such/manifest.json",
        )

    def receive(self, reader: str) -> list[ControlEvent]:
        arrived, self.readers[reader] = self.readers.get(reader, []), []
        return arrived


@dataclass
class Reader:
    """One process's end of the channel."""

    world: TableWorld
    name: str

    def send(self, event: ControlEvent) -> None:
        self.world.channel.send(event)

    def receive(self) -> Sequence[ControlEvent]:
        return self.world.channel.receive(self.name)

    def close(self) -> None:
        """Nothing is open."""


class TableWorld:
    """Everything; ``step`` lets one thing happen and checks the promises."""

    def __init__(
        self,
        hub: Hub,
        seed: int | str,
        fault: Fault = no_fault,
        shares: tuple[float, float] | None = None,
    ) -> None:
        """``shares`` of the batches of each table are changes of rows; without, by chance."""
        self.hub = hub
        self.rng = random.Random(f"tables {seed}")
        self.fault = fault
        self.store = FakeStore(now=lambda: hub.now)
        self.ledger = OperatorLedger({key: Entry(0) for key in PARTITIONS})
        self.server = TableServer()
        self.channel = Channel(self.rng, self.rng.choice((0.0, 0.3, 1.0)))
        self.rows: dict[str, frozenset[Row]] = {}
        self.given_up: dict[str, Counter[Row]] = {table: Counter() for table in TABLES}
        self.points = count()
        self.names = count()
        self.coordinators: list[Host] = []
        self.workers: dict[str, TopicPartition] = {}
        self.observer = Recorder()
        self.end = 60
        shares = shares or random.Random(f"shares {seed}").choice(SHARES)
        self.changes = dict(zip(TABLES, shares, strict=True))
        """The share of batches that an engine has to merge."""
        self.keep = KEEP
        self.partitions = [*PARTITIONS]
        self.batches: list[tuple[TopicPartition, int, int]] = []
        self.committed_ranges: set[tuple[TopicPartition, OffsetRange]] = set()
        self.intents: dict[TopicPartition, tuple[int, int]] = {}
        self.quarantined: dict[TopicPartition, set[OffsetRange]] = {}
        """The batches of which objects are in quarantine."""
        self.drops = 0.0
        """How often a person gives up an intent whose manifest is put, or on its way."""
        self.replays: dict[str, frozenset[Row]] = {}
        """Messages by the key of their replay's manifest."""
        self.outdated: dict[str, tuple[str, float]] = {}
        """By table that was made again: the uuid that workers follow, and until when."""
        self.misfits = 0.0
        """How often a file that is staged cannot be committed."""
        self.set_aside: dict[str, tuple[str, frozenset[Row]]] = {}
        """By path of a file that a person set aside: its table, and its messages."""
        self.back: dict[str, str] = {}
        """By key of the replay of such a file: the table that it is for."""
        self.checked: dict[str, object] = {}
        """By table, what it was when it was last checked."""
        for table in TABLES:
            self.server.make(table)

    # --------------------------------------------------------------- faults

    def call(self, host: Host, name: str, phase: str) -> None:
        """Cross a port: others may run, and something may go wrong."""
        self.hub.give_way()
        point = Point(next(self.points), host.name, name, phase)
        match self.fault(point):
            case "crash":
                self.hub.tell(f"{host.name} crashes {phase} {name}")
                self._take_over(host)
                self.hub.kill(host)
                raise Crash
            case "stall":
                self.hub.tell(f"{host.name} stalls {phase} {name}")
                self._take_over(host)
                host.stalled_until = self.hub.now + self.rng.choice((4.0, 20.0, 90.0))
                self.hub.give_way()
            case "fail":
                self.hub.tell(f"{host.name}: {name} fails {phase}")
                if phase == "after" and name in ("put", "commit", "publish"):
                    raise OutcomeUnknown(f"{name}: no answer")
                raise Unavailable(f"{name}: does not answer")

    def _take_over(self, host: Host) -> None:
        """Where it was a worker, another begins when its session has ended; a person repeats."""
        if host.name.startswith("person of files"):
            self.hub.at(self.hub.now + 2.0, self.start_person_of_files)
        owned = self.workers.get(host.name)
        if owned is not None:
            self.hub.at(self.hub.now + 2.0, lambda: self.start_worker(owned))

    # -------------------------------------------------------------- workers

    def start_worker(self, topic_partition: TopicPartition) -> None:
        """Begin to stage batches of one partition, in ranges of any length."""
        host = Host(f"worker {next(self.names)} of {topic_partition}")
        self.workers[host.name] = topic_partition
        self.channel.readers[host.name] = []
        self.hub.spawn(host, host.name, lambda: self._work(host, topic_partition))

    def _work(self, host: Host, topic_partition: TopicPartition) -> None:
        while True:
            entry = self.ledger.entries[topic_partition]
            if entry.committed is not None and entry.committed < self.end:
                self._stage(host, topic_partition, entry, entry.committed)
            asked = [
                it for it in self.channel.receive(host.name) if it.kind is EventKind.START_COMMIT
            ]
            if asked:
                reached = self.ledger.entries[topic_partition].committed or 0
                answer = PartitionAnswer(topic_partition, reached)
                commit, epoch = asked[-1].commit, asked[-1].epoch
                self.channel.send(
                    ControlEvent(
                        EventKind.DATA_COMPLETE, GROUP, commit, epoch, host.name, (answer,)
                    )
                )
            self.hub.sleep(self.rng.choice((0.1, 1.0, 6.0)))

    def add_partition(self) -> None:
        """Let the topic have one more partition, and somebody who reads it."""
        self.hub.tell(f"{ADDED} is added")
        self.ledger.entries[ADDED] = Entry(0)
        self.partitions.append(ADDED)
        self.start_worker(ADDED)

    def _stage(self, host: Host, topic_partition: TopicPartition, entry: Entry, start: int) -> None:
        if self.rng.random() < self.drops:
            self._drop_intent(topic_partition, start)
        begun, end = self.intents.get(topic_partition, (-1, 0))
        if begun != start:  # else it takes over: the range is the intent's, the files are its own
            end = min(self.end, start + self.rng.randint(1, LONGEST_BATCH))
            self.intents[topic_partition] = start, end
        manifest = self._manifest(topic_partition, start, end)
        if any(is_bad(offset) for offset in range(start, end)):
            self.call(host, "quarantine put", "before")
            self.quarantined.setdefault(topic_partition, set()).add(OffsetRange(start, end))
        self.call(host, "worker put", "before")
        put_bytes(self.store, manifest.key(PREFIX), manifest.dump())
        self.call(host, "worker put", "after")
        if self.ledger.entries[topic_partition] is not entry:
            for seconds in (15.0, 60.0):  # its successor was faster, or the entry was lost
                self.hub.at(self.hub.now + seconds, lambda: self._delete_uncommitted(manifest))
            return
        if self.rng.random() < 0.1:  # a superseded try of this range lands some time later
            late = self._manifest(topic_partition, start, end)
            at = self.hub.now + self.rng.choice((0.5, self.keep / 2))
            self.hub.at(at, lambda: self._put_late(late))
        self.ledger.entries[topic_partition] = Entry(end)
        self.committed_ranges.add((topic_partition, OffsetRange(start, end)))
        if any(is_bad(offset) for offset in range(start, end)):
            self.batches.append((topic_partition, start, end))

    def _put_late(self, manifest: Manifest) -> None:
        put_bytes(self.store, manifest.key(PREFIX), manifest.dump())

    def _drop_intent(self, topic_partition: TopicPartition, start: int) -> None:
        """A batch is staged and given up; ``secor offsets set`` deletes its manifest.

        One that is on its way then lands later, beside what was staged instead.
        """
        end = min(self.end, start + self.rng.randint(1, LONGEST_BATCH))
        dropped = self._manifest(topic_partition, start, end)
        self.hub.tell(f"{topic_partition} [{start}, {end}) is given up")
        if self.rng.random() < 0.3:
            put_bytes(self.store, dropped.key(PREFIX), dropped.dump())
            self.hub.sleep(self.rng.choice((0.1, 6.0)))
            self.store.delete(dropped.key(PREFIX))
        if self.rng.random() < 0.7:
            at = self.hub.now + self.rng.choice((0.5, 8.0, self.keep / 2))
            self.hub.at(at, lambda: self._put_late(dropped))
            for seconds in (15.0, 60.0, 200.0):
                self.hub.at(at + seconds, lambda: self._delete_uncommitted(dropped))

    def _delete_uncommitted(self, dropped: Manifest) -> None:
        """Do what the stop says: delete the one of two that was never committed."""
        owner, offsets = dropped.topic_partition, dropped.range
        being_committed = self.intents.get(owner) == (offsets.start, offsets.end)
        if (owner, offsets) not in self.committed_ranges and not being_committed:
            self.store.delete(dropped.key(PREFIX))

    # --------------------------------------------------------- lost entries

    def lose_entry(self) -> None:
        """Let the ledger lose an entry, and its intent; later a person rebuilds it."""
        topic_partition = self.rng.choice(self.partitions)
        if self.ledger.entries[topic_partition].committed is None:
            return
        self.hub.tell(f"the entry of {topic_partition} is lost")
        self.ledger.entries[topic_partition] = Entry(None)
        self.intents.pop(topic_partition, None)
        after = self.hub.now + self.rng.choice((0.1, 5.0, 2 * self.keep))
        self.hub.at(after, lambda: self._rebuild_entry(topic_partition))

    def _rebuild_entry(self, topic_partition: TopicPartition) -> None:
        """Do what ``secor offsets recover`` does; what it refuses is settled and asked again."""
        store = FakeStore(now=lambda: self.hub.now, objects=self.store.objects)
        reader = ProofReader(
            FakeCatalog(self.server),
            Staging(store, PREFIX, GROUP),
            group=GROUP,
            tables=lambda: TABLES,
            cluster=lambda: CLUSTER,
        )
        proof = reader.read(reader.read_group(), topic_partition, "id")
        try:
            quarantined = self.quarantined.get(topic_partition, set())
            proven = quarantined_after(proof, quarantined)
        except ConfigurationError as error:
            self.hub.tell(f"{topic_partition} is not rebuilt yet: {error}")
            self.hub.at(self.hub.now + 60.0, lambda: self._rebuild_entry(topic_partition))
            return
        committed, open_batch = proven or (0, None)
        self.hub.tell(f"the entry of {topic_partition} is rebuilt: {committed}, {open_batch}")
        self.committed_ranges |= {(topic_partition, it.range) for it in proof.manifests}
        self.ledger.entries[topic_partition] = Entry(committed)
        if open_batch is not None:
            self.intents[topic_partition] = open_batch.start, open_batch.end

    # -------------------------------------------------------------- replays

    def start_replayer(self) -> Host:
        """Begin to replay what is in quarantine, now and then, and more than once."""
        host = Host("replayer")

        def run() -> None:
            while True:
                if self.batches:
                    self._replay_batch(host, *self.rng.choice(self.batches))
                self.hub.sleep(self.rng.choice((0.1, 1.0, 4.0)))

        self.hub.spawn(host, host.name, run)
        return host

    def _replay_batch(
        self, host: Host, topic_partition: TopicPartition, start: int, end: int
    ) -> None:
        """Stage a replay as whoever has not seen that it is finished would, perhaps late."""
        manifest = self._manifest(topic_partition, start, end, replay=True)
        key = manifest.key(PREFIX)
        if CommitHistory(self.store, PREFIX).replays.has(key) and self.rng.random() < 0.5:
            return
        offsets = [offset for offset in range(start, end) if is_bad(offset)]
        self.replays[key] = frozenset((topic_partition, offset) for offset in offsets)
        self.call(host, "replay put", "before")
        put_bytes(self.store, key, manifest.dump())
        self.call(host, "replay put", "after")
        if self.rng.random() < 0.2:
            at = self.hub.now + self.rng.choice((0.5, self.keep, 3 * self.keep))
            self.hub.at(at, lambda: self._put_late(manifest))

    def _manifest(
        self, topic_partition: TopicPartition, start: int, end: int, *, replay: bool = False
    ) -> Manifest:
        tables = []
        for table in TABLES:
            offsets = [
                offset
                for offset in range(start, end)
                if belongs(table, offset) and is_bad(offset) == replay
            ]
            if offsets:
                path = f"{table}/{next(self.names)}"
                self.rows[path] = frozenset((topic_partition, offset) for offset in offsets)
                file = DataFile(path, "parquet", len(offsets), 1, offsets[0], offsets[-1])
                uuid = self._followed_uuid(table)
                share = self.changes[table]
                changes = share == 1.0 or (share > 0.0 and self.rng.random() < share)
                if self.misfits and not changes and self.rng.random() < self.misfits:
                    self.hub.tell(f"{path} is refused")
                    self.server.unfit.add(path)
                tables.append(
                    TableFiles(table, uuid, 0, 0, "changes", (file,), (1,))
                    if changes
                    else TableFiles(table, uuid, 0, 0, "append", (file,))
                )
        return Manifest(
            *(GROUP, CLUSTER, topic_partition.topic, "id", topic_partition.partition),
            *(start, end, "f" * 16, end, tuple(tables)),
            replay=ReplayOf("in quarantine", "0-0", ()) if replay else None,
        )

    def _followed_uuid(self, table: str) -> str:
        """Return the uuid of the table for which workers make files."""
        uuid, until = self.outdated.get(table, ("", 0.0))
        return uuid if self.hub.now < until else self.server.tables[table].uuid

    # -------------------------------------------------------- refused files

    def start_person_of_files(self) -> None:
        """Begin to settle files that are refused: correct the table, or set them aside."""
        host = Host(f"person of files {next(self.names)}")

        def run() -> None:
            while True:
                self.hub.sleep(self.rng.choice((2.0, 6.0, 20.0)))
                table = self.rng.choice(TABLES)
                try:
                    self._settle_files(host, table)
                except SecorError as error:
                    self.hub.tell(f"{table}: {error}; the person of files repeats it")

        self.hub.spawn(host, host.name, run)

    def _settle_files(self, host: Host, table: str) -> None:
        for note in self._notes(table):
            if note.state is FileState.REFUSED and self.rng.random() < 0.5:
                self.hub.tell(f"{note.path} fits again")
                self.server.unfit.discard(note.path)
            elif note.waits:
                self._set_aside(host, table, note.path)

    def _set_aside(self, host: Host, table: str, path: str) -> None:
        """Do what ``secor tables set-aside`` does; then what replays it, perhaps more than once."""
        store = StoreOf(self, host)
        staging = Staging(store, PREFIX, GROUP)
        file = find_staged_file(table, path, staging.read_listed(staging.find()))
        decisions = FileDecisions(self._committer(host, store), HubClock(self.hub))
        decisions.become(file, FileState.LEAVING, "a person", self._request())
        if self.rng.random() < 0.5:
            self.server.unfit.discard(path)  # a cycle could take it now
        self.call(host, "set aside", "before")
        self.set_aside[path] = table, self.rows[path]
        for seconds in (self.rng.choice((0.1, 1.0)), self.rng.choice((5.0, 2 * self.keep))):
            self.hub.at(self.hub.now + seconds, lambda: self._replay_file(file))
        self.call(host, "set aside", "after")
        decisions.become(file, FileState.QUARANTINED, "a person", self._request())
        self.hub.tell(f"{path} is set aside")

    def _replay_file(self, file: StagedFile) -> None:
        """Stage a replay of a file's messages, unless it is finished."""
        table, rows = self.set_aside[file.file.path]
        path = f"{table}/{next(self.names)}"
        replayed = TableFiles(
            *(table, self._followed_uuid(table), 0, 0, "append"),
            (DataFile(path, "parquet", len(rows), 1, 0, 0),),
        )
        number = f"0-0-{file.digest}"
        manifest = replace(
            file.manifest, tables=(replayed,), replay=ReplayOf("set aside", number, ())
        )
        key = manifest.key(PREFIX)
        if CommitHistory(self.store, PREFIX).replays.has(key):
            return
        self.rows[path] = rows
        self.replays[key], self.back[key] = rows, table
        put_bytes(self.store, key, manifest.dump())

    def _notes(self, table: str) -> tuple[RefusedFile, ...]:
        return GroupRecord.of(self.server.tables[table].describe(), GROUP).refused

    # --------------------------------------------------------- coordinators

    def start_coordinator(self) -> Host:
        """Begin one more; all of them believe that they lead."""
        host = Host(f"coordinator {len(self.coordinators)}")
        self.coordinators.append(host)
        self.channel.readers[host.name] = []
        coordinator = self._coordinator(host)

        def run() -> None:
            while True:
                self.hub.sleep(max(coordinator.step(), 0.05))

        self.hub.spawn(host, host.name, run)
        return host

    def _coordinator(self, host: Host) -> Coordinator:
        clock = HubClock(self.hub)
        store = StoreOf(self, host)
        return Coordinator(
            Identity(GROUP, host.name),
            leads=lambda: True,
            topics=TopicsOf(self),
            commit=CycleCommit(
                topics=TopicsOf(self),
                ledger=LedgerOf(self.ledger, self, host),
                staging=Staging(store, PREFIX, GROUP),
                committer=self._committer(host, store),
                clock=clock,
                observer=self.observer,
                keep=self.keep,
            ),
            channel=Reader(self, host.name),
            clock=clock,
            observer=self.observer,
            timing=TIMING,
            new_id=lambda: f"commit-{next(self.names)}",
        )

    def _committer(self, host: Host, store: FakeStore) -> TableCommitter:
        catalog = CatalogOf(self.server, self, host)
        history = CommitHistory(store, PREFIX)
        return TableCommitter(
            catalog,
            history,
            HubClock(self.hub),
            self.rng,
            group=GROUP,
            operations=EVERY_OPERATION,
        )

    # --------------------------------------------------------- other people

    def disturb(self, *, rollbacks: bool, remakes: bool = False) -> None:
        """Begin to do what other writers, maintenance and people do."""
        host = Host("others")

        def run() -> None:
            deeds = [self._append, self._compact, self._expire]
            while True:
                self.hub.sleep(self.rng.choice((1.0, 5.0, 20.0)))
                table = self.rng.choice(TABLES)
                dice = self.rng.random()
                if rollbacks and dice < 0.2:
                    self._roll_back(table)
                elif remakes and dice > 0.95:
                    self._remake(table)
                else:
                    self.rng.choice(deeds)(table)

        self.hub.spawn(host, host.name, run)

    def _append(self, table: str) -> None:
        path = f"{table}/foreign-{next(self.names)}"
        self.rows[path] = frozenset()
        self.server.tables[table].foreign_append([path])

    def _compact(self, table: str) -> None:
        if self._lineage(table) is Lineage.ROLLED_BACK:
            return  # a merge that is repeated finds its files by their paths
        fake = self.server.tables[table]
        path = f"{table}/compacted-{next(self.names)}"
        self.rows[path] = frozenset().union(*(self.rows[live] for live in fake.live()))
        self.check(table)  # a double row would vanish in the set
        fake.compact(path)

    def _expire(self, table: str) -> None:
        """A rollback whose every trace has expired cannot be told from expiry alone (DESIGN)."""
        if self._lineage(table) is Lineage.ROLLED_BACK:
            return
        keep, unlink = self.rng.randint(1, 3), self.rng.random() < 0.5
        self.server.tables[table].expire(keep, unlink=unlink)

    def _roll_back(self, table: str) -> None:
        """Set a table back a few snapshots; some time later a person settles it."""
        fake = self.server.tables[table]
        chain = []
        at = fake.refs.get("main")
        while at is not None and at in fake.snapshots:
            chain.append(at)
            at = fake.snapshots[at].parent_id
        if len(chain) < 2 or self._lineage(table) is Lineage.ROLLED_BACK:
            return
        target = self.rng.choice(chain[1:])
        self.hub.tell(f"{table} is rolled back")
        fake.roll_back(target)
        decision = self.rng.choice((self._accept, self._replay))
        self.hub.at(self.hub.now + 15.0, lambda: self._decide(table, decision))

    def _remake(self, table: str) -> None:
        """Drop a table and make it again; its rows are gone, and a person accepts that.

        Workers notice it some time later, perhaps after that person.
        """
        self.hub.tell(f"{table} is made again")
        for key in self.partitions:
            below = (self.ledger.entries[key].committed or 0) + LONGEST_BATCH
            self.given_up[table].update((key, offset) for offset in range(below))
        until = self.hub.now + self.rng.choice((0.0, 30.0, 90.0))
        self.outdated[table] = self.server.tables[table].uuid, until
        self.server.make(table)
        for seconds in (15.0, 45.0, 150.0, 300.0, 600.0):  # what was put late stops it again
            self.hub.at(self.hub.now + seconds, lambda: self._decide(table, self._accept_remade))

    def _accept_remade(self, table: str) -> None:
        store = FakeStore(now=lambda: self.hub.now, objects=self.store.objects)
        entries = self.ledger.entries.items()
        committed = {key: it.committed for key, it in entries if it.committed is not None}
        staged = Staging(store, PREFIX, GROUP).read(committed)
        if self._lineage(table) is Lineage.ROLLED_BACK:  # which is accepted with it
            self.given_up[table].update(self._missing(table))
        uuid = self.server.tables[table].uuid
        self.given_up[table].update(
            row
            for item in staged
            if item.manifest is not None
            if any(it.table == table and it.uuid != uuid for it in item.manifest.tables)
            for row in self._rows_of(item.listed.key, item.manifest)
        )
        if self._settling().accept(table, staged, self._request(), dry_run=False).commit:
            self.hub.tell(f"{table}: accepted as it was made again")

    def _rows_of(self, key: str, manifest: Manifest) -> set[Row]:
        """Return the rows of a manifest, whose files may be forgotten."""
        if key in self.replays:
            return set(self.replays[key])
        return {
            (manifest.topic_partition, offset) for offset in range(manifest.start, manifest.end)
        }

    def _decide(self, table: str, decision: Callable[[str], None]) -> None:
        host = Host(f"person at {table}")

        def run() -> None:
            try:
                decision(table)
            except SecorError as error:
                self.hub.tell(f"{table}: {error}; going on without")
                if self._lineage(table) is Lineage.ROLLED_BACK:
                    self._accept(table)

        self.hub.spawn(host, host.name, run)

    def _settling(self) -> StateAcceptance:
        host = Host("person")
        store = FakeStore(now=lambda: self.hub.now, objects=self.store.objects)
        committer = self._committer(host, store)
        return StateAcceptance(committer, CommitHistory(store, PREFIX), "main")

    def _request(self) -> CommitRequest:
        return CommitRequest(f"commit-{next(self.names)}", 0)

    def _accept(self, table: str) -> None:
        if self._lineage(table) is Lineage.ROLLED_BACK:  # nothing moves until it is accepted
            self.given_up[table].update(self._missing(table))
        done = self._settling().accept(table, [], self._request(), dry_run=False)
        if done.commit is not None:
            self.hub.tell(f"{table}: accepted")

    def _replay(self, table: str) -> None:
        self._settling().replay(table, self._request(), dry_run=False)
        self.hub.tell(f"{table}: replayed")

    # -------------------------------------------------------------- promises

    def _lineage(self, table: str) -> Lineage:
        described = self.server.tables[table].describe()
        return lineage(described, "main", GroupRecord.of(described, GROUP))

    def live(self, table: str) -> Counter[Row]:
        """Return how often each row is in a table."""
        live = self.server.tables[table].live()
        return Counter(row for path in live for row in self.rows[path])

    def expected(self, table: str) -> set[Row]:
        """Return the rows that the table says it has: below its vector, and those of replays."""
        record = GroupRecord.of(self.server.tables[table].describe(), GROUP)
        below = {
            (topic_partition, offset)
            for _, topic_partition, next_offset in record.vector.offsets()
            for offset in range(next_offset)
            if belongs(table, offset) and not is_bad(offset)
        }
        finished = CommitHistory(self.store, PREFIX).replays
        taken = {
            key: frozenset(row for row in rows if belongs(table, row[1]))
            for key, rows in self.replays.items()
            if key in record.replays or finished.key(key) in self.store.objects
            if self.back.get(key, table) == table
        }
        of_batches = below.union(*(rows for key, rows in taken.items() if key not in self.back))
        passed_over = {row for note in record.refused for row in self.rows[note.path]}
        passed_over |= {
            row for owner, rows in self.set_aside.values() if owner == table for row in rows
        }
        back = (rows for key, rows in taken.items() if key in self.back)
        return (of_batches - passed_over).union(*back)

    def _missing(self, table: str) -> set[Row]:
        return self.expected(table) - set(self.live(table))

    def check(self, table: str) -> None:
        """Raise ``Violated`` unless each row below the vector is there once, and no other."""
        live = self.live(table)
        twice = [row for row, times in live.items() if times > 1]
        if twice:
            raise Violated(f"{table}: more than once: {sorted(twice)[:3]}")
        if self._lineage(table) is Lineage.ROLLED_BACK:
            return
        expected = self.expected(table)
        beyond = set(live) - expected
        if beyond:
            raise Violated(f"{table}: above its vector: {sorted(beyond)[:3]}")
        missing = expected - set(live) - set(self.given_up[table])
        if missing:
            raise Violated(f"{table}: lost: {sorted(missing)[:3]}")

    def check_all(self) -> None:
        """Check every table."""
        for table in TABLES:
            fake = self.server.tables[table]
            seen = fake.uuid, fake.refs.get("main"), fake.sequence, len(fake.snapshots)
            if self.checked.get(table) != seen:
                self.check(table)
                self.checked[table] = seen

    def unfinished(self) -> list[str]:
        """Return what is not in its table yet."""
        problems = []
        for table in TABLES:
            if self._lineage(table) is Lineage.ROLLED_BACK:
                problems.append(f"{table} is rolled back")
            wanted = {
                (key, offset)
                for key in self.partitions
                for offset in range(self.end)
                if belongs(table, offset)
            }
            left = wanted - set(self.live(table)) - set(self.given_up[table])
            if left:
                problems.append(f"{table} has not {sorted(left)[:3]}")
        return problems

    def run(self, seconds: float) -> None:
        """Go on for some time, checking after every step."""
        end = self.hub.now + seconds
        while self.hub.now < end and self.hub.step():
            self.check_all()

    def settle(self, seconds: float = 2000.0) -> None:
        """Without further faults, wait until every message is in its tables."""
        self.fault = no_fault
        end = self.hub.now + seconds
        steps = 0
        while self.hub.now < end and self.hub.step():
            self.check_all()
            steps += 1
            if steps % 50 == 0 and not self.unfinished():
                return
        raise Violated("; ".join(self.unfinished()) or "nothing moves any more")


class StoreOf(FakeStore):
    """The store as one process sees it; a listing comes in pages, and others run meanwhile."""

    def __init__(self, world: TableWorld, host: Host) -> None:
        super().__init__(
            before=lambda call, key: world.call(host, call, "before"),
            after=lambda call, key: world.call(host, call, "after"),
            now=lambda: world.hub.now,
            objects=world.store.objects,
        )
        self.world = world
        self.host = host

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self.world.call(self.host, "list", "before")
        after = ""
        while True:
            following = [key for key in self.objects if key > after and key.startswith(prefix)]
            if not following:
                return
            after = min(following)
            stored = self.objects[after]
            yield StoredObject(after, len(stored.content), stored.modified)
            self.world.hub.give_way()


@dataclass
class LedgerOf(OperatorLedger):
    """The ledger as one process sees it."""

    shared: OperatorLedger = field(default_factory=OperatorLedger)
    world: TableWorld | None = None
    host: Host | None = None

    def __init__(self, shared: OperatorLedger, world: TableWorld, host: Host) -> None:
        super().__init__()
        self.shared, self.world, self.host = shared, world, host

    def read(self, topic_partition: TopicPartition) -> Entry:
        assert self.world is not None
        assert self.host is not None
        self.world.call(self.host, "ledger", "before")
        entry = self.shared.read(topic_partition)
        self.world.call(self.host, "ledger", "after")
        return entry


@dataclass
class TopicsOf:
    """The brokers."""

    world: TableWorld

    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset((*self.world.partitions, QUIET))

    def ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {key: 0 if key == QUIET else self.world.end for key in partitions}

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self.ends(partitions)

    def ids(self) -> Mapping[str, str | None]:
        return {PARTITIONS[0].topic: "id"}


class CatalogOf(FakeCatalog):
    """The catalog as one process sees it; a commit without an answer may be done, or be late."""

    def __init__(self, server: TableServer, world: TableWorld, host: Host) -> None:
        super().__init__(server)
        self.world = world
        self.host = host

    def load_table(self, identifier: str) -> Table:
        self.world.call(self.host, "load", "before")
        table = super().load_table(identifier)
        self.world.call(self.host, "load", "after")
        return table

    def stage(self, merge: BranchMerge) -> MergeResult:
        self.world.call(self.host, "stage", "before")
        merged = super().stage(merge)
        self.world.call(self.host, "stage", "after")
        return merged

    def allow_staging(self, table: Table, branch: str) -> Table:
        self.world.call(self.host, "allow staging", "before")
        return super().allow_staging(table, branch)

    def _answer(self, call: str, table: Table, apply: Callable[[], CommitResult]) -> CommitResult:
        """Commit or publish; without an answer it may be done, or land late."""
        world = self.world
        world.call(self.host, call, "before")
        point = Point(next(world.points), self.host.name, call, "sent")
        if world.fault(point) == "late":
            at = world.hub.now + world.rng.choice((0.5, 8.0, 40.0))
            world.hub.tell(f"{self.host.name}: a {call} to {table.identifier} lands late")
            world.hub.at(at, lambda: _forget(apply))
            return CommitResult(Outcome.UNKNOWN, why="timed out")
        result = super()._answer(call, table, apply)
        try:
            world.call(self.host, call, "after")
        except OutcomeUnknown as error:
            return CommitResult(Outcome.UNKNOWN, why=str(error))
        return result


def _forget(apply: Callable[[], CommitResult]) -> None:
    apply()
