"""HTTP requests to a schema registry: credentials, TLS, redirects, and the meaning of errors."""

from __future__ import annotations

import base64
import json
import random
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

from secor.core.errors import AccessDenied, ConfigurationError, NotFound, Unavailable
from secor.core.foreign_json import load_json
from secor.core.retry import retry

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"

UNKNOWN = (40401, 40402, 40403)
"""Error codes for no such subject, version and schema: the registry itself did answer."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access to a registry: a user with a password or a token, and files for TLS.

    ``cafile`` has the authorities that may have signed the server's certificate; ``certfile``
    and ``keyfile`` are this client's own certificate.
    """

    username: str | None = None
    password: str | None = None
    token: str | None = None
    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None

    def headers(self) -> dict[str, str]:
        """Return the header that says who asks."""
        if self.token is not None:
            return {"Authorization": f"Bearer {self.token}"}
        if self.username is None:
            return {}
        plain = f"{self.username}:{self.password or ''}"
        return {"Authorization": f"Basic {base64.b64encode(plain.encode()).decode()}"}

    def tls(self) -> ssl.SSLContext:
        """Return the context of connections; ConfigurationError for files that cannot be read."""
        try:
            context = ssl.create_default_context(cafile=self.cafile)
        except OSError as error:  # an SSLError is one
            raise ConfigurationError(
                f"schema registry: authorities {self.cafile}: {error}"
            ) from error
        if self.certfile is not None:
            # A password would be asked for on a terminal that a service does not have.
            try:
                context.load_cert_chain(self.certfile, self.keyfile, password="")
            except OSError as error:
                files = " and ".join(filter(None, (self.certfile, self.keyfile)))
                raise ConfigurationError(
                    f"schema registry: client certificate {files}: {error}"
                ) from error
        return context


class RegistryServer:
    """Answers of one server to GET requests, each tried several times."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        timeout: float = 5.0,
        attempts: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``timeout`` is of one request, in seconds."""
        check_address(url)
        self.url = url.rstrip("/")
        self._headers = {"Accept": ACCEPT} | credentials.headers()
        handlers: list[urllib.request.BaseHandler] = [_SameServer()]
        if urllib.parse.urlsplit(url).scheme == "https":
            handlers.append(urllib.request.HTTPSHandler(context=credentials.tls()))
        self._open = urllib.request.build_opener(*handlers).open
        self._timeout = timeout
        self._attempts = attempts
        self._sleep = sleep
        self._rng = random.Random(0)

    def schema(self, path: str) -> Mapping[str, Any]:
        """Return the answer that has a schema; NotFound, Unavailable or AccessDenied."""
        return retry(
            lambda: self._request(path),
            (Unavailable,),
            attempts=self._attempts,
            sleep=self._sleep,
            rng=self._rng,
        )

    def _request(self, path: str) -> Mapping[str, Any]:
        address = self.url + path
        request = urllib.request.Request(address, headers=self._headers)  # noqa: S310 checked above
        try:
            with self._open(request, timeout=self._timeout) as answer:
                schema = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise _meaning(address, error) from error
        except (OSError, HTTPException, ValueError) as error:
            unknown = isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError)
            hint = "parser.registry_cafile is to have its authority" if unknown else "trying again"
            raise Unavailable(
                f"schema registry: {address} did not answer ({error}); {hint}"
            ) from error
        if not isinstance(schema, dict) or not isinstance(schema.get("schema"), str):
            raise Unavailable(f"schema registry: {address} answered without a schema")
        return schema


class _SameServer(urllib.request.HTTPRedirectHandler):
    """Follows redirects within one server; redirects to others are errors."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request that follows, None to refuse it."""
        if _origin(req.full_url) != _origin(newurl):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


def check_address(url: str) -> None:
    """Raise ``ConfigurationError`` for what is not an address of a registry."""
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018 - raises ValueError for what is no number
    except ValueError as error:
        raise ConfigurationError(f"schema registry: not an address: {error}") from error
    if parts.username is not None:
        # Not shown: there may be a password in it.
        raise ConfigurationError(
            "schema registry: give username and password as settings of their own, not in the "
            "address"
        )
    if not usable:
        raise ConfigurationError(
            f"schema registry {url!r}: must be an address such as http://registry:8081"
        )


def _meaning(address: str, error: urllib.error.HTTPError) -> Exception:
    if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return AccessDenied(
            f"schema registry: {address} answered {error.code}; check username and password,"
            " or the token"
        )
    if 300 <= error.code < 400:
        target = urllib.parse.urlsplit(error.headers.get("Location", ""))._replace(query="")
        return Unavailable(
            f"schema registry: {address} leads to another server, {target.geturl()}, which is not"
            " given the credentials; set parser.registry_url to that server if it is the registry"
        )
    if error.code == HTTPStatus.NOT_FOUND and _error_code(error) in UNKNOWN:
        return NotFound(f"schema registry: nothing at {address}")
    return Unavailable(
        f"schema registry: {address} answered {error.code}; check that the address is a registry's"
    )


def _error_code(error: urllib.error.HTTPError) -> int | None:
    try:
        body = load_json(error.read())
    except (OSError, HTTPException, ValueError):
        return None
    code = body.get("error_code") if isinstance(body, dict) else None
    return code if isinstance(code, int) else None
