"""``secor verify``: every message is stored, once, as it was."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from secor.cli.exit_codes import Exit
from secor.cli.open_archive import (
    archive_of,
    archived_topics,
    earlier_routes,
    human_size,
    of_topic,
    quarantined_topics,
    require_stored,
)
from secor.cli.spark_tasks import SparkOptions, spark_options, spark_tasks, verifying
from secor.cli.topic_type import TOPIC, json_option, partitions_option
from secor.cli.verify.engines import by_option, look_up_option
from secor.cli.verify.evidence import EvidenceFile, evidence_of, evidence_options
from secor.cli.verify.source import SourceOptions, source_options, verify_source
from secor.cli.verify.tables import verify_tables
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError, LedgerCorrupt
from secor.core.model import TopicPartition
from secor.core.ports import Log, OffsetLedger
from secor.verify.archive.report import ArchiveReport, PartitionReport
from secor.verify.archive.verifier import Verifier, verify_archive_only
from secor.verify.finding import report_text
from secor.wiring.archives import secret_of


@dataclass(frozen=True, slots=True)
class Watch:
    """The display of progress: it takes offsets passed, objects looked at, and the total.

    ``expect`` is None where nobody wants the total.  ``hashed`` takes bytes, for evidence.
    """

    advance: Callable[[TopicPartition, int], None]
    looked: Callable[[str, int], None]
    hashed: Callable[[TopicPartition, int], None]
    expect: Callable[[int], None] | None


@click.command(epilog="Example: secor verify backup.toml clicks")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("topics", type=TOPIC, nargs=-1, metavar="[TOPIC]...")
@partitions_option
@click.option(
    "--from",
    "start",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="First offset to compare.  Default: where the log begins.",
)
@click.option(
    "--generation",
    "generations",
    type=int,
    multiple=True,
    metavar="N",
    help="Only this generation; may be repeated.  Default: all.",
)
@click.option("--archive-only", is_flag=True, help="Do not read topics and ledger.")
@click.option(
    "--rows-only",
    is_flag=True,
    help="Of tables, compare only which rows there are: do not read all values of their files.",
)
@by_option
@look_up_option
@source_options
@evidence_options
@spark_options
@json_option
def command(
    config: Path,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    start: int | None,
    generations: tuple[int, ...],
    archive_only: bool,
    rows_only: bool,
    by: str | None,
    look_up: int | None,
    evidence: Path | None,
    sign_with: Path | None,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
    **of_source: Any,
) -> int:
    """Compare the objects with the topics, offset by offset, up to the committed offsets.

    Without TOPIC, compare all topics of the configuration.  Exit code 0 when nothing is missing,
    twice, different, extra or corrupt; else 5, also when nothing could be compared though the logs
    have messages.  With --archive-only, check only names, metadata and contents of the objects.
    For a table group, every message must be once in each table that
    the routes send it to, or in quarantine.  For tables that are changed by key, Spark
    compares each row with the last state of its key.  What an Iceberg table records of its files
    (counts, bounds, partition values) is compared with their values; --rows-only leaves this out.
    With --by, an engine reads the tables, and must find the least and greatest values and nulls of
    each file by its filters.
    With --source, tables that are changed by key are compared with the database that these come
    from, instead of with the log: each row, column by column.
    With --evidence, the ranges, messages, holes and hashes that were compared are written to a
    file, which 'secor evidence check' compares with the archive later, without Kafka.
    With --master, ranges of objects are compared with the topics in tasks of Spark, which must
    reach the store and Kafka.
    """
    settings = load(config, os.environ)
    evidence_file = evidence_of(settings, config, evidence, sign_with, start, generations)
    source = SourceOptions(**of_source)
    spark = SparkOptions(master, conf)
    if (master or conf) and (settings.group.kind == "table" or archive_only or evidence_file):
        raise ConfigurationError(
            f"{config}: --master and --conf are for archives that are compared with their topics:"
            " without --archive-only and --evidence. For tables set [spark]"
        )
    if source.source is not None:
        if settings.group.kind != "table" or rows_only or archive_only:
            raise ConfigurationError(
                f"{config}: --source is for groups with tables, without --rows-only and"
                " --archive-only"
            )
        return verify_source(settings, topics, source, by=by, as_json=as_json)
    if source.source_tables or source.ignore_columns:
        raise ConfigurationError("--source-table and --ignore-column need --source")
    if settings.group.kind == "table":
        if partitions or start is not None or generations or archive_only:
            raise ConfigurationError(
                f"{config}: of a group with tables only whole topics are compared: take"
                " --partition, --from, --generation and --archive-only away"
            )
        if look_up is not None and by is None:
            raise ConfigurationError("--look-up N: say by which engine, with --by")
        return verify_tables(
            settings, topics, by=by, look_up=look_up, rows_only=rows_only, as_json=as_json
        )
    if rows_only or by is not None:
        raise ConfigurationError(
            f"{config}: has no tables: take {'--rows-only' if rows_only else '--by'} away, which is"
            " for them alone"
        )
    report = ArchiveReport(with_topic=not archive_only)
    # Tasks show their own progress.
    with _progress(enabled=not as_json and master is None) as watch:
        if archive_only:
            reports = _alone(settings, topics, partitions, generations, watch, evidence_file)
        else:
            reports = _compared(
                settings, topics, partitions, start, generations, watch, evidence_file, spark
            )
        report.partitions += reports
    _require(partitions, report, archive_only=archive_only)
    click.echo(report_text(report, as_json=as_json))
    if evidence_file is not None:
        evidence_file.write(report, as_json=as_json)
    return Exit.OK if report.is_right else Exit.DIFFERENT


def _require(partitions: tuple[int, ...], report: ArchiveReport, *, archive_only: bool) -> None:
    """Raise ``ConfigurationError`` for a partition that was not looked at at all."""
    compared = {partition.topic_partition.partition for partition in report.partitions}
    absent = sorted(set(partitions) - compared)
    if absent:
        what = "objects of partition" if archive_only else "a partition"
        raise ConfigurationError(f"none of these topics has {what} {absent[0]}: see secor ls")


def _alone(
    config: Config,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    generations: tuple[int, ...],
    watch: Watch,
    evidence: EvidenceFile | None,
) -> Iterator[PartitionReport]:
    from secor.wiring.clients import open_store

    with open_store(config) as store:
        routes = earlier_routes(config, store)
        quarantined = quarantined_topics(config, store) if topics else []
        for topic in topics:
            if topic not in quarantined:
                require_stored(config, store, topic)
        for topic in topics or archived_topics(config, store):
            archive = archive_of(config, topic, store, routes)
            parsed = config.group.kind == "partition"
            for report in verify_archive_only(
                archive,
                topic,
                generations or None,
                parsed=parsed,
                inventories=evidence is not None,
                secret=secret_of(config),
            ):
                if not partitions or report.topic_partition.partition in partitions:
                    if evidence is not None:
                        evidence.add(report, archive, watch.hashed)
                    yield report


def _compared(
    config: Config,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    start: int | None,
    generations: tuple[int, ...],
    watch: Watch,
    evidence: EvidenceFile | None,
    spark: SparkOptions,
) -> Iterator[PartitionReport]:
    from secor.wiring.clients import open_ledger_for_operator, open_reader, open_store
    from secor.wiring.reading_tasks import parsing_of

    kafka = config.kafka
    with (
        open_store(config) as store,
        open_ledger_for_operator(config) as ledger,
        open_reader(config) as reader,
        spark_tasks("verify", spark) as tasks,
    ):
        routes = earlier_routes(config, store)
        names = topics or kafka.topics or reader.topics(kafka.topics_pattern, kafka.topics_exclude)
        if watch.expect is not None:
            topic_partitions = [number for name in names for number in reader.partitions(name)]
            wanted = [
                number
                for number in topic_partitions
                if not partitions or number.partition in partitions
            ]
            watch.expect(
                sum(offsets_to_compare(ledger, reader, number, start) for number in wanted)
            )
        for topic in names:
            topic_partitions = of_topic(reader.partitions(topic), topic)
            numbers = [number.partition for number in topic_partitions]
            archive = archive_of(config, topic, store, routes)
            verifier = Verifier(
                archive,
                reader,
                ledger,
                generations=generations or None,
                start=start,
                from_first_object=kafka.reset == "latest",
                progress=watch.advance,
                looked=watch.looked,
                parsing=parsing_of(config, topic),
                inventories=evidence is not None,
                secret=secret_of(config),
                erased_beyond=config.erase.apply,
                in_tasks=verifying(tasks, config, routes, topic),
            )
            chosen = [number for number in numbers if not partitions or number in partitions]
            for report in verifier.verify(topic, chosen, reader.topic_id(topic)):
                if not partitions or report.topic_partition.partition in partitions:
                    if evidence is not None:
                        evidence.add(report, archive, watch.hashed, reader.read_uncommitted)
                    yield report


def offsets_to_compare(
    ledger: OffsetLedger, log: Log, topic_partition: TopicPartition, start: int | None
) -> int:
    """Return how many offsets will be passed; 0 where the entry says nothing."""
    try:
        committed = ledger.read(topic_partition).committed
    except LedgerCorrupt:
        return 0
    log_range = log.log_range(topic_partition)
    return max(0, min(committed or 0, log_range.end) - max(log_range.start, start or 0))


@contextmanager
def _progress(*, enabled: bool) -> Iterator[Watch]:
    """Show total, rate and time left on standard error, when a person watches."""
    if not enabled or not sys.stderr.isatty():
        yield Watch(lambda _, __: None, lambda _, __: None, lambda _, __: None, None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} offsets"),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeLeft(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("verifying", total=0.0, rate=0.0)

        def advance(topic_partition: TopicPartition, offsets: int) -> None:
            shown = bars.tasks[0]
            rate = shown.speed or 0.0
            name = f"verifying {topic_partition}"
            bars.update(task, description=name, advance=offsets, rate=rate)

        seen: Counter[str] = Counter()

        def looked(topic: str, objects: int) -> None:
            seen[topic] += objects
            bars.update(
                task, description=f"looking at {topic}: {seen[topic]:,} objects", refresh=True
            )

        def hashed(topic_partition: TopicPartition, size: int) -> None:
            read[topic_partition] += size
            shown = human_size(read[topic_partition])
            bars.update(task, description=f"hashing {topic_partition}: {shown}")

        read: Counter[TopicPartition] = Counter()

        yield Watch(advance, looked, hashed, lambda total: bars.update(task, total=total))
