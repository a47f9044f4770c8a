"""Options and texts that the commands of ``secor recover`` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secor.cli.restore.options import load_job
from secor.cli.topic_type import milliseconds
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.config.restore import RestoreConfig
    from secor.jobs.recover.kept import KeptCluster
    from secor.restore.recovery import KindState
    from secor.restore.schema_ids import SchemaIds


def moment(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the state and the cluster."""
    at = click.option(
        "--at",
        "time",
        metavar="TIME",
        help="Messages with timestamps before this time (ISO 8601 with a zone), and groups, ACLs"
        " and quotas as they were then.  Default: everything, as it was last.",
    )
    cluster = click.option(
        "--cluster",
        metavar="ID",
        help="The lost cluster.  Default: the newest in the archive that is not the target.",
    )
    return at(cluster(command))


def load_recovery(path: Path, time: str | None) -> RestoreConfig:
    """Read a job's file, with the time of the recovery.  Raises ``ConfigurationError``."""
    from secor.jobs.recover.recovery import as_of

    return as_of(load_job(path), None if time is None else milliseconds(time) / 1000)


def kept_text(kept: KeptCluster, until: datetime | None) -> str:
    """Return lines about which cluster, which messages and which state of it are meant."""
    lines = []
    if kept.cluster is None:
        lines.append("the archive has kept nothing of a cluster but messages and topics")
    else:
        looked = ", ".join(
            f"{kind} of {kept.looked_at(kind)}"
            for kind in ("groups", "acls", "quotas")
            if kept.looked_at(kind)
        )
        lines.append(f"cluster {kept.cluster}: {looked or 'nothing kept at that time'}")
    if until is not None:
        lines.append(
            f"messages with timestamps before {until.isoformat()}; offsets, ACLs and quotas as the"
            " backup saw them last before then; topics with their newest settings"
        )
    lines += [
        f"also kept: cluster {name}, until {newest}; --cluster {name} chooses it"
        for name, newest in kept.others.items()
    ]
    return "\n".join(lines)


def state_lines(state: KindState) -> Iterator[str]:
    """Give lines about one kind: how much is there, what is to do, what else is to be known."""
    if state.is_kept:
        left = f", {state.left:,} left" if state.left else ""
        yield f"{state.kind}: {state.done:,} of {state.total:,}{left}"
    for obstacle in state.obstacles:
        yield f"refused: {state.kind}: {obstacle}"
    for note in state.notes:
        yield f"{state.kind}: {note}"


def ids_lines(ids: SchemaIds | None) -> Iterator[str]:
    """Give lines about the ids of schemas that were changed in messages, and those that were not.

    An id that was never kept may mean another schema in the new registry.
    """
    if ids is None:
        return
    yield f"schemas: {how_many(ids.mapped, 'id')} changed in messages"
    for part, count in ids.unknown.items():
        yield f"schemas: {how_many(count, 'id')} in {part} stay, for their schemas were not kept"


def described_state(state: KindState) -> dict[str, object]:
    """Return a state for JSON."""
    return {
        "kind": state.kind,
        "kept": state.is_kept,
        "total": state.total,
        "done": state.done,
        "complete": state.is_complete,
        "obstacles": list(state.obstacles),
        "notes": list(state.notes),
    }


def verdict(states: Sequence[KindState], path: Path, *, hold: bool = False) -> str:
    """Return the last line: whether all is back, and what is next."""
    missing = [state for state in states if not state.is_complete]
    if missing:
        refused = sum(len(state.obstacles) for state in missing)
        kinds = ", ".join(state.kind for state in missing)
        acts = f"{how_many(refused, 'line')} above to act on, then " if refused else ""
        return f"not complete ({kinds}): {acts}secor recover run {path}"
    if hold:
        return (
            "all is back but the settings that delete messages: secor recover verify"
            f" {path}, then secor recover run {path}"
        )
    return "complete: all is back that the archive has"
