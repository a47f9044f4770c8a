"""The results in lines for people, and in JSON for scripts."""

from __future__ import annotations

import json
import pstats
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path

from tools.bench.cases import GOAL_MEMORY, Case
from tools.bench.change_costs import ChangeCost
from tools.bench.fill import Filled
from tools.bench.floor import Floor
from tools.bench.pieces import Piece
from tools.bench.restore import Recovery, Restored
from tools.bench.running import Usage
from tools.bench.spark import GOALS, TEXT, Scan

_FUNCTIONS = 40

PEERS_OF = "text-gzip"
"""The case that other programs are compared with."""


@dataclass(frozen=True, slots=True)
class Result:
    """One case: CPU in microseconds a message, without and with the start of the process."""

    case: str
    messages: int
    seconds: float
    cpu_us: float
    cpu_us_with_start: float
    messages_per_second: float
    megabytes_per_second: float
    peak_megabytes: float
    objects: int
    goal_us: float | None
    others_us: str
    floor_us: float
    times_floor: float
    goal_times_floor: float


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What a program took; CPU in microseconds a message without its start."""

    name: str
    messages: int
    cpu_us: float
    seconds: float
    peak_megabytes: float
    times_cpu: float
    times_seconds: float
    times_memory: float
    beside: str = PEERS_OF


def result_of(
    case: Case,
    filled: Filled,
    *,
    used: Usage,
    idle: Usage,
    last: float,
    objects: int,
    floor: Floor,
) -> Result:
    """Compare a run with one over an empty topic; ``last`` is when it committed last.

    ``objects`` counts the files with data.  Seconds count from its readiness to its last
    commit: uploads included.
    """
    seconds = max(last - used.ready, 1e-3)
    cpu_us = (used.cpu - idle.cpu) / filled.messages * 1e6
    return Result(
        case=case.name,
        messages=filled.messages,
        seconds=round(seconds, 2),
        cpu_us=round(cpu_us, 3),
        cpu_us_with_start=round(used.cpu / filled.messages * 1e6, 3),
        messages_per_second=round(filled.messages / seconds),
        megabytes_per_second=round(filled.value_bytes / seconds / 1e6, 1),
        peak_megabytes=round(used.peak / 1e6, 1),
        objects=objects,
        goal_us=case.goal,
        others_us=case.others,
        floor_us=round(floor.total, 3),
        times_floor=round(cpu_us / floor.total, 2),
        goal_times_floor=floor.goal,
    )


def line_of(result: Result) -> str:
    """Return a result in one line."""
    goal = f", goal {result.goal_us}" if result.goal_us else ""
    return (
        f"{result.case:22} {result.cpu_us:5.2f} µs CPU a message"
        f" ({result.cpu_us_with_start:.2f} with the start{goal}),"
        f" {result.messages_per_second / 1e6:.2f} M messages/s,"
        f" {result.megabytes_per_second:.0f} MB/s in {result.seconds:.1f} s,"
        f" {result.objects} objects,"
        f" peak {result.peak_megabytes:.0f} MB (goal {GOAL_MEMORY / 1e6:.0f});"
        f" floor {result.floor_us:.2f} µs, {result.times_floor:.1f} times it"
        f" (goal {result.goal_times_floor:.1f}); others: {result.others_us or 'not known'}"
    )


def beside_line(case: Case, results: Sequence[Result]) -> str | None:
    """Compare a case with the one that it is another shape of; None if that was not run."""
    cpu = {result.case: result.cpu_us for result in results}
    if case.beside not in cpu:
        return None
    times = cpu[case.name] / cpu[case.beside]
    return f"{'':22} {times:.2f} times {case.beside} (goal {case.most_times})"


def floor_line(floor: Floor) -> str:
    """Return the steps of a floor in one line."""
    steps = ", ".join(f"{name} {taken:.3f}" for name, taken in floor.steps.items())
    return f"{'':22} floor: {steps} µs"


def piece_line(piece: Piece) -> str:
    """Return a piece in one line."""
    return f"{piece.name:40} {piece.cpu_us:5.2f} µs CPU a message"


def peer_line(result: PeerResult | str) -> str:
    """Return a result in one line."""
    if isinstance(result, str):
        return result
    return (
        f"{result.name}: {result.cpu_us:.2f} µs CPU a message, {result.seconds:.1f} s,"
        f" peak {result.peak_megabytes:.0f} MB; times Secor's {result.beside}: CPU"
        f" {result.times_cpu:.1f}, wall time {result.times_seconds:.1f},"
        f" memory {result.times_memory:.1f}"
    )


def scan_lines(scans: Sequence[Scan]) -> list[str]:
    """Return what Spark did in one line each; Secor's beside what it is measured against."""
    return [_scan_line(scan, scans) for scan in scans]


def _scan_line(scan: Scan, scans: Sequence[Scan]) -> str:
    line = (
        f"{scan.name:16} {scan.codec:5} {scan.per_core:6.1f} MB/s per core,"
        f" {scan.per_cpu_second:6.1f} MB a second of CPU"
    )
    for other in scans if scan.name == "secor" else ():
        if other.name in GOALS and (other.codec == scan.codec or other.name == TEXT):
            clock, cpu = scan.ratio(other)
            line += f"; {clock:.2f} times {other.name} (CPU {cpu:.2f}, goal {GOALS[other.name]})"
    return line


def as_json(
    results: Sequence[Result],
    pieces: Sequence[Piece],
    scans: Sequence[Scan] = (),
    writes: Sequence[Restored | Recovery] = (),
    peers: Sequence[PeerResult] = (),
    changes: Sequence[ChangeCost] = (),
) -> str:
    """Return everything as one JSON object."""
    tables = {
        "cases": [asdict(result) for result in results],
        "pieces": [asdict(piece) for piece in pieces],
        "spark": [asdict(scan) for scan in scans],
        "restore": [asdict(write) for write in writes],
        "peers": [asdict(peer) for peer in peers],
        "changes": [asdict(cost) for cost in changes],
    }
    return json.dumps(tables, indent=2, ensure_ascii=False)


def profile_of(path: Path) -> str:
    """Return the functions that took most CPU time of the loop's thread, by their own time."""
    text = StringIO()
    pstats.Stats(str(path), stream=text).sort_stats("tottime").print_stats(_FUNCTIONS)
    return text.getvalue()
