"""``secor config``: check and show a configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from secor.config.load import load
from secor.config.show import Setting, settings, topic_settings


@click.group()
def command() -> None:
    """Check or show a configuration, with the environment's SECOR_… variables over it."""


@command.command(epilog="Example: secor config check /etc/secor/backup.toml")
@click.argument("config", type=click.Path(path_type=Path))
def check(config: Path) -> None:
    """Say what is wrong with CONFIG, everything at once; nothing is opened or connected.

    Exit code 0 when it is valid (warnings included), 2 when it is not.
    """
    loaded = load(config, os.environ)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{config}: valid")


@command.command(epilog="Example: secor config show backup.toml --topic clicks")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--topic", help="Show only what holds for this topic.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: key, value and source.")
def show(config: Path, topic: str | None, as_json: bool) -> None:
    """Print every setting of CONFIG and where it came from; secrets are masked."""
    loaded = load(config, os.environ)
    rows = settings(loaded) if topic is None else topic_settings(loaded, topic)
    if as_json:
        listed = [{"key": row.key, "value": row.value, "source": row.source} for row in rows]
        click.echo(json.dumps(listed, indent=2))
        return
    for line in _table(rows):
        click.echo(line)


def _table(rows: list[Setting]) -> list[str]:
    pairs = [(f"{row.key} = {row.text()}", row.source) for row in rows]
    width = min(72, max(len(left) for left, _ in pairs))
    return [f"{left:<{width}}  # {source}" for left, source in pairs]
