"""``secor recover verify``: all of a recovered cluster compared with the archive, and evidence."""

from __future__ import annotations

import json
import socket
import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor import __version__
from secor.cli.exit_codes import Exit
from secor.cli.recover.options import (
    described_state,
    ids_lines,
    kept_text,
    load_recovery,
    moment,
    state_lines,
    verdict,
)
from secor.cli.restore.look import all_equal, results_of
from secor.cli.restore.options import as_json, configuration
from secor.cli.verify.evidence import signing_key, store_address, write_signed
from secor.core.text import how_many, iso_time

if TYPE_CHECKING:
    from secor.jobs.recover.recovery import Recovery
    from secor.restore.recovery import KindState
    from secor.verify.restore import PartitionResult

VERSION = 1


@click.command(epilog="Example: secor recover verify lost.toml --evidence recovered.json")
@configuration
@moment
@click.option(
    "--evidence",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what was compared, and the outcome, to this new file in JSON.",
)
@click.option(
    "--sign-with",
    metavar="KEYFILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Sign the file of --evidence: FILE.sig.  An Ed25519 key in PEM format, as 'secor evidence"
    " keygen' makes.",
)
@as_json
def verify(
    config: Path,
    time: str | None,
    cluster: str | None,
    evidence: Path | None,
    sign_with: Path | None,
    *,
    as_json: bool,
) -> int:
    """Compare everything with the archive: messages one by one, groups, ACLs, quotas, settings.

    It reads all of archive and target.  Exit code 5 when anything is missing or different; settings
    that a run with --hold has left for later are named, and are no difference.
    """
    from secor.jobs.recover.recovery import open_recovery

    key = signing_key(evidence, sign_with)
    settings = load_recovery(config, time)
    with open_recovery(settings, cluster) as recovery:
        text = kept_text(recovery.kept, settings.source.until)
        if not as_json:
            click.echo(text)
        results = results_of(recovery.job, quiet=as_json)
        states = list(recovery.states())
        report, ids = _report(recovery, results, states), recovery.job.schema_ids
    if evidence is not None:
        write_signed(evidence, json.dumps(report, indent=2).encode() + b"\n", key)
        signed = "signed" if key is not None else "not signed"
        click.echo(f"evidence in {evidence}, {signed}", err=as_json)
    exit_code = Exit.OK if report["equal"] else Exit.DIFFERENT
    if as_json:
        click.echo(json.dumps({name: report[name] for name in ("messages", "kinds", "equal")}))
        return exit_code
    wrong = [result for result in results if result.difference is not None]
    compared = how_many(sum(result.messages for result in results), "message")
    differ = how_many(len(wrong), "partition differs", "partitions differ")
    click.echo(f"{compared} compared: {differ if wrong else all_equal(results)}")
    for line in ids_lines(ids):
        click.echo(line)
    for state in states:
        for line in state_lines(state):
            click.echo(line)
    settings_left = any(state.left for state in states if state.kind == "settings")
    equal = bool(results) and not wrong
    shown = verdict(_needed(states), config, hold=settings_left)
    click.echo(shown if equal else "the messages differ: see above")
    return exit_code


def _needed(states: Sequence[KindState]) -> list[KindState]:
    """Return all but the settings that are held back: verifying comes before these."""
    return [state for state in states if state.kind != "settings"]


def _report(
    recovery: Recovery, results: Sequence[PartitionResult], states: Sequence[KindState]
) -> dict[str, object]:
    """Return the evidence: what was compared with what, and what came of it."""
    config = recovery.config
    wrong = [str(result.difference) for result in results if result.difference is not None]
    complete = all(state.is_complete for state in _needed(states))
    until, ids = config.source.until, recovery.job.schema_ids
    return {
        "version": VERSION,
        "kind": "recovery",
        "made": iso_time(clock.time()),
        "host": socket.getfqdn(),
        "secor": __version__,
        "job": recovery.job.name,
        "job_spec": recovery.job.spec.hash,
        "archive": {**store_address(config.store), "prefix": config.source.prefix},
        "lost_cluster": recovery.kept.cluster,
        "target_cluster": recovery.job.log.cluster_id(),
        "until": None if until is None else until.isoformat(),
        "kept_at": {kind: recovery.kept.looked_at(kind) for kind in ("groups", "acls", "quotas")},
        "messages": {
            "compared": sum(result.messages for result in results),
            "partitions": len(results),
            "differences": wrong,
            "by_partition": [
                {
                    "target": str(result.topic_partition),
                    "messages": result.messages,
                    "equal": result.difference is None,
                }
                for result in results
            ],
        },
        "schema_ids": None
        if ids is None
        else {"changed_in_messages": ids.mapped, "not_kept": ids.unknown},
        "kinds": [described_state(state) for state in states],
        "equal": bool(results) and not wrong and complete,
    }
