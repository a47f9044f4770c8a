"""A restore in trouble: an archive made by a backup group, written back, then compared."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kafka.admin import KafkaAdminClient, NewTopic

from secor.core.model import TopicPartition
from secor.sandbox import Sandbox
from tests.integration.daemons import run_secor
from tests.soak import restored
from tests.soak.audit import Audit, AuditingProxy
from tests.soak.fleet import RESTORE, Fleet, events
from tests.soak.mischief import Mischief, Stage
from tests.soak.restored import ARCHIVED
from tests.soak.story import Story
from tests.soak.summary import Figures
from tests.soak.watch import Watch, growth
from tests.soak.world import PREFIX, configuration_of

SESSION = 10.0
"""Seconds of the daemons' session with the broker, beyond their transactions' time."""
PAUSE = 8.0
"""Seconds between two acts of mischief: a daemon takes some to begin."""
RATE = 400
"""Messages that a daemon writes in a second while there is trouble."""
TARGET = "back-{topic}"
_TELL_EVERY = 10.0
_STEP = 0.2
_ARCHIVED_WITHIN = 300.0
_ENDS_WITHIN = 600.0

_JOB = """
[group]
name = "back"
kind = "restore"
[kafka]
bootstrap_servers = ["{kafka}"]
{store}
[source]
prefix = "{prefix}"
topics_pattern = "soak-.*"
[target]
topic = "{target}"
[writing]
boundary = "{boundary}"
codec = "{codec}"
interval = "300ms"
max_messages = 100
transaction_timeout = "6s"
request_timeout = "3s"
look_again = "1s"
offsets_partitions = 5
{pace}
[logs]
format = "json"
level = "debug"
"""
_SLOWLY = f"follow = true\nmessages_per_second = {RATE}\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where it happens: servers, the archive behind its proxy, the job."""

    sandbox: Sandbox
    proxy: AuditingProxy
    backup: Path
    job: Path


def soak_restore(
    folder: Path, story: Story, *, minutes: float, store: str, daemons: int, seed: int
) -> Figures:
    """Run; what must not be is told to ``story``.  Raises ``SecorError`` for the sandbox."""
    rng = random.Random(seed)
    with _built(folder, story, store, seed, rng) as place, ExitStack() as opened:
        messages = int(minutes * 60 * RATE * daemons * 0.4)
        _archive(place, folder, story, messages, rng)
        fast, slow = place.job.read_text(), place.job
        slow.write_text(fast.replace("[logs]", f"{_SLOWLY}[logs]"))
        fleet = Fleet(slow, folder / "restore", daemons, story, RESTORE)
        opened.callback(fleet.kill)
        watch = opened.enter_context(closing(Watch(place.backup, fleet, story)))
        for slot in range(daemons):
            fleet.fill(slot)
        stage = Stage(place.sandbox.servers, place.proxy, fleet, None, SESSION, PAUSE, slow)
        longest = min(60.0, max(15.0, minutes * 8))
        _trouble(place, Mischief(stage, story, seed, longest), fleet, story, minutes * 60)
        story.say("the faults are over, the daemons end")
        fleet.end(_ENDS_WITHIN)
        slow.write_text(fast)
        ceased = story.now()
        _write_the_rest(fleet, story, daemons)
        recovered = story.now() - ceased
        verified = "\n".join([_verify(place, story), _compare(place, story)])
        _look_for_open_transactions(place, story)
        figures = _figures(place, fleet, watch, story)
        return replace(figures, recovered=recovered, verified=verified, written=messages)


@contextmanager
def _built(
    folder: Path, story: Story, store: str, seed: int, rng: random.Random
) -> Iterator[Place]:
    with ExitStack() as opened:
        sandbox = opened.enter_context(
            Sandbox.up(
                folder / "servers",
                services=("kafka", "s3"),
                s3_server=store,
                kafka_settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500},
                progress=story.say,
            )
        )
        audit = Audit(sandbox.s3.bucket, story.violated)
        proxy = opened.enter_context(AuditingProxy(sandbox.s3.endpoint_url, audit, seed))
        backup, job = folder / "backup.toml", folder / "job.toml"
        topics = "".join(
            f'[[topics]]\nmatch = "{topic.name}"\noutput.format = "{topic.format}"\n'
            for topic in ARCHIVED
        )
        text = configuration_of(
            sandbox, "backup", "kafka", proxy.url, folder / "local", topics=topics
        )
        backup.write_text(text)
        stored = re.search(r"\[store\.s3\].*?(?=\n\[)", text, re.DOTALL)
        assert stored is not None
        boundary = rng.choice(["interval", "poll", "source"])
        codec = rng.choice(["none", "lz4", "zstd"])
        story.say(f"boundary {boundary}, codec {codec}")
        job.write_text(
            _JOB.format(
                kafka=sandbox.kafka,
                store=stored.group(),
                prefix=PREFIX,
                target=TARGET,
                boundary=boundary,
                codec=codec,
                pace="",
            )
        )
        yield Place(sandbox, proxy, backup, job)


