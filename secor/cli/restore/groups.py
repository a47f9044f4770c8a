"""``secor restore groups``: consumer groups go on at the target where they were."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.exit_codes import Exit
from secor.cli.open_archive import table
from secor.cli.restore.options import as_json, configuration, load_job
from secor.cli.topic_type import milliseconds, print_json
from secor.core.errors import ConfigurationError
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.adapters.kafka.group_admin import GroupAdmin
    from secor.jobs.restore.group_offsets import KeptMoment, Origin
    from secor.jobs.restore.groups import GroupPlan
    from secor.restore.groups import Translation
    from secor.wiring.restore import Job


@click.command(epilog="Example: secor restore groups flights.toml --apply")
@configuration
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@click.option(
    "--from",
    "origin",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Where the groups have committed: the configuration of a group (.toml), its [kafka]"
    " section naming the cluster, or a file of saved offsets.  Default: what the backup has kept in"
    " the archive, or, without that, the target itself.",
)
@click.option(
    "--at",
    "time",
    metavar="TIME",
    help="The kept offsets as they were (ISO 8601 with a zone).  Default: the newest.",
)
@click.option(
    "--cluster",
    metavar="ID",
    help="The cluster that they were kept from.  Default: the newest that is not the target.",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what the groups have committed to this new file, and nothing else.",
)
@click.option(
    "--as",
    "name",
    default="{group}",
    show_default=True,
    help='Name of each group at the target, such as "restored-{group}".',
)
@click.option("--apply", is_flag=True, help="Commit the offsets; default: only show them.")
@click.option(
    "--force",
    is_flag=True,
    help="Also for groups that are running, or have committed other offsets at the target.",
)
@as_json
def groups(
    config: Path,
    groups: tuple[str, ...],
    origin: Path | None,
    time: str | None,
    cluster: str | None,
    save: Path | None,
    name: str,
    apply: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Translate the offsets of consumer groups to the restored topics.

    It shows where each GROUP continues (default: all groups); --apply commits that.  A group never
    continues behind a message that it has not consumed.  Exit code 5 when a group is refused or an
    offset cannot be translated.
    """
    from secor.jobs.restore.group_offsets import KeptMoment, save_offsets
    from secor.jobs.restore.groups import plan_groups
    from secor.wiring.restore import open_cluster_groups, open_job

    if origin is not None and (time or cluster):
        raise click.UsageError("--at and --cluster are for what the archive has: leave --from out")
    until = None if time is None else milliseconds(time) / 1000
    with open_job(load_job(config)) as job:
        committed = _committed(job, origin, groups, KeptMoment(until, cluster))
        if save is not None:
            save_offsets(save, committed)
            click.echo(f"{how_many(len(committed.offsets), 'offset')} saved in {save}")
            return Exit.OK
        with open_cluster_groups(job.config.kafka, "the target") as admin:
            plans = plan_groups(job, admin, committed, name, force=force)
            failed = _apply(admin, plans) if apply else []
    if as_json:
        print_json([_as_json(plan) for plan in plans])
    else:
        _show(plans)
    for line in failed:
        click.echo(line, err=True)
    refused = any(plan.obstacles or plan.left_out for plan in plans)
    if not as_json:
        click.echo(_summary(plans, apply=apply, failed=len(failed)))
    return Exit.DIFFERENT if refused or failed else Exit.OK


def _committed(
    job: Job, origin: Path | None, groups: tuple[str, ...], moment: KeptMoment
) -> Origin:
    """Raises ``ConfigurationError`` where no group has committed anything."""
    from secor.jobs.restore.group_offsets import (
        offsets_of_archive,
        offsets_of_cluster,
        offsets_of_file,
    )

    chosen = moment.until is not None or moment.cluster is not None
    kept = None if origin else offsets_of_archive(job, moment, groups, required=chosen)
    if kept is not None:
        committed = kept
        click.echo(f"offsets {kept.kept}", err=True)
    elif origin is None or origin.suffix == ".toml":
        committed = offsets_of_cluster(job, origin, os.environ, groups)
    else:
        committed = offsets_of_file(origin, groups)
    if not committed.offsets:
        where = origin or committed.kept or "the target cluster"
        raise ConfigurationError(
            f"{where}: no group has offsets of the job's topics; give --from: the configuration of"
            " a group of the other cluster, or a file"
        )
    return committed


def _apply(admin: GroupAdmin, plans: list[GroupPlan]) -> list[str]:
    from secor.jobs.restore.groups import apply_group

    return [
        f"{plan.name}: {target}: {error}"
        for plan in plans
        if not plan.obstacles and plan.translations
        for target, error in apply_group(admin, plan).items()
    ]


def _show(plans: list[GroupPlan]) -> None:
    rows = [("group", "source", "committed", "target", "offset", "")]
    rows += [_row(plan.name, translation) for plan in plans for translation in plan.translations]
    for line in table(rows, left=frozenset({0, 1, 3, 5})):
        click.echo(line)
    for plan in plans:
        for missing in plan.left_out:
            place = missing.offset.topic_partition
            click.echo(f"{plan.group}: {place} at {missing.offset.offset}: {missing.why}")
        for obstacle in plan.obstacles:
            click.echo(f"refused: {plan.name} {obstacle}")


def _row(name: str, translation: Translation) -> tuple[str, str, str, str, str, str]:
    sources = [str(group_offset.topic_partition) for group_offset in translation.came_from]
    offsets = [str(group_offset.offset) for group_offset in translation.came_from]
    single = len(sources) == 1
    return (
        name,
        sources[0] if single else f"{len(sources)} partitions",
        offsets[0] if single else "",
        str(translation.target),
        str(translation.position.offset),
        translation.position.precision.value,
    )


def _summary(plans: list[GroupPlan], *, apply: bool, failed: int) -> str:
    ready = [plan for plan in plans if not plan.obstacles and plan.translations]
    offsets = sum(len(plan.translations) for plan in ready) - failed
    what = f"{how_many(offsets, 'offset')} of {how_many(len(ready), 'group')}"
    return f"{what} committed" if apply else f"{what} would be committed by --apply"


def _as_json(plan: GroupPlan) -> dict[str, object]:
    return {
        "group": plan.group,
        "target_group": plan.name,
        "state": plan.state,
        "refused": list(plan.obstacles),
        "offsets": [
            {
                "target": listed.target.topic,
                "partition": listed.target.partition,
                "offset": listed.position.offset,
                "precision": listed.position.precision.value,
                "present": plan.present.get(listed.target),
                "committed": {
                    str(group_offset.topic_partition): group_offset.offset
                    for group_offset in listed.came_from
                },
            }
            for listed in plan.translations
        ],
        "not_translated": [
            {
                "topic": listed.offset.topic_partition.topic,
                "partition": listed.offset.topic_partition.partition,
                "offset": listed.offset.offset,
                "why": listed.why,
            }
            for listed in plan.left_out
        ],
    }
