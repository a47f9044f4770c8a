"""Spin on ``commit_protocol.pml``: every interleaving of a small world, or what breaks it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from secor.core.errors import ConfigurationError
from tests.programs import program

MODEL = Path(__file__).parent / "commit_protocol.pml"

HOLDS: Mapping[str, tuple[str, ...]] = {
    "crashes, stalls and lost sessions": (),
    "puts that land at any later time": ("LATE",),
    "a log that is compacted": ("COMPACT",),
    "configurations that change": ("CONFIGS=2",),
    "late puts in a log that is compacted": ("LATE", "COMPACT", "ONE", "SLOTS=2"),
    "late puts where configurations change": ("LATE", "CONFIGS=2", "ONE", "SLOTS=2"),
}
"""What the protocol withstands, by the model's names for it."""

BREAKS: Mapping[str, tuple[str, ...]] = {
    "puts before the intent": ("UNAGREED",),
    "a commit that proves nothing": ("UNFENCED",),
    "no recovery, in a log that is compacted, named by the first message": (
        "BLIND",
        "COMPACT",
        "BY_FIRST",
    ),
    "no recovery, where configurations change": ("BLIND", "CONFIGS=2"),
    "late puts in a log that is compacted, named by the first message": (
        "LATE",
        "COMPACT",
        "ONE",
        "SLOTS=2",
        "BY_FIRST",
    ),
    "late puts where configurations change, without the wait": ("LATE", "CONFIGS=2", "NO_WAIT"),
    "late puts where configurations change, without a second look": (
        "LATE",
        "CONFIGS=2",
        "NO_LOOK",
    ),
}
"""What must be noticed: steps left out."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``broken`` is the assertion that did not hold, None when all ``states`` were searched."""

    states: int
    broken: str | None


def check(defines: tuple[str, ...], messages: int) -> Verdict:
    """Search every state of the world of two processes and ``messages`` in the log.

    Raises ``ConfigurationError`` where Spin or a C compiler cannot be had.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ConfigurationError("no C compiler on the PATH: install gcc, which Spin needs")
    spin = program("spin", lambda line: print(line, file=sys.stderr))
    named = [f"-D{name}" for name in (*defines, f"N={messages}")]
    with tempfile.TemporaryDirectory(prefix="secor-model-") as name:
        folder = Path(name)
        _run(folder, str(spin), "-a", *named, str(MODEL))
        options = ["-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048"]
        _run(folder, compiler, *options, "-o", "search", "pan.c")
        # -E: that both processes have nothing left to do is no fault.
        return _verdict(_run(folder, "./search", "-E", "-m1000000", "-w24"))


def _run(folder: Path, *command: str) -> str:
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise AssertionError(f"{command[0]} ended with {answer.returncode}:\n{answer.stdout}")
    return answer.stdout


def _verdict(said: str) -> Verdict:
    states = re.search(r"(\d+) states, stored", said)
    errors = re.search(r"errors: (\d+)", said)
    broken = re.search(r"assertion violated (.*) \(at depth", said)
    # A search that has found something need not have gone to the end of every path.
    cut = broken is None and "max search depth too small" in said
    if states is None or errors is None or cut:
        raise AssertionError(f"the search is not complete:\n{said}")
    if int(errors[1]) and broken is None:
        raise AssertionError(f"the model itself is at fault:\n{said}")
    return Verdict(int(states[1]), None if broken is None else broken[1])
