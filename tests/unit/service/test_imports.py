"""The daemon does without pandas, rich and threads of numpy, which libraries would start."""

from __future__ import annotations

import os
import subprocess
import sys

VALUES = "pa.array([1]), pa.scalar(b''), pa.array(np.arange(3))"
BEGIN = "import sys; import numpy as np; import pyarrow as pa; "
RUN = "from secor.cli.main import run; run(['run', 'absent.toml']); "
LOADED = "print('pandas' in sys.modules)"


CLEAN = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}


def printed(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=CLEAN | environment,
    )
    return done.stdout.split()


def test_arrow_imports_pandas_by_itself_and_not_in_the_daemon() -> None:
    assert printed(f"{BEGIN}{VALUES}; {LOADED}") == ["True"]
    assert printed(f"{BEGIN}{RUN}{VALUES}; {LOADED}") == ["False"]


def test_a_data_frame_can_still_be_made() -> None:
    frame = "print(len(pa.table({'a': [1, 2]}).to_pandas()))"
    assert printed(f"{BEGIN}{RUN}{VALUES}; {frame}; {LOADED}") == ["2", "True"]


def test_structlog_imports_rich_by_itself_and_not_in_a_command() -> None:
    loaded = "print(*(name in sys.modules for name in ('structlog', 'rich')))"
    assert printed(f"import sys, structlog; {loaded}") == ["True", "True"]
    assert printed(f"import sys; {RUN}{loaded}") == ["True", "False"]


def test_rich_is_still_there_for_who_asks() -> None:
    code = "import rich.console; print(rich.console.Console is not None)"
    assert printed(f"import sys; {RUN}{code}") == ["True"]


# Arrow's allocator has a thread, too, which it names.
THREADS = """
import numpy, pathlib
names = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
print(sum("jemalloc" not in name for name in names))
"""


def test_numpy_starts_no_threads_in_a_command() -> None:
    assert printed(f"{RUN}\n{THREADS}") == ["1"]


def test_threads_of_numpy_can_be_asked_for() -> None:
    assert printed(f"{RUN}\n{THREADS}", OPENBLAS_NUM_THREADS="2") == ["2"]
