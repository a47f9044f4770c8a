"""A cluster that is lost again and again under its producers and consumers, and comes back."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from secor.sandbox import Sandbox
from secor.sandbox.state import free_port
from tests.integration.daemons import run_secor
from tests.soak.audit import Audit, AuditingProxy
from tests.soak.fleet import Fleet, events
from tests.soak.ledgers import (
    NUMBERED,
    NumberedWriter,
    Partition,
    judge,
    make_topics,
    purge_quietly,
)
from tests.soak.readers import Group, judge_group
from tests.soak.recover_servers import grant, settings_that_are_gone
from tests.soak.recovering import Scene, come_back, job_of
from tests.soak.story import Story
from tests.soak.summary import Figures
from tests.soak.watch import Watch
from tests.soak.world import PREFIX, configuration_of

ROUND = 100.0
"""Seconds of the whole time for one loss, about half of them before it."""
_STEP = 0.2
_KEPT_WITHIN = 150.0
_DRAINED_WITHIN = 120.0
_QUIET = 5.0

_BACKUP_TOPICS = """
[[topics]]
match = "soak_transactions"
output.format = "parquet"
"""


def soak_recover(
    folder: Path, story: Story, *, minutes: float, store: str, daemons: int, seed: int
) -> Figures:
    """Run; what must not be is told to ``story``.  Raises ``SecorError`` for the sandbox."""
    with _built(folder, story, store, daemons, seed) as scene:
        make_topics(scene.sandbox.kafka)
        number = 0
        while not story.violations and (not number or story.now() < minutes * 60):
            _round(scene, number, min(ROUND, minutes * 60) / 2)
            number += 1
        return _figures(scene)


@contextmanager
def _built(folder: Path, story: Story, store: str, daemons: int, seed: int) -> Iterator[Scene]:
    with ExitStack() as opened:
        sandbox = opened.enter_context(
            Sandbox.up(
                folder / "servers",
                services=("kafka", "s3"),
                s3_server=store,
                kafka_settings={
                    "log.cleaner.backoff.ms": 1000,
                    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
                    "authorizer.class.name": (
                        "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
                    ),
                    "super.users": "User:ANONYMOUS",
                },
                progress=story.say,
            )
        )
        audit = Audit(sandbox.s3.bucket, story.violated)
        proxy = opened.enter_context(AuditingProxy(sandbox.s3.endpoint_url, audit, seed))
        scene = Scene(sandbox, proxy, folder, story, random.Random(seed), daemons)
        names = [topic.name for topic in NUMBERED]
        for group in (
            Group("steady", names),
            Group("pair", names[:2], members=2),
            Group("quiet", names),
            Group("slow", names, most=200),
        ):
            scene.groups[group.name] = group
        scene.partitions = {topic.name: topic.partitions for topic in NUMBERED}
        opened.callback(_stop_all, scene)
        yield scene


def _stop_all(scene: Scene) -> None:
    for writer in scene.writers:
        writer.stop()
    for group in scene.groups.values():
        group.stop()


def _round(scene: Scene, number: int, seconds: float) -> None:
    """Let all live for a while, lose the cluster, bring it back, and judge."""
    story, backup, job = scene.story, scene.folder / f"backup-{number}.toml", f"job-{number}.toml"
    text = configuration_of(
        scene.sandbox,
        "backup",
        "kafka",
        scene.proxy.url,
        scene.folder / f"local-{number}",
        topics=_BACKUP_TOPICS,
    )
    text = text.replace(f'prefix = "{PREFIX}"', f'prefix = "{PREFIX}-{number}"')
    backup.write_text(text.replace('"soak-.*"', '"soak.*"'))
    rules = grant(scene.sandbox.kafka, number)
    kept, least = _life(scene, backup, number, seconds)
    if story.violations:
        return
    path = scene.folder / job
    path.write_text(job_of(scene, number, text))
    begun = story.now()
    come_back(scene, path, number, seconds / 2)
    scene.recoveries.append(story.now() - begun)
    for what in settings_that_are_gone(scene.sandbox.kafka, rules):
        story.violated(what)
    _judge(scene, kept, least)


def _life(
    scene: Scene, backup: Path, number: int, seconds: float
) -> tuple[dict[str, dict[Partition, int]], dict[Partition, int]]:
    """Write, consume, back up under kills, then kill the broker.

    Return the kept offsets of groups, and the highest number that is archived of each partition.
    """
    story, kafka = scene.story, scene.sandbox.kafka
    scene.writers = [
        NumberedWriter(kafka, replace(topic, partitions=scene.partitions[topic.name]), scene.ledger,
                       f"{number}-{topic.name}-{scene.rng.random()}")
        for topic in NUMBERED
    ]  # fmt: skip
    fleet = Fleet(backup, scene.folder / f"backup-{number}", scene.daemons, story)
    with ExitStack() as opened:
        opened.callback(fleet.kill)
        watch = opened.enter_context(closing(Watch(backup, fleet, story, pattern="soak.*")))
        for slot in range(scene.daemons):
            fleet.fill(slot)
        for group in scene.groups.values():
            group.stop()
            group.start(kafka)
        until = story.now() + _DRAINED_WITHIN
        while not all(group.notes.since for group in scene.groups.values()):
            assert story.now() < until, "a group consumes nothing"
            fleet.check()
            time.sleep(_STEP)
        _pass(scene, fleet, seconds / 2)
        widened = scene.rng.choice(scene.writers)
        if number < 3:
            widened.widen()
            scene.partitions[widened.topic.name] = widened.partitions
            story.say(f"{widened.topic.name} has {widened.partitions} partitions now")
        _pass(scene, fleet, seconds / 2)
        for name in ("quiet", "slow"):
            scene.groups[name].stop()
        story.say("two groups have come to rest")
        _wait_until_kept(scene, backup, fleet, ("quiet", "slow"))
        story.say("the broker is killed and wiped")
        server = scene.sandbox.servers["kafka"]
        server.kill()
        fleet.kill()
        archived = {
            (place.topic, place.partition): offset
            for place, offset in watch.samples[-1].committed.items()
        }
    scene.logs += [member.log for member in fleet.members]
    for fault in purge_quietly(scene.writers):
        story.violated(fault)
    for group in scene.groups.values():
        group.abandon()
    shutil.rmtree(server.folder / "data")
    # Clients that wait for the lost broker never come to the new one.
    server.port = free_port()
    server.start()
    least = scene.ledger.archived_up_to(archived)
    kept = _kept(backup)
    for name, group in scene.groups.items():
        for fault in group.notes.begin_again(kept.get(name, {})):
            story.violated(f"group {name}, {fault}")
    return kept, least


def _pass(scene: Scene, fleet: Fleet, seconds: float) -> None:
    """Let time pass, in which daemons are killed now and then."""
    until, next_kill = scene.story.now() + seconds, scene.story.now() + 8
    while scene.story.now() < until:
        fleet.check()
        if scene.story.now() >= next_kill:
            next_kill = scene.story.now() + scene.rng.uniform(6, 15)
            slot = scene.rng.randrange(scene.daemons)
            happening = scene.story.begin("kill of a backup", fleet.of(slot).name)
            fleet.of(slot).kill()
            fleet.fill(slot)
            scene.story.end(happening)
        time.sleep(_STEP)


def _wait_until_kept(scene: Scene, backup: Path, fleet: Fleet, groups: Sequence[str]) -> None:
    """Wait until the backup has kept the last offsets of groups that have come to rest."""
    wanted = {
        name: {place: max(known) for place, known in scene.groups[name].notes.committed.items()}
        for name in groups
    }
    until = scene.story.now() + _KEPT_WITHIN
    kept: Mapping[str, Mapping[Partition, int]] = {}
    while scene.story.now() < until:
        fleet.check()
        kept = _kept(backup)
        if all(
            kept.get(name, {}).get(place) == offset
            for name, places in wanted.items()
            for place, offset in places.items()
        ):
            return
        time.sleep(1)
    scene.story.violated(f"offsets of groups at rest are not kept: {wanted} {kept}")


def _kept(backup: Path) -> dict[str, dict[Partition, int]]:
    """Return the kept offsets, by the product's own command."""
    printed = run_secor("cat", "--groups", str(backup))
    kept: dict[str, dict[Partition, int]] = {}
    for line in printed.stdout.splitlines() if printed.returncode == 0 else ():
        row = json.loads(line)
        kept.setdefault(row["group"], {})[row["topic"], row["partition"]] = row["offset"]
    return kept


