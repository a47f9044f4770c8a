"""What a catalog's clients raise: denied or gone for now; never told by a name or a port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests
import sqlalchemy
from botocore.exceptions import ClientError
from sqlalchemy.exc import OperationalError

from secor.adapters.iceberg.failures import translated
from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    OutcomeUnknown,
    SecorError,
    Unavailable,
)

ARROW = "When listing objects under key 'k/' in bucket 'b': AWS Error"
"""How pyarrow's errors begin (seen with 26.0, against a server that answers 403)."""


def raised(error: Exception, *, writes: bool = False) -> SecorError:
    with pytest.raises(SecorError) as failure, translated("table db.t", writes=writes):
        raise error
    return failure.value


def answer(code: str, status: int) -> ClientError:
    said: Any = {
        "Error": {"Code": code, "Message": "m"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(said, "GetTable")


@pytest.mark.parametrize(
    "error",
    [
        requests.ReadTimeout("HTTPConnectionPool(host='127.0.0.1', port=40305): Read timed out."),
        requests.ConnectionError("/v1/namespaces/AccessDenied/tables/ExpiredToken: refused"),
        OSError("When reading information for key 'AccessDenied/403' in bucket 'b': AWS Error"
                " SLOW_DOWN during HeadObject operation: No response body."),
        answer("ThrottlingException", 400),
        answer("InternalServiceException", 500),
    ],
    ids=["port", "name", "key", "throttled", "server"],
)  # fmt: skip
def test_a_failure_that_passes_is_no_denial_whatever_names_are_in_it(error: Exception) -> None:
    assert type(raised(error)) is Unavailable
    assert type(raised(error, writes=True)) is OutcomeUnknown, "a commit may have been made"


@pytest.mark.parametrize(
    "error",
    [
        PermissionError("cannot read b/k: Forbidden"),
        answer("AccessDeniedException", 400),
        answer("ExpiredTokenException", 400),
        answer("UnrecognizedClientException", 400),
        answer("AccessDenied", 403),
        answer("SignatureDoesNotMatch", 403),
        answer("403", 403),
        OSError(f"{ARROW} ACCESS_DENIED during ListObjectsV2 operation: m"),
        OSError(f"{ARROW} INVALID_ACCESS_KEY_ID during ListObjectsV2 operation: m"),
        OSError(f"{ARROW} SIGNATURE_DOES_NOT_MATCH during ListObjectsV2 operation: m"),
        OSError(f"{ARROW} UNKNOWN (HTTP status 403) during ListObjectsV2 operation: m"),
    ],
    ids=lambda error: str(error)[-60:],
)
def test_a_denial_says_who_must_be_let_in(error: Exception) -> None:
    denied = raised(error)
    assert type(denied) is AccessDenied
    assert str(denied).startswith("table db.t: ")
    assert str(denied).endswith("let this user use the catalog and its storage")


@pytest.mark.parametrize("operation", ["PutObject", "CreateMultipartUpload"])
def test_a_bucket_that_does_not_exist_is_to_be_made(operation: str) -> None:
    denied = raised(OSError(f"{ARROW} NO_SUCH_BUCKET during {operation} operation: m"), writes=True)
    assert type(denied) is AccessDenied
    assert str(denied).endswith("make the bucket, or correct warehouse and location")


def of_database(text: str, **codes: str) -> OperationalError:
    """What SQLAlchemy raises for an error of a database's own client."""

    error = Exception(text)
    error.__dict__.update(codes)
    return OperationalError("SELECT 1", {}, error)


SERVER = 'connection to server at "db", port 5432 failed: '
"""How psycopg2's errors begin (seen with PostgreSQL 15)."""


@pytest.mark.parametrize(
    "error",
    [
        of_database("permission denied for table iceberg_tables", pgcode="42501"),
        of_database("cannot execute UPDATE in a read-only transaction", sqlstate="25006"),
        of_database(f'{SERVER}FATAL:  password authentication failed for user "secor"'),
        of_database(f'{SERVER}FATAL:  role "secor" does not exist'),
    ],
    ids=str,
)
def test_a_denial_of_a_database_is_one(error: OperationalError) -> None:
    assert type(raised(error, writes=True)) is AccessDenied


@pytest.mark.parametrize(
    "error",
    [
        of_database(f"{SERVER}Connection refused"),
        of_database(f"{SERVER}FATAL:  the database system is starting up"),
        of_database("server closed the connection unexpectedly", pgcode="57P01"),
        of_database("database is locked", sqlite_errorname="SQLITE_BUSY"),
    ],
    ids=str,
)
def test_a_database_that_is_away_is_none(error: OperationalError) -> None:
    assert type(raised(error)) is Unavailable


def test_a_database_that_may_only_be_read_denies(tmp_path: Path) -> None:
    uri = f"sqlite:///file:{tmp_path}/c.db?mode={{}}&uri=true"
    with sqlalchemy.create_engine(uri.format("rwc")).begin() as connection:
        connection.execute(sqlalchemy.text("create table t (a int)"))
    with (
        pytest.raises(AccessDenied, match="readonly database"),
        translated("catalog"),
        sqlalchemy.create_engine(uri.format("ro")).begin() as connection,
    ):
        connection.execute(sqlalchemy.text("update t set a = 1 where false"))
    missing = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/missing/c.db")
    with pytest.raises(AccessDenied, match="unable to open"), translated("catalog"):
        missing.connect()


def test_a_database_that_does_not_exist_is_to_be_made() -> None:
    denied = raised(of_database(f'{SERVER}FATAL:  database "lake" does not exist'))
    assert type(denied) is AccessDenied
    assert str(denied).endswith("make the database, or correct uri")


@pytest.mark.parametrize("uri", ["postgresql+psycopg9://host/db", "nonsense"])
def test_a_driver_that_does_not_exist_is_not_waited_for(uri: str) -> None:
    with pytest.raises(ConfigurationError), translated("catalog"):
        sqlalchemy.create_engine(uri)
