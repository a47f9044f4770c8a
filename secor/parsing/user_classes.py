"""Import of users' classes by path, with errors that say what is wrong with them."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from operator import attrgetter
from typing import Any

from secor.core.errors import ConfigurationError

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


def import_class(what: str, place: str) -> Any:
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


class _Output:
    """Standard output, which all threads share: the first takes it, the last gives it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._taken = ExitStack()

    def take(self) -> None:
        with self._lock:
            if not self._users:
                self._taken.enter_context(redirect_stdout(sys.stderr))
            self._users += 1

    def give_back(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._taken.close()


_OUTPUT = _Output()


@contextmanager
def quiet() -> Iterator[None]:
    """Let what users' code prints go to standard error: the other is the commands' own.

    Within another, and in threads at once: none waits until another's code has ended.
    """
    _OUTPUT.take()
    try:
        yield
    finally:
        _OUTPUT.give_back()
