"""Translation of errors of S3 and botocore into this program's."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import responses
from typing import Any

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from secor.adapters import tls
from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    SecorError,
    Unavailable,
)
from secor.core.text import error_text

NOT_S3 = "the answer is none of S3's; look at what answers at endpoint_url of [store.s3]"

_OF_LISTINGS = frozenset({"IsTruncated", "KeyCount", "Name"})


def is_done(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether an answer to a put says that the object is stored.

    Names of ``headers`` in lower case.  S3 always names the object's ETag, and says no more.
    """
    return (
        status == HTTPStatus.OK
        and bool(headers.get("etag"))
        and headers.get("content-length", "0") == "0"
    )


def require_done(answer: Mapping[str, Any], doing: str) -> None:
    """Raise ``OutcomeUnknown`` where what botocore returned of a put does not say so."""
    received = answer["ResponseMetadata"]
    if not is_done(received["HTTPStatusCode"], received["HTTPHeaders"]):
        raise OutcomeUnknown(f"cannot {doing}: {_about(received)}{NOT_S3}")


def require(answer: Mapping[str, Any], names: Sequence[str], doing: str) -> None:
    """Raise ``Unavailable`` where what botocore returned lacks one of these fields."""
    if not all(name in answer for name in names):
        raise Unavailable(f"cannot {doing}: {_about(answer['ResponseMetadata'])}{NOT_S3}")


def require_listing(page: Mapping[str, Any], doing: str) -> None:
    """Raise ``Unavailable`` where what botocore returned is no page of a listing.

    An empty one would say that nothing is stored.
    """
    if page.keys().isdisjoint(_OF_LISTINGS):
        raise Unavailable(f"cannot {doing}: {_about(page['ResponseMetadata'])}{NOT_S3}")


def _about(received: Mapping[str, Any]) -> str:
    kind = received["HTTPHeaders"].get("content-type")
    return f"HTTP status {received['HTTPStatusCode']}{f', {kind}' if kind else ''}: "


NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
"""What an ``OSError`` says when the process or the machine has no free file descriptor."""

_ABSENT = frozenset({"NoSuchKey", "NoSuchVersion", "NotFound"})

_FOR_NOW = frozenset(
    {
        "BadDigest",  # the file was right when it was read: spoilt on its way
        "ConditionalRequestConflict",
        "IncompleteBody",
        "InvalidRange",  # replaced by a shorter one while it was read
        "InvalidPart",  # taken by an earlier completion, its answer lost
        "OperationAborted",
        "RequestTimeout",
        "RequestTimeoutException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "XAmzContentChecksumMismatch",
    }
)

_ELSEWHERE = frozenset(
    {HTTPStatus.FOUND, HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT}
)
"""A proxy's redirections: maintenance, a login, or from http to https."""

UNREADABLE = (ResponseParserError, ValueError, OverflowError)
"""What libraries raise over an answer that they cannot read."""

_CREDENTIALS = "check access_key, secret_key, profile or role_arn of [store.s3]"
_REGION = "set region of [store.s3] to the bucket's"

_ADVICE = {
    "NoSuchBucket": "make the bucket, or correct bucket of [store.s3]",
    "AccessDenied": "allow s3:PutObject, s3:GetObject, s3:ListBucket, s3:DeleteObject and"
    " s3:AbortMultipartUpload on the bucket and its objects",
    "403": f"{_CREDENTIALS}, and allow s3:GetObject and s3:ListBucket",
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "PermanentRedirect": _REGION,
    "301": _REGION,
    "ExpiredToken": "renew session_token",
    "InvalidToken": "renew session_token",
    "RequestTimeTooSkewed": "set this machine's clock",
    "NotImplemented": "leave out the settings that this server does not know: sse, acl, tags,"
    " storage_class, conditional_puts",
    "InvalidStorageClass": "correct storage_class of [store.s3]",
}
"""What a person does about a code; the codes of answers without a body are their status."""

_NO_CREDENTIALS = (
    boto.CredentialRetrievalError,
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.ProfileNotFound,
    boto.InfiniteLoopConfigError,
    boto.InvalidConfigError,
    boto.RefreshWithMFAUnsupportedError,
    boto.SSOError,
    boto.TokenRetrievalError,
)

