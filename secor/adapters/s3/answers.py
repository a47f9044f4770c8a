"""Tells S3's answers from those of something else that stands at its address.

A login page, a proxy's maintenance page and a web server answer as well, often with status 200.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from secor.core.errors import OutcomeUnknown, Unavailable

NOT_S3 = "the answer is none of S3's; look at what answers at endpoint_url of [store.s3]"

_OF_LISTINGS = frozenset({"IsTruncated", "KeyCount", "Name"})


def is_done(status: int, headers: Mapping[str, str]) -> bool:
    """Tell whether an answer to a put says that the object is stored.

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
