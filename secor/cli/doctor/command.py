"""``secor doctor``: what would prevent the service from working, before it does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import click

from secor.cli.doctor.checks import (
    SCRATCH,
    CheckResult,
    disk,
    examine,
    metrics_port,
    open_files,
    versions,
)
from secor.cli.doctor.stop_reasons import StopReasons, sentence
from secor.cli.doctor.store_checks import of_store
from secor.cli.doctor.table_checks import of_tables
from secor.cli.exit_codes import Exit
from secor.cli.topic_type import json_option, print_json
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError, LedgerCorrupt, StopPartition, Unavailable
from secor.core.model import LogRange, TopicPartition
from secor.core.ports import OffsetLedger
from secor.core.text import how_many, withheld_text

LOCK_WAIT = 5.0

PATIENCE = 15.0
"""Seconds in which a server that has only just started may say that it is not ready yet."""

AGAIN = 0.5


class BrokerQueries(Protocol):
    """The doctor's view of the brokers."""

    def topics(self, pattern: str | None = None, exclude: str | None = None) -> list[str]:
        """Return the names of the topics that the patterns let through."""

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions; none when it does not exist."""

    def topic_id(self, topic: str) -> str | None:
        """Return a topic's id; None where brokers have none."""

    def cluster_id(self) -> str:
        """Return the id of the cluster."""

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        """Return where the log begins and ends."""

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[object]:
        """Give the messages of ``[start, end)``."""


