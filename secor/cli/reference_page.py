"""``docs/cli.md``, from the commands themselves: ``python -m secor.cli.reference_page FILE``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from secor.cli.exit_codes import Exit
from secor.cli.main import cli

HEAD = """\
# Commands

`scripts/format` writes this page from the commands; `secor COMMAND --help` shows the same.

"""

EXITS = {
    Exit.OK: "done",
    Exit.ERROR: "unexpected error",
    Exit.CONFIGURATION: "wrong command line or configuration",
    Exit.DENIED: "access denied, or the bucket is missing",
    Exit.UNAVAILABLE: "a server is unavailable",
    Exit.DIFFERENT: (
        "differences found, a partition is stopped, the group is running where it must not, or "
        "something is left to do"
    ),
    Exit.INTERRUPTED: "interrupted",
    Exit.PIPE_CLOSED: "the reader of the output has closed it",
}


def markdown() -> str:
    """Return the whole page."""
    context = click.Context(cli, info_name="secor")
    parts = [HEAD, "| exit code | meaning |\n|---|---|\n"]
    parts += [f"| {code.value} | {meaning} |\n" for code, meaning in EXITS.items()]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts += _command(command, click.Context(command, info_name=name, parent=context), 2)
    return "".join(parts)


def _command(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n{'#' * depth} {context.command_path}\n"
    yield f"\n    {context.command_path} {usage}\n"
    for paragraph in _paragraphs(command.help):
        yield f"\n{paragraph}\n"
    options = [option for option in command.params if isinstance(option, click.Option)]
    if options:
        yield "\n| option | meaning |\n|---|---|\n"
        for option in options:
            yield _option(option, context)
    if command.epilog is not None:
        for example in _examples(command.epilog):
            yield f"\n{example}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, click.Context(below, info_name=name, parent=context), 3)


def _paragraphs(text: str | None) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", cleandoc(text or "")):
        # Click's marker for "do not wrap this paragraph".
        if paragraph.startswith("\b"):
            yield "\n".join(f"    {line}" for line in paragraph.splitlines()[1:])
        else:
            yield _plain(" ".join(paragraph.split()))


def _option(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    names, meaning = record if record is not None else (option.opts[0], "")
    shown = names.replace("|", r"\|")
    return f"| `{shown}` | {_plain(' '.join(meaning.split()))} |\n"


def _examples(epilog: str) -> Iterator[str]:
    for line in cleandoc(epilog).removeprefix("\b\n").splitlines():
        word, _, example = line.partition(": ")
        yield f"{word}: `{example}`" if word == "Example" else _plain(line)


def _plain(text: str) -> str:
    """Keep words from being read as markup."""
    return re.sub(r"([\\|*<\[\]])", r"\\\1", text)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown())
