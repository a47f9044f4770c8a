"""``secor doctor``: what would stand in the way of the service, before it does."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import click

from secor.cli.doctor_checks import (
    Finding,
    disk,
    examine,
    metrics_port,
    open_files,
    versions,
)
from secor.cli.exit_codes import Exit
from secor.cli.server_checks import materials, of_servers
from secor.cli.store_checks import of_store
from secor.cli.table_checks import of_tables
from secor.config.load import load
from secor.config.model import Config


@click.command(epilog="Example: secor doctor /etc/secor/backup.toml")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(config: Path, as_json: bool) -> int:
    """Check everything that CONFIG needs: each line is ok, or says what to do.

    It checks versions, disk, open files, the HTTP port, the parser's files and plug-ins, brokers,
    topics, group, ledger, stopped partitions, clock, and the rights in the store: it puts, gets,
    lists and deletes below PREFIX/_secor-doctor.  For a table group it also checks the rights on
    the control topic and on the group that elects the coordinator, the catalog, its tables, and
    the rights on their data.  Run it as the user of the service, with its environment; it does
    not disturb a running service.  Exit code 5 when something is left to do.
    """
    settings = load(config, os.environ)
    results = []
    for finding in findings(settings, time.time):
        results.append(finding)
        if not as_json:
            click.echo(line(finding))
    for warning in settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    well = all(finding.ok for finding in results)
    if as_json:
        report = {"ok": well, "checks": [asdict(finding) for finding in results]}
        click.echo(json.dumps(report, indent=2))
    return Exit.OK if well else Exit.DIFFERENT


def findings(config: Config, now: Callable[[], float]) -> Iterator[Finding]:
    """Check everything, one after the other; what one fault hides is left out."""
    yield examine("versions", versions)
    yield examine("disk", lambda: disk(config))
    yield examine("open files", lambda: open_files(config))
    if config.group.kind != "backup":
        yield examine("parser", lambda: materials(config))
    yield examine("port", lambda: metrics_port(config))
    yield from of_servers(config)
    yield from of_store(config, now)
    if config.group.kind == "table":
        yield from of_tables(config)


def line(finding: Finding) -> str:
    """Return a finding as people read it."""
    return f"{'ok' if finding.ok else 'FAULT':<6} {finding.check:<11} {finding.text}"
