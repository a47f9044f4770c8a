"""A time limit for requests to a REST catalog: the Iceberg library has none."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

TIMEOUT = (10.0, 60.0)
"""Seconds to connect to the server, and to wait for its answer."""


def limit_requests(catalog: RestCatalog, timeout: tuple[float, float] = TIMEOUT) -> None:
    """End requests of ``catalog`` that a silent server would hold for ever."""
    for scheme in ("http://", "https://"):
        catalog._session.mount(scheme, TimeLimit(timeout))


class TimeLimit(HTTPAdapter):
    """Requests with a limit, where the caller gives none of its own."""

    def __init__(self, timeout: tuple[float, float]) -> None:
        """Seconds to connect, and to wait for an answer."""
        super().__init__()
        self._timeout = timeout

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        """Send it; see ``HTTPAdapter``."""
        options["timeout"] = options.get("timeout") or self._timeout
        return super().send(request, *args, **options)
