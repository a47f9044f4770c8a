"""Tokens of a user's own class, for SASL OAUTHBEARER."""

from __future__ import annotations

from typing import Any, Protocol

from kafka.net.sasl.oauth import AbstractTokenProvider


class TokenSource(Protocol):
    """What the user's class has; called for each connection, on the client's thread."""

    def token(self) -> str:
        """Return a token that is valid now, soon: keep it until shortly before its end."""


class _Tokens(AbstractTokenProvider):
    def __init__(self, source: TokenSource) -> None:
        super().__init__()
        self._source = source

    def token(self) -> str:
        return self._source.token()


def token_provider(source: TokenSource) -> Any:
    """Return what the client wants as ``sasl_oauth_token_provider``."""
    return _Tokens(source)
