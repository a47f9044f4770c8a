"""``secor progress``: how far behind the group is, from ledger and brokers alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.doctor.stop_reasons import StopReasons, next_to_store, sentence
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import no_topic_matches, of_topic, table
from secor.cli.topic_type import TOPIC
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import CorruptBatch, LedgerCorrupt, RestartPartition
from secor.core.model import LogRange, OpenTransaction, TopicPartition
from secor.core.ports import OffsetLedger
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader

SHOWN = 5
"""Overdue partitions that are named."""

EVERY = 2.0
"""Seconds between two looks of ``--watch``."""

OVERDUE = 3
"""A message is committed within one ``policy.max_age``, or two, while a process keeps up."""

PEEK = 64 * 1024
"""Bytes asked of a broker to learn the time of one message; a larger batch comes whole."""


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of one topic partition.

    ``lag`` in offsets: without an entry the whole log, or nothing where reading would begin at
    its end; None where only a lost or unreadable entry could say.  ``age`` in seconds, of the
    first message with a timestamp that is not committed, None where there is none.  ``intent`` is
    ``[start, end)`` of an open one.  ``fault`` says what is wrong and what to do, ``stopped``
    names the reason why it goes no further, as the metric ``secor_partition_stopped`` does.
    ``overdue`` says that its age is more than ``OVERDUE`` times ``policy.max_age``, though
    nothing that can be seen stops it.
    ``log_end`` is the last stable offset.  ``withheld`` are the offsets behind it, which wait for
    the end of ``transaction``.
    """

    topic: str
    partition: int
    committed: int | None
    log_start: int
    log_end: int
    lag: int | None
    age: float | None
    intent: tuple[int, int] | None
    fault: str | None
    stopped: str | None = None
    overdue: bool = False
    withheld: int = 0
    transaction: OpenTransaction | None = None


@click.command(epilog="Example: secor progress backup.toml --watch")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("topic", type=TOPIC, required=False)
@click.option("--watch", is_flag=True, help="Repeat every two seconds, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --watch, one line a look.")
def command(config: Path, topic: str | None, watch: bool, as_json: bool) -> int:
    """Show lag and age of each topic partition of the group, from ledger and brokers.

    It asks no daemon, and none needs to run.  The lag is the number of offsets behind the log's
    end, as readers of committed messages see it; the age is that of the first uncommitted message.
    Offsets that wait behind an open transaction are named apart, with that transaction.  Exit code
    5 when ledger, brokers or objects show that a partition is stopped.  Only a daemon knows of
    other stops (too many messages for quarantine, a failed plug-in, an object of another writer
    under our name).  Look for these on its status page, in its log or in secor_partition_stopped.
    The last line names the suspects: partitions older than three times policy.max_age.
    Exit code 5 also when no topic matches: then nothing is stored.
    """
    from secor.wiring.clients import open_ledger_for_operator, open_reader

    settings = load(config, os.environ)
    with ExitStack() as opened:
        ledger = opened.enter_context(open_ledger_for_operator(settings))
        reader = opened.enter_context(open_reader(_peeking(settings)))

        def look() -> list[PartitionProgress]:
            # Made anew each time: topics may be made again while we watch.
            reasons = StopReasons(settings, reader, opened)
            return progress_of(settings, ledger, reader, reasons, topic, time.time())

        partitions = look()
        _show(settings, partitions, as_json=as_json, watch=watch)
        # Ctrl-C is how watching ends.
        with suppress(KeyboardInterrupt):
            while watch:
                time.sleep(EVERY)
                partitions = look()
                _show(settings, partitions, as_json=as_json, watch=True)
    wrong = not partitions or any(progress.fault for progress in partitions)
    return Exit.DIFFERENT if wrong else Exit.OK


