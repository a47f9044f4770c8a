"""A client of the Confluent schema registry: schemas by their id."""

from __future__ import annotations

import base64
import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

from secor.core.errors import AccessDenied, ConfigurationError, NotFound, Unavailable
from secor.core.retry import delay

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
UNKNOWN = (40401, 40402, 40403)
"""Error codes for no such subject, version and schema: the registry itself did answer."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema and the named schemas that it refers to, those referred to first."""

    kind: str
    text: str
    references: Mapping[str, str] = field(default_factory=dict)


class SchemaRegistry:
    """Fetches each schema once: ids are immutable, so what was read stays true.

    Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
    An unknown id is remembered too, for the life of the process, so that a producer of
    nonsense does not cost a request a message.
    """

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        timeout: float = 5.0,
        attempts: int = 3,
        most_unknown: int = 10_000,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        _check_address(url)
        self.url = url.rstrip("/")
        self._headers = {"Accept": ACCEPT} | _authorization(username, password)
        self._timeout = timeout
        self._attempts = attempts
        self._most_unknown = most_unknown
        self._sleep = sleep
        self._rng = random.Random(0)
        self._known: dict[int, RegisteredSchema] = {}
        self._unknown: dict[int, NotFound] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return a schema; NotFound if the registry says so, Unavailable if it says nothing.

        AccessDenied where the credentials do not do.
        """
        known = self._known.get(schema_id)
        if known is None:
            if schema_id in self._unknown:
                raise self._unknown[schema_id]
            known = self._known[schema_id] = self._fetch(schema_id)
        return known

    def _fetch(self, schema_id: int) -> RegisteredSchema:
        try:
            answer = self._get(f"/schemas/ids/{schema_id}")
        except NotFound as error:
            if len(self._unknown) >= self._most_unknown:
                self._unknown.clear()
            self._unknown[schema_id] = NotFound(f"schema id {schema_id} is not registered")
            raise self._unknown[schema_id] from error
        references: dict[str, str] = {}
        self._follow(answer, references)
        return RegisteredSchema(answer.get("schemaType") or "AVRO", answer["schema"], references)

    def _follow(self, answer: Mapping[str, Any], references: dict[str, str]) -> None:
        for reference in answer.get("references") or ():
            name = reference["name"]
            if name in references:
                continue
            subject = urllib.parse.quote(reference["subject"], safe="")
            found = self._get(f"/subjects/{subject}/versions/{int(reference['version'])}")
            self._follow(found, references)
            references[name] = found["schema"]

    def _get(self, path: str) -> Any:
        for attempt in range(self._attempts):
            if attempt:
                self._sleep(delay(attempt - 1, rng=self._rng))
            try:
                return self._once(path)
            except Unavailable as error:
                last = error
        raise last

    def _once(self, path: str) -> Any:
        address = self.url + path
        request = urllib.request.Request(address, headers=self._headers)  # noqa: S310 checked above
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise _meaning(address, error) from error
        except (OSError, HTTPException, ValueError) as error:
            raise Unavailable(
                f"schema registry: {address} did not answer ({error}); trying again"
            ) from error
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise Unavailable(f"schema registry: {address} answered without a schema")
        return found


def _check_address(url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018 - raises ValueError for what is no number
    except ValueError as error:
        raise ConfigurationError(f"schema registry: the address is none: {error}") from error
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
            f"schema registry: {address} answered {error.code}; check username and password"
        )
    if error.code == HTTPStatus.NOT_FOUND and _error_code(error) in UNKNOWN:
        return NotFound(f"schema registry: nothing at {address}")
    return Unavailable(
        f"schema registry: {address} answered {error.code}; check that the address is a registry's"
    )


def _error_code(error: urllib.error.HTTPError) -> int | None:
    try:
        body = json.loads(error.read())
    except (OSError, HTTPException, ValueError):
        return None
    code = body.get("error_code") if isinstance(body, dict) else None
    return code if isinstance(code, int) else None


def _authorization(username: str | None, password: str | None) -> dict[str, str]:
    if username is None:
        return {}
    token = base64.b64encode(f"{username}:{password or ''}".encode()).decode()
    return {"Authorization": f"Basic {token}"}
