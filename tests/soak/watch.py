"""Looks every second how far the group is, and what its processes hold."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil

from secor.config.load import load
from secor.core.errors import SecorError
from secor.core.model import TopicPartition
from secor.wiring.clients import open_ledger_for_operator, open_reader
from tests.soak.fleet import Fleet
from tests.soak.load import PATTERN
from tests.soak.story import Happening, Story

_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Committed offsets and log ends at ``at``, in seconds of the story."""

    at: float
    committed: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    @property
    def lag(self) -> int:
        """Offsets that are not committed yet."""
        return sum(max(0, end - self.committed.get(tp, 0)) for tp, end in self.ends.items())

    def reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Tell whether everything below ``ends`` is committed."""
        return all(self.committed.get(tp, 0) >= end for tp, end in ends.items())


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds: resident bytes and file descriptors."""

    at: float
    rss: int
    files: int


class Watch:
    """Samples in threads of its own; ``held`` is by log file, which names a process."""

    def __init__(self, config: Path, fleet: Fleet, story: Story, pattern: str = PATTERN) -> None:
        self.samples: list[Sample] = []
        self.held: dict[Path, list[Held]] = {}
        self._config = load(config, {})
        self._fleet = fleet
        self._story = story
        self._pattern = pattern
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._look_at_offsets, name="offsets"),
            threading.Thread(target=self._look_at_processes, name="processes"),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _look_at_offsets(self) -> None:
        while not self._stop.is_set():
            try:
                self._look_until_it_fails()
            except SecorError:
                # A server is down: that is told by who took it down.
                self._stop.wait(_EVERY)

    def _look_until_it_fails(self) -> None:
        with ExitStack() as opened:
            ledger = opened.enter_context(open_ledger_for_operator(self._config))
            reader = opened.enter_context(open_reader(self._config))
            while not self._stop.wait(_EVERY):
                found = [
                    tp for name in reader.topics(self._pattern) for tp in reader.partitions(name)
                ]
                ends = {tp: reader.log_range(tp).end for tp in found}
                committed = {tp: ledger.read(tp).committed or 0 for tp in found}
                self._add(Sample(self._story.now(), committed, ends))

    def _add(self, sample: Sample) -> None:
        for went in went_back(self.samples[-1:], sample):
            self._story.violated(went)
        self.samples.append(sample)

    def _look_at_processes(self) -> None:
        while not self._stop.wait(_EVERY):
            for member in self._fleet.living():
                try:
                    process = psutil.Process(member.process.pid)
                    held = Held(self._story.now(), process.memory_info().rss, process.num_fds())
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
                if held.rss:
                    self.held.setdefault(member.log, []).append(held)


def went_back(earlier: Sequence[Sample], sample: Sample) -> list[str]:
    """Tell which committed offsets are smaller than before."""
    return [
        f"the committed offset of {tp} went back from {was} to {sample.committed.get(tp, 0)}"
        for before in earlier
        for tp, was in before.committed.items()
        if sample.committed.get(tp, 0) < was
    ]


def recovery(happening: Happening, samples: Sequence[Sample]) -> float | None:
    """Return the seconds from a fault's end until all that the log held then was committed.

    None when it is not known: no look before everything ended.
    """
    if happening.ended is None:
        return None
    after = [sample for sample in samples if sample.at >= happening.ended]
    done = (one.at for one in after if one.reached(after[0].ends))
    at = next(done, None)
    return None if at is None else at - happening.ended


WARM_UP = 120.0
"""Seconds in which a daemon comes to what it needs: buffers, pools, and the allocator's peaks."""
LEAST = 240.0
"""Seconds of life without which nothing is told."""
_WINDOWS = 6


def growth(held: Sequence[Held], files: int = 20) -> str | None:
    """Tell whether a process grew steadily after its warm-up; None when not.

    What it holds is the least in each of six windows, so that what comes and goes with the load
    does not count.  A leak grows in both halves of that time, each with a quarter of the whole at
    least.  A step is none: a process that begins to coordinate, or a backlog after an outage,
    raises what the allocator keeps, once.  Growth below 5 % and 8 MiB is not told: 180 MiB an
    hour are seen in ten minutes, 25 in an hour.  ``files``: so many more open files are no growth.
    """
    if not held or held[-1].at - held[0].at < LEAST:
        return None
    begin = held[0].at + WARM_UP
    seconds = (held[-1].at - begin) / _WINDOWS
    windows: list[list[Held]] = [[] for _ in range(_WINDOWS)]
    for sample in held:
        if sample.at >= begin:
            windows[min(int((sample.at - begin) / seconds), _WINDOWS - 1)].append(sample)
    windows = [window for window in windows if window]
    sizes = [min(sample.rss for sample in window) for window in windows]
    if _rises(sizes, 0.05 * sizes[0] + (8 << 20)):
        hourly = (sizes[-1] - sizes[0]) / (held[-1].at - begin) * 3600
        return (
            f"memory grew from {sizes[0] >> 20} to {sizes[-1] >> 20} MiB after the first"
            f" {WARM_UP:.0f} s, {hourly / (1 << 20):.0f} MiB an hour"
        )
    descriptors = [min(sample.files for sample in window) for window in windows]
    if _rises(descriptors, files):
        return f"open files grew from {descriptors[0]} to {descriptors[-1]}"
    return None


def _rises(least: Sequence[int], tolerated: float) -> bool:
    """Tell whether a row of numbers rises by more than is tolerated, in both of its halves."""
    middle = len(least) // 2
    whole = least[-1] - least[0]
    first, second = least[middle - 1] - least[0], least[-1] - least[middle]
    return whole > tolerated and min(first, second) >= whole / 4
