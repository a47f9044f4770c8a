"""``secor restore status|verify``: commands that write nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.exit_codes import Exit
from secor.cli.open_archive import table
from secor.cli.restore.options import as_json, configuration, load_job, progress_bar
from secor.cli.topic_type import print_json
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.jobs.restore.status import JobStatus
    from secor.verify.restore import PartitionResult
    from secor.wiring.restore import Job


@click.command(epilog="Example: secor restore status flights.toml --json")
@configuration
@as_json
def status(config: Path, as_json: bool) -> int:
    """Show the job's state and how much of each source partition is left.

    Exit code 0 when everything is written, else 5.  It asks and disturbs no daemon.
    """
    from secor.jobs.restore.status import status_of
    from secor.wiring.restore import open_job

    with open_job(load_job(config)) as job:
        known = status_of(job)
    if as_json:
        report = {
            "job": known.job,
            "state": known.state,
            "exactly_once": known.exactly_once,
            "generation": known.record.generation if known.record else 0,
            "left": known.left,
            "partitions": [
                {
                    "source": row.source,
                    "next_offset": row.next_offset,
                    "end": row.extent.range.end if row.extent else None,
                }
                for row in known.rows
            ],
            "copies": {str(source): stored.next_offset for source, stored in known.copies.items()},
        }
        print_json(report)
    else:
        _show_status(known)
    return Exit.OK if known.complete else Exit.DIFFERENT


def _show_status(status: JobStatus) -> None:
    lines = [("source", "next offset", "archived", "left")]
    for row in status.rows:
        shown = "none" if row.next_offset is None else str(row.next_offset)
        archived = str(row.extent.range) if row.extent else "vanished"
        lines.append((row.source, shown, archived, f"{row.left:,}" if row.extent else "unknown"))
    for line in table(lines, left=frozenset({0, 2})):
        click.echo(line)
    behind = f", {how_many(status.left, 'offset')} left" if status.left else ""
    click.echo(f"{status.job}: {status.state}{behind}")
    if status.vanished:
        gone = how_many(status.vanished, "source partition")
        click.echo(f"the archive has no object of {gone} any more: bring the missing objects back")
    if status.exactly_once == "disabled":
        click.echo('writing.exactly_once = "disabled": messages may be there twice')
    if status.copies:
        click.echo(
            "the job's offsets topic has none, but"
            f" {how_many(len(status.copies), 'copy', 'copies')} of them are known: see secor"
            " restore offsets recover"
        )


@click.command(epilog="Example: secor restore verify flights.toml")
@configuration
@as_json
def verify(config: Path, as_json: bool) -> int:
    """Compare the target with the archive: every message, every field, once.

    It reads all of both.  Exit code 5 when anything is missing, twice, different or extra.  With
    writing.exactly_once = "disabled", duplicates are only counted.
    """
    from secor.wiring.restore import open_job

    with open_job(load_job(config)) as job:
        results = results_of(job, quiet=as_json)
    wrong = [result for result in results if result.difference is not None]
    messages = sum(result.messages for result in results)
    if as_json:
        partitions = [
            {
                "target": str(result.topic_partition),
                "messages": result.messages,
                "repeated": result.repeated,
                "withheld": result.withheld,
                "difference": str(result.difference) if result.difference else None,
            }
            for result in results
        ]
        equal = bool(results) and not wrong
        print_json({"partitions": partitions, "equal": equal})
    else:
        click.echo(
            f"{how_many(messages, 'message')} in {how_many(len(results), 'partition')}: "
            + (
                how_many(len(wrong), "partition differs", "partitions differ")
                if wrong
                else all_equal(results)
            )
            + _withheld(results)
        )
    # Without a partition nothing was compared, and nothing is proven.
    return Exit.DIFFERENT if wrong or not results else Exit.OK


def results_of(job: Job, *, quiet: bool) -> list[PartitionResult]:
    """Compare all partitions, each shown as it is compared unless ``quiet``."""
    from secor.jobs.restore.verify import offsets_to_compare
    from secor.jobs.restore.verify import verify as compare

    with progress_bar("verifying") as show:
        total, done, seen = offsets_to_compare(job), 0, 0

        def advance(offsets: int, messages: int) -> None:
            nonlocal done, seen
            done, seen = done + offsets, seen + messages
            show(done, total, seen)

        return list(_shown(compare(job, advance), quiet=quiet))


def all_equal(results: Sequence[PartitionResult]) -> str:
    """Return what to say where no partition differs."""
    if not results:
        return "nothing was compared: the job writes to no partition"
    if not any(result.messages for result in results):
        return "nothing was compared: archive and target are empty"
    repeated = sum(result.repeated for result in results)
    return f"none is missing, {repeated:,} are there again" if repeated else "all equal"


def _withheld(results: Sequence[PartitionResult]) -> str:
    offsets = sum(result.withheld for result in results)
    if not offsets:
        return ""
    waiting = how_many(offsets, "offset of the target waits", "offsets of the target wait")
    return f"; {waiting} behind an open transaction, and are not compared"


def _shown(results: Iterator[PartitionResult], *, quiet: bool) -> Iterator[PartitionResult]:
    for result in results:
        if not quiet:
            what = str(result.difference or f"{result.topic_partition}: equal")
            again = f", {result.repeated:,} of them again" if result.repeated else ""
            click.echo(f"{what} ({how_many(result.messages, 'message')}{again})")
        yield result
