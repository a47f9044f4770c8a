"""What ``secor doctor`` looks at: each check returns what it saw, or raises what to do."""

from __future__ import annotations

import platform
import re
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Protocol

from secor import __version__
from secor.cli.open_archive import human_size
from secor.config.model import Config
from secor.core.errors import (
    ConfigurationError,
    LedgerCorrupt,
    SecorError,
)
from secor.core.model import LogRange, TopicPartition
from secor.core.ports import OffsetLedger
from secor.core.text import how_many

SCRATCH = "_secor-doctor"
"""Stands for a topic where the doctor tries what the service does."""

CONTENT = b"secor doctor was here\n"
BESIDES = 128
"""Open files beside local ones: connections, logs, libraries."""

LOCK_WAIT = 5.0
LIBRARIES = ("kafka-python", "pyarrow", "boto3", "kazoo", "crc32c")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, and what was seen or what is to be done."""

    check: str
    ok: bool
    text: str


Check = tuple[str, Callable[[], str]]


class Log(Protocol):
    """What is asked of the brokers."""

    def topics(self, pattern: str | None = None, exclude: str | None = None) -> list[str]:
        """Return the names of the topics that the patterns let through."""

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions; none when it does not exist."""

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        """Return where the log begins and ends."""

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[object]:
        """Give the messages of ``[start, end)``."""


def examine(check: str, look: Callable[[], str]) -> Finding:
    """Return what ``look`` returned, or the message of its error."""
    try:
        return Finding(check, True, look())
    except SecorError as error:
        return Finding(check, False, str(error))


# ---------------------------------------------------------------- this machine


def versions() -> str:
    """See that the libraries are there, and those whose insides are used exactly as asked."""
    try:
        asked = requires("secor") or []
    except PackageNotFoundError:
        asked = []  # run from a directory of sources
    pins = {match[1]: match[2] for one in asked if (match := _PIN.fullmatch(one))}
    found = {}
    for name in (*LIBRARIES, *pins):
        try:
            found[name] = version(name)
        except PackageNotFoundError as error:
            raise ConfigurationError(f"{name} is missing: pip install {name}") from error
    for name, wanted in pins.items():
        if found[name] != wanted:
            raise ConfigurationError(
                f"{name} is {found[name]}, tested is {wanted}: pip install {name}=={wanted}"
            )
    libraries = ", ".join(f"{name} {number}" for name, number in found.items())
    return f"secor {__version__}, Python {platform.python_version()}, {libraries}"


_PIN = re.compile(r"([A-Za-z0-9-]+)==([^;, ]+)")


def disk(config: Config) -> str:
    """See that local files can be made and that limits.local_bytes fit."""
    directory = config.local.directory / config.group.name
    standing = _standing(directory)
    try:
        with tempfile.TemporaryFile(dir=standing) as file:
            file.write(CONTENT)
        free = shutil.disk_usage(standing).free
        # What a running process holds there counts among its limit.
        held = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    except OSError as error:
        raise ConfigurationError(
            f"{standing} cannot be used: {error.strerror}; correct local.directory, or let the "
            "service's user write there"
        ) from error
    limit = config.limits.local_bytes
    if free + held < limit:
        raise ConfigurationError(
            f"{standing} has {human_size(free)} free, limits.local_bytes is {human_size(limit)}: "
            "make room, or lower the limit"
        )
    return f"{standing} is writable, {human_size(free)} free, {human_size(limit)} needed"


def _standing(directory: Path) -> Path:
    """Return the directory, or the nearest above it: the service makes the rest."""
    for path in (directory, *directory.parents):
        if path.exists():
            return path
    return directory