_TRANSPORT = (
    boto.ConnectionError,
    boto.HTTPClientError,
    boto.IncompleteReadError,
    boto.MetadataRetrievalError,
)


_TLS = tls.Names(
    authority="ca_bundle of [store.s3]",
    certificate="a client certificate",
    unchecked="verify_tls of [store.s3] = false",
    plain="begin endpoint_url of [store.s3] with http:, or correct its port",
)


@contextmanager
def translated(doing: str, *, writes: bool = False) -> Iterator[None]:
    """Turn botocore's errors into ours; ``doing`` is such as ``put s3://bucket/key``.

    ``writes`` says that the call may take effect though its answer is lost.  botocore repeats
    calls by itself and shows only the last failure, so after a repetition every failure may
    hide an earlier success: ``OutcomeUnknown``.
    """
    try:
        yield
    except ClientError as error:
        raise _answered(error, doing, writes) from error
    except BotoCoreError as error:
        raise _unanswered(error, doing, writes) from error
    except UNREADABLE as error:
        kind = OutcomeUnknown if writes else Unavailable
        raise kind(f"cannot {doing}: {NOT_S3} ({error_text(error)})") from error
    except OSError as error:
        if error.errno not in NO_DESCRIPTOR:
            raise
        kind = OutcomeUnknown if writes else Unavailable
        raise kind(
            f"cannot {doing}: {error_text(error)}; raise this process's limit of open files"
        ) from error


def code_of(error: ClientError) -> str:
    """Return S3's code, or the HTTP status where the answer had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    """Return the HTTP status of the answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _answered(error: ClientError, doing: str, writes: bool) -> SecorError:
    code, status = code_of(error), status_of(error)
    message = error.response.get("Error", {}).get("Message")
    # Proxies have statuses of their own, such as 520.
    answer = message or responses.get(status, "unknown to HTTP")
    text = f"cannot {doing}: {code or f'HTTP status {status}'}: {answer}"
    # Not yet a conflict: botocore may have repeated a put whose answer was lost, and met its own
    # object.
    if status == HTTPStatus.PRECONDITION_FAILED:
        return AlreadyExists(f"cannot {doing}: an object of this name exists")
    if code in _ABSENT or code == "404":
        return NotFound(f"cannot {doing}: it does not exist")
    passing = code in _FOR_NOW or status == HTTPStatus.TOO_MANY_REQUESTS
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
    if passing or failed:
        repeated = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0) > 0
        busy = passing or status == HTTPStatus.SERVICE_UNAVAILABLE
        # "Busy" is said before anything is done, so it is without effect, unless an earlier attempt
        # of botocore's had one.
        if writes and (repeated or not busy):
            return OutcomeUnknown(f"{text}; it may have been done all the same")
        return Unavailable(text)
    if status in _ELSEWHERE:
        return Unavailable(
            f"{text}; the server sends elsewhere: correct endpoint_url of [store.s3], or wait"
        )
    advice = _ADVICE.get(code) or _ADVICE.get(str(status), "check the settings of [store.s3]")
    return AccessDenied(f"{text}; {advice}")


def _unanswered(error: BotoCoreError, doing: str, writes: bool) -> SecorError:
    text = f"cannot {doing}: {error_text(error)}"
    if isinstance(error, _NO_CREDENTIALS):
        return AccessDenied(f"{text}; {_CREDENTIALS}")
    if isinstance(error, boto.SSLError):
        advice = tls.advice(error, _TLS) or _by_text(str(error))
        if advice is not None:
            return AccessDenied(f"cannot {doing}: {advice}")
    if isinstance(error, _TRANSPORT):
        if writes:
            return OutcomeUnknown(f"{text}; it may have been done all the same")
        return Unavailable(text)
    return AccessDenied(f"{text}; check the settings of [store.s3]")


def _by_text(text: str) -> str | None:
    """Return the reason that only the error's text has: OpenSSL does not compare names."""
    if "doesn't match" in text:
        return f"{text}: use the name that the certificate is made out for, in endpoint_url"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"{text}: set {_TLS.authority} to the server's authority"
    return None
