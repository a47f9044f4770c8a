"""``secor recover``: a lost cluster comes back from its archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.exit_codes import Exit
from secor.cli.recover_options import (
    described_state,
    ids_lines,
    kept_text,
    load_recovery,
    moment,
    state_lines,
    verdict,
)
from secor.cli.recover_plan import plan
from secor.cli.recover_verify import verify
from secor.cli.restore import telemetry_of, write_messages
from secor.cli.restore_options import as_json, configuration
from secor.core.text import how_many
from secor.service.imports import keep_pandas_out

if TYPE_CHECKING:
    from secor.restore.recovery import KindState


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
    needed = [it for it in states if not (hold and it.kind == "settings")]
    done = all(it.is_complete for it in needed)
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
    done = all(it.is_complete for it in states)
    if as_json:
        report = {"kinds": [described_state(it) for it in states], "complete": done}
        click.echo(json.dumps(report, indent=2))
    else:
        click.echo(text)
        for state in states:
            _show(state)
        click.echo(verdict(states, config))
    return Exit.OK if done else Exit.DIFFERENT


for subcommand in (plan, verify):
    command.add_command(subcommand)
