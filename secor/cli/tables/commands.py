"""``secor tables``: what the tables of a group have, and how they get it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click
from click.shell_completion import CompletionItem

COMMANDS: Mapping[str, tuple[str, str]] = {
    "ls": ("show", "List tables, their last commits and what waits."),
    "show": ("show", "Show which offsets a table has."),
    "explain": ("explain", "Show where columns come from, and what was refused."),
    "status": ("show", "Show what is staged, behind and stopped."),
    "run": ("run", "Coordinate the commits until stopped."),
    "commit": ("run", "Commit now what is staged."),
    "accept": ("settle", "Go on with a table that was stopped."),
    "replay": ("settle", "Commit again what a rollback has removed."),
    "set-aside": ("settle", "Put the messages of a refused file into quarantine."),
    "maintain": ("maintain", "Compact tables and expire snapshots, by Spark."),
    "erase": ("erase", "Delete rows by the values of a column, by Spark."),
    "repair": ("repair", "Record anew what tables say of their files."),
    "expire": ("expire", "Delete what no commit will ever take."),
}
"""Where each command is, and its line in the list; imported when it is called."""


class _Tables(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are meant to be read."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None for a name we do not have."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"secor.cli.tables.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing any."""
        return [
            CompletionItem(name, help=line)
            for name, (_, line) in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=_Tables, epilog="Example: secor tables status table.toml")
def command() -> None:
    """Show the tables of a group, commit to them, and settle what stopped one."""
