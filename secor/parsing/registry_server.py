"""Schemas of Confluent's and Apicurio's registries by HTTP: credentials, TLS, redirects, errors.

Sources: https://docs.confluent.io/platform/current/schema-registry/develop/api.html and
Apicurio's OpenAPI description of its "core registry API", versions 2 and 3.
"""

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
from secor.core.retry import retry
from secor.core.text import load_json
from secor.parsing.registry import ANY_KIND, ApicurioId, RegisteredSchema, SchemaId, SchemaSource

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"

WRITTEN = "application/vnd.schemaregistry.v1+json"

UNKNOWN = (40401, 40402, 40403, 40408, 40409)
"""Confluent's error codes for no such subject, version, schema, compatibility and mode."""

UNKNOWN_NAMES = (
    "ContentNotFoundException",
    "VersionNotFoundException",
    "ArtifactNotFoundException",
)
"""Apicurio's errors for the same."""


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
        """Return the header with the credentials."""
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
    """Answers of one server to requests, each tried several times."""

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

    def get(self, path: str) -> bytes:
        """Return the body of an answer; NotFound, Unavailable or AccessDenied."""
        return retry(
            lambda: self._request(path),
            (Unavailable,),
            attempts=self._attempts,
            sleep=self._sleep,
            rng=self._rng,
        )

    def get_json(self, path: str) -> Any:
        """Return an answer in JSON."""
        try:
            return load_json(self.get(path))
        except ValueError as error:
            raise Unavailable(
                f"schema registry: {self.url}{path} did not answer in JSON; check that the address"
                " is a registry's"
            ) from error

    def send_json(self, method: str, path: str, body: object) -> Any:
        """Change something, which may be done again after a lost answer; return the answer.

        ``body`` is what JSON can hold, None for no body.  NotFound, Unavailable, AccessDenied.
        """
        content = None if body is None else json.dumps(body).encode()
        return retry(
            lambda: load_json(self._request(path, method, content) or b"null"),
            (Unavailable,),
            attempts=self._attempts,
            sleep=self._sleep,
            rng=self._rng,
        )

    def _request(self, path: str, method: str = "GET", content: bytes | None = None) -> bytes:
        address = self.url + path
        headers = self._headers if content is None else self._headers | {"Content-Type": WRITTEN}
        request = urllib.request.Request(  # noqa: S310 checked above
            address, content, headers, method=method
        )
        try:
            with self._open(request, timeout=self._timeout) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise _meaning(address, error) from error
        except (OSError, HTTPException, ValueError) as error:
            untrusted = isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError)
            hint = "put its authority into parser.registry_cafile" if untrusted else "trying again"
            raise Unavailable(
                f"schema registry: {address} did not answer ({error}); {hint}"
            ) from error
        assert isinstance(body, bytes)
        return body


class ConfluentSource:
    """Schemas by the interface of Confluent's registry, which others have, too."""

    def __init__(self, server: RegistryServer) -> None:
        self._server = server
        self.url = server.url

    def fetch(self, schema_id: SchemaId) -> RegisteredSchema:
        """See ``SchemaSource``."""
        by = "ids" if isinstance(schema_id, int) else "guids"
        answer = self._schema(f"/schemas/{by}/{schema_id}")
        references: dict[str, str] = {}
        try:
            self._follow(answer, references, set())
        except (KeyError, TypeError, ValueError) as error:
            raise _unusable(self.url, schema_id) from error
        return RegisteredSchema(answer.get("schemaType") or "AVRO", answer["schema"], references)

    def _follow(
        self, answer: Mapping[str, Any], references: dict[str, str], seen: set[str]
    ) -> None:
        for reference in answer.get("references") or ():
            name = reference["name"]
            if name in seen:
                continue
            seen.add(name)
            subject = urllib.parse.quote(reference["subject"], safe="")
            version = int(reference["version"])
            answer_schema = self._schema(f"/subjects/{subject}/versions/{version}")
            self._follow(answer_schema, references, seen)
            references[name] = answer_schema["schema"]

    def _schema(self, path: str) -> Mapping[str, Any]:
        schema = self._server.get_json(path)
        if not isinstance(schema, dict) or not isinstance(schema.get("schema"), str):
            raise Unavailable(f"schema registry: {self.url}{path} answered without a schema")
        return schema


class ApicurioSource:
    """Schemas by Apicurio's own interface, ``…/apis/registry/v2`` or ``v3``."""

    def __init__(self, server: RegistryServer) -> None:
        self._server = server
        self.url = server.url
        self._content = "" if server.url.endswith("/v2") else "/content"

    def fetch(self, schema_id: SchemaId) -> RegisteredSchema:
        """See ``SchemaSource``."""
        assert isinstance(schema_id, ApicurioId)
        path = f"/ids/{schema_id.use_id}s/{schema_id.number}"
        references: dict[str, str] = {}
        try:
            self._follow(path, references, set())
        except (KeyError, TypeError, ValueError) as error:
            raise _unusable(self.url, schema_id) from error
        return RegisteredSchema(ANY_KIND, self._text(path), references)

    def _follow(self, path: str, references: dict[str, str], seen: set[str]) -> None:
        answer = self._server.get_json(f"{path}/references")
        if not isinstance(answer, list):
            raise Unavailable(f"schema registry: {self.url}{path}/references is not a list")
        for reference in answer:
            name = reference["name"]
            if name not in seen:
                seen.add(name)
                group, artifact, version = (
                    urllib.parse.quote(str(reference.get(key) or "default"), safe="")
                    for key in ("groupId", "artifactId", "version")
                )
                place = f"/groups/{group}/artifacts/{artifact}/versions/{version}"
                self._follow(place, references, seen)
                references[name] = self._text(place + self._content)

    def _text(self, path: str) -> str:
        try:
            return self._server.get(path).decode()
        except UnicodeDecodeError as error:
            raise Unavailable(f"schema registry: {self.url}{path} is not text") from error


def source_of(framing: str | None, url: str, credentials: Credentials) -> SchemaSource:
    """Return the schemas of the registry that belongs to this framing.

    Raises ``ConfigurationError``.
    """
    if framing == "glue":
        raise ConfigurationError(
            "schema registry: AWS Glue's has no numbered schemas: fetch one by"
            " aws glue get-schema-version --schema-version-id GUID"
        )
    server = RegistryServer(url, credentials)
    return ApicurioSource(server) if framing == "apicurio" else ConfluentSource(server)


class _SameServer(urllib.request.HTTPRedirectHandler):
    """Follows redirects within one server; redirects to others are errors."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request that follows, None to refuse it."""
        # urllib would send the credentials along to wherever the redirect leads.
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
    body = _body_of(error)
    if error.code == HTTPStatus.NOT_FOUND and _is_unknown(body):
        return NotFound(f"schema registry: nothing at {address}")
    if error.code in (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY) and "message" in body:
        return Unavailable(f"schema registry: {address} refused it: {body['message']}")
    return Unavailable(
        f"schema registry: {address} answered {error.code}; check that the address is a registry's"
    )


def _unusable(url: str, schema_id: SchemaId) -> Unavailable:
    return Unavailable(f"schema registry: {url} answered for schema {schema_id} what is not usable")


def _body_of(error: urllib.error.HTTPError) -> dict[str, Any]:
    """Return what the registry says of a failure, empty where it says nothing in JSON."""
    try:
        body = load_json(error.read())
    except (OSError, HTTPException, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


def _is_unknown(body: Mapping[str, Any]) -> bool:
    """Return whether the registry itself says that there is no such schema."""
    return body.get("error_code") in UNKNOWN or body.get("name") in UNKNOWN_NAMES