def patiently(look: Callable[[], str]) -> str:
    """Return what ``look`` returns; what is unavailable is looked at again for a while.

    A coordinator that still loads its groups answers at once that it does.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return look()
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
        time.sleep(AGAIN)


def of_servers(config: Config) -> Iterator[CheckResult]:
    """Check brokers, topics, the group and the ledger."""
    from secor.wiring.clients import open_group, open_ledger_for_operator, open_reader

    with ExitStack() as opened:
        topic_partitions: list[TopicPartition] = []
        unreadable: list[TopicPartition] = []
        reached: list[BrokerQueries] = []

        def kafka() -> str:
            reader = opened.enter_context(open_reader(config))
            # Also where a later check fails: the ledger of the same brokers is then worth a look.
            reached.append(reader)
            topic_partitions.extend(topics(config, reader))
            try_reading(reader, topic_partitions)
            dead_letters(config, reader, topic_partitions)
            names = {topic_partition.topic for topic_partition in topic_partitions}
            return f"topics: {len(names)}, partitions: {len(topic_partitions)}"

        def group() -> str:
            open_entries = opened.enter_context(open_group(config))
            # In a Kafka ledger it is looked at with the others, below.
            if config.ledger.kind != "kafka":
                patiently(lambda: str(open_entries.read(topic_partitions[0])))
            return f"{config.group.name} may be used"

        def ledger() -> str:
            entries = opened.enter_context(open_ledger_for_operator(config))
            return patiently(lambda: in_ledger(config, entries, topic_partitions, unreadable))

        def partitions() -> str:
            entries = opened.enter_context(open_ledger_for_operator(config))
            reader = opened.enter_context(open_reader(config))
            reasons = StopReasons(config, reader, opened)
            # Those are named by the check before, and would hide all others here.
            readable = [partition for partition in topic_partitions if partition not in unreadable]
            waiting = check_stopped(entries, reader, reasons, readable)
            which = "no other partition" if unreadable else "none"
            return f"{which} is stopped by ledger, log or objects{waiting}"

        yield examine("kafka", kafka)
        # An entry of a topic that may not be described is refused whatever the group's rights.
        if topic_partitions:
            yield examine("group", group)
        if config.ledger.kind == "kafka" and not reached:
            return  # the same brokers: another wait would say the same
        yield (seen := examine("ledger", ledger))
        if topic_partitions and (seen.ok or unreadable):
            yield examine("partitions", partitions)


def topics(config: Config, reader: BrokerQueries) -> list[TopicPartition]:
    """Return the partitions of all topics that are wanted."""
    kafka = config.kafka
    names = kafka.topics or reader.topics(kafka.topics_pattern, kafka.topics_exclude)
    if not names:
        raise ConfigurationError(
            f"no topic matches kafka.topics_pattern {kafka.topics_pattern!r}: correct it, make the "
            "topic, or let this user describe it"
        )
    by_topic = {name: reader.partitions(name) for name in names}
    missing = [name for name, partitions in by_topic.items() if not partitions]
    if missing:
        raise ConfigurationError(
            f"the broker has no topic {', '.join(missing)}: make it, correct kafka.topics, or let "
            "this user describe it"
        )
    return [topic_partition for name in names for topic_partition in by_topic[name]]


def try_reading(reader: BrokerQueries, partitions: Sequence[TopicPartition]) -> None:
    """Look at each log, and read each topic: the right to describe one is not that to read it."""
    tried: set[str] = set()
    for topic_partition in partitions:
        log = reader.log_range(topic_partition)
        # One message shows the right to read; rights are given by topic, so one partition will do.
        if log.start < log.end and topic_partition.topic not in tried:
            tried.add(topic_partition.topic)
            next(iter(reader.read(topic_partition, log.start, log.start + 1)), None)


def dead_letters(
    config: Config, reader: BrokerQueries, partitions: Sequence[TopicPartition]
) -> None:
    """See that the topics that get copies of what is in quarantine exist."""
    names = {
        config.for_topic(topic_partition.topic).parser.dead_letter_topic
        for topic_partition in partitions
    } - {None}
    missing = sorted(name for name in names if name and not reader.partitions(name))
    if missing:
        raise ConfigurationError(
            f"the broker has no topic {', '.join(missing)}: make it, or correct "
            "parser.dead_letter_topic"
        )


def referenced_files(config: Config) -> str:
    """See that schema files, descriptor sets, generated classes and plug-ins can be used."""
    from secor.wiring.check_references import unusable_references

    faults = unusable_references(config)
    if faults:
        raise ConfigurationError("; ".join(f"{key}: {why}" for key, why in faults.items()))
    rules = f" and of {how_many(len(config.topics), 'rule')} for topics" if config.topics else ""
    return f"can be made: files, classes, plug-ins of the general settings{rules} are there"


def check_stopped(
    ledger: OffsetLedger,
    log: BrokerQueries,
    reasons: StopReasons,
    partitions: Sequence[TopicPartition],
) -> str:
    """See that no partition is stopped.  Raises the ``StopPartition`` of those that are.

    Return how many offsets wait behind open transactions, in words; nothing for none.
    """
    stopped, withheld = [], 0
    for topic_partition in partitions:
        entry = ledger.read(topic_partition)
        log_range = log.log_range(topic_partition)
        withheld += log_range.withheld
        error = reasons.find(topic_partition, entry, log_range)
        if error is not None:
            stopped.append(f"{topic_partition} is {sentence(topic_partition, error)}")
    if stopped:
        raise StopPartition("; ".join(stopped))
    return withheld_text(withheld)


def in_ledger(
    config: Config,
    ledger: OffsetLedger,
    partitions: Sequence[TopicPartition],
    unreadable: list[TopicPartition],
) -> str:
    """Read all entries; in ZooKeeper take a lock, too, which needs the right to write.

    ``unreadable`` is filled.  Raises ``LedgerCorrupt`` naming those.
    """
    # It is called again while a server says that it is not ready yet.
    unreadable.clear()
    faults, open_intents, entries = [], 0, 0
    for topic_partition in partitions:
        try:
            entry = ledger.read(topic_partition)
        except LedgerCorrupt as error:
            unreadable.append(topic_partition)
            faults.append(str(error))
            continue
        entries += entry.committed is not None
        open_intents += entry.intent is not None
    if faults:
        raise LedgerCorrupt("; ".join(faults))
    lock = ""
    if config.ledger.kind == "zookeeper":
        # A name of the doctor's own: a running service holds the locks of its own partitions.
        ledger.lease(TopicPartition(SCRATCH, 0), LOCK_WAIT).release()
        lock = ", locks can be taken"
    return f"entries: {entries} of {len(partitions)}, with an open intent: {open_intents}{lock}"


@click.command(epilog="Example: secor doctor /etc/secor/backup.toml")
@click.argument("config", type=click.Path(path_type=Path))
@json_option
def command(config: Path, as_json: bool) -> int:
    """Check everything that CONFIG needs: each line is ok, or says what to do.

    It checks versions, disk, open files, the HTTP port, the parser's files and plug-ins, brokers,
    topics, group, ledger, stopped partitions, clock, and the rights in the store: it puts, gets,
    lists and deletes below PREFIX/_secor-doctor.  For a table group it also checks the rights on
    the control topic and on the group that elects the coordinator, the catalog, its tables, and
    the rights on their data.  Run it as the user of the service, with its environment; it does
    not disturb a running service.  Exit code 5 when something is left to do.
    """
    settings = load(config, os.environ)
    results = []
    for finding in findings(settings, time.time):
        results.append(finding)
        if not as_json:
            click.echo(line(finding))
    for warning in settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    well = all(finding.ok for finding in results)
    if as_json:
        report = {"ok": well, "checks": [asdict(finding) for finding in results]}
        print_json(report)
    return Exit.OK if well else Exit.DIFFERENT


def findings(config: Config, now: Callable[[], float]) -> Iterator[CheckResult]:
    """Check everything, one after the other; what one fault hides is left out."""
    yield examine("versions", versions)
    yield examine("disk", lambda: disk(config))
    yield examine("open files", lambda: open_files(config))
    if config.group.kind != "backup":
        yield examine("parser", lambda: referenced_files(config))
    yield examine("port", lambda: metrics_port(config))
    yield from of_servers(config)
    yield from of_store(config, now)
    # Last, for the catalog may be slow, and what was checked before is shown by then.
    if config.group.kind == "table":
        yield from of_tables(config)


def line(finding: CheckResult) -> str:
    """Return a finding as people read it."""
    return f"{'ok' if finding.ok else 'FAULT':<6} {finding.check:<11} {finding.text}"
