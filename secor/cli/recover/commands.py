"""``secor recover``: a lost cluster comes back from its archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.exit_codes import Exit
from secor.cli.open_archive import human_size, table
from secor.cli.progress import duration
from secor.cli.recover.options import (
    described_state,
    ids_lines,
    kept_text,
    load_recovery,
    moment,
    state_lines,
    verdict,
)
from secor.cli.recover.verify import verify
from secor.cli.restore.commands import telemetry_of, write_messages
from secor.cli.restore.options import as_json, configuration
from secor.cli.restore.plan import Selected, finding_of, verdict_of
from secor.cli.topic_type import print_json
from secor.core.text import how_many
from secor.service.imports import keep_pandas_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from secor.jobs.restore.estimate import Estimate
    from secor.jobs.restore.plan import JobPlan
    from secor.jobs.restore.planned_topics import PlannedTopic
    from secor.restore.preflight import JobFinding
    from secor.restore.recovery import KindState


@click.command(epilog="Example: secor recover plan lost.toml")
@configuration
@moment
@as_json
def plan(config: Path, time: str | None, cluster: str | None, *, as_json: bool) -> int:
    """Show what would come back, and what prevents it; change nothing.

    Exit code 5 when the recovery must not begin, or a part of it would not be complete.  Of a
    recovery whose messages are all written, it shows what is left.
    """
    from secor.jobs.recover.recovery import open_recovery
    from secor.jobs.restore.estimate import estimated
    from secor.jobs.restore.plan import nothing_archived
    from secor.jobs.restore.plan import plan as look

    settings = load_recovery(config, time)
    with open_recovery(settings, cluster) as recovery:
        planned = look(recovery.job)
        selected = Selected.of(settings)
        states = list(recovery.states()) if planned.topics else []
        # Obstacles of the time before the first message count no more.
        written = bool(states) and all(
            state.is_complete for state in states if state.kind in ("topics", "messages")
        )
        places = recovery.expected_groups()
        text = kept_text(recovery.kept, settings.source.until)
        last, estimate = nothing_archived(recovery.job), None
        if written:
            last = verdict(states, config)
        elif planned.topics:
            last = verdict_of(planned, selected)
            if planned.may_begin:
                estimate = estimated(recovery.job, planned)
                last += f"; {_duration(estimate)}"
    # What is not there yet is no obstacle before the first run.
    hindered = any(state.obstacles or not state.is_kept for state in states)
    clear = (written or planned.may_begin) and not hindered
    findings = [] if written else planned.findings
    if as_json:
        report = {
            "may_begin": planned.may_begin,
            "written": written,
            "topics": [_described(topic, selected) for topic in planned.topics],
            "findings": [finding_of(finding) for finding in findings],
            "offsets_of_groups": dict(places),
            "least_seconds": None if estimate is None else round(estimate.seconds, 1),
            "kinds": [described_state(state) for state in states],
        }
        print_json(report)
        return Exit.OK if clear else Exit.DIFFERENT
    for line in _lines(text, planned, findings, selected, places, states):
        click.echo(line)
    click.echo(last)
    return Exit.OK if clear else Exit.DIFFERENT


def _duration(estimate: Estimate) -> str:
    why = (
        "by the limits of the file"
        if estimate.limited
        else f"as fast as {human_size(estimate.sampled)} of it were read and encoded here just now"
    )
    time = duration(max(1.0, estimate.seconds))
    return f"one process takes at least {time}, {why}; a slow target takes longer"


def _lines(
    text: str,
    planned: JobPlan,
    findings: Sequence[JobFinding],
    selected: Selected,
    places: Mapping[str, int],
    states: list[KindState],
) -> Iterator[str]:
    yield text
    rows: list[tuple[str, ...]] = [
        ("topic", "target", "partitions", "offsets", "size", "made with", "set at the end")
    ]
    rows += [_row(topic, selected) for topic in planned.topics]
    yield from table(rows, left=frozenset({0, 1, 5, 6}))
    for finding in findings:
        yield f"{finding.severity.value}: {finding.topic}: {finding.what}"
    for state in states:
        if state.kind not in ("topics", "messages"):
            yield from state_lines(state)
        if state.kind == "groups" and places:
            offsets = ", ".join(f"{count:,} {place}" for place, count in places.items())
            yield f"groups: offsets as far as the archive knows: {offsets}"


def _row(topic: PlannedTopic, selected: Selected) -> tuple[str, ...]:
    new = topic.new
    return (
        topic.topic,
        topic.target.name,
        f"{new.partitions if new else topic.target.partitions:,}",
        f"{sum(map(selected.offsets, topic.extents)):,}",
        human_size(sum(map(selected.size, topic.extents))),
        _settings(new.settings) if new else "(is there)",
        _settings(new.later) if new else "",
    )


def _settings(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))


def _described(topic: PlannedTopic, selected: Selected) -> dict[str, object]:
    new = topic.new
    return {
        "topic": topic.topic,
        "target": topic.target.name,
        "partitions": new.partitions if new else topic.target.partitions,
        "offsets": sum(map(selected.offsets, topic.extents)),
        "size": sum(map(selected.size, topic.extents)),
        "made_with": None if new is None else dict(new.settings),
        "set_at_the_end": None if new is None else dict(new.later),
    }


@click.group(epilog="Example: secor recover plan lost.toml && secor recover run lost.toml")
def command() -> None:
    """Bring a lost cluster back: schemas, topics, messages, groups, ACLs, quotas, settings.

    JOB.toml is the job of a restore (secor restore) that names the archive and the new cluster;
    without source.topics it is about all topics.  docs/recovery.md goes through it.
    """
    keep_pandas_out()


@command.command(epilog="Example: secor recover run lost.toml")
@configuration
@moment
@click.option(
    "--hold",
    is_flag=True,
    help="Leave the settings that delete messages (retention, compaction) for a later run, so that"
    " 'secor recover verify' can compare everything before.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Also set offsets of groups that are before the restored ones, and quotas that differ.",
)
def run(config: Path, time: str | None, cluster: str | None, *, hold: bool, force: bool) -> int:
    """Bring everything back, in order; run it again after any interruption.

    Schemas first; then topics and messages, by as many processes as you like; then groups, ACLs,
    quotas, and last the settings that would have deleted messages.  Exit code 0 when all is
    back, 5 when something is left: each line says what to do.
    """
    from secor.jobs.recover.recovery import open_recovery

    settings = load_recovery(config, time)
    with (
        telemetry_of(settings, config, "secor.recover") as telemetry,
        open_recovery(settings, cluster) as recovery,
    ):
        click.echo(kept_text(recovery.kept, settings.source.until))
        schemas = recovery.register_schemas()
        states = [] if schemas is None else [schemas]
        for state in states:
            _show(state)
            if not state.is_complete:
                # Messages have the ids of schemas: they must mean the same ones.
                click.echo(verdict([state], config))
                return Exit.DIFFERENT
        recovery = recovery.with_schema_ids()
        if not recovery.is_written():
            ended = write_messages(recovery.job, telemetry)
            for assigned_source in ended.failed:
                click.echo(f"{assigned_source.source}: {assigned_source.error}", err=True)
        messages = recovery.messages()
        click.echo(f"{how_many(telemetry.messages, 'message')} written by this process")
        for line in ids_lines(recovery.job.schema_ids):
            click.echo(line)
        if not messages.is_complete:
            _show(messages)
            click.echo(verdict([messages], config))
            return Exit.DIFFERENT
        for state in recovery.bring_back(force=force, hold=hold):
            states.append(state)
            _show(state)
    needed = [state for state in states if not (hold and state.kind == "settings")]
    done = all(state.is_complete for state in needed)
    click.echo(verdict(needed, config, hold=hold))
    return Exit.OK if done else Exit.DIFFERENT


def _show(state: KindState) -> None:
    for line in state_lines(state):
        click.echo(line)


@command.command(epilog="Example: secor recover status lost.toml --json")
@configuration
@moment
@as_json
def status(config: Path, time: str | None, cluster: str | None, *, as_json: bool) -> int:
    """Show how much of each kind is back, and what prevents the rest; change nothing.

    A group that has consumed more since is back.  Exit code 0 when all is back, else 5.
    """
    from secor.jobs.recover.recovery import open_recovery

    settings = load_recovery(config, time)
    with open_recovery(settings, cluster) as recovery:
        states = list(recovery.states())
        text = kept_text(recovery.kept, settings.source.until)
    done = all(state.is_complete for state in states)
    if as_json:
        report = {"kinds": [described_state(state) for state in states], "complete": done}
        print_json(report)
    else:
        click.echo(text)
        for state in states:
            _show(state)
        click.echo(verdict(states, config))
    return Exit.OK if done else Exit.DIFFERENT


for subcommand in (plan, verify):
    command.add_command(subcommand)
