"""``secor completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_SECOR_COMPLETE"
"""What click looks for in the environment of the program ``secor``."""


@click.command(
    epilog="\b\nExample: secor completion bash > ~/.local/share/bash-completion/completions/secor"
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and files in SHELL.

    bash: write it to ~/.local/share/bash-completion/completions/secor, or add
    eval "$(secor completion bash)" to ~/.bashrc.  zsh: write it to a file _secor in a directory
    of fpath.  fish: write it to ~/.config/fish/completions/secor.fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "secor", VARIABLE).source())