def _archive(place: Place, folder: Path, story: Story, messages: int, rng: random.Random) -> None:
    """Write the topics, and let a backup group persist them, all in peace."""
    kafka = place.sandbox.kafka
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    kept = {"retention.ms": "-1"}
    admin.create_topics(
        [NewTopic(it.name, it.partitions, 1, topic_configs=kept) for it in ARCHIVED]
    )
    admin.close()
    with ThreadPoolExecutor(len(ARCHIVED)) as pool:
        seeds = [random.Random(rng.random()) for _ in ARCHIVED]
        each = messages // len(ARCHIVED)
        for _ in pool.map(
            lambda it: restored.write(kafka, it[0], each, it[1]), zip(ARCHIVED, seeds, strict=True)
        ):
            pass
    story.say(f"{messages:,} messages written")
    fleet = Fleet(place.backup, folder / "backup", 1, story)
    try:
        fleet.fill(0)
        with closing(Watch(place.backup, fleet, story)) as watch:
            until = story.now() + _ARCHIVED_WITHIN
            while not (watch.samples and watch.samples[-1].ends and not watch.samples[-1].lag):
                assert story.now() < until, "the backup group does not come to its end"
                fleet.check()
                time.sleep(_STEP)
        fleet.end(_ARCHIVED_WITHIN)
    finally:
        fleet.kill()
    story.say("all of it is archived")


def _trouble(place: Place, mischief: Mischief, fleet: Fleet, story: Story, seconds: float) -> None:
    until, tell = story.now() + seconds, 0.0
    try:
        while story.now() < until:
            mischief.step()
            fleet.check()
            if story.now() >= tell:
                tell = story.now() + _TELL_EVERY
                story.say(f"{_commits(fleet):,} transactions committed")
            time.sleep(_STEP)
    finally:
        mischief.cease()


def _commits(fleet: Fleet) -> int:
    return sum(
        member.log.read_text(errors="replace").count('"event": "committed"')
        for member in fleet.members
    )


def _write_the_rest(fleet: Fleet, story: Story, daemons: int) -> None:
    """Let daemons write what is left, as fast as they can; each must end with 0."""
    members = [fleet.guest() for _ in range(daemons)]
    for member in members:
        member.expected = frozenset({0})
    until = story.now() + _ENDS_WITHIN
    while any(member.alive for member in members):
        fleet.check()
        if story.now() > until:
            story.violated(f"not everything is written {_ENDS_WITHIN:.0f} s after the faults")
            return
        time.sleep(_STEP)
    fleet.check()
    story.say("everything is written")


def _verify(place: Place, story: Story) -> str:
    """Compare the archive with the target, by the product's own command."""
    answer = run_secor("restore", "verify", str(place.job))
    if answer.returncode:
        story.violated(f"secor restore verify: {answer.stdout}{answer.stderr}")
    left = run_secor("restore", "status", "--json", str(place.job))
    if left.returncode or json.loads(left.stdout)["left"]:
        story.violated(f"secor restore status: {left.stdout}{left.stderr}")
    return answer.stdout.strip().splitlines()[-1] if answer.stdout else "not verified"


def _compare(place: Place, story: Story) -> str:
    """Compare the archived topics with the restored ones, by a reader that is not ours."""
    total = 0
    for topic in ARCHIVED:
        equal, faults = restored.compare(
            place.sandbox.kafka, topic.name, TARGET.format(topic=topic.name), topic.partitions
        )
        total += equal
        for fault in faults:
            story.violated(fault)
    return f"librdkafka: {total:,} messages are those of the archived topics, in order"


def _look_for_open_transactions(place: Place, story: Story) -> None:
    from secor.config.load import load
    from secor.wiring.clients import open_reader

    with open_reader(load(place.backup, {})) as reader:
        for topic in ARCHIVED:
            for number in range(topic.partitions):
                target = TopicPartition(TARGET.format(topic=topic.name), number)
                if reader.end(target, committed=True) != reader.end(target, committed=False):
                    story.violated(f"{target}: a transaction is open at rest")


def _figures(place: Place, fleet: Fleet, watch: Watch, story: Story) -> Figures:
    counts, faults = events(member.log for member in fleet.members)
    for fault in faults:
        story.violated(fault)
    for log, held in watch.held.items():
        grown = growth(held)
        if grown is not None:
            story.violated(f"{log.stem}: {grown}")
    return Figures(
        happenings=story.happenings,
        samples=[],
        held={log.stem: held for log, held in watch.held.items()},
        requests=place.proxy.requests,
        injected={str(fault): count for fault, count in place.proxy.injected.items()},
        events=counts + fleet.restarted,
        written=0,
        aborted=0,
        replaced=0,
        puts=0,
        refused=0,
        processes=len(fleet.members),
        recovered=None,
        verified="",
    )