def _judge(
    scene: Scene, kept: Mapping[str, Mapping[Partition, int]], least: Mapping[Partition, int]
) -> None:
    """Compare the topics with the producers' ledgers, then let the groups go on."""
    story, kafka = scene.story, scene.sandbox.kafka
    present: dict[Partition, list[int]] = {}
    for topic in NUMBERED:
        for partition in range(scene.partitions[topic.name]):
            place = topic.name, partition
            found, faults = judge(kafka, topic, partition, scene.ledger, least.get(place))
            present[place] = found
            scene.restored += len(found)
            for fault in faults:
                story.violated(fault)
    sent = sum(len(noted) for noted in scene.ledger.noted.values())
    there = sum(map(len, present.values()))
    story.say(f"{there:,} of {sent:,} messages are there, by the producers' ledgers")
    if story.violations:
        return
    for place, numbers in present.items():
        scene.ledger.keep(place, numbers)
    for group in scene.groups.values():
        group.start(kafka, drain=True)
    _wait_until_drained(scene, present)
    for name, group in scene.groups.items():
        mine = {place: numbers for place, numbers in present.items() if place[0] in group.topics}
        faults = judge_group(group, mine, strict=name != "pair", exact=name in ("quiet", "slow"))
        for fault in faults:
            story.violated(fault)
        seen = sum(map(len, group.notes.since.values()))
        story.say(f"group {name} went on with {seen:,} messages, {len(kept.get(name, {}))} offsets")


