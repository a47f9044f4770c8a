"""Restores as real processes on a real broker, killed and stopped in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as ClientPartition
from kafka.admin import ConfigResource, NewTopic

from secor.core.model import SCHEMA, OffsetRange, TopicPartition
from secor.formats import make_format
from secor.sandbox import Sandbox
from tests.fakes.archive import Shelf
from tests.integration.daemons import PATIENCE, run_secor, secor, wait_until

PARTITIONS = 3
MESSAGES = 6000
BATCH = 1000


class Fleet:
    """Daemons of jobs, each with its log in a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, job: Path) -> subprocess.Popen[bytes]:
        log = self._folder / f"{job.stem}-{len(self.processes)}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                secor("restore", "run", str(job)), stdout=file, stderr=subprocess.STDOUT
            )
        self.processes.append(process)
        return process

    def kill(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(PATIENCE)

    def commits(self) -> int:
        """Return how many transactions the last daemon has committed."""
        last = len(self.processes) - 1
        (log,) = self._folder.glob(f"*-{last}.log")
        return log.read_text().count('"event": "committed"')

    def has_committed(self, least: int) -> bool:
        return self.commits() >= least

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("*.log")))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.kill()


ODD_TIMESTAMPS = [
    None,
    0,
    -5_000_000,  # 1969
    1_763_694_245_123_456,  # microseconds
    1_763_694_245_123_456_789,  # nanoseconds
    253_402_300_800_000,  # the year 10000
    4_000_000_000_000,  # 2096
]


def odd_messages(start: int, end: int) -> pa.RecordBatch:
    """Messages with everything that is easily lost."""
    keys = [None, b"", b"key", b"\xff\x00"]
    values = [b"", None, b"value", b"\x00" * 50]
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": offset,
                "timestamp": [None, 0, 1_700_000_000_000 + offset][offset % 3],
                "timestamp_type": 0,
                "key": keys[offset % 4],
                "value": values[offset // 4 % 4] or (b"%d" % offset if offset % 7 else None),
                "headers": [
                    {"key": "same", "value": b"%d" % offset},
                    {"key": "same", "value": None},
                    {"key": "", "value": b""},
                ][: offset % 4],
            }
            for offset in range(start, end)
        ],
        schema=SCHEMA,
    )


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    directory = tmp_path / "bucket"
    directory.mkdir()
    fill(directory, range(0, MESSAGES, BATCH))
    return directory


def fill(directory: Path, starts: range) -> None:
    shelf = Shelf(directory, make_format("sequencefile"), prefix="backup")
    for partition in range(PARTITIONS):
        for start in starts:
            shelf.put(
                odd_messages(start, start + BATCH),
                OffsetRange(start, start + BATCH),
                topic_partition=TopicPartition("flights", partition),
            )


def write_job(folder: Path, sandbox: Sandbox, name: str, archive: Path, **writing: object) -> Path:
    settings = {"interval": "200ms", "max_messages": 500, "transaction_timeout": "3s", **writing}
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    path = folder / f"{name}.toml"
    path.write_text(
        f"""
[group]
name = "{name}"
kind = "restore"
[kafka]
bootstrap_servers = ["{sandbox.kafka}"]
[store]
kind = "local"
[store.local]
directory = "{archive}"
[source]
prefix = "backup"
topics = ["flights"]
[target]
topic = "{name}-{{topic}}"
[writing]
{lines}
[logs]
format = "json"
level = "debug"
"""
    )
    return path


