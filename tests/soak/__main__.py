"""``python -m tests.soak``: real daemons, killed and stalled at random, then verified."""

from __future__ import annotations

import logging
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from secor.core.errors import SecorError
from secor.sandbox.state import S3_SERVERS
from tests.soak.recover import soak_recover
from tests.soak.restore import soak_restore
from tests.soak.run import soak
from tests.soak.story import Story
from tests.soak.summary import lines, plot, save

_FAILED = 5
_ROOT = Path(__file__).parents[2]


@click.command(epilog="Example: scripts/soak --minutes 10 --ledger kafka --plot soak.png")
@click.option("--minutes", type=float, default=3.0, show_default=True, help="Time of trouble.")
@click.option(
    "--group",
    type=click.Choice(["backup", "partition", "table", "restore", "recover"]),
    default="backup",
)
@click.option("--ledger", type=click.Choice(["zookeeper", "kafka"]), default="zookeeper")
@click.option(
    "--store", type=click.Choice(S3_SERVERS), default="s3proxy", help="versitygw is built with Go."
)
@click.option("--control", type=click.Choice(["kafka", "none"]), default="kafka", help="Tables.")
@click.option(
    "--coordinator", type=click.Choice(["daemon", "alone"]), default="daemon", help="Tables."
)
@click.option(
    "--changes/--no-changes",
    default=True,
    help="Tables: also those whose rows are changed by Spark, which take a core of their own.",
)
@click.option(
    "--look-up",
    type=click.IntRange(1),
    metavar="N",
    help="Tables: so many values of each are looked up by DuckDB and by Spark; as verify does.",
)
@click.option("--daemons", type=click.IntRange(1), default=2, show_default=True)
@click.option(
    "--upgrade-from",
    metavar="REVISION",
    help="Begin with daemons of an older commit; in the middle, replace them one by one.",
)
@click.option("--seed", type=int, help="The same choices as in an earlier run.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Draw what happened.")
@click.option("--keep", is_flag=True, help="Keep logs, also when all is well.")
def main(
    minutes: float,
    group: str,
    ledger: str,
    store: str,
    control: str,
    coordinator: str,
    changes: bool,
    look_up: int | None,
    daemons: int,
    upgrade_from: str | None,
    seed: int | None,
    picture: Path | None,
    keep: bool,
) -> None:
    """Write to topics, give servers and daemons no peace, then compare every offset.

    Of a restore, the daemons that write an archive back have no peace; then every message is
    compared, by verify and by a client that is not ours.  Of a recovery, the broker is killed and
    wiped under producers and consumers, and comes back; every group has to go on exactly.
    Exit code 0 when nothing is lost, twice or changed; else 5, and the logs are kept.
    """
    if upgrade_from is not None and group in ("restore", "recover"):
        raise click.UsageError("--upgrade-from is for groups that store")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_FAILED))  # and clean up
    logging.disable()  # what clients say of connections that were cut is no news
    sys.unraisablehook = lambda _: None  # nor is what producers say that were left behind
    seed = random.randrange(1 << 32) if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="secor-soak-"))
    story = Story()
    story.say(
        f"{minutes:g} minutes, {group} group, {daemons} daemons, ledger in {ledger}, {store},"
        f" --seed {seed}, in {folder}"
    )
    try:
        if group in ("restore", "recover"):
            run = soak_restore if group == "restore" else soak_recover
            figures = run(folder, story, minutes=minutes, store=store, daemons=daemons, seed=seed)
        else:
            figures = soak(
                folder,
                story,
                minutes=minutes,
                group=group,
                ledger=ledger,
                store=store,
                daemons=daemons,
                seed=seed,
                control=control,
                coordinator=coordinator,
                changes=changes,
                look_up=look_up,
                older=_checkout(upgrade_from, folder) if upgrade_from else None,
            )
    except SecorError as error:
        click.echo(f"the servers: {error}", err=True)
        sys.exit(_FAILED)
    save(figures, folder / "held.json")
    for line in lines(figures):
        click.echo(line)
    if picture is not None:
        plot(figures, picture)
        click.echo(f"drawn in {picture}")
    if not story.violations and not keep:
        shutil.rmtree(folder)
    else:
        click.echo(f"logs of daemons and servers are in {folder}")
    for violation in story.violations:
        click.echo(f"VIOLATION: {violation}")
    click.echo("FAILED" if story.violations else "nothing lost, nothing twice, nothing changed")
    sys.exit(_FAILED if story.violations else 0)


def _checkout(revision: str, folder: Path) -> Path:
    """Write the package ``secor`` as it was at a revision of this repository; return where."""
    older = folder / "older"
    older.mkdir()
    archive = ["git", "-C", str(_ROOT), "archive", revision, "secor"]
    package = subprocess.run(archive, capture_output=True, check=False)
    if package.returncode:
        raise click.UsageError(f"--upgrade-from {revision}: {package.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(older)], input=package.stdout, check=True)
    return older


if __name__ == "__main__":
    main()
