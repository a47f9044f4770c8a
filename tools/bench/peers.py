"""Other programs that store the same topic in the same store, in the same run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import click

from secor.core.errors import Unavailable
from secor.sandbox import Sandbox
from tools.bench.cases import CASES, Case
from tools.bench.fill import Filled
from tools.bench.report import PEERS_OF, PeerResult, Result
from tools.bench.running import ProgramProcess, Usage

CHECKOUT = Path(__file__).parents[2]
QUIX = "quixstreams[azure-file]==3.22.0"
"""Not in the lock: nothing but this measurement needs it.  Its module of file sinks imports those
of all clouds."""

COMPARED: Case = next(case for case in CASES if case.name == PEERS_OF)
"""Ours: what the others do, too."""

ELSEWHERE = """\
Taken elsewhere, not in this run (1 million messages, same broker and store, a nearly idle machine):
  Java Secor, SequenceFile: 8 to 10 times Secor's CPU; with BLOCK zlib 4.5 to 5
  Redpanda Connect, gzip lines: 2.8 to 3.0 times Secor's CPU; wall time 3.2, memory 8"""
"""Of programs that cannot be run here."""

INSTALL_WITHIN = 600

IDLE = 3.0
"""Seconds for which a program waits for messages before it ends."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A program: a name for people, its module, and what it needs beside our environment."""

    name: str
    module: str
    requirement: str | None = None


PEERS = (
    Peer("confluent-kafka + gzip + boto3, 40 lines", "plain"),
    Peer("Quix Streams 3.22.0", "quix", QUIX),
)


def settings_of(
    peer: Peer, sandbox: Sandbox, *, topic: str, messages: int, directory: Path
) -> Mapping[str, object]:
    """Return what the program is told: where everything is, and when to end."""
    s3 = sandbox.s3
    group = f"peer-{peer.module}-{topic}"
    return {
        "topic": topic,
        "messages": messages,
        "idle": IDLE,
        "bucket": s3.bucket,
        "prefix": f"bench/{group}",
        "directory": str(directory),
        "s3": {
            "endpoint_url": s3.endpoint_url,
            "region_name": s3.region,
            "aws_access_key_id": s3.access_key,
            "aws_secret_access_key": s3.secret_key,
        },
        "kafka": {
            "bootstrap.servers": sandbox.kafka,
            "group.id": group,
            "auto.offset.reset": "earliest",
        },
    }


def measure(
    sandbox: Sandbox, filled: Filled, ours: Result, *, empty: str, directory: Path
) -> Iterator[PeerResult | str]:
    """Yield a result of each program, or why it cannot be run; ``empty`` is an empty topic."""
    for peer in PEERS:
        try:
            site = None if peer.requirement is None else install(peer.requirement)
            start, used = (
                _run(peer, sandbox, topic=topic, messages=count, directory=directory, site=site)
                for topic, count in ((empty, 0), (filled.topic, filled.messages))
            )
        except Unavailable as error:
            yield f"{peer.name}: not measured: {error}"
            continue
        yield compare(peer.name, filled.messages, start=start, used=used, ours=ours)


class Ours(Protocol):
    """The figures of ours that others are compared with."""

    @property
    def cpu_us(self) -> float:
        """CPU in microseconds a message."""

    @property
    def seconds(self) -> float:
        """Time by the clock."""

    @property
    def peak_megabytes(self) -> float:
        """The greatest resident memory."""


def compare(
    name: str,
    messages: int,
    *,
    start: Usage,
    used: Usage,
    ours: Ours,
    beside: str = PEERS_OF,
) -> PeerResult:
    """Compare a run with ours, the case ``beside``.

    What it takes over an empty topic is not of the messages.  Seconds are those that a run of all
    messages takes longer than a start, without ``IDLE``, for which it waits over an empty topic;
    what joining the group takes may be among them.
    """
    cpu_us = (used.cpu - start.cpu) / messages * 1e6
    seconds = max((used.ended - used.ready) - (start.ended - start.ready - IDLE), 1e-3)
    peak = used.peak / 1e6
    return PeerResult(
        name=name,
        messages=messages,
        cpu_us=round(cpu_us, 3),
        seconds=round(seconds, 2),
        peak_megabytes=round(peak, 1),
        times_cpu=round(cpu_us / ours.cpu_us, 2),
        times_seconds=round(seconds / ours.seconds, 2),
        times_memory=round(peak / ours.peak_megabytes, 2),
        beside=beside,
    )


def install(requirement: str) -> Path:
    """Install a package into a folder of its own, once; return it.  Raises ``Unavailable``."""
    site = CHECKOUT / ".cache" / re.sub(r"[^\w.]+", "-", requirement)
    if site.is_dir():
        return site
    click.echo(f"installing {requirement} into {site}", err=True)
    fresh = site.with_name(f"{site.name}.new")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run(
            [*command, "--upgrade", "--target", str(fresh), requirement],
            check=True,
            timeout=INSTALL_WITHIN,
            capture_output=True,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or "it says nothing").splitlines()[-1]
        raise Unavailable(f"pip cannot install {requirement}: {last}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"pip did not install {requirement} in {INSTALL_WITHIN} s") from error
    fresh.rename(site)
    return site


def _run(
    peer: Peer,
    sandbox: Sandbox,
    *,
    topic: str,
    messages: int,
    directory: Path,
    site: Path | None,
) -> Usage:
    settings = settings_of(peer, sandbox, topic=topic, messages=messages, directory=directory)
    paths = [str(CHECKOUT), *([] if site is None else [str(site)])]
    # Its own packages come first: they may be other versions than ours.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(reversed(paths))}
    program = ["-m", f"tools.bench.peer_programs.{peer.module}", json.dumps(settings)]
    log = directory / f"peer-{peer.module}-{topic}.log"
    return ProgramProcess(program, log=log, environment=environment).run()
