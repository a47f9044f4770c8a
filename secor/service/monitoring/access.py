"""Who may read the pages of the HTTP server, and how it is encrypted."""

from __future__ import annotations

import base64
import binascii
import hmac
import ssl
from dataclasses import dataclass, field

from secor.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Access:
    """Basic authentication (RFC 7617) by one name and password, in UTF-8."""

    username: str
    password: str = field(repr=False)

    def admits(self, authorization: str | None) -> bool:
        """Tell whether the header carries both; takes as long for a near miss as for another."""
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            decoded = base64.b64decode(given.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(decoded, f"{self.username}:{self.password}".encode())


def tls_context(certfile: str, keyfile: str | None) -> ssl.SSLContext:
    """Return what a server needs to speak TLS 1.2 or newer.  Raises ``ConfigurationError``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A key that is encrypted fails, instead of asking for its password on a terminal.
        context.load_cert_chain(certfile, keyfile, password="")
    except (OSError, ValueError) as error:
        files = certfile if keyfile is None else f"{certfile}, {keyfile}"
        raise ConfigurationError(
            f"metrics: cannot use {files} ({error}); give a certificate and its key, "
            "unencrypted, in PEM format, readable by this user"
        ) from error
    return context
