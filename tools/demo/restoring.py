"""The topic is deleted, and comes back from the archive; a consumer goes on where it was."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer

from secor.cli.restore.options import load_job
from secor.core.errors import SecorError, Unavailable
from secor.jobs.restore.offsets import read_all_offsets
from secor.sandbox import Sandbox
from secor.wiring.restore import Job, open_job
from tools.demo import flights
from tools.demo.backup import SecorProcess
from tools.demo.screen import Screen

JOB, SAVED, BACKUP = "restore.toml", "groups.csv", "backup.toml"
FILES = frozenset({JOB, SAVED, "restore.log"})
GROUP = "departures"

_CONSUMED = 20_000
_KILLS = 2
_WITHIN = 300.0
_LOOK_EVERY = 0.1
_POLL_MS = 30_000
"""Long: the client forgets a join that is answered between two polls."""

Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...], int]
"""Key, value, headers and time of a message."""


def write_job(folder: Path, sandbox: Sandbox) -> Path:
    """Write ``restore.toml`` for the servers of ``sandbox``; return its path.

    It is kept slow enough to be killed in the middle.
    """
    access = sandbox.s3
    path = folder / JOB
    path.write_text(
        f"""# Written by the demonstration; docs/configuration.md explains every setting.
[group]
name = "demo"
kind = "restore"

[kafka]
bootstrap_servers = ["{sandbox.kafka}"]

[store.s3]
bucket = "{access.bucket}"
endpoint_url = "{access.endpoint_url}"
region = "{access.region}"
path_style = true
access_key = "{access.access_key}"
secret_key = "{access.secret_key}"

[source]
prefix = "backup"
topics = ["{flights.TOPIC}"]

[writing]
interval = "1s"
max_messages = 10000
messages_per_second = 60000

[logs]
format = "json"
"""
    )
    return path


class RestoreScene:
    """Tells how a topic comes back."""

    def __init__(self, screen: Screen, folder: Path, sandbox: Sandbox) -> None:
        self._screen = screen
        self._folder = folder
        self._sandbox = sandbox

    def run(self) -> Path:
        """Delete the topic, restore it under SIGKILLs, compare; return the job's file."""
        self._screen.step("Deleting the topic, and writing it back from the archive")
        job = write_job(self._folder, self._sandbox)
        saved = str(self._folder / SAVED)
        expected = self._consume()
        self._screen.say(f"a consumer group, {GROUP}, has read {_CONSUMED:,} flights or more")
        cluster = str(self._folder / BACKUP)
        self._screen.command(
            "restore", "groups", str(job), GROUP, "--from", cluster, "--save", saved
        )
        self._delete()
        self._screen.say(f"the topic {flights.TOPIC} is deleted, and the group's offsets with it")
        self._screen.command("restore", "plan", str(job))
        self._restore(job)
        self._screen.step("Comparing the topic with the archive: every message, every field")
        self._screen.command("restore", "verify", str(job))
        self._screen.command("restore", "groups", str(job), "--from", saved, "--apply")
        self._go_on(expected)
        return job

    def _consume(self) -> dict[int, Content]:
        """Read some of the topic as a group; return the next message of each partition."""
        consumer = self._consumer()
        consumer.subscribe([flights.TOPIC])
        read = 0
        while read < _CONSUMED:
            read += sum(map(len, consumer.poll(_POLL_MS, max_records=2000).values()))
        consumer.commit()
        return _next_of_each(consumer)

    def _go_on(self, expected: dict[int, Content]) -> None:
        consumer = self._consumer()
        consumer.subscribe([flights.TOPIC])
        next_messages = _next_of_each(consumer)
        if next_messages != expected:
            raise SecorError("the group goes on at other flights than those it would have read")
        self._screen.say(
            f"{GROUP} goes on: the next flight of each partition is the one it would have read"
        )

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self._sandbox.kafka,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=6000,
        )

    def _delete(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._sandbox.kafka)
        try:
            admin.delete_topics([flights.TOPIC])
        finally:
            admin.close()

    def _restore(self, path: Path) -> None:
        with open_job(load_job(path)) as job:
            watching = Watching(job)
            for number in range(_KILLS):
                process = SecorProcess(path, command=("restore", "run"))
                try:
                    watching.wait_for(process, (number + 1) / (_KILLS + 1))
                finally:
                    process.end()
                self._screen.say(
                    f"SIGKILL to process {process.pid}: {watching.written:,} of"
                    f" {watching.total:,} offsets are committed",
                    style="yellow",
                )
            process = SecorProcess(path, command=("restore", "run"))
            try:
                self._screen.say("another one takes over when the dead one's membership runs out")
                code = process.wait(_WITHIN)
            finally:
                process.end()
        if code != 0:
            raise SecorError(f"secor restore run ended with code {code}; see {process.log}")
        self._screen.say("all is written, and the process has ended")


class Watching:
    """How far a job is, by its committed offsets."""

    def __init__(self, job: Job) -> None:
        self._job = job
        extents = [job.source.extent(source).range for source in job.sources()]
        self.total = sum(extent.end - extent.start for extent in extents)
        self.written = 0

    def wait_for(self, process: SecorProcess, share: float) -> None:
        """Return when a share of everything is written.  Raises ``Unavailable``."""
        deadline = time.monotonic() + _WITHIN
        while self.written < share * self.total:
            process.check()
            if time.monotonic() > deadline:
                raise Unavailable(f"the restore does not go on; see {process.log}")
            time.sleep(_LOOK_EVERY)
            partitions = self._job.offsets_partitions()
            if partitions:
                offsets = read_all_offsets(self._job, partitions).offsets
                self.written = sum(stored.next_offset for stored in offsets.values())


def _next_of_each(consumer: KafkaConsumer) -> dict[int, Content]:
    """Return the next message of each partition, and leave the group."""
    contents: dict[int, Content] = {}
    deadline = time.monotonic() + _WITHIN
    try:
        while len(contents) < flights.PARTITIONS:
            if time.monotonic() > deadline:
                raise Unavailable("the consumer group reads nothing")
            for place, records in consumer.poll(_POLL_MS).items():
                contents.setdefault(place.partition, _content(records[0]))
    finally:
        consumer.close()
    return contents


def _content(record: Any) -> Content:
    return record.key, record.value, tuple(record.headers), record.timestamp
