"""What the process does without, although it is installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType


class _NoPandas:
    """A finder of modules that finds no pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise ``ImportError`` for pandas, and leave others to the next finder."""
        if name == "pandas":
            raise ImportError("Arrow does without pandas here")


def keep_pandas_out() -> None:
    """Let Arrow take pandas as absent until somebody asks for a data frame.

    Arrow imports pandas, where it is installed, with the first value that it looks at, to tell
    whether it is a series: a quarter of a second of CPU and 30 MB in every process.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.scalar(0)  # it looks once
    finally:
        sys.meta_path.remove(finder)
