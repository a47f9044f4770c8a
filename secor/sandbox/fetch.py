"""Fetch what the sandbox needs before somebody waits for it: ``python -m secor.sandbox.fetch``."""

from __future__ import annotations

import sys

from secor.java.bundles import BUNDLES
from secor.java.cache import Progress
from secor.java.jars import jar_folder


def fetch(progress: Progress) -> None:
    """Fill the user's cache.  Raises ``Unavailable``, ``ConfigurationError``."""
    for bundle in BUNDLES:
        jar_folder(bundle, progress)


if __name__ == "__main__":
    fetch(lambda line: print(line, file=sys.stderr, flush=True))
