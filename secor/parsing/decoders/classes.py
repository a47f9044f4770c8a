"""Classes that users name by their import path, and what can go wrong with them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from operator import attrgetter
from typing import Any

from secor.errors import ConfigurationError

UNUSABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    SystemExit,
    TypeError,
    ValueError,
)
"""What importing a module and making an object raise where these are at fault."""


def imported(what: str, place: str) -> Any:
    """Return ``Class`` of ``package.module:Class``; ConfigurationError names ``what``.

    A class within another is ``package.module:Outer.Inner``.
    """
    module, _, name = place.partition(":")
    hint = (
        "write module:Class, of a module that can be imported with all that it needs: installed, "
        "or in a directory of PYTHONPATH"
    )
    with usable(f"{what} class {place!r}", hint):
        return attrgetter(name)(importlib.import_module(module))


@contextmanager
def usable(what: str, hint: str = "") -> Iterator[None]:
    """Take what users' code raises for a fault of the configuration, which names ``what``.

    ``hint`` is what to do where something was not found.
    """
    try:
        with quiet():
            yield
    except UNUSABLE as error:
        not_found = isinstance(error, AttributeError | ImportError | ValueError)
        advice = f"; {hint}" if hint and not_found else ""
        raise ConfigurationError(f"{what}: {type(error).__name__}: {error}{advice}") from error


def quiet() -> redirect_stdout[Any]:
    """Let what users' code prints go to standard error: the other is the commands' own."""
    return redirect_stdout(sys.stderr)
