"""Tokens of a user's own class, for SASL OAUTHBEARER."""

from __future__ import annotations

import re
from typing import Any, Protocol

from secor.adapters.kafka.insides import AbstractTokenProvider
from secor.core.errors import ConfigurationError, Unavailable
from secor.core.text import error_text

_TOKEN = re.compile(r"[!-~]+")


class TokenSource(Protocol):
    """The interface of the user's class; called for each connection, on the client's thread."""

    def token(self) -> str:
        """Return a token that is valid now, soon: keep it until shortly before its end."""


class TokenFailed(Unavailable):
    """The user's class raised: no broker was asked."""


class _Tokens(AbstractTokenProvider):
    def __init__(self, source: TokenSource) -> None:
        super().__init__()
        self._source = source
        kind = type(source)
        self._name = f"kafka.sasl_oauth_token_provider {kind.__module__}:{kind.__qualname__}"

    def token(self) -> str:
        """Return a token.  Raises ``TokenFailed``, ``ConfigurationError``."""
        try:
            token: object = self._source.token()
        except Exception as error:
            # Users' code, of any library: the client takes what it raises for a silent broker.
            text = f"{self._name}: {error_text(error)}"
            raise TokenFailed(f"{text}; no token, so no broker was asked") from error
        if not isinstance(token, str):
            raise ConfigurationError(
                f"{self._name}: {type(token).__name__} is no token: token() must return text"
            )
        # Checked here: such a token breaks the SASL message, and the broker only says that it
        # refuses.
        if not _TOKEN.fullmatch(token):
            raise ConfigurationError(
                f"{self._name}: what token() returned is empty, or has spaces, line ends or other"
                " characters that no token has"
            )
        return token


def token_provider(source: TokenSource) -> Any:
    """Return what the client wants as ``sasl_oauth_token_provider``."""
    return _Tokens(source)
