"""``secor run``: the daemon."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import structlog

from secor import __version__
from secor.cli.exit_codes import Exit
from secor.service import logs
from secor.service.imports import keep_pandas_out
from secor.service.journal import JournaldConnection, is_journal
from secor.service.malloc import share_one_heap


@click.command(epilog="Example: secor run /etc/secor/backup.toml")
@click.argument("config", type=click.Path(path_type=Path))
def command(config: Path) -> None:
    """Store the topics of CONFIG until stopped.

    At the start it waits for servers that do not answer, but not if CONFIG is wrong.  SIGTERM
    or Ctrl-C uploads the open batches (if policy.upload_on_shutdown), for at most 240 seconds,
    and ends with 0.  A second signal ends the process at once: nothing is lost, the next process
    reads the messages again.
    """
    share_one_heap()
    keep_pandas_out()
    # These import Arrow, which chooses its allocator then.
    from secor.config.load import load
    from secor.wiring.check_references import require_referenced_files
    from secor.wiring.service import build

    settings = load(config, os.environ)
    # Now, and not in the night when the first partition of some topic comes.
    require_referenced_files(settings)
    journal = None
    if settings.logs.format == "auto" and is_journal(sys.stderr, os.environ):
        journal = JournaldConnection()
    logs.configure(settings.logs.level, settings.logs.format, sys.stderr, journal)
    log = structlog.get_logger("secor.run")
    for warning in settings.warnings:
        log.warning("configuration", what=warning)
    log.info("starting", version=__version__, group=settings.group.name, config=str(config))
    idle = build(settings, os.environ).run()
    log.info("ended")
    if not idle:
        # An upload that hangs must not hold the process beyond its drain: the interpreter
        # would wait for the threads.
        os._exit(Exit.OK)
