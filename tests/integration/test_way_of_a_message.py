"""The files that a message passes from Kafka to S3, with the insides of clients and formats.

``tests/unit/repository/test_way_of_a_message.py`` holds the part that a reader follows.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from secor.sandbox import Sandbox
from tests.integration.daemons import (
    PATIENCE,
    committed,
    create_topic,
    produce,
    wait_until,
    write_config,
)
from tests.unit.repository.test_way_of_a_message import lines_to_read

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

MOST_FILES, MOST_LINES = 88, 16_300
"""80 files and 14,632 lines when this was made; 84 and 15,368 where one of the loop's reports came
between.  Lower them when you can: the goal is 25 files and 4,500 lines.
"""

RECORDED_DAEMON = """
import json, os, sys, threading
from pathlib import Path

config, switch, result = map(Path, sys.argv[1:])
files = set()

def remember(frame, event, _):
    if event == "call" and switch.exists():
        files.add(frame.f_code.co_filename)

threading.setprofile(remember)
sys.setprofile(remember)
from secor.cli.main import main
try:
    main(["run", str(config)])
finally:
    sys.setprofile(None)
    result.write_text(json.dumps(sorted(files)))
"""


@pytest.fixture
def files(sandbox: Sandbox, tmp_path: Path) -> list[str]:
    """Return the files of the package that were called while messages went from Kafka to S3."""
    topic = "way-of-a-message"
    create_topic(sandbox, topic, 1)
    produce(sandbox, topic, 1, range(500))
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger="zookeeper")
    switch, result, log = tmp_path / "switch", tmp_path / "files.json", tmp_path / "log"
    command = [sys.executable, "-c", RECORDED_DAEMON, str(config), str(switch), str(result)]
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            wait_until(lambda: committed(config, topic, 1) == 500, "the first object")
            switch.touch()
            produce(sandbox, topic, 1, range(500, 1000))
            wait_until(lambda: committed(config, topic, 1) == 1000, "the second object")
            switch.unlink()
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        finally:
            process.kill()
    called = [Path(name) for name in json.loads(result.read_text())]
    return [str(path.relative_to(ROOT)) for path in called if path.is_relative_to(ROOT / "secor")]


def test_a_message_passes_no_more_files_and_lines_than_before(files: list[str]) -> None:
    """Lines count without comments, as in the part that a reader follows."""
    lines = sum(lines_to_read(ROOT / name) for name in files)
    assert "secor/commit/uploader.py" in files
    assert len(files) <= MOST_FILES, "\n".join(files)
    assert lines <= MOST_LINES, f"{lines} lines in {len(files)} files"
