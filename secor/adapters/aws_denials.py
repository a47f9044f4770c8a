"""Access denied by AWS, recognised by code and status, never by names in the message."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

_CODES = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""Of some the status is 400."""

_STATUS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def is_denial(answer: Mapping[str, Any]) -> bool:
    """Return whether the ``response`` of a botocore ``ClientError`` denies access."""
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status in _STATUS or answer.get("Error", {}).get("Code") in _CODES
