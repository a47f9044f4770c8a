"""The daemon does without pandas and rich, which libraries would import."""

from __future__ import annotations

import subprocess
import sys

VALUES = "pa.array([1]), pa.scalar(b''), pa.array(np.arange(3))"
BEGIN = "import sys; import numpy as np; import pyarrow as pa; "
RUN = "from secor.cli.main import run; run(['run', 'absent.toml']); "
LOADED = "print('pandas' in sys.modules)"


def printed(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
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
