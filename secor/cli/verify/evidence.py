"""``secor verify --evidence``: a file of what was proved, for people outside."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secor import __version__
from secor.archive.evidence.digests import Progress
from secor.archive.evidence.record import Evidence, Making, PartitionRecord, tree_of_partitions
from secor.archive.evidence.signature import read_private_key, signature_path
from secor.archive.objects import Archive
from secor.config.model import Config
from secor.config.show import settings
from secor.config.stores import Store
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.core.text import how_many, iso_time, mask_urls
from secor.verify.archive.report import ArchiveReport, PartitionReport
from secor.verify.evidence import Read, partition_record

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_ADDRESS = ("bucket", "account", "container", "endpoint_url", "region", "path_style", "directory")
"""Settings of a store that say where it is."""


def evidence_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that ask for a file of evidence."""
    for option in (
        click.option(
            "--sign-with",
            metavar="KEYFILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Sign the file of --evidence: FILE.sig.  An Ed25519 key in PEM format, as 'secor"
            " evidence keygen' makes.",
        ),
        click.option(
            "--evidence",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Write what was compared, with a hash of each object, to this new file.",
        ),
    ):
        function = option(function)
    return function


def evidence_of(
    config: Config,
    path: Path,
    evidence: Path | None,
    sign_with: Path | None,
    start: int | None,
    generations: tuple[int, ...],
) -> EvidenceFile | None:
    """Return the file to make, None without one.  Raises ``ConfigurationError`` before any work."""
    if evidence is None:
        signing_key(None, sign_with)
        return None
    if config.group.kind == "table":
        raise ConfigurationError(
            f"{path}: --evidence is for groups of objects: of tables, their snapshots and the"
            " catalog say what was when"
        )
    if start is not None or generations:
        option = "--from" if start is not None else "--generation"
        raise ConfigurationError(f"--evidence is of all that is stored: take {option} away")
    return EvidenceFile(config, evidence, signing_key(evidence, sign_with))


@dataclass
class EvidenceFile:
    """A file of evidence in the making: a record for each topic partition, then the whole."""

    config: Config
    path: Path
    key: Ed25519PrivateKey | None
    partitions: list[PartitionRecord] = field(default_factory=list)
    directories: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(
        self,
        report: PartitionReport,
        archive: Archive,
        hashed: Callable[[TopicPartition, int], None],
        read: Read | None = None,
    ) -> None:
        """Hash the objects of a topic partition; ``read`` reads its log.

        ``hashed`` is called with bytes that were read, in several threads.
        """
        topic = report.topic_partition.topic
        self.directories[topic] = archive.directories(topic)
        progress = partial(hashed, report.topic_partition)
        self.partitions.append(partition_record(report, archive.store, read, progress))

    def write(self, report: ArchiveReport, *, as_json: bool) -> None:
        """Write the file, and its signature.  Raises ``ConfigurationError`` where it cannot."""
        evidence = Evidence(
            Making(
                iso_time(time.time()),
                socket.getfqdn(),
                __version__,
                self.config.group.name,
                configuration_hash(self.config),
                report.with_topic,
            ),
            store_address(self.config.store),
            self.directories,
            report.summary,
            tuple(self.partitions),
            tree_of_partitions(self.partitions),
        )
        write_signed(self.path, evidence.encode(), self.key)
        objects = sum(len(partition.objects) for partition in self.partitions)
        signed = "signed" if self.key is not None else "not signed"
        click.echo(
            f"evidence of {how_many(objects, 'object')} in {self.path}, {signed}; root"
            f" {evidence.root}",
            err=as_json,
        )


def write_signed(path: Path, data: bytes, key: Ed25519PrivateKey | None) -> None:
    """Write a file, and its signature before it.  Raises ``ConfigurationError``."""
    try:
        if key is not None:
            signature_path(path).write_bytes(key.sign(data))
        partial = path.with_name(f".{path.name}.partial")
        partial.write_bytes(data)
        partial.rename(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written ({error.strerror})") from error


def signing_key(path: Path | None, sign_with: Path | None) -> Ed25519PrivateKey | None:
    """Return the key for a new file of evidence, None where it is not to be signed.

    Raises ``ConfigurationError`` before any work where the file could not be written.
    """
    if path is None:
        if sign_with is not None:
            raise ConfigurationError("--sign-with needs --evidence FILE")
        return None
    for file in (path, signature_path(path)):
        if file.exists():
            raise ConfigurationError(f"{file}: exists already: choose another name")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"{path}: there is no directory {path.parent}")
    return None if sign_with is None else read_private_key(sign_with)


def configuration_hash(config: Config) -> str:
    """Return the SHA-256 of all settings and their values, secrets masked."""
    lines = sorted(f"{setting.key} = {setting.text()}\n" for setting in settings(config))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def store_address(store: Store) -> dict[str, Any]:
    """Return where a store is, as the settings of ``[store]`` say it, without credentials."""
    chosen = json.loads(store.chosen.model_dump_json(include=set(_ADDRESS), exclude_none=True))
    plain = {
        name: mask_urls(value) if isinstance(value, str) else value
        for name, value in chosen.items()
    }
    if store.kind == "local":
        plain = {"directory": os.path.abspath(str(store.local.directory))}  # noqa: PTH100
    return {"kind": store.kind, store.kind: plain}


@contextmanager
def reading_progress(what: str, size: int) -> Iterator[Progress]:
    """Show bytes, rate and time left on standard error, when a person watches."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=size)
        yield lambda read: bars.update(task, advance=read)
