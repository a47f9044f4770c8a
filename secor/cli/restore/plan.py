"""``secor restore plan``: what a job would write, and what prevents it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.exit_codes import Exit
from secor.cli.open_archive import human_size, table
from secor.cli.restore.options import as_json, configuration, load_job
from secor.cli.topic_type import print_json
from secor.core.model import OffsetRange
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.config.restore import RestoreConfig
    from secor.jobs.restore.plan import JobPlan
    from secor.restore.model import SourceExtent
    from secor.restore.preflight import JobFinding
    from secor.restore.selection import Ranges


@dataclass(frozen=True, slots=True)
class Selected:
    """A job's selection of what is archived; with ``at_most``, rows decide about the rest."""

    ranges: Ranges
    at_most: bool

    @classmethod
    def of(cls, config: RestoreConfig) -> Selected:
        """Return what the file of a job selects."""
        from secor.wiring.restore_sources import ranges_of

        source = config.source
        return cls(ranges_of(source), bool(source.since or source.until or source.filter))

    def of_extent(self, extent: SourceExtent) -> list[OffsetRange]:
        """Return the selected ranges of a source partition."""
        from secor.restore.selection import selected_offsets

        return selected_offsets(extent, self.ranges)

    def offsets(self, extent: SourceExtent) -> int:
        """Return how many offsets are selected."""
        return _offsets(self.of_extent(extent))

    def text(self, extent: SourceExtent) -> str:
        """Return the selected ranges for people."""
        selected = self.of_extent(extent)
        if selected == [extent.range]:
            return str(extent.range)
        return f"{', '.join(map(str, selected)) or 'none'} of {extent.range}"

    def size(self, extent: SourceExtent) -> int:
        """Return about how many archived bytes are selected."""
        whole = extent.range.end - extent.range.start
        return extent.size * _offsets(self.of_extent(extent)) // whole if whole else 0


def _offsets(ranges: list[OffsetRange]) -> int:
    return sum(span.end - span.start for span in ranges)


@click.command(epilog="Example: secor restore plan flights.toml")
@configuration
@as_json
def plan(config: Path, as_json: bool) -> int:
    """Show what the job would write, and what prevents it; write nothing.

    Exit code 5 when the job must not begin.
    """
    from secor.jobs.restore.plan import nothing_archived
    from secor.jobs.restore.plan import plan as look
    from secor.wiring.restore import open_job

    with open_job(load_job(config)) as job:
        planned = look(job)
        version, transactional = job.requests.version, job.transactional
        mapping, selected = job.config.target.mapping, Selected.of(job.config)
        verdict = verdict_of(planned, selected) if planned.topics else nothing_archived(job)
    if as_json:
        report = _as_json(planned, version, selected, transactional=transactional)
        print_json(report)
        return Exit.OK if planned.may_begin else Exit.DIFFERENT
    rows = _plan_rows(planned, mapping, selected)
    shown = table(rows, left=frozenset({0, 1, 4})) if planned.topics else ()
    for line in [*shown, *_made(planned)]:
        click.echo(line)
    for finding in planned.findings:
        click.echo(f"{finding.severity.value}: {finding.topic}: {finding.what}")
    click.echo(verdict)
    return Exit.OK if planned.may_begin else Exit.DIFFERENT


def _plan_rows(
    planned: JobPlan, mapping: Mapping[int, int], selected: Selected
) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("source", "offsets", "objects", "size", "target")]
    for topic in planned.topics:
        new = " (new)" if topic.new else ""
        for extent in topic.extents:
            number = extent.source.partition
            place = f"/{mapping.get(number, number)}" if mapping else ""
            rows.append(
                (
                    str(extent.source),
                    selected.text(extent),
                    str(extent.objects),
                    human_size(extent.size),
                    topic.target.name + place + new,
                )
            )
    return rows


def _made(planned: JobPlan) -> Iterator[str]:
    for topic in planned.topics:
        if topic.new is not None:
            settings = ", ".join(
                f"{key}={value}" for key, value in sorted(topic.new.settings.items())
            )
            partitions = how_many(topic.new.partitions, "partition")
            yield f"{topic.target.name} is made with {partitions}, {settings}"


def verdict_of(planned: JobPlan, selected: Selected) -> str:
    """Return how much a job writes at most, and whether it may begin."""
    extents = [extent for topic in planned.topics for extent in topic.extents]
    offsets = sum(_offsets(selected.of_extent(extent)) for extent in extents)
    size = human_size(sum(selected.size(extent) for extent in extents))
    what = f"{how_many(offsets, 'offset')} of {how_many(len(extents), 'partition')}, {size}"
    most = "at most " if selected.at_most else ""
    return f"{most}{what}: the job " + ("may begin" if planned.may_begin else "cannot begin")


def _as_json(
    planned: JobPlan, version: int, selected: Selected, *, transactional: bool
) -> dict[str, object]:
    return {
        "transactions": version if transactional else 0,
        "may_begin": planned.may_begin,
        "at_most": selected.at_most,
        "findings": [finding_of(finding) for finding in planned.plan_findings],
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
                        "selected": [
                            [offset_range.start, offset_range.end]
                            for offset_range in selected.of_extent(extent)
                        ],
                        "objects": extent.objects,
                        "size": extent.size,
                        "holes": [[hole.start, hole.end] for hole in extent.holes],
                    }
                    for extent in topic.extents
                ],
                "findings": [finding_of(finding) for finding in topic.plan_findings],
            }
            for topic in planned.topics
        ],
    }


def finding_of(finding: JobFinding) -> dict[str, str]:
    """Return a finding for JSON."""
    return {
        "severity": finding.severity.value,
        "about": finding.topic,
        "what": finding.what,
    }
