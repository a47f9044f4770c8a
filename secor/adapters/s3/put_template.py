"""The parts that requests of all puts to one bucket have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from botocore.utils import get_environ_proxies

CHECKSUM = "x-amz-checksum-crc32c"
METADATA = "x-amz-meta-"

_PER_PUT_HEADERS = (
    METADATA,
    CHECKSUM,
    "authorization",
    "x-amz-date",
    "x-amz-content-sha256",
    "x-amz-security-token",
    "amz-sdk-",
    "accept-encoding",
    "content-length",
    "host",
)
"""Beginnings of the names of headers that belong to one put, or to its sending."""

_PORTS = {"http": ":80", "https": ":443"}
"""What a host is not followed by."""

_SIGNED_FOR = re.compile(r"AWS4-HMAC-SHA256 Credential=.*/\d{8}/([^/]+)/s3/aws4_request,")
"""A signature that we can make, and its region."""


@dataclass(frozen=True, slots=True)
class PutRequest:
    """A request: the header ``host``, ``path`` with the key, quoted, and unsigned headers."""

    host: str
    path: str
    headers: Iterable[tuple[str, str]]
    content: bytes


@dataclass(frozen=True, slots=True)
class PutTemplate:
    """The common part of the requests of all puts; ``path`` ends before the key."""

    host: str
    path: str
    region: str
    headers: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls, url: str, headers: Mapping[str, str | bytes], key: str, config: Any
    ) -> PutTemplate | None:
        """Make a template from what botocore sent; None if only botocore can send the like.

        ``config`` is that of botocore's client.
        """
        parts, path = urlsplit(url), quote(key, safe="/~")
        sent = {name.lower(): _text(value) for name, value in headers.items()}
        signed_for = _SIGNED_FOR.match(sent.get("authorization", ""))
        # Whatever a put of our own could not repeat: another signature, a key or credentials
        # elsewhere in the address, certificates, proxies.  Such stores get all puts from botocore.
        if (
            signed_for is None
            or sent.get("x-amz-content-sha256") != "UNSIGNED-PAYLOAD"
            or not parts.path.endswith(f"/{path}")
            or parts.query
            or "@" in parts.netloc
            or config.client_cert
            or (config.proxies or get_environ_proxies(url)).get(parts.scheme)
        ):
            return None
        return cls(
            # As botocore signs it: with the scheme's own port the server computes another
            # signature.
            host=parts.netloc.removesuffix(_PORTS[parts.scheme]),
            path=parts.path.removesuffix(path),
            region=signed_for[1],
            headers=tuple(
                (name, value)
                for name, value in sent.items()
                if not name.startswith(_PER_PUT_HEADERS)
            ),
        )

    def put(self, key: str, content: bytes, headers: Mapping[str, str]) -> PutRequest:
        """Return the put of one object."""
        path = self.path + quote(key, safe="/~")
        return PutRequest(self.host, path, (*self.headers, *headers.items()), content)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
