"""A token provider as a user would write it, for SASL OAUTHBEARER."""

from __future__ import annotations

import base64
import json
import time

USER = "bearer"


class Unsigned:
    """Makes tokens that a broker without keys takes."""

    def token(self) -> str:
        """Return one for an hour."""
        now = int(time.time())
        claims = {"sub": USER, "iat": now, "exp": now + 3600}
        return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


class Out:
    """Asks somebody who does not answer."""

    def token(self) -> str:
        """Return none."""
        raise TimeoutError("no answer of login")


class Nothing:
    """Forgot what it was to do."""

    def token(self) -> None:
        """Return none."""


def _encoded(fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()
