"""Errors of the Iceberg library and its clients, translated into this program's errors."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus

import pyarrow as pa
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

_LIBRARY = tuple(
    kind
    for kind in vars(exceptions).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
)
"""All classes of its own; those that are not named above or below are wrong input."""

_FAILURES = (
    LookupError,
    AttributeError,
    AssertionError,
    RuntimeError,
    EOFError,
    SystemError,
    pa.lib.ArrowException,
)
"""How the library fails on metadata and manifests that somebody else has damaged, or written with
what it does not know.  None of them may end a process: they are one table's.
"""

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
    *_FAILURES,
)
"""``ArithmeticError`` and ``struct.error``: numbers too large for the type of their column."""

_SERVER_ERRORS = (exceptions.RESTError, exceptions.DynamoDbError, OSError)
"""Servers that answer with an error of their own, or not at all."""

_WRONG_OF_CLIENTS = (("sqlalchemy.exc", "ArgumentError"),)
"""Errors of a URI or a driver: another try does not help."""

_CLIENTS = (
    ("sqlalchemy.exc", "SQLAlchemyError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("thrift.Thrift", "TException"),
    ("google.auth.exceptions", "GoogleAuthError"),
)
"""Base classes of the errors of catalog clients; only imported modules can raise them."""

_LASTING = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.GONE,
        HTTPStatus.LENGTH_REQUIRED,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.REQUEST_URI_TOO_LONG,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    }
)
"""Answers of a REST catalog that change nothing and that no waiting helps."""

_LASTING_CODES = frozenset({"InvalidInputException", "ResourceNumberLimitExceededException"})
"""The same of AWS Glue: an entry that it does not take, and too many versions of a table."""

_DENIED_FILE = re.compile(
    r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID"
    r"|SIGNATURE_DOES_NOT_MATCH|UNKNOWN \(HTTP status 40[13]\)) during "
)
"""pyarrow has no error class for a denial, and its texts contain names of objects."""

_NO_BUCKET = re.compile(r"AWS Error NO_SUCH_BUCKET during ")

_DENIED_BY_SQLITE = ("SQLITE_AUTH", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_READONLY")
"""How the names of SQLite's codes begin."""

_DENIED_BY_POSTGRESQL = frozenset({"25006", "28000", "28P01", "42501"})
"""Codes: read only, not let in, wrong password, no right."""

_NOT_LET_IN = re.compile(
    r'failed: FATAL:  (password authentication failed for user|role "[^"]*" does not exist'
    r"|permission denied for database|no pg_hba.conf entry for)"
)
"""PostgreSQL's client has no codes for a connection that was refused."""

_NO_DATABASE = re.compile(r'failed: FATAL:  database "[^"]*" does not exist')


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
    known = (*outcomes, *_REFUSED, *_MISSING, *_DENIED, *_WRONG, *_SERVER_ERRORS, *_clients())
    return (*known, *_LIBRARY)


def _clients() -> tuple[type[Exception], ...]:
    return _imported(_CLIENTS)


def _wrong() -> tuple[type[Exception], ...]:
    return (*_WRONG, *_imported(_WRONG_OF_CLIENTS))


def _imported(names: Sequence[tuple[str, str]]) -> tuple[type[Exception], ...]:
    return tuple(
        # Nothing is imported for this: what was never imported cannot have raised.
        getattr(sys.modules[module], name)
        for module, name in names
        if module in sys.modules
    )


def failure(error: Exception, action: str, *, writes: bool) -> SecorError:
    """Return the program's error for one of the library's."""
    text = f"{action}: {_text(error)}"
    # First: some classes below are its bases, and would call an unknown outcome a known one.
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
    if _NO_DATABASE.search(str(getattr(error, "orig", ""))):
        return AccessDenied(f"{text}; make the database, or correct uri")
    if isinstance(error, OSError) and _NO_BUCKET.search(str(error)):
        return AccessDenied(f"{text}; make the bucket, or correct warehouse and location")
    if _lasts(error):
        return ConfigurationError(text)
    if isinstance(error, (*_SERVER_ERRORS, *_clients())) and not isinstance(error, _wrong()):
        return OutcomeUnknown(text) if writes else Unavailable(text)
    return ConfigurationError(text)


def _status(error: Exception) -> int | None:
    """Return the status that a REST server answered, where the library has no error for it."""
    answer = getattr(error.__cause__, "response", None)
    return getattr(answer, "status_code", None)


def _lasts(error: Exception) -> bool:
    """Return whether a server said that the request is wrong."""
    if _status(error) in _LASTING:
        return True
    answer = getattr(error, "response", None)
    code = answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None
    return code in _LASTING_CODES


def _denied(error: Exception) -> bool:
    """Recognise a denial by error class or code: hosts and tables may have any name."""
    if isinstance(error, PermissionError):
        return True
    answer = getattr(error, "response", None)
    if isinstance(answer, dict):  # botocore's
        return is_denial(answer)
    if isinstance(error, OSError):
        return _DENIED_FILE.search(str(error)) is not None
    return _denied_by_database(getattr(error, "orig", None))


def _denied_by_database(error: object) -> bool:
    """Recognise a denial in what SQLAlchemy's errors have from a database's own client."""
    if getattr(error, "sqlite_errorname", "").startswith(_DENIED_BY_SQLITE):
        return True
    code = getattr(error, "pgcode", None) or getattr(error, "sqlstate", None)
    return code in _DENIED_BY_POSTGRESQL or _NOT_LET_IN.search(str(error)) is not None


def _text(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    if isinstance(error, _FAILURES) and not isinstance(error, ValueError | NotImplementedError):
        return f"{type(error).__name__}: {''.join(lines[:1])}"  # alone it says little, such as 5
    return lines[0] if lines else type(error).__name__
