"""A recovery under kills, stalls, a dying broker and a faulty store; then in peace, verified."""

from __future__ import annotations

import random
import re
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from secor.sandbox import Sandbox
from tests.faults.proxy import Fault, Rule
from tests.integration.daemons import run_secor
from tests.soak.audit import AuditingProxy
from tests.soak.fleet import Fleet, Kind
from tests.soak.ledgers import Ledger, NumberedWriter
from tests.soak.readers import Group
from tests.soak.story import Story
from tests.soak.world import PREFIX

RECOVER = Kind(("recover", "run", "--hold"), ("assigned",))
_CODES = frozenset({0, 4, 5, -9})
"""All is back; a server was away; something is left; killed."""
_BACK_WITHIN = 300.0
_STARTING = 0.8

_JOB = """
[group]
name = "lost-{number}"
kind = "restore"
[kafka]
bootstrap_servers = ["{kafka}"]
{store}
[source]
prefix = "{prefix}"
[writing]
boundary = "{boundary}"
interval = "300ms"
max_messages = 100
transaction_timeout = "6s"
request_timeout = "3s"
offsets_partitions = 5
{pace}
[logs]
format = "json"
level = "debug"
"""


@dataclass(slots=True)
class Scene:
    """What lives through all rounds: servers, ledgers, groups."""

    sandbox: Sandbox
    proxy: AuditingProxy
    folder: Path
    story: Story
    rng: random.Random
    daemons: int
    ledger: Ledger = field(default_factory=Ledger)
    groups: dict[str, Group] = field(default_factory=dict)
    writers: list[NumberedWriter] = field(default_factory=list)
    partitions: dict[str, int] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    restored: int = 0


def job_of(scene: Scene, number: int, backup: str) -> str:
    """Return the job's file, with the store of the backup's."""
    stored = re.search(r"\[store\.s3\].*?(?=\n\[)", backup, re.DOTALL)
    assert stored is not None
    return _JOB.format(
        number=number,
        kafka=scene.sandbox.kafka,
        store=stored.group(),
        prefix=f"{PREFIX}-{number}",
        boundary=scene.rng.choice(["interval", "poll", "source"]),
        pace="",
    )


def come_back(scene: Scene, job: Path, number: int, seconds: float) -> None:
    """Recover under kills, then in peace, verify, and set what was held back."""
    story, fast = scene.story, job.read_text()
    left = sum(len(noted) for noted in scene.ledger.noted.values())
    pace = max(50, int(left / seconds / scene.daemons))
    job.write_text(fast.replace("[logs]", f"messages_per_second = {pace}\n[logs]"))
    fleet = Fleet(job, scene.folder / f"recover-{number}", 0, story, RECOVER)
    running = [fleet.guest() for _ in range(scene.daemons)]
    scene.proxy.set(*(Rule(fault, "GET", "", 0.02, seconds=0.5) for fault in Fault))
    broker_dies = story.now() + seconds * scene.rng.uniform(0.3, 0.7)
    until = story.now() + seconds
    while story.now() < until:
        time.sleep(scene.rng.uniform(0.5, 4))
        for one in running:
            if one.process.poll() not in {None, *_CODES}:
                story.violated(f"secor recover run ended with {one.process.poll()}: {one.log}")
        member = scene.rng.choice(running)
        if member.alive and not member.joined and scene.rng.random() < _STARTING:
            continue  # Most kills are of those that write.
        if member.alive and scene.rng.random() < 0.3:
            happening = story.begin("stall of a recovery", member.name)
            member.stall()
            time.sleep(scene.rng.uniform(1, 9))
            member.wake()
        else:
            happening = story.begin("kill of a recovery", member.name)
            if member.alive:
                member.kill()
            running[running.index(member)] = fleet.guest()
        story.end(happening)
        if story.now() > broker_dies:
            broker_dies = until + 1
            happening = story.begin("kill of the new broker", "")
            server = scene.sandbox.servers["kafka"]
            server.kill()
            server.start()
            story.end(happening)
    for member in running:
        if member.alive:
            member.kill()
    scene.proxy.set()
    scene.logs += [member.log for member in fleet.members]
    job.write_text(fast)
    _finish(scene, job)


def _finish(scene: Scene, job: Path) -> None:
    story = scene.story
    story.say("the faults are over")
    fleet = Fleet(job, scene.folder / f"{job.stem}-end", 0, story, RECOVER)
    last = [fleet.guest() for _ in range(scene.daemons)]
    for member in last:
        # Which of them brings groups back is a race, and who is late may find work left.
        with suppress(subprocess.TimeoutExpired):
            member.process.wait(_BACK_WITHIN)
        code = member.process.poll()
        if code not in {0, 5}:
            member.kill()
            story.violated(f"secor recover run ended with {code}: {member.log}")
    scene.logs += [member.log for member in fleet.members]
    steps = (("run", "--hold"), ("verify", "--evidence", str(job.with_suffix(".json"))), ("run",))
    for arguments in (*steps, ("status",), ("plan",)):
        command, *options = arguments
        answer = run_secor("recover", command, str(job), *options)
        if answer.returncode:
            story.violated(
                f"secor recover {command}: {answer.returncode} {answer.stdout}{answer.stderr}"
            )
        elif command == "verify":
            for line in answer.stdout.strip().splitlines()[-8:]:
                story.say(line)
    story.say("recovered")