def progress_of(
    config: Config,
    ledger: OffsetLedger,
    reader: KafkaReader,
    reasons: StopReasons,
    topic: str | None,
    now: float,
) -> list[PartitionProgress]:
    """Return the progress of one topic, or of all that the configuration names.

    ``now`` is in seconds since the epoch.  Raises ``Unavailable``, ``AccessDenied``,
    ``ConfigurationError`` for a topic that does not exist.
    """
    kafka = config.kafka
    named = (topic,) if topic else kafka.topics
    reported = [
        _progress(ledger, reader, reasons, topic_partition, now, config)
        for name in named or reader.topics(kafka.topics_pattern, kafka.topics_exclude)
        for topic_partition in of_topic(reader.partitions(name), name)
    ]
    waiting = [
        TopicPartition(status.topic, status.partition) for status in reported if status.withheld
    ]
    # Asked once for all: each question goes to every broker.
    opened = reader.open_transactions(waiting) if waiting else {}
    return [
        replace(
            reported_partition,
            transaction=opened.get(
                TopicPartition(reported_partition.topic, reported_partition.partition)
            ),
        )
        for reported_partition in reported
    ]


def _peeking(config: Config) -> Config:
    kafka = config.kafka.model_copy(update={"max_partition_fetch_bytes": PEEK})
    return config.model_copy(update={"kafka": kafka})


def _progress(
    ledger: OffsetLedger,
    reader: KafkaReader,
    reasons: StopReasons,
    topic_partition: TopicPartition,
    now: float,
    config: Config,
) -> PartitionProgress:
    entry, log_range, stopped = reasons.look(ledger, reader, topic_partition)
    committed, intent = entry.committed, entry.intent
    max_age = config.for_topic(topic_partition.topic).policy.max_age
    next_offset, oldest = next_to_store(config, committed, log_range, stopped), None
    if next_offset is not None and next_offset < log_range.end:
        first = max(next_offset, log_range.start)
        try:
            oldest = _timestamp(reader, topic_partition, first, log_range.end)
        except CorruptBatch as error:
            stopped = stopped or error
    age = None if oldest is None else max(0.0, now - oldest / 1000)
    return PartitionProgress(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        committed=committed,
        log_start=log_range.start,
        log_end=log_range.end,
        lag=None if next_offset is None else max(0, log_range.end - next_offset),
        age=age,
        intent=None if intent is None else (intent.start, intent.end),
        fault=_lost(committed, log_range)
        if stopped is None
        else sentence(topic_partition, stopped),
        stopped=None if stopped is None else stopped.reason,
        withheld=log_range.withheld,
        overdue=stopped is None and age is not None and age > OVERDUE * max_age,
    )


def _lost(committed: int | None, log_range: LogRange) -> str | None:
    if committed is None or committed >= log_range.start:
        return None
    lost = log_range.start - committed
    return (
        f"retention has removed {how_many(lost, 'offset that is', 'offsets that are')} not stored:"
        " run more processes, or keep the topic for longer"
    )


def _timestamp(
    reader: KafkaReader, topic_partition: TopicPartition, start: int, end: int
) -> int | None:
    """Return the time of the first message at ``start`` or behind it, in milliseconds.

    A message without a timestamp has the time of the next one that was fetched with it.
    Raises ``CorruptBatch`` where that cannot be read, which stops the daemon, too.
    """
    try:
        for chunk in reader.read(topic_partition, start, end):
            records = chunk.since(start).records
            if records.num_rows:
                timestamps = records.column("timestamp").drop_null()
                return int(timestamps[0].as_py()) if len(timestamps) else None
    except RestartPartition:
        return None  # retention was quicker than we: the lag is shown all the same
    return None


def _show(
    config: Config, partitions: Sequence[PartitionProgress], *, as_json: bool, watch: bool
) -> None:
    if as_json:
        report = {
            "group": config.group.name,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "lag": _together([progress.lag for progress in partitions]),
            "partitions": [asdict(progress) for progress in partitions],
        }
        click.echo(json.dumps(report, indent=None if watch else 2))
        return
    if watch:
        click.clear()
    if not partitions:
        click.echo(f"{config.group.name}: {no_topic_matches(config)}")
        return
    for line in lines(config.group.name, partitions):
        click.echo(line)


