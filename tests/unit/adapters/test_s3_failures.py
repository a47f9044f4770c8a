from __future__ import annotations

import errno
import itertools
from typing import Any

import pytest
from botocore import exceptions as boto
from botocore.exceptions import ClientError

from secor.adapters.s3.failures import translated
from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    SecorError,
    Unavailable,
)


def answer(code: str, status: int, retries: int = 0) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": "as the server says"},
        "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": retries},
    }
    return ClientError(response, "PutObject")


def translate(error: Exception, *, writes: bool) -> SecorError:
    with pytest.raises(SecorError) as raised, translated("put s3://b/k", writes=writes):
        raise error
    assert raised.value.__cause__ is error
    assert "s3://b/k" in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    ("code", "status", "reading", "writing"),
    [
        ("PreconditionFailed", 412, AlreadyExists, AlreadyExists),
        ("412", 412, AlreadyExists, AlreadyExists),
        ("ConditionalRequestConflict", 409, Unavailable, Unavailable),
        ("OperationAborted", 409, Unavailable, Unavailable),
        ("NoSuchKey", 404, NotFound, NotFound),
        ("404", 404, NotFound, NotFound),
        ("NoSuchBucket", 404, AccessDenied, AccessDenied),
        ("AccessDenied", 403, AccessDenied, AccessDenied),
        ("403", 403, AccessDenied, AccessDenied),
        ("InvalidAccessKeyId", 403, AccessDenied, AccessDenied),
        ("SignatureDoesNotMatch", 403, AccessDenied, AccessDenied),
        ("RequestTimeTooSkewed", 403, AccessDenied, AccessDenied),
        ("ExpiredToken", 400, AccessDenied, AccessDenied),
        ("PermanentRedirect", 301, AccessDenied, AccessDenied),
        ("NotImplemented", 501, AccessDenied, AccessDenied),
        ("SomethingNew", 400, AccessDenied, AccessDenied),
        ("BadDigest", 400, Unavailable, Unavailable),
        ("InvalidPart", 400, Unavailable, Unavailable),
        ("RequestTimeout", 400, Unavailable, Unavailable),
        ("TooManyRequests", 429, Unavailable, Unavailable),
        ("SlowDown", 503, Unavailable, Unavailable),
        ("503", 503, Unavailable, Unavailable),
        ("InternalError", 500, Unavailable, OutcomeUnknown),
        ("502", 502, Unavailable, OutcomeUnknown),
        ("504", 504, Unavailable, OutcomeUnknown),
    ],
)
def test_each_answer_says_what_the_caller_does(
    code: str, status: int, reading: type[SecorError], writing: type[SecorError]
) -> None:
    assert type(translate(answer(code, status), writes=False)) is reading
    assert type(translate(answer(code, status), writes=True)) is writing


@pytest.mark.parametrize(
    ("code", "status"),
    [("SlowDown", 503), ("ConditionalRequestConflict", 409), ("InternalError", 500)],
)
def test_after_a_repetition_a_failed_write_may_have_had_effect_before(
    code: str, status: int
) -> None:
    assert type(translate(answer(code, status, retries=1), writes=True)) is OutcomeUnknown
    assert type(translate(answer(code, status, retries=1), writes=False)) is Unavailable


@pytest.mark.parametrize(
    ("error", "reading", "writing"),
    [
        (boto.EndpointConnectionError(endpoint_url="u"), Unavailable, OutcomeUnknown),
        (boto.ConnectTimeoutError(endpoint_url="u"), Unavailable, OutcomeUnknown),
        (boto.ReadTimeoutError(endpoint_url="u"), Unavailable, OutcomeUnknown),
        (boto.ConnectionClosedError(endpoint_url="u"), Unavailable, OutcomeUnknown),
        (boto.ProxyConnectionError(proxy_url="u"), Unavailable, OutcomeUnknown),
        (boto.HTTPClientError(error="e"), Unavailable, OutcomeUnknown),
        (boto.SSLError(endpoint_url="u", error=OSError("EOF")), Unavailable, OutcomeUnknown),
        (boto.NoCredentialsError(), AccessDenied, AccessDenied),
        (boto.ProfileNotFound(profile="p"), AccessDenied, AccessDenied),
        (boto.PartialCredentialsError(provider="p", cred_var="c"), AccessDenied, AccessDenied),
        (boto.CredentialRetrievalError(provider="p", error_msg="e"), AccessDenied, AccessDenied),
        (boto.NoRegionError(), AccessDenied, AccessDenied),
        (boto.ParamValidationError(report="Invalid bucket name"), AccessDenied, AccessDenied),
    ],
)
def test_each_failure_without_an_answer_says_what_the_caller_does(
    error: Exception, reading: type[SecorError], writing: type[SecorError]
) -> None:
    assert type(translate(error, writes=False)) is reading
    assert type(translate(error, writes=True)) is writing


def test_a_certificate_that_cannot_be_verified_names_the_setting() -> None:
    cause = OSError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed")
    error = boto.SSLError(endpoint_url="u", error=cause)
    assert "ca_bundle" in str(translate(error, writes=True))


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("NoSuchBucket", "make the bucket"),
        ("InvalidAccessKeyId", "access_key"),
        ("AuthorizationHeaderMalformed", "region"),
        ("ExpiredToken", "session_token"),
        ("RequestTimeTooSkewed", "clock"),
        ("NotImplemented", "sse"),
    ],
)
def test_what_a_person_must_mend_is_said_with_the_answer(code: str, advice: str) -> None:
    told = str(translate(answer(code, 400), writes=True))
    assert advice in told
    assert "as the server says" in told


def test_a_refusal_of_an_unknown_name_speaks_of_credentials() -> None:
    assert "access_key" in str(translate(answer("NoSuchUserHere", 403), writes=True))


def test_other_errors_pass_as_they_are() -> None:
    for error, writes in itertools.product((KeyError("x"), SecorError("y")), (True, False)):
        with pytest.raises(type(error)), translated("put s3://b/k", writes=writes):
            raise error


def test_no_free_descriptor_passes_and_other_errors_of_the_system_do_not() -> None:
    full = OSError(errno.EMFILE, "Too many open files")
    assert type(translate(full, writes=False)) is Unavailable
    assert type(translate(full, writes=True)) is OutcomeUnknown
    broken = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"), translated("put s3://b/k"):
        raise broken
