"""Installed libraries that the process does without."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType


class _Absent:
    """A finder of modules that finds one package absent, and leaves others to the next finder."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise ``ImportError`` for the package."""
        if name == self._package:
            raise ImportError(f"{name} is not needed here")


@contextmanager
def _without(package: str) -> Iterator[None]:
    finder = _Absent(package)
    # In front of all finders: the first one that knows a module decides.
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        # Taken away at once: users' plug-ins, and commands that give out data frames, may need the
        # package.
        sys.meta_path.remove(finder)


def keep_pandas_out() -> None:
    """Let Arrow take pandas as absent until somebody asks for a data frame.

    Arrow imports pandas, where it is installed, with the first value that it looks at, to see
    whether it is a series: a quarter of a second of CPU and 30 MB in every process.
    """
    with _without("pandas"):
        import pyarrow as pa

        pa.scalar(0)  # it looks once


def import_structlog() -> None:
    """Import structlog, and let it take rich as absent; others may still import that.

    It imports rich, where that is installed, for tracebacks that we do not print: 70 modules, a
    tenth of what a daemon's start takes.
    """
    with _without("rich"):
        import structlog  # noqa: F401


def start_no_blas_threads() -> None:
    """Let numpy start no threads for linear algebra.  To be called before numpy is imported.

    OpenBLAS starts one for each further core, and each spins for a tenth of a second before it
    sleeps.  Arrow imports numpy; nothing here multiplies matrices.  ``OPENBLAS_NUM_THREADS`` in
    the environment overrules it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
