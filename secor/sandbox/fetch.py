"""Fetch jars before somebody waits for them: ``python -m secor.sandbox.fetch [BUNDLE ...]``.

Without names, all that the sandbox and Spark need.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from secor.java.bundles import BUNDLES
from secor.java.cache import Progress
from secor.java.jars import jar_folder


def fetch(progress: Progress, names: Collection[str] = ()) -> None:
    """Fill the user's cache.  Raises ``Unavailable``, ``ConfigurationError``."""
    for bundle in BUNDLES:
        if not names or bundle.name in names:
            jar_folder(bundle, progress)


if __name__ == "__main__":
    fetch(lambda line: print(line, file=sys.stderr, flush=True), sys.argv[1:])
