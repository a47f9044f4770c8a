"""Completion scripts, and the page of all commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from secor.cli import main
from secor.cli.completion import SHELLS, VARIABLE
from secor.cli.exit_codes import Exit
from secor.cli.reference_page import EXITS, markdown

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_that_asks_the_command(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{VARIABLE}={shell}_complete" in script
    assert "secor" in script


def completed(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    completion = BashComplete(main.cli, {}, "secor", VARIABLE)
    found = completion.get_completions(*completion.get_completion_args())
    return [item.value for item in found]


def test_commands_and_options_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(monkeypatch, "secor", "pro") == ["progress"]
    assert completed(monkeypatch, "secor", "progress", "--w") == ["--watch"]
    assert completed(monkeypatch, "secor", "offsets", "s") == ["set", "show"]


def test_completing_a_command_imports_none() -> None:
    code = (
        "import sys, click; from secor.cli.main import cli\n"
        "context = click.Context(cli, info_name='secor')\n"
        "print(len(cli.shell_complete(context, 'veri')), 'secor.cli.verify.command' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1 False\n"


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == markdown(), "run scripts/format, which writes docs/cli.md anew"


def test_the_page_has_every_command_and_every_option() -> None:
    page = markdown()
    context = click.Context(main.cli, info_name="secor")
    for name in main.COMMANDS:
        command = main.cli.get_command(context, name)
        assert command is not None
        assert f"\n## secor {name}\n" in page
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.opts[-1] in page


def test_every_exit_code_is_explained() -> None:
    assert set(EXITS) == set(Exit)
