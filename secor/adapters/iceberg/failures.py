"""Errors of the Iceberg library and its clients, translated into this program's errors."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from pyiceberg import exceptions

from secor.adapters.aws_denials import is_denial
from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    ConfigurationError,
    NotFound,
    OutcomeUnknown,
    Refused,
    SecorError,
    Unavailable,
)

_REFUSED = (exceptions.CommitFailedException, exceptions.WaitingForLockException)

_MISSING = (
    exceptions.NoSuchTableError,
    exceptions.NoSuchNamespaceError,
    exceptions.NoSuchIdentifierError,
)

_DENIED = (
    exceptions.UnauthorizedError,
    exceptions.ForbiddenError,
    exceptions.AuthorizationExpiredError,
    exceptions.OAuthError,
    exceptions.SignError,
)

_WRONG = (
    exceptions.NotInstalledError,
    exceptions.ValidationError,
    exceptions.BadRequestError,
    exceptions.NoSuchPropertyException,
    ValueError,
    TypeError,
    NotImplementedError,
    ArithmeticError,
    struct.error,
)
"""The last two are for numbers that are too large for the type of their column."""

_SERVER_ERRORS = (exceptions.RESTError, exceptions.DynamoDbError, OSError)
"""Servers that answer with an error of their own, or not at all."""

_CLIENTS = (
    ("sqlalchemy.exc", "SQLAlchemyError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("thrift.Thrift", "TException"),
)
"""Base classes of the errors of catalog clients; only imported modules can raise them."""

_DENIED_FILE = re.compile(
    r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID"
    r"|SIGNATURE_DOES_NOT_MATCH|UNKNOWN \(HTTP status 40[13]\)) during "
)
"""pyarrow has no error class for a denial, and its texts contain names of objects."""


@contextmanager
def translated(action: str, *, writes: bool = False) -> Iterator[None]:
    """Translate the library's errors into the program's; ``action`` begins each message.

    With ``writes``, a missing answer may hide a change that was made:
    ``OutcomeUnknown``, else ``Unavailable``.
    """
    try:
        yield
    except _raised() as error:
        raise failure(error, action, writes=writes) from error


def _raised() -> tuple[type[Exception], ...]:
    outcomes = (exceptions.CommitStateUnknownException, exceptions.TableAlreadyExistsError)
    return (*outcomes, *_REFUSED, *_MISSING, *_DENIED, *_WRONG, *_SERVER_ERRORS, *_clients())


def _clients() -> tuple[type[Exception], ...]:
    return tuple(
        getattr(sys.modules[module], name) for module, name in _CLIENTS if module in sys.modules
    )


def failure(error: Exception, action: str, *, writes: bool) -> SecorError:
    """Return the program's error for one of the library's."""
    text = f"{action}: {_text(error)}"
    if isinstance(error, exceptions.CommitStateUnknownException):
        return OutcomeUnknown(text)
    if isinstance(error, _REFUSED):
        return Refused(text)
    if isinstance(error, exceptions.TableAlreadyExistsError):
        return AlreadyExists(text)
    if isinstance(error, _MISSING) or _status(error) == HTTPStatus.NOT_FOUND:
        return NotFound(text)
    if isinstance(error, _DENIED) or _denied(error):
        return AccessDenied(f"{text}; let this user use the catalog and its storage")
    if isinstance(error, (*_SERVER_ERRORS, *_clients())) and not isinstance(error, _WRONG):
        return OutcomeUnknown(text) if writes else Unavailable(text)
    return ConfigurationError(text)


def _status(error: Exception) -> int | None:
    """Return the status that a REST server answered, where the library has no error for it."""
    answer = getattr(error.__cause__, "response", None)
    return getattr(answer, "status_code", None)


def _denied(error: Exception) -> bool:
    """Recognise a denial by error class or code: hosts and tables may have any name."""
    if isinstance(error, PermissionError):
        return True
    answer = getattr(error, "response", None)
    if isinstance(answer, dict):  # botocore's
        return is_denial(answer)
    return isinstance(error, OSError) and _DENIED_FILE.search(str(error)) is not None


def _text(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
