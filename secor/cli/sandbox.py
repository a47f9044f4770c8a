"""``secor sandbox``: real servers to try things on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secor.cli.exit_codes import Exit
from secor.cli.topic_type import print_json
from secor.core.errors import ConfigurationError
from secor.core.installing import how_to_install
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.sandbox import Sandbox


def default_directory() -> Path:
    """Return the folder of the sandbox that no ``--directory`` names."""
    from secor.java.cache import cache_folder

    return cache_folder() / "sandbox"


_folder = click.option(
    "--directory",
    "-d",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of ports, data and logs; several sandboxes may run side by side, "
    "one in each folder.  Default: ~/.cache/secor/sandbox."
    "  XDG_CACHE_HOME names another folder than ~/.cache.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of up, status and down."""
    return _json(_folder(function))


@click.group(epilog="Example: secor sandbox up -d try && secor sandbox down -d try")
def command() -> None:
    """Start, show and stop a Kafka broker, ZooKeeper and an S3 server on this machine.

    They are real servers on their own ports of the loopback address, ready in seconds.  The first
    start fetches them, which takes some minutes.
    """


@command.command(epilog="Example: secor sandbox up --json")
@_options
@click.option(
    "--s3",
    "s3_server",
    type=click.Choice(["s3proxy", "versitygw"]),
    default="s3proxy",
    show_default=True,
    help="The S3 server of a new sandbox; versitygw needs Go.",
)
@click.option(
    "--catalog",
    type=click.Choice(["sqlite", "rest", "postgresql"]),
    help="Where 'sandbox config --kind table' keeps tables from now on: a file (the default of a"
    " new sandbox), Iceberg's REST server, PostgreSQL.",
)
def up(directory: Path | None, as_json: bool, s3_server: str, catalog: str | None) -> None:
    """Start the servers of the sandbox that do not run, and wait until they serve."""

    def progress(line: str) -> None:
        click.echo(line, err=True)

    folder = directory or default_directory()
    sandbox = sandbox_class().up(folder, s3_server=s3_server, catalog=catalog, progress=progress)
    _show(sandbox, as_json=as_json)
    if not as_json:
        click.echo(f"Stop it with: {_stop_command(directory)}")


@command.command(epilog="Example: secor sandbox status --json")
@_options
@click.pass_context
def status(context: click.Context, directory: Path | None, as_json: bool) -> None:
    """Show the sandbox's servers; exit code 4 when one of them does not run."""
    sandbox = sandbox_class().of(directory or default_directory())
    _show(sandbox, as_json=as_json)
    if not all(server.running() for server in sandbox.servers.values()):
        context.exit(Exit.UNAVAILABLE)


@command.command(epilog="Example: secor sandbox down --delete")
@_options
@click.option("--delete", is_flag=True, help="Also delete its data, ports and logs.")
def down(directory: Path | None, as_json: bool, delete: bool) -> None:
    """Stop the sandbox; its data and ports stay for the next up."""
    sandbox = sandbox_class().of(directory or default_directory())
    killed = sandbox.down(delete=delete)
    if as_json:
        click.echo(json.dumps({"directory": str(sandbox.directory), "killed": killed}))
        return
    if killed:
        click.echo(f"had to be killed: {', '.join(killed)}", err=True)
    kept = "deleted" if delete else f"its data stays in {sandbox.directory}"
    click.echo(f"The sandbox is down; {kept}.")


@command.command(epilog="Example: secor sandbox config > my.toml && secor run my.toml")
@_folder
@click.option(
    "--kind",
    type=click.Choice(["backup", "partition", "table", "restore"]),
    default="backup",
    show_default=True,
    help="Kind of group: partition writes Parquet by the hour, table fills tables, restore writes"
    " what backup has stored into topics restored-NAME.",
)
def config(directory: Path | None, kind: str) -> None:
    """Print a configuration of a group for all topics of the sandbox."""
    sandbox = sandbox_class().of(directory or default_directory())
    from secor.sandbox.first_steps import try_out

    click.echo(try_out(sandbox, kind), nl=False)


@command.command(epilog="Example: seq 1000 | secor sandbox produce clicks")
@_folder
@click.argument("topic")
def produce(directory: Path | None, topic: str) -> None:
    """Send the lines of standard input as messages to TOPIC; create TOPIC if it is missing."""
    sandbox = sandbox_class().of(directory or default_directory())
    from secor.sandbox.first_steps import produce as send

    lines = (line.rstrip(b"\n") for line in sys.stdin.buffer)
    click.echo(f"{how_many(send(sandbox, topic, lines), 'message')} sent to {topic}")


def sandbox_class() -> type[Sandbox]:
    """Import what starts servers.  Raises ``ConfigurationError`` where a package is missing."""
    try:
        from secor.sandbox import Sandbox
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the sandbox needs the package {error.name}: {how_to_install('sandbox')}"
        ) from error
    return Sandbox


def describe(sandbox: Sandbox) -> dict[str, Any]:
    """Return what a script needs of a sandbox, as JSON has it."""
    servers = {
        name: {
            "address": server.address,
            "running": server.running(),
            "pid": server.pid,
            "log": str(server.log),
        }
        for name, server in sandbox.servers.items()
    }
    access = sandbox.s3
    return {
        "directory": str(sandbox.directory),
        "servers": servers,
        "kafka": sandbox.kafka,
        "zookeeper": sandbox.zookeeper,
        "s3": {
            "endpoint_url": access.endpoint_url,
            "bucket": access.bucket,
            "access_key": access.access_key,
            "secret_key": access.secret_key,
            "region": access.region,
        },
        "catalog": sandbox.catalog,
    }


def _show(sandbox: Sandbox, *, as_json: bool) -> None:
    description = describe(sandbox)
    if as_json:
        print_json(description)
        return
    for name, server in description["servers"].items():
        state = f"process {server['pid']}" if server["running"] else "not running"
        click.echo(f"{name:<10} {server['address']:<16} {state:<16} log {server['log']}")
    access = sandbox.s3
    click.echo(
        f"bucket {access.bucket} at {access.endpoint_url}, access key {access.access_key}, "
        f"secret key {access.secret_key}"
    )
    click.echo(f"catalog of tables {sandbox.catalog['type']} at {sandbox.catalog['uri']}")


def _stop_command(directory: Path | None) -> str:
    return "secor sandbox down" + (f" --directory {directory}" if directory else "")
