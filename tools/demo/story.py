"""What the demonstration does, in order."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from secor.config.load import load
from secor.core.errors import ConfigurationError, SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.core.ports import OffsetLedger
from secor.sandbox import Sandbox
from secor.wiring.clients import open_ledger_for_operator
from tools.demo import corrections, flights, lifecycle, mending, partition, restoring, tables
from tools.demo.backup import SecorProcess, surroundings, write_configuration
from tools.demo.screen import Bars, Screen

_STEPS = 18
_AT_ONCE = 2000
_LOOK_EVERY = 0.25
_ALL_STORED_WITHIN = 300.0


_OURS = {
    *("sandbox", "backup.toml", "backup.log", "local"),
    *(*partition.FILES, *mending.FILES, *tables.FILES, *corrections.FILES),
    *(*restoring.FILES, *lifecycle.FILES),
}


def clear(folder: Path) -> None:
    """Stop and delete what an earlier demonstration left in ``folder``.

    Raises ``ConfigurationError`` when anything else is there.
    """
    if not folder.exists():
        return
    others = sorted({each.name for each in folder.iterdir()} - _OURS)
    if others:
        raise ConfigurationError(f"{folder} holds other things ({others[0]}): name another folder")
    if (folder / "sandbox").exists():
        Sandbox.of(folder / "sandbox").down()
    shutil.rmtree(folder)


class Demonstration:
    """Flights through Kafka into the S3 server, by a process that is killed on the way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.screen = Screen(_STEPS)

    def run(self, *, down: bool) -> None:
        """Tell the whole story.  The servers stay up at its end, unless ``down`` is given."""
        sandbox = self._servers()
        reported = False
        try:
            configuration = write_configuration(self.folder, sandbox)
            self._crash_and_recover(sandbox, configuration)
            self._look(configuration)
            parquet = self._parse(sandbox, configuration)
            self._mend(sandbox, configuration, parquet)
            inferred = self.folder / partition.SCHEMA
            tables.TableScene(self.screen, self.folder, sandbox, inferred).run()
            corrections.BoardScene(self.screen, self.folder, sandbox).run()
            job = restoring.RestoreScene(self.screen, self.folder, sandbox).run()
            lifecycle.LifecycleScene(self.screen, self.folder).run(configuration, job)
            reported = True
        finally:
            if down or not reported:
                sandbox.down()
        self._what_next(configuration, down=down)

    def _servers(self) -> Sandbox:
        self.screen.step("Starting a Kafka broker, ZooKeeper and an S3 server on this machine")
        place = self.folder / "sandbox"
        clear(self.folder)
        return Sandbox.up(place, progress=self.screen.say)

    def _crash_and_recover(self, sandbox: Sandbox, configuration: Path) -> None:
        self.screen.step("Reading the flights that left New York in 2013")
        messages = flights.flights()
        self.screen.say(f"{len(messages):,} messages with keys, headers and times of their own")
        flights.make_topic(sandbox.kafka)

        self.screen.step("Storing them while they arrive, and killing the process on the way")
        config = load(configuration, surroundings())
        with open_ledger_for_operator(config) as ledger, self.screen.bars(len(messages)) as bars:
            produced = flights.produce(sandbox.kafka, messages, _AT_ONCE)
            with closing(produced):
                Persisting(configuration, ledger, bars, len(messages)).watch(produced.__next__)
        self.screen.say("all of it is committed, and the process has ended cleanly on SIGTERM")

    def _look(self, configuration: Path) -> None:
        self.screen.step("Looking at what is stored")
        self.screen.command("ls", str(configuration), flights.TOPIC, lines=6)
        self.screen.command("cat", str(configuration), flights.TOPIC, "--limit", "2")
        self.screen.step("Comparing every stored message with the topic")
        self.screen.command("verify", str(configuration))

    def _parse(self, sandbox: Sandbox, backup: Path) -> Path:
        self.screen.step("Storing them by their content, as Parquet and as JSON lines")
        configurations = partition.write_configurations(self.folder, sandbox)
        parquet = str(configurations["parquet"])
        fields = str(self.folder / partition.SCHEMA)
        self.screen.command("schema", "infer", parquet, flights.TOPIC, "-o", fields)
        broken = flights.damaged()
        for _ in flights.produce(sandbox.kafka, broken, len(broken)):
            self.screen.say(f"{len(broken)} damaged messages come in")
        with closing(partition.Parsing([*configurations.values(), backup])) as parsing:
            self.screen.say(f"{parsing.wait():,} messages are committed by each of three groups")
        for configuration in configurations.values():
            self.screen.command("ls", str(configuration), flights.TOPIC, lines=5)
        self.screen.command("quarantine", "cat", parquet, flights.TOPIC)
        self.screen.command("verify", parquet)

        self.screen.step("Asking the Parquet files and the source the same question")
        self.screen.say("the five carriers that were late most, by minutes a flight:")
        answers = partition.asked_of_parquet(sandbox.s3, load(configurations["parquet"], {}))
        for carrier, (count, minutes) in partition.latest(answers):
            self.screen.say(f"{carrier}  {minutes / count:6.2f} min  {count:,} flights")
        if answers != partition.asked_of_source():
            raise SecorError("the Parquet files give another answer than the flights themselves")
        self.screen.say(f"all {len(answers)} carriers: the same answer from both")
        return configurations["parquet"]

    def _mend(self, sandbox: Sandbox, backup: Path, parquet: Path) -> None:
        story = mending.Mending(self.screen, backup, parquet, sandbox.s3)
        self.screen.step("Finding a bug: flights are in wrong days")
        story.show_wrong()
        self.screen.step("Mending the parser, and parsing what the backup has again")
        story.backfill()
        self.screen.step("Asking for the months again")
        story.show_right()

    def _what_next(self, configuration: Path, *, down: bool) -> None:
        place = self.folder / "sandbox"
        self.screen.console.print("\n[bold]What to try next[/bold]")
        if down:
            self.screen.say(f"secor sandbox up --directory {place}    the same servers again")
            return
        sandbox = Sandbox.of(place)
        access = sandbox.s3
        parquet = self.folder / "parquet.toml"
        self.screen.say(f"Kafka {sandbox.kafka}   ZooKeeper {sandbox.zookeeper}")
        self.screen.say(
            f"S3 {access.endpoint_url}, bucket {access.bucket}, access key {access.access_key}, "
            f"secret key {access.secret_key}"
        )
        self.screen.say("")
        self.screen.say("source .venv/bin/activate")
        commands = {
            f"secor ls {configuration} {flights.TOPIC}": "the objects, and the offsets in them",
            f"secor cat {configuration} {flights.TOPIC} --limit 10": "messages",
            f"secor restore verify {self.folder / restoring.JOB}": "prove it again",
            f"secor restore status {self.folder / restoring.JOB}": "what was written back",
            f"secor quarantine ls {parquet}": "what could not be parsed, and why",
            f"secor schema show {parquet} {flights.TOPIC}": "the fields of the messages",
            f"secor backfill rollback {parquet} {self.folder / mending.PLAN}": "the old days again",
            f"secor tables show {self.folder / 'table.toml'} {tables.ALL}": "what the table has",
            "scripts/conformance cdc": "a real PostgreSQL and Debezium, compared with tables",
            f"secor sandbox down --delete --directory {place}": "stop, and delete all data",
        }
        width = max(map(len, commands))
        for what, why in commands.items():
            self.screen.say(f"{what:<{width}}   {why}")
        self.screen.say("")
        self.screen.say(
            "The groups would stop at the topic that came back: docs/restore.md, 'After you"
            " restored a topic in place', says how they go on."
        )


