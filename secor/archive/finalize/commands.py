"""A user's command for each complete partition."""

from __future__ import annotations

import re
import shlex
import subprocess
from urllib.parse import unquote

from secor.archive.finalize.finalizer import Leaf
from secor.core.errors import ActionFailed, ConfigurationError
from secor.core.text import mask_command

PLACEHOLDERS = ("topic", "path", "url", "partition", "location")

PLACEHOLDER = re.compile(r"\{(\w+)\}")


def split(template: str) -> list[str]:
    """Return the arguments of a template.  Raises ``ConfigurationError``."""
    try:
        # Split before anything is filled in: a value with blanks or quotes stays one argument.
        arguments = shlex.split(template)
    except ValueError as error:
        raise ConfigurationError(f"it is no command: {error}") from error
    unknown = set(PLACEHOLDER.findall(template)) - set(PLACEHOLDERS)
    if unknown or not arguments:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        what = f"{{{min(unknown)}}} is none of {known}" if unknown else "it is empty"
        raise ConfigurationError(what)
    return arguments


LAST = 300
"""Characters of a failed command's output that are reported."""

_ACTED_UPON = re.compile(r"[\x00-\x1f\x7f;$`]")
"""Line ends and semicolons end statements, ``${name}`` is filled in; arguments hold no NUL."""


class PartitionCommandLine:
    """Runs a command without a shell.

    The template is split into arguments first and filled in afterwards, so that no value can
    become another argument.  ``{partition}`` (`dt`='2026-11-21', `hr`='04') and
    ``{location}`` are written as SQL; ``{topic}``, ``{path}`` and ``{url}`` plainly.
    """

    def __init__(self, template: str, *, base: str, timeout: float) -> None:
        """``base`` is the URL of the store, such as ``s3://bucket``; ``timeout`` in seconds.

        Raises ``ConfigurationError`` for an unknown placeholder and unclosed quotes.
        """
        self._arguments = split(template)
        self._base = base
        self._timeout = timeout

    def __call__(self, leaf: Leaf) -> None:
        """Run it.  Raises ``ActionFailed``, ``ConfigurationError`` if the path has no names."""
        arguments = [self._filled(argument, leaf) for argument in self._arguments]
        shown = mask_command(shlex.join(arguments))
        try:
            done = subprocess.run(
                arguments,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._timeout,
                check=False,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise ActionFailed(f"{shown}: cannot be started: {error.strerror}") from error
        except ValueError as error:  # an argument that this system cannot hand over
            raise ActionFailed(f"{shown}: cannot be started: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise ActionFailed(f"{shown}: did not end in {self._timeout:g} s") from error
        if done.returncode:
            output = mask_command((done.stderr or done.stdout).strip()[-LAST:])
            raise ActionFailed(f"{shown}: ended with {done.returncode}: {output}")

    def _filled(self, argument: str, leaf: Leaf) -> str:
        def value(match: re.Match[str]) -> str:
            url = f"{self._base}/{leaf.key}"
            match match[1]:
                case "topic":
                    return leaf.topic
                case "path":
                    return leaf.output_partition
                case "url":
                    return url
                case "location":
                    return literal(url)
                case _:
                    pairs = names_and_values(leaf.output_partition)
                    # Names may be words of SQL, as "from" is.
                    return ", ".join(f"`{name}`={literal(text)}" for name, text in pairs)

        return PLACEHOLDER.sub(value, argument)


def names_and_values(output_partition: str) -> list[tuple[str, str]]:
    """Return ``dt=2026-11-21/hr=04`` as pairs, values as they were before they were escaped."""
    pairs = []
    for piece in output_partition.split("/"):
        name, equals, value = piece.partition("=")
        if not equals or not re.fullmatch(r"\w+", name):
            raise ConfigurationError(
                f"{output_partition}: {piece!r} is not name=value, as tables need it; change"
                " parser.layout, or use {path} and {url} in finalize.command"
            )
        pairs.append((name, unquote(value)))
    return pairs


def literal(text: str) -> str:
    """Return text as a literal of SQL as Hive and Spark read it.

    What their shells, or the system's, act upon within literals, too, is written by its number.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    numbered = _ACTED_UPON.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped)
    return f"'{numbered}'"
