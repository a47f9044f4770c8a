"""Tokens of a user's own class, for SASL OAUTHBEARER."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any, Protocol

from kafka.net.sasl.oauth import AbstractTokenProvider

from secor.errors import ConfigurationError, Unavailable

_TOKEN = re.compile(r"[!-~]+")


class TokenSource(Protocol):
    """What the user's class has; called for each connection, on the client's thread."""

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
        with _Telling(self._name):
            token: object = self._source.token()
        if not isinstance(token, str):
            raise ConfigurationError(
                f"{self._name}: {type(token).__name__} is no token: token() must return text"
            )
        if not _TOKEN.fullmatch(token):
            raise ConfigurationError(
                f"{self._name}: what token() returned is empty, or has spaces, line ends or other"
                " characters that no token has"
            )
        return token


class _Telling:
    """Turns any error within it into one that names who raised it.

    The client would take it for a broker that does not answer.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise ``TokenFailed`` from the error, if it is one of a program."""
        if isinstance(error, Exception):
            said = f"{type(error).__name__}: {error}"
            raise TokenFailed(f"{self._name}: {said}; no token, so no broker was asked") from error


def token_provider(source: TokenSource) -> Any:
    """Return what the client wants as ``sasl_oauth_token_provider``."""
    return _Tokens(source)
