"""The command line's shell: commands, errors, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from secor import __version__
from secor.cli import main
from secor.cli.exit_codes import Exit, exit_of
from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    CorruptFile,
    LedgerLost,
    OutcomeUnknown,
    Refused,
    SecorError,
    Unavailable,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), 2),
        (AccessDenied("x"), 3),
        (Unavailable("x"), 4),
        (OutcomeUnknown("x"), 4),
        (LedgerLost("x"), 5),
        (CorruptFile("x"), 5),
        (Refused("x"), 5),
        (SecorError("x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: SecorError, code: int) -> None:
    assert exit_of(error) == code


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in main.COMMANDS)


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_every_command_loads_and_explains_itself_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"secor {name}" in shown.partition("Example: ")[2]


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["fly"]) == Exit.CONFIGURATION
    assert "No such command 'fly'.\n" in capsys.readouterr().err
    assert main.run(["rnu"]) == Exit.CONFIGURATION
    assert "No such command 'rnu'. Did you mean 'run'?" in capsys.readouterr().err


def replace_command(monkeypatch: pytest.MonkeyPatch, error: BaseException | None) -> None:
    @click.command()
    def command() -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(main.LazyGroup, "get_command", lambda self, ctx, name: command)


def test_an_error_of_ours_is_one_message_and_its_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_command(monkeypatch, Unavailable("no broker at 127.0.0.1:1: is it up?"))
    assert main.run(["run"]) == Exit.UNAVAILABLE
    assert capsys.readouterr().err == "secor: no broker at 127.0.0.1:1: is it up?\n"


def test_in_the_journal_every_line_of_an_error_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_command(monkeypatch, Unavailable("two faults\n  one\n  two"))
    monkeypatch.setattr(main, "is_journal", lambda stream, environment: True)
    assert main.run(["run"]) == Exit.UNAVAILABLE
    assert capsys.readouterr().err == "<3>secor: two faults\n<3>  one\n<3>  two\n"


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_command(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main.run(["run"])


def test_ctrl_c_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_command(monkeypatch, KeyboardInterrupt())
    assert main.run(["run"]) == Exit.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_a_command_without_complaint_ends_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_command(monkeypatch, None)
    assert main.run(["run"]) == Exit.OK


def test_the_process_ends_with_the_code() -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["fly"])
    assert ended.value.code == 2


SECOR = (sys.executable, "-m", "secor")
SHOW = (*SECOR, "config", "show", str(Path(__file__).parents[3] / "config" / "backup.toml"))


@pytest.mark.parametrize("command", [SHOW, (*SECOR, "--help")], ids=["show", "help"])
def test_a_reader_that_goes_away_is_no_defect(command: tuple[str, ...]) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == Exit.PIPE_CLOSED


def test_a_full_disk_behind_the_output_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(SHOW, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == Exit.ERROR
    assert done.stderr == "secor: cannot write the output: No space left on device\n"


def test_ctrl_c_while_the_program_is_loaded_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run(
        [*SECOR, "version"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3]}"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (Exit.INTERRUPTED, b"")


def test_the_versions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["version"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"secor {__version__}"
    assert any(line.startswith("kafka-python ") for line in shown)
    assert any(line.startswith("decoder ") for line in shown)
    assert main.run(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["secor"] == __version__