def _together(lags: Sequence[int | None]) -> int | None:
    """Return the sum; None where a partition has no lag, or where there is no partition:
    nobody is to take that for 0.
    """
    known = [lag for lag in lags if lag is not None]
    return sum(known) if lags and len(known) == len(lags) else None


def lines(group: str, reported: Sequence[PartitionProgress]) -> Iterable[str]:
    """Give the table for people, and a line that sums it up."""
    rows = [("topic", "partition", "committed", "log", "lag", "age", "intent")]
    for progress in reported:
        unknown = "unreadable" if progress.stopped == LedgerCorrupt.reason else "none"
        rows.append(
            (
                progress.topic,
                str(progress.partition),
                unknown if progress.committed is None else str(progress.committed),
                f"[{progress.log_start}, {progress.log_end})",
                "-" if progress.lag is None else f"{progress.lag:,}",
                "-" if progress.age is None else duration(progress.age),
                "-" if progress.intent is None else f"[{progress.intent[0]}, {progress.intent[1]})",
            )
        )
    yield from table(rows, left=frozenset({0, 6}))
    for progress in reported:
        if progress.fault:
            yield f"{progress.topic}/{progress.partition}: {progress.fault}"
    withheld = {
        TopicPartition(shown.topic, shown.partition): shown.withheld
        for shown in reported
        if shown.withheld
    }
    opened = {
        TopicPartition(shown.topic, shown.partition): shown.transaction
        for shown in reported
        if shown.transaction
    }
    yield from withheld_lines(withheld, opened)
    lag = sum(progress.lag or 0 for progress in reported)
    ages = [progress.age for progress in reported if progress.age is not None]
    oldest = f", the oldest message is {duration(max(ages))} old" if ages else ""
    fresh = sum(progress.committed is None and not progress.fault for progress in reported)
    without = f", {fresh} without an entry yet" if fresh else ""
    unread = sum(progress.lag is None for progress in reported)
    without += f", the lag of {unread} is unknown" if unread else ""
    partitions, behind = how_many(len(reported), "topic partition"), how_many(lag, "offset")
    count = sum(progress.stopped is not None for progress in reported)
    stopped = f", {count} stopped" if count else ""
    hidden = sum(withheld.values())
    waiting = f", {hidden:,} more behind open transactions" if hidden else ""
    yield f"{group}: {partitions}, {behind} behind{oldest}{without}{stopped}{waiting}"
    if overdue := [f"{status.topic}/{status.partition}" for status in reported if status.overdue]:
        more = f" and {len(overdue) - SHOWN} more" if len(overdue) > SHOWN else ""
        yield (
            f"more than {OVERDUE} times policy.max_age behind: {', '.join(overdue[:SHOWN])}{more}."
            " No process runs, it has too much to do, or a partition is stopped by what only its"
            " process knows: look at its page, its log (event stopped) or secor_partition_stopped"
        )


def withheld_lines(
    withheld: Mapping[TopicPartition, int], opened: Mapping[TopicPartition, OpenTransaction]
) -> Iterator[str]:
    """Give a line for each topic partition with offsets behind an open transaction."""
    for topic_partition, count in withheld.items():
        offsets = how_many(count, "offset waits", "offsets wait")
        transaction = opened.get(topic_partition, OpenTransaction())
        yield f"{topic_partition}: {offsets} behind {transaction}"


def duration(seconds: float) -> str:
    """Return seconds as people say them, in two units: ``3m 20s``."""
    whole = int(seconds)
    for size, unit, small, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // small}{smaller}"
    return f"{whole // 60}m {whole % 60}s" if whole >= 60 else f"{whole}s"
