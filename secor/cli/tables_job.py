"""The application for ``spark-submit`` that runs ``secor tables`` on the cluster's master."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from secor.cli.main import run


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    return run(["tables", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
