"""``secor restore plan|status|verify``: commands that write nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.exit_codes import Exit
from secor.cli.open_archive import human_size, table
from secor.cli.restore_options import as_json, configuration, load_job
from secor.cli.restore_progress import progress_bar
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.restore.preflight import Finding
    from secor.restore.verify import PartitionResult
    from secor.wiring.restore_plan import JobPlan
    from secor.wiring.restore_status import JobStatus


@click.command(epilog="Example: secor restore plan flights.toml")
@configuration
@as_json
def plan(config: Path, as_json: bool) -> int:
    """Show what the job would write, and what stands in its way; write nothing.

    Exit code 5 when the job must not begin.
    """
    from secor.wiring.restore import open_job
    from secor.wiring.restore_plan import nothing_archived
    from secor.wiring.restore_plan import plan as look

    with open_job(load_job(config)) as job:
        planned = look(job)
        version, transactional = job.requests.version, job.transactional
        mapping = job.config.target.mapping
        verdict = _verdict(planned) if planned.topics else nothing_archived(job)
    if as_json:
        click.echo(json.dumps(_as_json(planned, version, transactional=transactional), indent=2))
        return Exit.OK if planned.may_begin else Exit.DIFFERENT
    rows = _plan_rows(planned, mapping)
    shown = table(rows, left=frozenset({0, 1, 4})) if planned.topics else ()
    for line in [*shown, *_made(planned)]:
        click.echo(line)
    for finding in planned.findings:
        click.echo(f"{finding.severity.value}: {finding.topic}: {finding.what}")
    click.echo(verdict)
    return Exit.OK if planned.may_begin else Exit.DIFFERENT


def _plan_rows(planned: JobPlan, mapping: Mapping[int, int]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("source", "offsets", "objects", "size", "target")]
    for topic in planned.topics:
        new = " (new)" if topic.new else ""
        for extent in topic.extents:
            number = extent.source.partition
            place = f"/{mapping.get(number, number)}" if mapping else ""
            rows.append(
                (
                    str(extent.source),
                    str(extent.range),
                    str(extent.objects),
                    human_size(extent.size),
                    topic.target.name + place + new,
                )
            )
    return rows


def _made(planned: JobPlan) -> Iterator[str]:
    for topic in planned.topics:
        if topic.new is not None:
            settings = ", ".join(f"{key}={it}" for key, it in sorted(topic.new.settings.items()))
            partitions = how_many(topic.new.partitions, "partition")
            yield f"{topic.target.name} is made with {partitions}, {settings}"


def _verdict(planned: JobPlan) -> str:
    extents = [extent for topic in planned.topics for extent in topic.extents]
    offsets = sum(extent.range.end - extent.range.start for extent in extents)
    size = human_size(sum(extent.size for extent in extents))
    what = f"{how_many(offsets, 'offset')} of {how_many(len(extents), 'partition')}, {size}"
    return f"{what}: the job " + ("may begin" if planned.may_begin else "cannot begin")


def _as_json(planned: JobPlan, version: int, *, transactional: bool) -> dict[str, object]:
    return {
        "transactions": version if transactional else 0,
        "may_begin": planned.may_begin,
        "findings": [_finding(finding) for finding in planned.plan_findings],
        "topics": [
            {
                "topic": topic.topic,
                "target": topic.target.name,
                "target_partitions": topic.target.partitions,
                "made_with": None
                if topic.new is None
                else {
                    "partitions": topic.new.partitions,
                    "settings": dict(topic.new.settings),
                    "settings_for_later": dict(topic.new.later),
                },
                "partitions": [
                    {
                        "partition": extent.source.partition,
                        "start": extent.range.start,
                        "end": extent.range.end,
                        "objects": extent.objects,
                        "size": extent.size,
                        "holes": [[hole.start, hole.end] for hole in extent.holes],
                    }
                    for extent in topic.extents
                ],
                "findings": [_finding(finding) for finding in topic.plan_findings],
            }
            for topic in planned.topics
        ],
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {
        "severity": finding.severity.value,
        "about": finding.topic,
        "what": finding.what,
    }


@click.command(epilog="Example: secor restore status flights.toml --json")
@configuration
@as_json
def status(config: Path, as_json: bool) -> int:
    """Show the job's state and how much of each source partition is left.

    Exit code 0 when everything is written, else 5.  It asks and disturbs no daemon.
    """
    from secor.wiring.restore import open_job
    from secor.wiring.restore_status import status_of

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
            "copies": {str(it): stored.next_offset for it, stored in known.copies.items()},
        }
        click.echo(json.dumps(report, indent=2))
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
    from secor.wiring.restore_verify import offsets_to_compare
    from secor.wiring.restore_verify import verify as compare

    with open_job(load_job(config)) as job, progress_bar("verifying") as show:
        total, done, seen = offsets_to_compare(job), 0, 0

        def advance(offsets: int, messages: int) -> None:
            nonlocal done, seen
            done, seen = done + offsets, seen + messages
            show(done, total, seen)

        results = list(_shown(compare(job, advance), quiet=as_json))
    wrong = [result for result in results if result.difference is not None]
    messages = sum(result.messages for result in results)
    if as_json:
        partitions = [
            {
                "target": str(result.topic_partition),
                "messages": result.messages,
                "repeated": result.repeated,
                "difference": str(result.difference) if result.difference else None,
            }
            for result in results
        ]
        click.echo(json.dumps({"partitions": partitions, "equal": not wrong}, indent=2))
    else:
        click.echo(
            f"{how_many(messages, 'message')} in {how_many(len(results), 'partition')}: "
            + (f"{len(wrong)} partitions differ" if wrong else _all_equal(results))
        )
    return Exit.DIFFERENT if wrong else Exit.OK


def _all_equal(results: Sequence[PartitionResult]) -> str:
    repeated = sum(result.repeated for result in results)
    return f"none is missing, {repeated:,} are there again" if repeated else "all equal"


def _shown(results: Iterator[PartitionResult], *, quiet: bool) -> Iterator[PartitionResult]:
    for result in results:
        if not quiet:
            what = str(result.difference or f"{result.topic_partition}: equal")
            again = f", {result.repeated:,} of them again" if result.repeated else ""
            click.echo(f"{what} ({how_many(result.messages, 'message')}{again})")
        yield result
