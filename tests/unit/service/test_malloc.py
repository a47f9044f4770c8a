"""The daemon takes its memory from one heap."""

from __future__ import annotations

import os
import subprocess
import sys

TELL = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
RUN_AND_TELL = f"""
from secor.cli.main import run
run(["run", "absent.toml"])
{TELL}
"""


def told(code: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ARROW_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=clean | environment,
    )
    return done.stdout.split()[-1]


def test_the_daemon_lets_arrow_use_the_heap_of_the_others() -> None:
    assert told(TELL) != "system"
    assert told(RUN_AND_TELL) == "system"


def test_another_allocator_can_be_asked_for() -> None:
    assert told(RUN_AND_TELL, ARROW_DEFAULT_MEMORY_POOL="mimalloc") == "mimalloc"


FAULTS = """
import resource
from secor.service.malloc import share_one_heap
{}
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    blocks = [bytearray(1 << 20) for _ in range(16)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_blocks_of_columns_are_not_taken_from_the_system_again_and_again() -> None:
    once = 16 << 8  # pages of 4 KiB
    assert int(told(FAULTS.format(""))) > 10 * once
    assert int(told(FAULTS.format("share_one_heap()"))) < 3 * once
