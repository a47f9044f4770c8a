"""DESIGN.md names the files that a message passes, and they can be read in an afternoon."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.fakes.ledger import LedgerServer
from tests.fakes.source import FakeBroker
from tests.unit.consume.world import KEY, Process

ROOT = Path(__file__).parents[3]
DESIGN = (ROOT / "DESIGN.md").read_text()
MOST_FILES, MOST_LINES = 12, 2250
LEFT_OUT = {"adapters", "wire", "formats", "core"}
"""Insides of clients and formats; and the words that everybody uses."""


def listed(name: str) -> list[str]:
    """Return the files between two marks in DESIGN.md."""
    text = DESIGN.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
    return re.findall(r"`(secor/[^`]+\.py)`", text)


def test_a_message_can_be_followed_through_few_files_and_lines() -> None:
    files = listed("way of a message")
    assert 0 < len(files) <= MOST_FILES
    assert sum(lines_to_read(ROOT / file) for file in files) <= MOST_LINES


def lines_to_read(path: Path) -> int:
    """Return how many lines a file has without its comments, which only help."""
    lines = path.read_text().splitlines()
    return sum(not line.lstrip().startswith("#") for line in lines)


@contextmanager
def files_called() -> Iterator[set[str]]:
    """Collect the files of this package whose functions are called meanwhile."""
    files: set[str] = set()

    def remember(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(remember)
    try:
        yield files
    finally:
        sys.setprofile(before)


def test_the_files_are_those_that_a_message_passes(tmp_path: Path) -> None:
    broker, server = FakeBroker(), LedgerServer("zookeeper")
    broker.create(KEY.topic)
    broker.logs[KEY].produce(10)
    with files_called() as called:
        process = Process(tmp_path, broker, server)
        process.source.assign([KEY])
        process.run()
    process.workspace.close()
    assert process.offsets() == list(range(10))
    package = ROOT / "secor"
    own = {Path(file) for file in called if Path(file).is_relative_to(package)}
    passed = {
        f"secor/{file.relative_to(package)}"
        for file in own
        if file.relative_to(package).parts[0] not in LEFT_OUT
    }
    assert passed == {*listed("way of a message"), *listed("off the way")}
