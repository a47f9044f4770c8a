"""What the person at the terminal sees: steps, two bars, commands with their output."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from secor.cli.exit_codes import Exit
from secor.core.errors import SecorError
from tools.demo.backup import secor, surroundings

_SECONDS_BETWEEN_LINES = 2.0


class Screen:
    """Writes for people; without a terminal, lines instead of moving bars."""

    def __init__(self, steps: int) -> None:
        self.console = Console(highlight=False)
        self._steps = steps
        self._step = 0

    def step(self, title: str) -> None:
        """Begin the next step."""
        self._step += 1
        self.console.print(f"\n[bold]{self._step}/{self._steps} {title}[/bold]")

    def say(self, text: str, style: str | None = None) -> None:
        """Write a line."""
        self.console.print(f"    {text}", style=style, markup=False, soft_wrap=True)

    @contextmanager
    def bars(self, total: int) -> Iterator[Bars]:
        """Show how many messages are produced and stored."""
        columns = (
            TextColumn("    {task.description:<9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        # Without a terminal nothing moves, and the lines of ``Bars`` tell instead.
        disable = not self.console.is_terminal
        with Progress(*columns, console=self.console, disable=disable) as progress:
            yield Bars(self, progress, total)

    def command(
        self,
        *arguments: str,
        lines: int | None = None,
        environment: Mapping[str, str] | None = None,
        code: Exit = Exit.OK,
    ) -> None:
        """Run ``secor ARGUMENTS`` as a person would; show its output, or ``lines`` of it.

        Of a longer output the beginning and the last line are shown.

        Raises ``SecorError`` when its exit code is not ``code``.
        """
        shown = shlex.join(["secor", *arguments])
        self.say(f"$ {shown}", style="cyan")
        answer = subprocess.run(
            secor(*arguments),
            capture_output=True,
            text=True,
            check=False,
            env=environment or surroundings(),
        )
        output = answer.stdout.splitlines()
        if lines is not None and len(output) > lines:
            left_out = f"... {len(output) - lines:,} lines more ..."
            output = [*output[: lines - 1], left_out, output[-1]]
        for line in output:
            self.say(line if len(line) <= 160 else line[:157] + "...")
        if answer.returncode != code:
            raise SecorError(f"{shown} ended with code {answer.returncode}:\n{answer.stderr}")


class Bars:
    """The bars of messages produced and stored."""

    def __init__(self, screen: Screen, progress: Progress, total: int) -> None:
        self._screen = screen
        self._progress = progress
        self._produced = progress.add_task("produced", total=total)
        self._stored = progress.add_task("stored", total=total)
        self._told = time.monotonic()

    def show(self, *, produced: int, stored: int) -> None:
        """Move the bars."""
        self._progress.update(self._produced, completed=produced)
        self._progress.update(self._stored, completed=stored)
        if self._progress.disable and time.monotonic() - self._told > _SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            self._screen.say(f"{produced:,} produced, {stored:,} stored")

    def say(self, text: str) -> None:
        """Write a line above the bars."""
        self._screen.say(text, style="yellow")
