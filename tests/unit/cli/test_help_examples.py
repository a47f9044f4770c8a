"""The examples of ``--help``: each command has one, on one line, that the command line takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from secor.cli import main


def _below(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _below(child, click.Context(child, info_name=name, parent=context))


ALL = list(_below(main.cli, click.Context(main.cli, info_name="secor")))


def _commands(line: str) -> Iterator[list[str]]:
    """Return the commands of a shell's line that are ours, without redirections."""
    words: list[str] = []
    for word in [*shlex.split(line), ";"]:
        if word in (";", "|", "&&", ">"):
            if words[:1] == ["secor"]:
                yield words[1:]
            words = []
        else:
            words.append(word)


def _take(command: click.Command, name: str, words: list[str], above: click.Context | None) -> None:
    context = command.make_context(name, words, parent=above)
    with context:  # it closes the files that it has opened
        if isinstance(command, click.Group):
            rest = [*context._protected_args, *context.args]
            child_name, child, left = command.resolve_command(context, rest)
            assert child is not None
            _take(child, str(child_name), left, context)


@pytest.mark.parametrize("context", ALL, ids=[context.command_path for context in ALL])
def test_every_command_has_examples_that_can_be_typed(
    context: click.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("messages.json", "groups.csv"):
        Path(name).touch()  # what must exist
    narrow = click.Context(
        context.command, context.parent, context.info_name, terminal_width=80, max_content_width=80
    )
    shown = [line.strip() for line in narrow.get_help().splitlines()]
    examples = [line.removeprefix("Example: ") for line in shown if line.startswith("Example: ")]
    assert examples, "no line begins with 'Example: '"
    assert shown[-1] == f"Example: {examples[-1]}", "the last example is wrapped: begin with \\b"
    for example in examples:
        commands = list(_commands(example))
        assert commands, f"no command of secor: {example}"
        assert "--help" not in example
        for words in commands:
            _take(main.cli, "secor", words, None)


OPTIONS = {
    f"{context.command_path} {option.opts[-1]}": option
    for context in ALL
    for option in context.command.params
    if isinstance(option, click.Option)
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_says_what_it_does_takes_and_whether_it_may_be_repeated(name: str) -> None:
    option = OPTIONS[name]
    assert option.help, "it has a text"
    if option.multiple:
        assert "may be repeated" in option.help
    if isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
        assert option.metavar, "INTEGER RANGE does not say of what"
