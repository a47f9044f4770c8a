"""The entry point of ``secor``: Ctrl-C while modules are still loading leaves no traceback."""

from __future__ import annotations

import os

from secor.service.malloc import collect_nothing

INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process with its exit code."""
    collect_nothing()
    try:
        from secor.cli.main import main as run
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    run()