class Persisting:
    """The process under watch: killed once, started again, stopped when all is committed."""

    def __init__(self, configuration: Path, ledger: OffsetLedger, bars: Bars, total: int) -> None:
        self._configuration = configuration
        self._ledger = ledger
        self._bars = bars
        self._total = total
        self._produced = 0
        self._looked = float("-inf")
        self._stored = 0

    def watch(self, produce_some: Callable[[], int]) -> None:
        """Produce everything and return when it is committed and the process has stopped."""
        process = SecorProcess(self._configuration)
        try:
            while not self._in_the_middle():
                self._go_on(process, produce_some)
            process.kill()
            self._bars.say(
                f"SIGKILL to process {process.pid}: {self._stored:,} messages committed, "
                f"{self._produced - self._stored:,} more in Kafka, some in open files"
            )
            process = SecorProcess(self._configuration)
            self._bars.say(f"process {process.pid} takes over when the dead one's leases run out")
            deadline = time.monotonic() + _ALL_STORED_WITHIN
            while self._stored < self._total:
                self._go_on(process, produce_some)
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"{self._stored:,} of {self._total:,} messages are committed after "
                        f"{_ALL_STORED_WITHIN:.0f} s; see {process.log}"
                    )
            code = process.stop()
            if code != 0:
                raise SecorError(f"secor run ended with code {code} on SIGTERM; see {process.log}")
        finally:
            process.end()

    def _in_the_middle(self) -> bool:
        """Tell whether a crash would hurt now: something is committed, something is open."""
        if self._produced == self._total:
            raise SecorError("everything was produced before a crash could come in between")
        halfway = self._produced * 2 > self._total and 0 < self._stored < self._produced
        return halfway and has_open_file(self._configuration.with_name("local"))

    def _go_on(self, process: SecorProcess, produce_some: Callable[[], int]) -> None:
        process.check()
        if self._produced < self._total:
            self._produced = produce_some()
        else:
            time.sleep(_LOOK_EVERY)
        if time.monotonic() - self._looked > _LOOK_EVERY:
            self._looked = time.monotonic()
            self._stored = self._committed()
            self._bars.show(produced=self._produced, stored=self._stored)

    def _committed(self) -> int:
        """Sum up the ledger: offsets begin at 0 and have no gaps here."""
        partitions = (TopicPartition(flights.TOPIC, each) for each in range(flights.PARTITIONS))
        return sum(self._ledger.read(each).committed or 0 for each in partitions)


def has_open_file(local: Path) -> bool:
    """Tell whether files of a running process hold messages; they come and go meanwhile."""
    for folder, _, names in os.walk(local):
        for name in names:
            with suppress(FileNotFoundError):
                if Path(folder, name).stat().st_size:
                    return True
    return False
