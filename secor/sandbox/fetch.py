"""Fetch jars before somebody waits for them: ``python -m secor.sandbox.fetch [BUNDLE ...]``.

Without names, what ``secor sandbox up`` and Iceberg tables in Spark need; ``all`` is everything.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from secor.java.bundles import BUNDLES, KAFKA, S3PROXY, SPARK_ICEBERG
from secor.java.cache import Progress
from secor.java.jars import jar_folder

FIRST = (KAFKA, S3PROXY, SPARK_ICEBERG)


def fetch(progress: Progress, names: Collection[str] = ()) -> None:
    """Fill the user's cache.  Raises ``Unavailable``, ``ConfigurationError``."""
    for bundle in BUNDLES:
        if bundle.name in names or "all" in names or (not names and bundle in FIRST):
            jar_folder(bundle, progress)


if __name__ == "__main__":
    fetch(lambda line: print(line, file=sys.stderr, flush=True), sys.argv[1:])
