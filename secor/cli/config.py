"""``secor config``: check and show a configuration, or make one of Java Secor's."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.examples import example, init, write
from secor.cli.exit_codes import Exit
from secor.cli.restore_options import load_job
from secor.config.load import is_restore, load
from secor.config.model import Config
from secor.config.show import Setting, settings, topic_settings
from secor.core.errors import ConfigurationError

if TYPE_CHECKING:
    from secor.config.translation.draft import Draft


@click.group(epilog="Example: secor config check backup.toml")
def command() -> None:
    """Check, show or write a configuration, translate another program's, or print examples.

    Environment variables SECOR_… override the file.
    """


@command.command(epilog="Example: secor config check /etc/secor/backup.toml")
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--without-files",
    is_flag=True,
    help="Skip the files and classes that CONFIG names: the service is on another machine.",
)
@click.option(
    "--online",
    is_flag=True,
    help="Then also check the servers, as 'secor doctor' does, with its exit codes.",
)
def check(config: Path, without_files: bool, online: bool) -> int:
    """Report all faults of CONFIG at once; without --online, ask no server.

    Schema files, descriptor sets, generated classes and plug-ins must be usable on this machine,
    as the service's user finds them (PYTHONPATH, directories of relative paths).

    Exit code 0 when CONFIG is valid (with or without warnings), 2 when it is not.
    """
    from secor.wiring.check_references import require_materials

    if is_restore(config):
        load_job(config)
        if online:
            raise ConfigurationError(
                f"{config}: of a restore, 'secor restore plan' asks the servers"
            )
        click.echo(f"{config}: valid")
        return Exit.OK
    loaded = load(config, os.environ)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    if not without_files:
        try:
            require_materials(loaded)
        except ConfigurationError as error:
            hint = "is the service on another one? --without-files looks at the rest only"
            raise ConfigurationError(f"{config}: {error}\n{hint}") from error
    click.echo(f"{config}: valid")
    return _look_at_servers(loaded) if online else Exit.OK


def _look_at_servers(config: Config) -> int:
    from secor.cli.doctor import findings, line

    well = True
    for finding in findings(config, time.time):
        well = well and finding.ok
        click.echo(line(finding))
    return Exit.OK if well else Exit.DIFFERENT


@command.command(epilog="Example: secor config show backup.toml --topic clicks")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--topic", help="Show the settings of this topic.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: key, value and source.")
def show(config: Path, topic: str | None, as_json: bool) -> None:
    """Print every setting of CONFIG and where it came from; secrets are masked.

    Durations are in seconds, sizes in bytes.
    """
    loaded = load(config, os.environ)
    rows = settings(loaded) if topic is None else topic_settings(loaded, topic)
    if as_json:
        listed = [{"key": row.key, "value": row.value, "source": row.source} for row in rows]
        click.echo(json.dumps(listed, indent=2))
        return
    for line in _table(rows):
        click.echo(line)


@command.command(
    name="import",
    epilog="\b\nExample: secor config import secor.prod.backup.properties -o backup.toml"
    "\nExample: secor config import iceberg-sink.json -o sink.toml",
)
@click.argument("properties", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "-D",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="Overrides the file, as in Java; may be repeated.",
)
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    help="Write to this new file instead of printing; an existing file is not overwritten.",
)
def import_(properties: Path, overrides: tuple[str, ...], output: Path | None) -> int:
    """Translate another program's configuration.

    FILE is Java Secor's properties file; its included files and -D options count, too
    (docs/from-java-secor.md).  Or FILE is the configuration of the Iceberg sink for Kafka Connect,
    as properties or as the JSON of Connect's REST interface (docs/tables.md).

    Standard error says what became of every property, and what is left to do.  Secrets are not
    copied: put them into the environment.

    Exit code 0 when everything has a counterpart or needs none, 5 when something is not
    supported or unknown (the configuration is written nevertheless), 2 when no valid
    configuration can be made.
    """
    from secor.config.translation.report import needs_a_person, report

    text, draft = _converted(properties, dict(map(_override, overrides)))
    write(text, output)
    for line in report(draft):
        click.echo(line, err=True)
    if output is not None:
        click.echo(f"{output}: written; go on with secor config check, secor doctor", err=True)
    return Exit.DIFFERENT if needs_a_person(draft) else Exit.OK


def _converted(path: Path, overrides: Mapping[str, str]) -> tuple[str, Draft]:
    """Translate a file of whichever program it is of."""
    from secor.config.iceberg_sink import connector_file
    from secor.config.iceberg_sink.convert import convert as convert_connector
    from secor.config.java_secor.convert import convert as convert_properties
    from secor.config.translation.properties import read

    if connector_file.is_connector(path):
        return convert_connector(connector_file.read(path, overrides), path.name)
    return convert_properties(read(path, overrides, os.environ), path.name)


command.add_command(example)
command.add_command(init)


def _override(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigurationError(f"-D {text}: write it as -D name=value")
    return name, value


def _table(rows: list[Setting]) -> list[str]:
    pairs = [(f"{row.key} = {row.text()}", row.source) for row in rows]
    width = min(72, max(len(left) for left, _ in pairs))
    return [f"{left:<{width}}  # {source}" for left, source in pairs]
