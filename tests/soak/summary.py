"""What a run did and what survived, in words and as a picture."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.soak.story import Happening
from tests.soak.watch import Held, Sample, recovery


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted; ``recovered`` is the seconds from the last fault to rest, if it came."""

    happenings: Sequence[Happening]
    samples: Sequence[Sample]
    held: Mapping[str, Sequence[Held]]
    requests: int
    injected: Mapping[str, int]
    events: Counter[str]
    written: int
    aborted: int
    replaced: int
    puts: int
    refused: int
    processes: int
    recovered: float | None
    verified: str


def lines(figures: Figures) -> list[str]:
    """Return the summary."""
    return [
        "",
        "faults           times   until all was committed again, seconds (median, most)",
        *_faults(figures),
        "",
        *_named("requests to the store", {"all": figures.requests, **figures.injected}),
        *_named("retried", _with(figures.events, "retried ")),
        *_named("restarted", _with(figures.events, "restarted ")),
        *_named("adopted, superseded", _only(figures.events, "adopted", "superseded")),
        *_named("libraries' warnings", _only(figures.events, "library")),
        (
            f"messages written: {figures.written:,}; transactions aborted: {figures.aborted:,};"
            f" producers replaced: {figures.replaced:,}"
        ),
        (
            f"objects put: {figures.puts:,}; puts refused: {figures.refused:,};"
            f" processes started: {figures.processes}"
        ),
        *_held(figures.held),
        "recovery after the last fault: "
        + ("never" if figures.recovered is None else f"{figures.recovered:.1f} s"),
        figures.verified,
    ]


def _faults(figures: Figures) -> list[str]:
    rows = []
    for kind, times in sorted(Counter(one.kind for one in figures.happenings).items()):
        found = sorted(
            seconds
            for one in figures.happenings
            if one.kind == kind and (seconds := recovery(one, figures.samples)) is not None
        )
        told = f"{found[len(found) // 2]:8.1f}{found[-1]:8.1f}" if found else "       -"
        rows.append(f"  {kind:<20}{times:>4}{told}")
    return rows


def _with(events: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {k.removeprefix(prefix): v for k, v in events.items() if k.startswith(prefix)}


def _only(events: Mapping[str, int], *names: str) -> dict[str, int]:
    return {name: events[name] for name in names if name in events}


def _named(title: str, numbers: Mapping[str, int]) -> list[str]:
    if not numbers:
        return []
    return [f"{title}: " + ", ".join(f"{name} {number:,}" for name, number in numbers.items())]


def _held(held: Mapping[str, Sequence[Held]]) -> list[str]:
    """Tell of the three processes that lived longest."""
    longest = sorted(held.items(), key=lambda item: item[1][0].at - item[1][-1].at)[:3]
    return [
        f"{name}, {some[-1].at - some[0].at:.0f} s: memory "
        + " ".join(f"{one.rss >> 20}" for one in _spread(some))
        + " MiB, open files "
        + " ".join(str(one.files) for one in _spread(some))
        for name, some in longest
    ]


def _spread(some: Sequence[Held]) -> list[Held]:
    """Return up to eight, evenly apart, the last among them."""
    step = max(1, len(some) // 8)
    return list(some[::-step][:8][::-1])


def save(figures: Figures, path: Path) -> None:
    """Write what each process held: lists of seconds, resident bytes and open files."""
    held = {name: [(it.at, it.rss, it.files) for it in some] for name, some in figures.held.items()}
    path.write_text(json.dumps(held))


def plot(figures: Figures, path: Path) -> None:
    """Draw throughput, lag and memory over time, with the faults marked."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (rate, lag, memory) = plt.subplots(
        3, 1, sharex=True, figsize=(14, 10), height_ratios=[3, 2, 1.5], layout="constrained"
    )
    at = [sample.at for sample in figures.samples]
    rate.plot(*_rates(at, [sum(s.ends.values()) for s in figures.samples]), label="written")
    rate.plot(*_rates(at, [sum(s.committed.values()) for s in figures.samples]), label="committed")
    rate.set_ylabel("offsets a second")
    lag.plot(at, [sample.lag for sample in figures.samples], color="black")
    lag.set_ylabel("offsets behind")
    for some in figures.held.values():
        memory.plot([one.at for one in some], [one.rss / (1 << 20) for one in some], lw=0.8)
    memory.set_ylabel("MiB of each process")
    memory.set_xlabel("seconds")
    colours = plt.get_cmap("tab20")
    kinds = sorted({one.kind for one in figures.happenings})
    for one in figures.happenings:
        colour = colours(kinds.index(one.kind) % 20)
        for axes in (rate, lag):
            axes.axvspan(one.begun, one.ended or one.begun, color=colour, alpha=0.25, lw=0.5)
    marks = [plt.Rectangle((0, 0), 1, 1, color=colours(i % 20)) for i in range(len(kinds))]
    figure.legend(marks, kinds, loc="outside upper center", ncols=7)
    rate.legend(loc="upper left")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _rates(at: Sequence[float], totals: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return offsets a second, over five looks."""
    times, rates = [], []
    for i in range(5, len(at)):
        times.append(at[i])
        rates.append((totals[i] - totals[i - 5]) / (at[i] - at[i - 5]))
    return times, rates
