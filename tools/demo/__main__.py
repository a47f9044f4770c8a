"""``python -m tools.demo``, which ``scripts/demo`` calls."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from secor.cli.exit_codes import Exit, exit_of
from secor.core.errors import SecorError
from tools.demo.story import Demonstration


@click.command()
@click.option(
    "--directory",
    "-d",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".cache/demo"),
    show_default=True,
    help="Folder of the servers' data, the configuration and the log; made anew.",
)
@click.option("--down", is_flag=True, help="Stop the servers at the end, for scripts.")
def demo(directory: Path, down: bool) -> None:
    """Store real flights, kill the process on the way, and prove that nothing is lost."""
    try:
        Demonstration(directory).run(down=down)
    except SecorError as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(exit_of(error))
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


if __name__ == "__main__":
    demo()
