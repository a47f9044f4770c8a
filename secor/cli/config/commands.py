"""``secor config``: check and show a configuration, or make one of Java Secor's."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.cli.config.examples import example, init, write
from secor.cli.exit_codes import Exit
from secor.cli.restore.options import load_job
from secor.cli.topic_type import print_json
from secor.config.load import is_restore, load
from secor.config.model import Config
from secor.config.show import Setting, settings, topic_settings
from secor.core.errors import ConfigurationError

if TYPE_CHECKING:
    from secor.config.reference import SettingDescription
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
    from secor.wiring.check_references import require_referenced_files

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
            require_referenced_files(loaded)
        except ConfigurationError as error:
            hint = "is the service on another one? --without-files looks at the rest only"
            raise ConfigurationError(f"{config}: {error}\n{hint}") from error
    click.echo(f"{config}: valid")
    return _look_at_servers(loaded) if online else Exit.OK


def _look_at_servers(config: Config) -> int:
    from secor.cli.doctor.command import findings, line

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
        print_json(listed)
        return
    for line in _table(rows):
        click.echo(line)


def _keys(context: click.Context, argument: click.Parameter, text: str) -> list[str]:
    from secor.config.reference import sections, settings

    keys = [setting.key for setting in settings()]
    return [key for key in dict.fromkeys([*sections(), *keys]) if key.startswith(text)]


@command.command(epilog="Example: secor config explain policy.max_age")
@click.argument("key", shell_complete=_keys)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an array of settings.")
def explain(key: str, as_json: bool) -> None:
    """Explain the setting KEY, or list the settings of a section.

    Prints what KEY does, its type, default and example, which groups have it, and the variable of
    the environment that sets it.  docs/configuration.md has all settings.
    """
    from secor.config.reference import explain as settings_of

    chosen = settings_of(key)
    if as_json:
        print_json([_described(setting) for setting in chosen])
        return
    for line in _explanation(chosen):
        click.echo(line)


def _described(setting: SettingDescription) -> dict[str, object]:
    return {
        "key": setting.key,
        "description": setting.description,
        "type": setting.type.replace("`", ""),
        "unit": setting.unit,
        "required": setting.required,
        "defaults": dict(setting.defaults),
        "examples": list(setting.examples),
        "groups": list(setting.kinds),
        "variable": setting.variable,
    }


_WRITTEN = {
    "bytes": ' (bytes, or text such as "64MiB")',
    "seconds": ' (seconds, or text such as "1h30m")',
    "": "",
}
"""How values of a unit are written."""


def _explanation(chosen: Sequence[SettingDescription]) -> Iterator[str]:
    """Yield everything about one key, or a sentence for each of several."""
    if len({setting.key for setting in chosen}) > 1:
        width = max(len(setting.key) for setting in chosen)
        for setting in chosen:
            yield f"{setting.key:<{width}}  {setting.description.split('. ')[0].rstrip('.')}"
        return
    for setting in chosen:
        name = setting.key.rpartition(".")[2]
        defaults = [f"{kind}: {text}" for kind, text in setting.default.items()]
        default = ", ".join(text.removeprefix(": ") for text in defaults) or "required"
        yield setting.key
        yield from (f"  {line}" for line in textwrap.wrap(setting.description, 88))
        yield f"  type: {setting.type.replace('`', '')}{_WRITTEN[setting.unit]}"
        yield f"  default: {default}"
        yield from (f"  example: {name} = {setting.toml(value)}" for value in setting.examples)
        yield f"  groups: {', '.join(setting.kinds)}"
        if setting.variable is not None:
            yield f"  environment: {setting.variable}"


@command.command(
    name="import",
    epilog="\b\nExample: secor config import secor.prod.backup.properties -o backup.toml"
    "\nExample: secor config import s3-sink.json --worker connect-distributed.properties"
    "\nExample: secor config import http://connect:8083/connectors/s3-sink -o sink.toml",
)
@click.argument("source", metavar="SOURCE")
@click.option(
    "-D",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="Overrides SOURCE, as in Java; may be repeated.",
)
@click.option(
    "--worker",
    type=click.Path(path_type=Path),
    help="The Connect worker's properties file: brokers, converters and access count where the"
    " connector says nothing.",
)
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    help="Write to this new file instead of printing; an existing file is not overwritten.",
)
def import_(
    source: str, overrides: tuple[str, ...], worker: Path | None, output: Path | None
) -> int:
    """Translate another program's configuration.

    SOURCE is Java Secor's properties file; its included files and -D options count, too
    (docs/from-java-secor.md).  Or SOURCE is a sink connector of Kafka Connect: a file with its
    properties or its JSON, or its address at a worker, http://HOST:8083/connectors/NAME.  These
    sinks are known: Confluent's and Aiven's for S3 (docs/from-kafka-connect.md), Iceberg's
    (docs/tables.md) and Hudi's.

    Standard error says what became of every property, and what is left to do.  Secrets are not
    copied: put them into the environment.

    Exit code 0 when everything has a counterpart or needs none, 5 when something is not
    supported or unknown (the configuration is written nevertheless), 2 when no valid
    configuration can be made.
    """
    from secor.config.translation.report import needs_a_person, report

    text, draft = _converted(source, dict(map(_override, overrides)), worker)
    write(text, output)
    for line in report(draft):
        click.echo(line, err=True)
    if output is not None:
        click.echo(f"{output}: written; go on with secor config check, secor doctor", err=True)
    return Exit.DIFFERENT if needs_a_person(draft) else Exit.OK


def _converted(source: str, overrides: Mapping[str, str], worker: Path | None) -> tuple[str, Draft]:
    """Translate settings of whichever program they are of."""
    from secor.config.connect import connector_file
    from secor.config.connect.sinks import convert as convert_connector
    from secor.config.java_secor.convert import convert as convert_properties
    from secor.config.translation.properties import read

    if connector_file.is_connector(source):
        settings = connector_file.read(source, overrides, worker)
        name = source if connector_file.is_address(source) else Path(source).name
        return convert_connector(settings, connector_file.without_password(name))
    if worker is not None:
        raise ConfigurationError("--worker: is for connectors of Kafka Connect")
    return convert_properties(read(Path(source), overrides, os.environ), Path(source).name)


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