def open_files(config: Config) -> str:
    """See that the process may open as many files as limits.open_files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = config.limits.open_files + BESIDES
    if soft != resource.RLIM_INFINITY and soft < needed:
        raise ConfigurationError(
            f"this shell may open {soft} files, limits.open_files and connections need {needed}: "
            "raise it (ulimit -n; LimitNOFILE= in the unit), or lower limits.open_files"
        )
    return f"{'unlimited' if soft == resource.RLIM_INFINITY else soft} may be open, {needed} needed"


# --------------------------------------------------------- brokers and ledger


def of_servers(config: Config) -> Iterator[Finding]:
    """Check brokers, topics, the group and the ledger."""
    from secor.wiring.clients import open_group, open_ledger_for_operator, open_reader

    with ExitStack() as opened:
        found: list[TopicPartition] = []

        def kafka() -> str:
            reader = opened.enter_context(open_reader(config))
            found.extend(topics(config, reader))
            try_reading(reader, found)
            letters(config, reader, found)
            return f"topics: {len({one.topic for one in found})}, partitions: {len(found)}"

        def group() -> str:
            open_entries = opened.enter_context(open_group(config))
            # In a Kafka ledger it is looked at with the others, below.
            if config.ledger.kind != "kafka":
                open_entries.read(found[0])
            return f"{config.group.name} may be used"

        def ledger() -> str:
            entries = opened.enter_context(open_ledger_for_operator(config))
            return in_ledger(config, entries, found)

        yield examine("kafka", kafka)
        # An entry of a topic that may not be described is refused whatever the group's rights.
        if found:
            yield examine("group", group)
        yield examine("ledger", ledger)


def topics(config: Config, reader: Log) -> list[TopicPartition]:
    """Return the partitions of all topics that are wanted."""
    kafka = config.kafka
    names = kafka.topics or reader.topics(kafka.topics_pattern, kafka.topics_exclude)
    if not names:
        raise ConfigurationError(
            f"no topic matches kafka.topics_pattern {kafka.topics_pattern!r}: correct it, make the "
            "topic, or let this user describe it"
        )
    found = {name: reader.partitions(name) for name in names}
    missing = [name for name, partitions in found.items() if not partitions]
    if missing:
        raise ConfigurationError(
            f"the broker has no topic {', '.join(missing)}: make it, correct kafka.topics, or let "
            "this user describe it"
        )
    return [one for name in names for one in found[name]]


def try_reading(reader: Log, partitions: Sequence[TopicPartition]) -> None:
    """Look at each log, and read each topic: who may describe one may not yet read it."""
    tried: set[str] = set()
    for one in partitions:
        log = reader.log_range(one)
        if log.start < log.end and one.topic not in tried:
            tried.add(one.topic)
            next(iter(reader.read(one, log.start, log.start + 1)), None)


def letters(config: Config, reader: Log, partitions: Sequence[TopicPartition]) -> None:
    """See that the topics that get copies of what is in quarantine exist."""
    names = {config.for_topic(one.topic).parser.dead_letter_topic for one in partitions} - {None}
    missing = sorted(name for name in names if name and not reader.partitions(name))
    if missing:
        raise ConfigurationError(
            f"the broker has no topic {', '.join(missing)}: make it, or correct "
            "parser.dead_letter_topic"
        )


def materials(config: Config) -> str:
    """See that schema files, descriptor sets, generated classes and plug-ins can be used."""
    from secor.wiring.check_references import unusable_materials

    faults = unusable_materials(config)
    if faults:
        raise ConfigurationError("; ".join(f"{key}: {why}" for key, why in faults.items()))
    rules = f" and of {how_many(len(config.topics), 'rule')} for topics" if config.topics else ""
    return f"can be made: files, classes, plug-ins of the general settings{rules} are there"


def in_ledger(config: Config, ledger: OffsetLedger, partitions: Sequence[TopicPartition]) -> str:
    """Read all entries; in ZooKeeper take a lock, too, which needs the right to write."""
    unreadable, open_intents, entries = [], 0, 0
    for one in partitions:
        try:
            entry = ledger.read(one)
        except LedgerCorrupt as error:
            unreadable.append(str(error))
            continue
        entries += entry.committed is not None
        open_intents += entry.intent is not None
    if unreadable:
        raise LedgerCorrupt("; ".join(unreadable))
    lock = ""
    if config.ledger.kind == "zookeeper":
        ledger.lease(TopicPartition(SCRATCH, 0), LOCK_WAIT).release()
        lock = ", locks can be taken"
    return f"entries: {entries} of {len(partitions)}, with an open intent: {open_intents}{lock}"
