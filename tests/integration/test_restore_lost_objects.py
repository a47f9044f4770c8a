"""Archives and targets that lose what a job that has begun counts on, on a real broker."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from secor.sandbox import Sandbox
from tests.integration.daemons import PATIENCE, run_secor, wait_until
from tests.integration.test_restore import BATCH, PARTITIONS, Fleet, fill, left, write_job

STARTS = range(0, 4 * BATCH, BATCH)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.kill()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    directory = tmp_path / "bucket"
    directory.mkdir()
    fill(directory, STARTS)
    return directory


def reached(job: Path) -> dict[str, int]:
    """Return the committed offsets of source partitions that have one."""
    told = json.loads(run_secor("restore", "status", str(job), "--json").stdout)
    return {it["source"]: it["next_offset"] for it in told["partitions"] if it["next_offset"]}


def begin(fleet: Fleet, job: Path) -> dict[str, int]:
    """Run the job until each source partition has a committed offset, and stop it there."""
    daemon = fleet.start(job)
    wait_until(lambda: len(reached(job)) == PARTITIONS, "every source partition has begun")
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(PATIENCE) == 0, fleet.logs()
    return reached(job)


def number_of(source: str) -> int:
    return int(source.rsplit("/", 1)[1])


def lose(archive: Path, partition: int, *, up_to: int) -> None:
    """Delete the objects of a source partition that begin at ``up_to`` or below."""
    for path in archive.rglob(f"*_{partition}_*.seq"):
        if int(path.stem.rsplit("_", 1)[1]) <= up_to:
            path.unlink()


def test_what_a_job_that_has_begun_needs_and_lost_is_never_passed_over(
    sandbox: Sandbox, archive: Path, tmp_path: Path, fleet: Fleet
) -> None:
    job = write_job(tmp_path, sandbox, "losing", archive, max_messages=100, messages_per_second=200)
    offsets = begin(fleet, job)
    front, whole, _ = sorted(offsets, key=offsets.__getitem__)
    reached_first = offsets[front]
    assert reached_first < 3 * BATCH
    lose(archive, number_of(front), up_to=reached_first)
    lose(archive, number_of(whole), up_to=10 * BATCH)
    end = reached_first // BATCH * BATCH + BATCH
    hole = f"{front}: no object has the offsets [{reached_first}, {end})"
    gone = f"{whole}: the job has written it up to offset {offsets[whole]}, and the archive has no"

    planned = run_secor("restore", "plan", str(job))
    assert planned.returncode == 5
    assert f"refuse: flights: {hole}" in planned.stdout
    assert f"refuse: flights: {gone}" in planned.stdout
    refused = run_secor("restore", "run", str(job))
    assert refused.returncode == 2
    assert hole in refused.stderr
    assert gone in refused.stderr
    status = run_secor("restore", "status", str(job))
    assert status.returncode == 5
    assert "all written" not in status.stdout
    assert "vanished" in status.stdout

    job.write_text(job.read_text().replace("[target]", "holes = true\n[target]"))
    job.write_text(job.read_text().replace("messages_per_second = 200\n", ""))
    accepted = run_secor("restore", "run", str(job))
    assert accepted.returncode == 0, accepted.stderr
    assert run_secor("restore", "status", str(job)).returncode == 0
    verified = run_secor("restore", "verify", str(job))
    assert verified.returncode == 5
    assert f"cannot be compared: the archive has no object of {whole}" in verified.stdout


def test_verify_looks_at_everything_that_the_target_holds_and_needs_an_archive(
    sandbox: Sandbox, archive: Path, tmp_path: Path, fleet: Fleet
) -> None:
    job = write_job(tmp_path, sandbox, "looking", archive)
    text = job.read_text().replace("[target]", f"[target]\npartitions = {PARTITIONS + 2}")
    job.write_text(text)
    assert fleet.start(job).wait(PATIENCE) == 0, fleet.logs()
    assert run_secor("restore", "verify", str(job)).returncode == 0
    with closing(KafkaProducer(bootstrap_servers=sandbox.kafka)) as producer:
        producer.send("looking-flights", b"stray", partition=PARTITIONS + 1)
    verified = run_secor("restore", "verify", str(job))
    assert verified.returncode == 5
    assert f"looking-flights/{PARTITIONS + 1}, offset 0: a message that the" in verified.stdout
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text(text.replace('prefix = "backup"', 'prefix = "wrong"'))
    nothing = run_secor("restore", "verify", str(elsewhere))
    assert nothing.returncode == 2
    assert "the archive has no object at all" in nothing.stderr


def make_again(sandbox: Sandbox, topic: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), "the topic is deleted")
        settings = {"retention.ms": "-1"}
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs=settings)])


def test_a_target_that_is_made_again_under_a_job_ends_it(
    sandbox: Sandbox, archive: Path, tmp_path: Path, fleet: Fleet
) -> None:
    job = write_job(tmp_path, sandbox, "remade", archive, follow=True)
    daemon = fleet.start(job)
    wait_until(lambda: left(job) == 0, "all is written")
    make_again(sandbox, "remade-flights")
    assert daemon.wait(PATIENCE) == 5
    assert "remade-flights: was deleted and made again" in fleet.logs()
    planned = run_secor("restore", "plan", str(job))
    assert planned.returncode == 5
    assert "refuse: remade-flights: was deleted and made again" in planned.stdout

    job.write_text(job.read_text().replace("follow = true", "follow = false"))
    assert run_secor("restore", "stop", str(job)).returncode == 0
    reset = run_secor("restore", "offsets", "reset", str(job))
    assert reset.returncode == 0, reset.stdout + reset.stderr
    assert run_secor("restore", "resume", str(job)).returncode == 0
    assert run_secor("restore", "run", str(job)).returncode == 0
    verified = run_secor("restore", "verify", str(job))
    assert verified.returncode == 0, verified.stdout
