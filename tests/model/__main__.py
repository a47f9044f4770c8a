"""``python -m tests.model``: search every case; exit code 1 if one is not as it should be."""

from __future__ import annotations

import sys
import time

import click

from tests.model.checker import BREAKS, HOLDS, check


@click.command(epilog="Example: scripts/model --messages 2")
@click.option(
    "--messages", type=click.IntRange(2, 4), default=3, show_default=True, help="In the log."
)
def main(messages: int) -> None:
    """Search every interleaving of tests/model/commit_protocol.pml with Spin.

    Three messages take some minutes and up to 2 GB of memory; with two, some of the steps
    left out cannot be noticed.
    """
    failed = False
    for cases, holds in ((HOLDS, True), (BREAKS, False)):
        for name, defines in cases.items():
            began = time.monotonic()
            verdict = check(defines, messages)
            good = (verdict.broken is None) is holds
            failed |= not good
            said = "holds" if verdict.broken is None else "broken"
            click.echo(
                f"{'ok ' if good else 'BAD'} {name}: {said},"
                f" {verdict.states:,} states, {time.monotonic() - began:.0f} s"
            )
    sys.exit(failed)


main()
