"""What a catalog's clients raise: denied or gone for now; never told by a name or a port."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from botocore.exceptions import ClientError

from secor.adapters.iceberg.failures import translated
from secor.core.errors import AccessDenied, OutcomeUnknown, SecorError, Unavailable

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
