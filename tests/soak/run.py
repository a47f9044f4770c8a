"""One run: trouble for some minutes, then rest, then the proof."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from crc32c import crc32c
from kafka.errors import KafkaError

from secor.config.load import load
from secor.core.errors import NotFound
from secor.core.ports import ObjectStore
from secor.core.small_objects import read_bytes
from secor.wiring.clients import open_reader, open_store
from tests.integration.daemons import run_secor
from tests.soak.fleet import events
from tests.soak.load import LATE, TOPICS
from tests.soak.mischief import PAUSE, Mischief, Stage
from tests.soak.parsed import Placement
from tests.soak.rewrites import Rewrites
from tests.soak.story import Happening, Story
from tests.soak.summary import Figures
from tests.soak.table_mischief import TableMischief
from tests.soak.tables import TableContents, Tables
from tests.soak.watch import Watch, growth, recovery
from tests.soak.world import PREFIX, World, built

_STEP = 0.2
_TELL_EVERY = 10.0
_REST_WITHIN = 240.0
_LOOKS_AT_REST = 3
_ENDS_WITHIN = 60.0
_COMMAND = 900.0
_COMMAND_WITH_ALL_VALUES = 7200.0
"""Seconds for a command, on a machine that does other things too."""


def soak(
    folder: Path,
    story: Story,
    *,
    minutes: float,
    group: str,
    ledger: str,
    store: str,
    daemons: int,
    seed: int,
    control: str,
    coordinator: str,
    changes: bool,
    look_up: int | None,
    older: Path | None,
) -> Figures:
    """Run; what must not be is told to ``story``.  Raises ``SecorError`` for the sandbox."""
    with built(
        folder,
        story,
        group=group,
        ledger=ledger,
        store=store,
        daemons=daemons,
        seed=seed,
        control=control,
        coordinator=coordinator,
        changes=changes,
        older=older,
    ) as world:
        with closing(Watch(world.config, world.fleet, story)) as watch:
            table_mischief = None
            if world.tables is not None:
                kafka = world.sandbox.kafka if control == "kafka" else None
                table_mischief = TableMischief(world.tables, kafka, seed)
            rewrites = None
            if world.rewritten is not None:
                rewrites = Rewrites(world.rewritten, watch, world.load, story, seed)
            stage = Stage(
                world.sandbox.servers,
                world.proxy,
                world.fleet,
                world.disk,
                pause=PAUSE if table_mischief is None else 2 * PAUSE,  # more can go wrong there
                tables=table_mischief,
                rewrites=rewrites,
            )
            longest = min(120.0, max(15.0, minutes * 8))
            _trouble(world, watch, Mischief(stage, story, seed, longest), story, minutes * 60)
            story.say("the faults are over, the writers end")
            ceased = story.now()
            for name in world.load.end():
                story.say(f"the writer of {name} hangs in its client and is left behind")
            recovered = _rest(world, watch, story, ceased)
            if world.tables is not None:
                _wait_for_tables(world, story)
            rewritten = None if rewrites is None else rewrites.finish()
            verified = _verify(world, story, look_up)
            if rewritten is not None:
                verified += "\nrewritten: " + rewritten
            if world.changed is not None:
                verified += "\n" + world.changed.finish()
            placed = None if group == "backup" else _placed(world, story)
        if world.audit.upgraded:
            story.say(f"{world.audit.superseded} objects of open batches were put anew")
        world.fleet.end(_ENDS_WITHIN)
        _look_at_what_is_left(world, story)
        told = verified if placed is None else f"{verified}\nplaces: {placed}"
        return _figures(world, watch, story, recovered, told)


def _trouble(world: World, watch: Watch, mischief: Mischief, story: Story, seconds: float) -> None:
    until, tell, late = story.now() + seconds, 0.0, story.now() + seconds / 3
    changes = story.now() + seconds / 2
    try:
        while story.now() < until:
            mischief.step()
            world.fleet.check()
            if world.changed is not None:
                world.changed.step()
            for name in world.load.check():
                story.say(f"the writer of {name} hangs in its client: another takes over")
            if story.now() >= late:
                late = until
                if _topic_appears(world):
                    story.say(f"the topic {LATE} appears")
                else:
                    late = story.now() + 1
            if world.tables is not None and story.now() >= changes:
                changes = until
                if _source_changes(world, world.tables):
                    story.say("messages have one more field, and a topic one more partition")
                else:
                    changes = story.now() + 1
            if story.now() >= until - seconds / 2 and world.fleet.upgrade():
                world.audit.upgraded = True
            if story.now() >= tell:
                tell = story.now() + _TELL_EVERY
                story.say(_progress(world, watch))
            time.sleep(_STEP)
    finally:
        mischief.cease()


def _topic_appears(world: World) -> bool:
    """Create a topic that matches; False while the broker does not answer."""
    if not world.sandbox.servers["kafka"].running():
        return False
    try:
        world.load.begin(next(topic for topic in TOPICS if topic.name == LATE))
    except KafkaError:
        return False  # it has just been restarted
    return True


def _source_changes(world: World, tables: Tables) -> bool:
    """Add a field and a partition; False while the broker does not answer."""
    if not world.sandbox.servers["kafka"].running():
        return False
    try:
        world.load.widen("soak-lines")
    except KafkaError:
        return False
    tables.values.notes = True
    return True


def _wait_for_tables(world: World, story: Story) -> None:
    """Wait until nothing is staged that a table has not, and none is stopped."""
    began, answer = story.now(), None
    while story.now() - began < _REST_WITHIN:
        world.fleet.check()
        answer = run_secor("tables", "status", "--json", str(world.config), patience=_COMMAND)
        if answer.returncode == 0 and not json.loads(answer.stdout)["staged"]["batches"]:
            story.say(f"the tables have everything after {story.now() - began:.1f} s")
            return
        time.sleep(1.0)
    assert answer is not None
    story.violated(f"the tables do not get everything: {answer.stdout} {answer.stderr}")


def _progress(world: World, watch: Watch) -> str:
    lag = f"{watch.samples[-1].lag:,} behind" if watch.samples else "nothing known yet"
    return f"{world.load.written:,} written, {len(world.audit.puts):,} objects, {lag}"


def _rest(world: World, watch: Watch, story: Story, ceased: float) -> float | None:
    """Wait until everything is committed and stays so.

    Returns how long it took to commit what was there when the faults ceased.
    """
    told = story.now()
    while story.now() - ceased < _REST_WITHIN:
        world.fleet.check()
        last = [sample for sample in watch.samples if sample.at > ceased][-_LOOKS_AT_REST:]
        if len(last) == _LOOKS_AT_REST and not any(sample.lag for sample in last):
            story.say("everything is committed")
            return recovery(Happening("", "", ceased, ceased), watch.samples)
        if story.now() - told > _TELL_EVERY:
            told = story.now()
            story.say(_progress(world, watch))
        time.sleep(_STEP)
    behind = {}
    if watch.samples:
        sample = watch.samples[-1]
        behind = {
            str(tp): f"{sample.committed.get(tp, 0)} of {end}"
            for tp, end in sample.ends.items()
            if sample.committed.get(tp, 0) < end
        }
    story.violated(f"not everything is committed {_REST_WITHIN:.0f} s after the faults: {behind}")
    return None


def _verify(world: World, story: Story, look_up: int | None) -> str:
    """Compare every offset, and see that no intent is open."""
    answer = run_secor("verify", "--json", str(world.config), patience=_COMMAND)
    if answer.returncode not in {0, 5}:
        story.violated(f"secor verify ended with {answer.returncode}: {answer.stderr}")
        return "not verified"
    report = json.loads(answer.stdout)
    if world.tables is not None:
        for finding in report["findings"] + report["remarks"]:
            story.violated(f"secor verify: {finding}")
        read = [_verify_by(world, story, engine, look_up) for engine in ("duckdb", "spark")]
        summary = "; ".join([f"{report['compared']:,} messages compared", *read])
        report |= {"partitions": [], "summary": summary}
    elif answer.returncode:
        for partition in report["partitions"]:
            for finding in partition["findings"]:
                story.violated(f"{partition['topic']}/{partition['partition']}: {finding}")
    unlogged = sum(partition["unlogged"] for partition in report["partitions"])
    shown = run_secor("offsets", "show", "--json", str(world.config), patience=_COMMAND)
    for row in json.loads(shown.stdout)["offsets"] if shown.returncode == 0 else ():
        if row["intent"] is not None:
            story.violated(f"an intent is open at rest: {row}")
    if shown.returncode:
        story.violated(f"secor offsets show ended with {shown.returncode}: {shown.stderr}")
    return f"{report['summary']} ({unlogged:,} since compacted away)"


def _verify_by(world: World, story: Story, engine: str, look_up: int | None) -> str:
    """See that an engine has each message once, and finds rows by its filters."""
    limit = () if look_up is None else ("--look-up", str(look_up))
    answer = run_secor(
        *("verify", "--rows-only", "--by", engine, *limit, "--json", str(world.config)),
        patience=_COMMAND if look_up is None else _COMMAND_WITH_ALL_VALUES,
    )
    if answer.returncode not in {0, 5}:
        story.violated(
            f"secor verify --by {engine} ended with {answer.returncode}: {answer.stderr}"
        )
        return f"not read by {engine}"
    try:
        report = json.loads(answer.stdout)
    except ValueError:
        story.violated(f"secor verify --by {engine} printed no JSON: {answer.stdout[:400]!r}")
        return f"not read by {engine}"
    filters = report["filters"]
    for finding in report["findings"] + filters["not_found"]:
        story.violated(f"secor verify --by {engine}: {finding}")
    return (
        f"{filters['looked_up']:,} of {filters['values']:,} values of {filters['files']:,} files"
        f" looked up by {engine}"
    )


def _placed(world: World, story: Story) -> str:
    """See that every offset is where its message says, or nowhere where it says so."""
    world.proxy.set()
    placement: Placement | TableContents = Placement(PREFIX, story.violated)
    if world.tables is not None:
        placement = TableContents(PREFIX, story.violated)
        placement.read(world.tables)
    settings = load(world.config, {})
    with open_store(settings) as store, open_reader(settings) as reader:
        for key, body in _contents(store):
            placement.stored(key, body)
        for topic in TOPICS:
            for owner in reader.partitions(topic.name):
                chunks = reader.read(owner, 0, reader.log_range(owner).end)
                placement.logged(owner, chunks, whole=topic.keys is None)
    return ", ".join(f"{count:,} {name}" for name, count in sorted(placement.counts.items()))


def _look_at_what_is_left(world: World, story: Story) -> None:
    world.audit.compare(_stored(world))
    # A killed process leaves its files to the next one that starts; others leave nothing.
    ended = {member.process.pid for member in world.fleet.members if member.process.poll() == 0}
    directories = (it for it in world.local.glob("*/*") if it.parent.name != "spark")  # its logs
    for directory in directories:
        if int(directory.name.split("-")[-2]) in ended:
            story.violated(f"a daemon that ended well left local files: {directory}")
    for writer in world.load.writers:
        if writer.failure is not None:
            story.violated(f"the writer of {writer.topic.name} failed: {writer.failure!r}")


def _stored(world: World) -> Iterator[tuple[str, int]]:
    """Give the key and CRC32C of every object there is."""
    world.proxy.set()
    with open_store(load(world.config, {})) as store:
        for key, body in _contents(store):
            yield key, crc32c(body)


def _contents(store: ObjectStore) -> Iterator[tuple[str, bytes]]:
    """Yield key and bytes of every object; coordinators may delete manifests meanwhile."""
    for stored in store.list(""):
        # Hudi leaves directories of Hadoop's: empty objects that not all servers let one read.
        body = b"" if stored.key.endswith("/") else read_bytes(store, stored.key)
        if body is not None:
            yield stored.key, body
        elif "/_staged/" not in stored.key:
            raise NotFound(f"{stored.key}: was listed and is gone")


def _figures(
    world: World, watch: Watch, story: Story, recovered: float | None, verified: str
) -> Figures:
    counts, faults = events(member.log for member in world.fleet.members)
    for fault in faults:
        story.violated(fault)
    names = {log: log.stem for log in watch.held}
    # While the store is out, each topic partition has up to 14 files of tables open.
    files = 20 if world.tables is None else 200
    for log, held in watch.held.items():
        grown = growth(held, files=files)
        if grown is not None:
            story.violated(f"{names[log]}: {grown}")
    return Figures(
        happenings=story.happenings,
        samples=watch.samples,
        held={names[log]: held for log, held in watch.held.items()},
        requests=world.proxy.requests,
        injected={str(fault): count for fault, count in world.proxy.injected.items()},
        events=counts + world.fleet.restarted,
        written=world.load.written,
        aborted=sum(writer.aborted for writer in world.load.writers),
        replaced=sum(writer.replaced for writer in world.load.writers),
        puts=len(world.audit.puts),
        refused=world.audit.refused,
        processes=len(world.fleet.members),
        recovered=recovered,
        verified=verified,
    )