def read_committed(sandbox: Sandbox, topic: str) -> dict[int, list[tuple[object, ...]]]:
    """Read the target with the client's own iterator, which knows nothing of ours."""
    consumer = KafkaConsumer(
        bootstrap_servers=sandbox.kafka,
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    places = [ClientPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends = consumer.end_offsets(places)
    found: dict[int, list[tuple[object, ...]]] = {number: [] for number in range(PARTITIONS)}
    while any(consumer.position(place) < ends[place] for place in places):
        for place, records in consumer.poll(500).items():
            found[place.partition] += [
                (record.timestamp, record.key, record.value, tuple(record.headers))
                for record in records
            ]
    consumer.close()
    return found


def expected() -> list[tuple[object, ...]]:
    return [
        (
            -1 if row["timestamp"] is None else row["timestamp"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in odd_messages(0, MESSAGES).to_pylist()
    ]


def check(sandbox: Sandbox, job: Path) -> None:
    found = read_committed(sandbox, f"{job.stem}-flights")
    for number in range(PARTITIONS):
        assert len(found[number]) == MESSAGES
        assert found[number] == expected()
    verified = run_secor("restore", "verify", str(job))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "all equal" in verified.stdout


def left(job: Path) -> int:
    told = run_secor("restore", "status", str(job), "--json")
    return int(json.loads(told.stdout)["left"])


def test_everything_comes_back_as_it_was(
    sandbox: Sandbox, archive: Path, tmp_path: Path, fleet: Fleet
) -> None:
    job = write_job(tmp_path, sandbox, "whole", archive, codec="zstd")
    planned = run_secor("restore", "plan", str(job))
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "whole-flights (new)" in planned.stdout
    assert fleet.start(job).wait(PATIENCE) == 0, fleet.logs()
    assert left(job) == 0
    check(sandbox, job)
    # Once more finds all of it written.
    assert fleet.start(job).wait(PATIENCE) == 0
    check(sandbox, job)


def test_timestamps_of_any_kind_come_back_as_they_were(
    sandbox: Sandbox, tmp_path: Path, fleet: Fleet
) -> None:
    archive = tmp_path / "bucket"
    archive.mkdir()
    (message,) = odd_messages(0, 1).to_pylist()
    rows = [
        {**message, "offset": offset, "timestamp": timestamp}
        for offset, timestamp in enumerate(ODD_TIMESTAMPS)
    ]
    shelf = Shelf(archive, make_format("sequencefile"), prefix="backup")
    for number in range(PARTITIONS):
        shelf.put(
            pa.RecordBatch.from_pylist(rows, schema=SCHEMA),
            OffsetRange(0, len(rows)),
            topic_partition=TopicPartition("flights", number),
        )
    job = write_job(tmp_path, sandbox, "times", archive)
    assert fleet.start(job).wait(PATIENCE) == 0, fleet.logs()
    expected_timestamps = [-1 if it is None else it for it in ODD_TIMESTAMPS]
    for found in read_committed(sandbox, "times-flights").values():
        assert [timestamp for timestamp, *_ in found] == expected_timestamps


def test_killed_again_and_again_each_message_is_there_once(
    sandbox: Sandbox, archive: Path, tmp_path: Path, fleet: Fleet
) -> None:
    job = write_job(tmp_path, sandbox, "killed", archive, messages_per_second=2500)
    for commits in (1, 2, 4):
        process = fleet.start(job)
        wait_until(partial(fleet.has_committed, commits), "some transactions")
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    assert fleet.start(job).wait(PATIENCE) == 0, fleet.logs()
    check(sandbox, job)


def test_stopped_beyond_its_transaction_and_woken_beside_its_successor(
    sandbox: Sandbox, archive: Path, tmp_path: Path, fleet: Fleet
) -> None:
    job = write_job(tmp_path, sandbox, "asleep", archive, messages_per_second=400)
    sleeper = fleet.start(job)
    wait_until(lambda: 0 < left(job) < PARTITIONS * MESSAGES, "the job begins")
    sleeper.send_signal(signal.SIGSTOP)
    job.write_text(job.read_text().replace("messages_per_second = 400", ""))
    successor = fleet.start(job)
    assert successor.wait(PATIENCE) == 0, fleet.logs()
    sleeper.send_signal(signal.SIGCONT)
    assert sleeper.wait(PATIENCE) == 0, fleet.logs()
    check(sandbox, job)


def test_a_job_is_paused_resumed_and_stopped(
    sandbox: Sandbox, archive: Path, tmp_path: Path, fleet: Fleet
) -> None:
    job = write_job(tmp_path, sandbox, "obedient", archive, messages_per_second=80)
    process = fleet.start(job)
    wait_until(lambda: left(job) < PARTITIONS * MESSAGES, "the job begins")
    assert run_secor("restore", "pause", str(job)).returncode == 0
    wait_until(lambda: '"state": "paused"' in fleet.logs(), "it hears of it")
    rest, commits = left(job), fleet.commits()
    assert left(job) == rest > 0
    assert fleet.commits() == commits
    assert process.poll() is None
    assert run_secor("restore", "resume", str(job)).returncode == 0
    wait_until(lambda: left(job) < rest, "the job goes on")
    refused = run_secor("restore", "offsets", "set", str(job), "flights", "0", "10")
    assert refused.returncode == 2
    assert "only while it is stopped" in refused.stderr
    assert run_secor("restore", "stop", str(job)).returncode == 0
    assert process.wait(PATIENCE) == 5
    assert fleet.start(job).wait(PATIENCE) == 5
    assert run_secor("restore", "resume", str(job)).returncode == 0
    # How fast it writes is no part of what it writes: a job may go on with another limit.
    job.write_text(job.read_text().replace("messages_per_second = 80", ""))
    assert fleet.start(job).wait(PATIENCE) == 0, fleet.logs()
    check(sandbox, job)


def test_another_spec_and_a_target_that_is_not_empty_are_refused(
    sandbox: Sandbox, archive: Path, tmp_path: Path, fleet: Fleet
) -> None:
    job = write_job(tmp_path, sandbox, "first", archive)
    assert fleet.start(job).wait(PATIENCE) == 0, fleet.logs()
    text = job.read_text()
    job.write_text(text.replace("[target]", "[target]\npartitioning = 'key'"))
    changed = run_secor("restore", "run", str(job))
    assert changed.returncode == 2
    assert "was begun under spec" in changed.stderr
    moved = archive.rename(tmp_path / "moved")
    job.write_text(text.replace(str(archive), str(moved)))
    elsewhere = run_secor("restore", "run", str(job))
    assert elsewhere.returncode == 2
    assert f"began to read local://{archive}, and [store] is local://{moved}" in elsewhere.stderr
    assert run_secor("restore", "resume", str(job), "--moved").returncode == 0
    assert fleet.start(job).wait(PATIENCE) == 0, fleet.logs()
    text = job.read_text()
    second = tmp_path / "second.toml"
    second.write_text(text.replace('name = "first"', 'name = "second"'))
    refused = run_secor("restore", "run", str(second))
    assert refused.returncode == 2
    assert "is not empty" in refused.stderr


def older_messages(sandbox: Sandbox, topic: str) -> None:
    """Make the target, and write to two of its partitions."""
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        settings = {"retention.ms": "-1"}
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs=settings)])
    with closing(KafkaProducer(bootstrap_servers=sandbox.kafka)) as producer:
        for number in range(5):
            producer.send(topic, b"older", partition=number % 2)


def test_a_record_that_is_too_large_waits_for_a_person_and_a_lost_offsets_topic_is_no_new_start(
    sandbox: Sandbox, tmp_path: Path, fleet: Fleet
) -> None:
    archive = tmp_path / "bucket"
    archive.mkdir()
    fill(archive, range(0, BATCH, BATCH))
    row = {**odd_messages(BATCH, BATCH + 1).to_pylist()[0], "value": b"x" * 1_200_000}
    Shelf(archive, make_format("sequencefile"), prefix="backup").put(
        pa.RecordBatch.from_pylist([row], schema=SCHEMA),
        OffsetRange(BATCH, BATCH + 1),
        topic_partition=TopicPartition("flights", 0),
    )
    job = write_job(tmp_path, sandbox, "mishaps", archive, codec="none", follow=False)
    job.write_text(job.read_text().replace("[target]", "[target]\nappend = true"))
    older_messages(sandbox, "mishaps-flights")
    refused = run_secor("restore", "run", str(job))
    assert refused.returncode == 5, refused.stderr
    assert "MESSAGE_TOO_LARGE" in refused.stderr
    assert f"from source offset {BATCH} on" in refused.stderr
    assert "raise its max.message.bytes" in refused.stderr
    assert left(job) == 1, "all else is written"
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        larger = {"max.message.bytes": "2000000"}
        admin.alter_configs([ConfigResource("TOPIC", "mishaps-flights", configs=larger)])
        job.write_text(job.read_text().replace("follow = false", "follow = true"))
        daemon = fleet.start(job)
        wait_until(lambda: left(job) == 0, "it was mended")
        verified = run_secor("restore", "verify", str(job))
        assert verified.returncode == 0, verified.stdout + verified.stderr
        admin.delete_topics(["secor-restore-mishaps"])
        assert daemon.wait(PATIENCE) == 5
    assert "the offsets topic secor-restore-mishaps is gone" in fleet.logs()
    again = run_secor("restore", "run", str(job))
    assert again.returncode == 2
    assert "the job has written before" in again.stderr


def test_without_transactions_nothing_is_missing_and_copies_bring_lost_offsets_back(
    sandbox: Sandbox, archive: Path, tmp_path: Path, fleet: Fleet
) -> None:
    job = write_job(
        *(tmp_path, sandbox, "again", archive),
        exactly_once="disabled",
        shared_offsets_topic="all-offsets",
        messages_per_second=5000,
    )
    killed = fleet.start(job)
    wait_until(partial(fleet.has_committed, 2), "some offsets")
    killed.send_signal(signal.SIGKILL)
    killed.wait(PATIENCE)
    assert fleet.start(job).wait(PATIENCE) == 0, fleet.logs()
    assert "is disabled: messages are visible at once" in fleet.logs()
    for number, found in read_committed(sandbox, "again-flights").items():
        assert list(dict.fromkeys(found)) == list(dict.fromkeys(expected())), number
    verified = run_secor("restore", "verify", str(job))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        admin.delete_topics(["secor-restore-again"])
    recovered = run_secor("restore", "offsets", "recover", str(job))
    assert recovered.returncode == 0, recovered.stderr
    assert f"flights/0 goes on at {MESSAGES}" in recovered.stdout
    told = run_secor("restore", "status", str(job))
    assert told.returncode == 0
    assert "messages may be there twice" in told.stdout
