"""The command ``secor``: finds its subcommands, and turns errors into one line and a code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from secor import __version__
from secor.cli.exit_codes import Exit, exit_of
from secor.core.errors import SecorError
from secor.service.imports import import_structlog, start_no_blas_threads
from secor.service.journal import is_journal
from secor.service.malloc import collect_nothing, collect_seldom

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run", "Store the topics of a configuration until stopped."),
    "config": ("config.commands", "Check, show, write or import a configuration."),
    "schema": ("parsing.schema", "Show the fields of a topic, or write a schema file."),
    "doctor": ("doctor.command", "Check servers, rights, disk and limits before you start."),
    "progress": ("progress", "Show how far behind the group is."),
    "ls": ("archive.ls", "List stored objects and the offsets in them."),
    "cat": ("archive.cat", "Print stored messages."),
    "verify": ("verify.command", "Prove that every message is stored once."),
    "evidence": ("archive.evidence", "Check evidence of a verification, without Kafka."),
    "parser": ("parsing.parser", "Show where messages would go, and with which columns."),
    "quarantine": (
        "archive.quarantine",
        "Show messages that could not be parsed; parse them again.",
    ),
    "finalize": ("archive.finalize", "Mark complete hours and days."),
    "backfill": ("backfill.commands", "Parse the backup again and replace wrong objects."),
    "archive": ("archive.commands", "Join small objects; let the oldest go."),
    "restore": ("restore.commands", "Write the archive back into Kafka, exactly once."),
    "recover": ("recover.commands", "Bring a lost cluster back: topics, groups, ACLs, quotas."),
    "drill": ("recover.drill", "Prove that a lost cluster would come back, and how fast."),
    "tables": ("tables.commands", "Show a group's tables, commit to them, settle stopped ones."),
    "offsets": ("offsets.commands", "Show or move committed offsets."),
    "sandbox": ("sandbox", "Start Kafka, ZooKeeper and an S3 server on this machine."),
    "version": ("version", "Print the versions of Secor and its libraries."),
    "completion": ("completion", "Print a completion script for a shell."),
}
"""Where each command is, and its line in the list: a command is imported when it is called."""


STARTING_LONG = frozenset({"run"})
"""Commands that import much more; they set the garbage collector themselves afterwards."""


class _ReaderGone(Exception):
    """Standard output was closed: for a ``BrokenPipeError`` the library would exit with 1."""


class LazyGroup(click.Group):
    """Commands by name, each in the module that ``COMMANDS`` names, as its ``command``."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the arguments; ``--help`` prints here."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except BrokenPipeError as error:
            raise _ReaderGone from error

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGone from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are meant to be read."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None for a name we do not have."""
        if cmd_name not in COMMANDS:
            return None
        start_no_blas_threads()
        import_structlog()
        module, _ = COMMANDS[cmd_name]
        command = import_module(f"secor.cli.{module}").command
        assert isinstance(command, click.Command)
        if cmd_name not in STARTING_LONG:
            collect_seldom()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; of an unknown one, name the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 1)
            if near and args[0] not in COMMANDS:
                message = f"{error.message} Did you mean {near[0]!r}?"
                raise click.UsageError(message, ctx) from error
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing any."""
        items = [
            CompletionItem(name, help=line)
            for name, (_, line) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample: secor sandbox up\nExample: secor run /etc/secor/backup.toml",
)
@click.version_option(__version__, prog_name="secor")
def cli() -> None:
    """Store Kafka topics in object storage, exactly once.

    Exit codes: 0 done, 1 unexpected error, 2 wrong command line or configuration, 3 access
    denied, 4 a server is unavailable, 5 differences found, a partition is stopped, the group is
    running where it must not, or something is left to do.
    """


_NOT_WRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a write to standard output fails with when it goes to a full disk."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    collect_nothing()
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code.

    A ``SecorError`` becomes one message on standard error; other errors are defects and
    keep their traceback.
    """
    try:
        code = _run(arguments)
        sys.stdout.flush()  # here, and not when the interpreter ends: a failure has its message
    except (BrokenPipeError, _ReaderGone):
        # The reader went away (``| head``).
        _discard_output()
        return Exit.PIPE_CLOSED
    except OSError as error:
        if error.errno not in _NOT_WRITTEN or error.filename is not None:
            raise
        _discard_output()
        click.echo(f"secor: cannot write the output: {error.strerror}", err=True)
        return Exit.ERROR
    return code


def _discard_output() -> None:
    """Let what is still buffered go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str] | None) -> int:
    try:
        result = cli.main(args=arguments, prog_name="secor", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _interrupted()
    except Exception as error:
        if _jvm_interrupted():
            return _interrupted()
        if isinstance(error, click.ClickException):
            error.show()
            return error.exit_code
        if isinstance(error, SecorError):
            click.echo(_error_text(error), err=True)
            return exit_of(error)
        raise
    return result if isinstance(result, int) else Exit.OK


def _jvm_interrupted() -> bool:
    """Return whether Ctrl-C has ended Spark's JVM: all that follows is a consequence."""
    jvm = sys.modules.get("secor.spark.jvm")  # most commands have none
    return jvm is not None and jvm.interrupted()


def _interrupted() -> int:
    click.echo("interrupted", err=True)
    if _jvm_interrupted():
        sys.modules["secor.spark.jvm"].end()
    return Exit.INTERRUPTED


def _error_text(error: SecorError) -> str:
    lines = f"secor: {error}".splitlines()
    # The journal reads the level of a line from its beginning: sd-daemon(3).
    level = "<3>" if is_journal(sys.stderr, os.environ) else ""
    return "\n".join(level + line for line in lines)