def _wait_until_drained(scene: Scene, present: Mapping[Partition, Sequence[int]]) -> None:
    until, quiet_since, before = scene.story.now() + _DRAINED_WITHIN, scene.story.now(), -1
    while scene.story.now() < until:
        total = sum(
            len(numbers)
            for group in scene.groups.values()
            for numbers in group.notes.since.values()
        )
        if total != before:
            before, quiet_since = total, scene.story.now()
        done = all(
            set(group.notes.expected(place, numbers)).issubset(group.notes.since.get(place, ()))
            for group in scene.groups.values()
            for place, numbers in present.items()
            if place[0] in group.topics
        )
        if done and scene.story.now() - quiet_since > _QUIET:
            return
        time.sleep(_STEP)


def _figures(scene: Scene) -> Figures:
    counts, faults = events(scene.logs)
    for fault in faults:
        scene.story.violated(fault)
    rounds = len(scene.recoveries)
    times = ", ".join(f"{seconds:.0f}" for seconds in scene.recoveries)
    return Figures(
        happenings=scene.story.happenings,
        samples=[],
        held={},
        requests=scene.proxy.requests,
        injected={str(fault): count for fault, count in scene.proxy.injected.items()},
        events=counts,
        written=sum(scene.ledger.numbers.values()),
        aborted=0,
        replaced=0,
        puts=0,
        refused=0,
        processes=len(scene.logs),
        recovered=scene.recoveries[-1] if scene.recoveries else None,
        verified=(
            f"lost and recovered {rounds} times, in {times} s under faults; {scene.restored:,}"
            " messages are those of the producers' ledgers, and every group went on exactly"
            if not scene.story.violations
            else "not verified"
        ),
    )
