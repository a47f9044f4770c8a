"""The table of crash points in DESIGN.md, made by crashing at each of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from secor.batch.policy import Policy
from secor.parsing.offset_layout import OffsetBuckets
from tests.fakes.ledger import Kind as LedgerKind
from tests.simulation.chaos import Call, Fault, Kind, ScriptedFaults
from tests.simulation.process import Setup
from tests.simulation.world import Scene, World, new_world

DESIGN = Path(__file__).parents[2] / "DESIGN.md"
BEGIN, END = "<!-- crash table -->\n", "<!-- end of crash table -->"
MESSAGES, OBJECTS = 3, 2
SETUP = Setup(parser=OffsetBuckets(2), policy=Policy(max_messages=MESSAGES))
INTRODUCTION = (
    f"The first batch of a topic partition, {MESSAGES} messages and {OBJECTS} objects;"
    " both kinds of ledger give the same table."
)
LEDGERS: tuple[LedgerKind, ...] = ("zookeeper", "kafka")


@dataclass(frozen=True, slots=True)
class Left:
    """What a crash leaves, and what the successor makes of it."""

    ledger: str
    store: str
    successor: str


def points(kind: LedgerKind) -> list[tuple[str, Left]]:
    """Crash at every call of one batch, the very first of its topic partition."""
    calls = _run(kind, None)[0]
    return [(_where(call, calls), _run(kind, call.number)[1]) for call in calls]


def _run(kind: LedgerKind, crash: int | None) -> tuple[list[Call], Left]:
    scene = Scene(ledger=kind, partitions=1, restart_after=15.0)
    script = {} if crash is None else {crash: Fault(Kind.CRASH)}
    with new_world(scene, faults=ScriptedFaults(script)) as world:
        left: list[tuple[str, str]] = []
        world.between = lambda: left.append((_ledger(world), _store(world)))
        world.log().append(MESSAGES)
        world.start(SETUP)
        world.settle()
        world.run(20.0)
        ledger, store = left[0] if left else ("", "")
        return world.calls, Left(ledger, store, _successor(world))


def _where(call: Call, calls: list[Call]) -> str:
    before = [c for c in calls[: call.number] if (c.name, c.phase) == (call.name, call.phase)]
    what = {
        "read": "reading the entry",
        "lease.read": "reading the entry under the lease",
        "topic_id": "asking for the topic's id",
        "log_range": "asking for the log's range",
        "list": "looking for objects",
        "lease": ("the lease for the first entry", "the lease"),
        "release": ("giving the lease back, after the first entry", "giving the lease back"),
        "record": "the intent",
        "put": ("the first put", "the second put"),
        "commit": ("the first entry", "the commit"),
    }[call.name]
    return f"{call.phase} {what if isinstance(what, str) else what[len(before)]}"


def _ledger(world: World) -> str:
    entry = world.ledger.entry(next(iter(world.broker.logs)))
    if entry.committed is None:
        return "nothing"
    if entry.intent is None:
        return f"committed {entry.committed}"
    return f"committed {entry.committed}, intent [{entry.intent.start}, {entry.intent.end})"


def _store(world: World) -> str:
    return {0: "nothing", OBJECTS: "both objects"}.get(len(world.store.objects), "one object")


def _successor(world: World) -> str:
    if len(world.processes) < 2:
        return ""
    successor = world.processes[1]
    done = [c.name for c in world.calls if c.process == successor.name and c.phase == "after"]
    steps = []
    if done.count("commit") > done.count("record"):
        steps.append("writes the first entry")
    if "record" in done:
        if successor.observer.counts.get("adopted") or "head" in done or _follows_intent(world):
            steps.append("follows the intent")
        else:
            steps.append("records the intent")
        adopted = OBJECTS - done.count("put")
        if adopted:
            steps.append("adopts " + ("both" if adopted == OBJECTS else "one"))
        if done.count("put"):
            steps.append("puts " + ("both" if not adopted else "the other"))
        steps.append("commits")
    return ", ".join(steps) or "goes on there"


def _follows_intent(world: World) -> bool:
    """The successor wrote an intent that stood already."""
    intents = [entry.intent for _, entry in world.ledger.history if entry.intent is not None]
    return len(intents) > 1


def table() -> str:
    """Return it in Markdown; neighbours that leave the same are one row."""
    kinds = [points(kind) for kind in LEDGERS]
    assert kinds[0] == kinds[1], "the two ledgers differ at a crash point"
    lines = [
        INTRODUCTION,
        "",
        "| crash | the ledger holds | the store holds | the successor |",
        "|---|---|---|---|",
    ]
    rows: list[tuple[list[str], Left]] = []
    for where, left in kinds[0]:
        if rows and rows[-1][1] == left:
            rows[-1][0].append(where)
        else:
            rows.append(([where], left))
    for where_all, left in rows:
        span = where_all[0]
        if len(where_all) > 1:
            span += f" … {where_all[-1]}"
        lines.append(f"| {span} | {left.ledger} | {left.store} | {left.successor} |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """Return the table that stands in DESIGN.md."""
    return DESIGN.read_text().partition(BEGIN)[2].partition(END)[0]


def rewrite() -> None:
    """Put the table of now into DESIGN.md."""
    text = DESIGN.read_text()
    DESIGN.write_text(text.replace(BEGIN + written() + END, BEGIN + table() + END))
