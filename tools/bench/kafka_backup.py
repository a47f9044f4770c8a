"""OSO's ``kafka-backup`` beside ours: the same topic backed up into S3, and restored from it.

Its binary is given by a person: nothing here installs it.  Source of the configurations: its
``docs/configuration.md``; YAML takes JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from secor.core.errors import Unavailable
from secor.sandbox import Sandbox
from tools.bench.cases import CASES, Case
from tools.bench.fill import Filled, create_topic
from tools.bench.peers import IDLE, compare
from tools.bench.report import PeerResult, Result
from tools.bench.running import ProgramProcess, Usage

COMPARED: Case = next(case for case in CASES if case.name == "parquet")
"""Ours: it keeps all that a message has, compressed by Zstandard, as the other does."""

_RESTORE = "import sys; from secor.cli.main import run; sys.exit(run(sys.argv[1:]))"


@dataclass(frozen=True, slots=True)
class OurRestore:
    """A restore by Secor, in the figures of a ``Result``."""

    cpu_us: float
    seconds: float
    seconds_with_start: float
    peak_megabytes: float


def measure(
    binary: Path, sandbox: Sandbox, filled: Filled, ours: Result, *, prefix: str, directory: Path
) -> Iterator[PeerResult | str]:
    """Yield backup and restore, or why one cannot be run; ``prefix`` is that of our objects.

    A start of the other takes some milliseconds, so it is not left out; ours is.
    """
    program = _Program(binary, sandbox, filled, directory)
    try:
        used = program.run("backup", program.backup())
        yield compare(
            "kafka-backup, zstd",
            filled.messages,
            start=NO_START,
            used=used,
            ours=ours,
            beside=COMPARED.name,
        )
        restored = _our_restore(sandbox, filled, prefix, directory)
        yield (
            f"  Secor, restore: {restored.cpu_us:.2f} µs CPU a message, {restored.seconds:.1f} s"
            f" ({restored.seconds_with_start:.1f} with the start),"
            f" peak {restored.peak_megabytes:.0f} MB"
        )
        used = program.run("restore", program.restore())
        there = _messages(sandbox.kafka, program.target, filled.partitions)
        if there != filled.messages:
            raise Unavailable(f"it has restored {there} of {filled.messages} messages")
        yield compare(
            "kafka-backup, restore",
            filled.messages,
            start=NO_START,
            used=used,
            ours=restored,
            beside="restore",
        )
    except Unavailable as error:
        yield f"kafka-backup: not measured: {error}"


NO_START = Usage(0.0, 0.0, IDLE, 0)
"""What a program takes that has nothing to do, and does not wait for more."""


class _Program:
    """The binary, and what it is told."""

    def __init__(self, binary: Path, sandbox: Sandbox, filled: Filled, directory: Path) -> None:
        self._binary = binary
        self._sandbox = sandbox
        self._filled = filled
        self._directory = directory
        self.target = f"kafka-backup-{filled.topic}"

    def run(self, command: str, settings: Mapping[str, object]) -> Usage:
        """Run a command to its end.  Raises ``Unavailable``."""
        path = self._directory / f"kafka-backup-{command}.yaml"
        path.write_text(json.dumps(settings))
        process = ProgramProcess(
            [command, "--config", str(path)],
            log=self._directory / f"kafka-backup-{command}.log",
            environment={},
            program=[str(self._binary)],
        )
        return process.run()

    def backup(self) -> Mapping[str, object]:
        """Everything that is there now, once."""
        return {
            **self._common("backup"),
            "source": {
                "bootstrap_servers": [self._sandbox.kafka],
                "topics": {"include": [self._filled.topic]},
            },
            "backup": {
                "compression": "zstd",
                "continuous": False,
                "stop_at_current_offsets": True,
                "start_offset": "earliest",
            },
        }

    def restore(self) -> Mapping[str, object]:
        """All of it, into a topic of its own."""
        create_topic(self._sandbox.kafka, self.target, self._filled.partitions)
        return {
            **self._common("restore"),
            "target": {"bootstrap_servers": [self._sandbox.kafka]},
            "restore": {"topic_mapping": {self._filled.topic: self.target}},
        }

    def _common(self, mode: str) -> Mapping[str, object]:
        s3 = self._sandbox.s3
        return {
            "mode": mode,
            "backup_id": f"bench-{self._filled.topic}",
            "storage": {
                "backend": "s3",
                "bucket": s3.bucket,
                "region": s3.region,
                "prefix": "kafka-backup",
                "endpoint": s3.endpoint_url,
                "access_key": s3.access_key,
                "secret_key": s3.secret_key,
                "path_style": True,
                "allow_http": True,
            },
        }


def _our_restore(sandbox: Sandbox, filled: Filled, prefix: str, directory: Path) -> OurRestore:
    """Run a job to its end, then once more: that costs what a start costs."""
    s3 = sandbox.s3
    sections: Mapping[str, Mapping[str, object]] = {
        "group": {"name": "bench-restore", "kind": "restore"},
        "kafka": {"bootstrap_servers": [sandbox.kafka]},
        "store.s3": {
            "bucket": s3.bucket,
            "endpoint_url": s3.endpoint_url,
            "region": s3.region,
            "path_style": True,
            "access_key": s3.access_key,
            "secret_key": s3.secret_key,
        },
        "source": {"prefix": prefix, "topics": [filled.topic]},
        "target": {"topic": "secor-{topic}"},
        "writing": {"codec": "zstd"},
    }
    job = directory / "restore.toml"
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    job.write_text("\n".join(lines) + "\n")
    used, start = (
        ProgramProcess(
            ["-c", _RESTORE, "restore", "run", str(job)],
            log=directory / f"restore-{number}.log",
            environment=None,
        ).run()
        for number in range(2)
    )
    return OurRestore(
        cpu_us=round((used.cpu - start.cpu) / filled.messages * 1e6, 3),
        seconds=round(max((used.ended - used.ready) - (start.ended - start.ready), 1e-3), 2),
        seconds_with_start=round(used.ended - used.ready, 2),
        peak_megabytes=round(used.peak / 1e6, 1),
    )


def _messages(bootstrap: str, topic: str, partitions: int) -> int:
    """Return how many messages the logs of a topic hold, which has no transactions."""
    keys = [TopicPartition(topic, number) for number in range(partitions)]
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        until = time.monotonic() + 30
        while True:
            ends, begins = consumer.end_offsets(keys), consumer.beginning_offsets(keys)
            if len(ends) == partitions or time.monotonic() > until:
                return sum(ends.values()) - sum(begins.values())
