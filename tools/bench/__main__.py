"""``python -m tools.bench``: fill a topic, run the daemon over it in several ways, report."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from secor.core.errors import SecorError
from secor.sandbox import Sandbox
from tools.bench import kafka_backup as kafka_backup_bench
from tools.bench import restore as restore_bench
from tools.bench.cases import CASES, Case, data_prefix, settings_of, write_config
from tools.bench.change_costs import ChangeCost
from tools.bench.changes import ENGINES, MOST, measure_apart
from tools.bench.commits import measure as measure_commits
from tools.bench.fill import Filled, create_topic, fill
from tools.bench.floor import Floor, floor_of
from tools.bench.object_life import life_of
from tools.bench.peers import COMPARED, ELSEWHERE
from tools.bench.peers import measure as measure_peers
from tools.bench.pieces import LOOKED_AT, Piece, measure
from tools.bench.recovery import measure as measure_recovery
from tools.bench.recovery import summary
from tools.bench.report import (
    PeerResult,
    Result,
    as_json,
    beside_line,
    floor_line,
    line_of,
    peer_line,
    piece_line,
    profile_of,
    result_of,
    scan_lines,
)
from tools.bench.restore import Recovery, Restored
from tools.bench.running import DaemonProcess, Progress, Usage, free_ports
from tools.bench.spark import CORES, Scan
from tools.bench.spark import measure as measure_spark
from tools.bench.tables import TableProgress

TOPIC, EMPTY = "bench", "bench-empty"
NAMES = [case.name for case in CASES]


@dataclass(frozen=True, slots=True)
class Bench:
    """Servers with an empty topic and full ones, by the headers of their messages.

    ``directory`` is for local files.
    """

    sandbox: Sandbox
    directory: Path
    filled: Mapping[int, Filled]

    def config(self, case: Case, topic: str, port: int | None) -> tuple[str, Path]:
        """Write the configuration of a case over a topic; return its group, too."""
        group = f"{case.name}-{topic}"
        settings = settings_of(
            case,
            self.sandbox,
            group=group,
            topic=topic,
            directory=self.directory / "local",
            port=port,
        )
        return group, write_config(settings, self.directory / f"{group}.toml")

    def idle(self, case: Case) -> Usage:
        """Return what starting and ending costs where there is nothing to do."""
        (port,) = free_ports(1)
        group, config = self.config(case, EMPTY, port)
        daemon = DaemonProcess(config, port=port, log=self.directory / f"{group}.log")
        return daemon.run(lambda: True)

    def run(
        self, case: Case, idle: Usage, profile: Path | None, life: Path | None = None
    ) -> tuple[Floor, Result]:
        """Store the full topic once; return the floor of the case, too."""
        (port,) = free_ports(1)
        filled = self.filled[case.headers]
        group, config = self.config(case, filled.topic, port)
        floor = floor_of(case, self.directory)
        hosts = self.sandbox.zookeeper
        ledger = Progress(hosts, group, filled.topic, filled.partitions)
        if case.kind == "table":
            progress: Progress | TableProgress = TableProgress(ledger, config, group)
        else:
            progress = ledger
        with closing(progress):
            daemon = DaemonProcess(
                config,
                port=port,
                log=self.directory / f"{group}.log",
                profile=profile,
                life=life,
            )
            used = daemon.run(lambda: progress.committed()[0] >= filled.messages)
            _, last = progress.committed()
        objects = self._objects(config, data_prefix(case, group, filled.topic))
        return floor, result_of(
            case, filled, used=used, idle=idle, last=last, objects=objects, floor=floor
        )

    def _objects(self, config: Path, prefix: str) -> int:
        from secor.config.load import load
        from secor.wiring.clients import connect_store

        return sum(1 for _ in connect_store(load(config, {})).list(prefix))

    def pieces(self) -> Iterator[Piece]:
        """Measure the pieces in this process."""
        from secor.config.load import load
        from secor.wiring.clients import connect_store
        from secor.wiring.membership import join

        _, path = self.config(CASES[0], TOPIC, None)
        config = load(path, {"SECOR_GROUP__NAME": "pieces"})
        with join(config, lambda _: None) as membership:
            yield from measure(
                membership.source,
                connect_store(config),
                prefix=config.output.prefix,
                directory=self.directory,
                size=min(self.filled[0].encoded_bytes, LOOKED_AT),
            )


@contextmanager
def _bench(
    directory: Path | None, partitions: int, messages: int, headers: Collection[int]
) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="secor-bench-", dir=directory) as temporary:
        folder = Path(temporary)
        with Sandbox.up(folder / "servers", progress=_say) as sandbox:
            _say(f"filling {partitions} partitions with {messages} messages")
            filled = {
                count: fill(
                    sandbox.kafka,
                    f"{TOPIC}-{count}-headers" if count else TOPIC,
                    partitions=partitions,
                    messages=messages,
                    headers=count,
                )
                for count in sorted(headers)
            }
            create_topic(sandbox.kafka, EMPTY, partitions)
            yield Bench(sandbox, folder, filled)


def _say(line: str) -> None:
    click.echo(line, err=True)


@click.command(epilog="Example: scripts/bench --messages 500000 --case text-gzip --profile")
@click.option(
    "--messages",
    type=click.IntRange(1),
    help="Default: 2,000,000; with --spark and --restore 1,000,000; with --changes the most rows"
    " of a commit or a table, 100,000.",
)
@click.option("--partitions", default=4, show_default=True, help="Partitions of the topic.")
@click.option("--case", "names", multiple=True, type=click.Choice(NAMES), help="Only this case.")
@click.option("--pieces/--no-pieces", default=True, help="Measure the pieces alone, too.")
@click.option("--peers", is_flag=True, help="Other programs beside ours, over the same topic.")
@click.option(
    "--kafka-backup",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Peers: the binary of OSO's kafka-backup, beside ours in backup and restore.",
)
@click.option("--spark", is_flag=True, help="Instead: read and parse local archives in Spark.")
@click.option("--restore", is_flag=True, help="Instead: write local archives back to Kafka.")
@click.option("--profile", is_flag=True, help="Show what the functions of the loop took (slower).")
@click.option("--life", is_flag=True, help="Show what the steps of an object took (slower).")
@click.option(
    "--tables", is_flag=True, help="Instead: commits to tables, and recovery after kill -9."
)
@click.option(
    "--changes",
    is_flag=True,
    help="Instead: tables whose rows are changed, beside Spark alone.",
)
@click.option(
    "--engine", "engines", multiple=True, type=click.Choice(ENGINES), help="Changes: only this."
)
@click.option("--json", "json_", is_flag=True, help="Print JSON for a script.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Where servers and local files lie meanwhile.  Default: the system's temporary folder.",
)
def main(
    messages: int | None,
    partitions: int,
    names: Sequence[str],
    pieces: bool,
    peers: bool,
    kafka_backup: Path | None,
    spark: bool,
    restore: bool,
    tables: bool,
    changes: bool,
    engines: Sequence[str],
    profile: bool,
    life: bool,
    json_: bool,
    directory: Path | None,
) -> None:
    """Measure what the daemon needs for a message, on servers of its own.

    CPU time is that of the daemon's process with all its threads, without what it takes to
    start and end over an empty topic (and with it, in parentheses).
    """
    chosen = [case for case in CASES if not names or case.name in names]
    results: list[Result] = []
    measured: list[Piece] = []
    scans: list[Scan] = []
    writes: list[Restored | Recovery] = []
    others: list[PeerResult] = []
    changed: list[ChangeCost] = []
    try:
        if changes:
            changed = [*_measure_changes(engines or ENGINES, messages or MOST, json_, directory)]
        elif tables:
            _measure_tables(directory)
        elif peers:
            results, others = _measure_peers(
                messages or 1_000_000, partitions, kafka_backup, json_, directory
            )
        elif restore:
            writes = _measure_restore(messages or 1_000_000, partitions, json_, directory)
        elif spark:
            scans = _measure_spark(messages or 1_000_000, partitions, json_, directory)
        else:
            results, measured = _measure(
                chosen, messages or 2_000_000, partitions, pieces, profile, life, json_, directory
            )
    except SecorError as error:
        raise click.ClickException(str(error)) from error
    if json_:
        click.echo(as_json(results, measured, scans, writes, others, changed))


def _measure(
    cases: Sequence[Case],
    messages: int,
    partitions: int,
    pieces: bool,
    profile: bool,
    life: bool,
    quiet: bool,
    directory: Path | None,
) -> tuple[list[Result], list[Piece]]:
    """Measure one after the other, and print each as soon as it is known."""
    results: list[Result] = []
    measured: list[Piece] = []
    headers = {case.headers for case in cases} | ({0} if pieces else set())
    with _bench(directory, partitions, messages, headers) as bench:
        for case in cases:
            path = bench.directory / f"{case.name}.profile" if profile else None
            lived = bench.directory / f"{case.name}.life" if life else None
            floor, result = bench.run(case, bench.idle(case), path, lived)
            results.append(result)
            click.echo(line_of(result), err=quiet)
            click.echo(floor_line(floor), err=quiet)
            if compared := beside_line(case, results):
                click.echo(compared, err=quiet)
            if path:
                click.echo(profile_of(path), err=quiet)
            for line in life_of(lived) if lived else ():
                click.echo(line, err=quiet)
        for piece in bench.pieces() if pieces else ():
            measured.append(piece)
            click.echo(piece_line(piece), err=quiet)
    return results, measured


def _measure_peers(
    messages: int,
    partitions: int,
    kafka_backup: Path | None,
    quiet: bool,
    directory: Path | None,
) -> tuple[list[Result], list[PeerResult]]:
    """Measure ours, then the others, over one topic; print what could not be run, too."""
    others: list[PeerResult] = []

    def take(measured: Iterator[PeerResult | str]) -> None:
        for result in measured:
            click.echo(peer_line(result), err=quiet)
            if isinstance(result, PeerResult):
                others.append(result)

    with _bench(directory, partitions, messages, {COMPARED.headers}) as bench:
        _, ours = bench.run(COMPARED, bench.idle(COMPARED), None)
        click.echo(line_of(ours), err=quiet)
        filled = bench.filled[COMPARED.headers]
        take(measure_peers(bench.sandbox, filled, ours, empty=EMPTY, directory=bench.directory))
        results = [ours]
        if kafka_backup is not None:
            case = kafka_backup_bench.COMPARED
            _, lossless = bench.run(case, bench.idle(case), None)
            click.echo(line_of(lossless), err=quiet)
            results.append(lossless)
            take(
                kafka_backup_bench.measure(
                    kafka_backup,
                    bench.sandbox,
                    filled,
                    lossless,
                    prefix=f"bench/{case.name}-{filled.topic}",
                    directory=bench.directory,
                )
            )
    click.echo(ELSEWHERE, err=quiet)
    return results, others


def _measure_tables(directory: Path | None) -> None:
    """Measure the coordinator alone, then a group of which it is killed."""
    with tempfile.TemporaryDirectory(prefix="secor-bench-", dir=directory) as temporary:
        folder = Path(temporary)
        for commit in measure_commits(folder):
            click.echo(commit.line())
        with Sandbox.up(folder / "servers", progress=_say) as sandbox:
            recoveries = []
            for recovery in measure_recovery(sandbox, folder):
                recoveries.append(recovery)
                click.echo(recovery.line())
            click.echo(summary(recoveries))


def _measure_spark(
    messages: int, partitions: int, quiet: bool, directory: Path | None
) -> list[Scan]:
    """Measure all by turns, and print it."""
    with tempfile.TemporaryDirectory(prefix="secor-bench-", dir=directory) as temporary:
        _say(f"writing archives of {messages} messages, and reading them on {CORES} cores")
        scans = measure_spark(Path(temporary), messages=messages, partitions=partitions)
    for line in scan_lines(scans):
        click.echo(line, err=quiet)
    return scans


def _measure_restore(
    messages: int, partitions: int, quiet: bool, directory: Path | None
) -> list[Restored | Recovery]:
    """Measure one after the other, and print each as soon as it is known."""
    results: list[Restored | Recovery] = []
    with tempfile.TemporaryDirectory(prefix="secor-bench-", dir=directory) as temporary:
        _say(f"writing archives of {messages} messages")
        for result in restore_bench.measure(
            Path(temporary), messages=messages, partitions=partitions
        ):
            results.append(result)
            click.echo(restore_bench.line_of(result), err=quiet)
    return results


def _measure_changes(
    engines: Sequence[str], most: int, quiet: bool, directory: Path | None
) -> Iterator[ChangeCost]:
    """Measure each engine in a process of its own, and print each figure as soon as it is known."""
    for engine in engines:
        with tempfile.TemporaryDirectory(prefix="secor-bench-", dir=directory) as temporary:
            for cost in measure_apart(engine, Path(temporary), most):
                click.echo(cost.line(), err=quiet)
                yield cost


if __name__ == "__main__":
    main()
