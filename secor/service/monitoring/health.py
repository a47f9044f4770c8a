"""Liveness and readiness of the process, and the HTTP server that answers for both and more.

``/healthz`` is 503 when the loop hangs: restart the process.  ``/readyz`` is 503,
with the reasons, while no messages can be persisted: somebody waits for something.  Its further
lines, also behind "ready", say what holds messages back elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import structlog

from secor.core.errors import ConfigurationError
from secor.core.ports import Clock
from secor.service.monitoring.http_connections import DEADLINE, BoundedServer


@dataclass(frozen=True, slots=True)
class Access:
    """Basic authentication (RFC 7617) by one name and password, in UTF-8."""

    username: str
    password: str = field(repr=False)

    def admits(self, authorization: str | None) -> bool:
        """Return whether the header carries both; takes as long for a near miss as for another."""
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            decoded = base64.b64decode(given.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        # Compared as one: to look at the name first would say by its time whether the name is
        # right.
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


TEXT = "text/plain; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPEN = frozenset({"/healthz", "/readyz"})
"""What probes may ask without a password: one word, or reasons without names."""


@dataclass(frozen=True, slots=True)
class HealthResponse:
    """The answer to a request for a path: a status and a body."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


class Health:
    """The health of a process: when its loop last went round, and what it waits for."""

    def __init__(self, clock: Clock, *, limit: float) -> None:
        """``limit`` is in seconds: a loop that has not gone round for so long is stuck."""
        self._clock = clock
        self._limit = limit
        self._beaten = clock.monotonic()
        # Not ready from the first moment on: an orchestrator that asks before the first report must
        # not take that for an answer.
        self._waiting: tuple[str, ...] = ("starting",)
        self._remarks: tuple[str, ...] = ()

    def beat(self) -> None:
        """Note that the loop has gone round."""
        self._beaten = self._clock.monotonic()

    def waiting(self, reasons: Sequence[str], remarks: Sequence[str] = ()) -> None:
        """Note what prevents the process from persisting messages; nothing means ready.

        ``remarks`` are for people, and change nothing.  Neither has names: see ``OPEN``.
        """
        self._waiting, self._remarks = tuple(reasons), tuple(remarks)

    def alive(self) -> HealthResponse:
        """Answer ``/healthz``."""
        age = self._clock.monotonic() - self._beaten
        if age > self._limit:
            return _unavailable([f"the loop has been stuck for {age:.0f} s"])
        return HealthResponse(HTTPStatus.OK, b"alive\n")

    def ready(self) -> HealthResponse:
        """Answer ``/readyz``."""
        alive = self.alive()
        if alive.status is not HTTPStatus.OK:
            return alive
        if self._waiting:
            return _unavailable([*self._waiting, *self._remarks])
        return HealthResponse(HTTPStatus.OK, _lines(["ready", *self._remarks]))


def reasons_to_wait(*, assigned: int, stopped: int, ledger_up: bool) -> list[str]:
    """Return why no messages can be persisted, in words.

    One stopped partition is no reason: the others go on, and an alert reports it.
    """
    reasons = []
    if not assigned:
        reasons.append(
            "no partitions assigned: do the brokers answer, does a topic match, "
            "are there more processes than partitions?"
        )
    elif stopped == assigned:
        reasons.append("all assigned partitions are stopped: the log and the status page say why")
    if not ledger_up:
        reasons.append("the ledger does not answer")
    return reasons


class HealthServer:
    """Serves ``/metrics``, ``/healthz``, ``/readyz`` and ``pages``; nothing changes anything.

    Every connection has a thread of its own, none of them the loop's.
    """

    def __init__(
        self,
        address: str,
        port: int,
        *,
        health: Health,
        metrics: Callable[[], bytes],
        pages: Mapping[str, Callable[[], HealthResponse]] | None = None,
        access: Access | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Bind at once; port 0 takes any free one.  Raises ``ConfigurationError``.

        With ``access`` all but the probes' paths need a password; with ``tls`` it speaks
        nothing but TLS.
        """
        routes: Mapping[str, Callable[[], HealthResponse]] = {
            "/metrics": lambda: HealthResponse(HTTPStatus.OK, metrics(), PROMETHEUS),
            "/healthz": health.alive,
            "/readyz": health.ready,
            **(pages or {}),
        }
        try:
            handler = partial(_Handler, routes, access)
            # Bound in the constructor: a port that is taken has to fail the start, not a thread
            # later.
            self._server = BoundedServer((address, port), handler, tls)  # type: ignore[arg-type]
        except OSError as error:
            raise ConfigurationError(
                f"metrics: cannot listen on {address}:{port} ({error.strerror}); "
                "set metrics.address and metrics.port, or SECOR_METRICS__PORT for this process"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="health", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def connections(self) -> int:
        """Connections open now."""
        return self._server.connections

    def start(self) -> None:
        """Begin to answer, and log where."""
        self._thread.start()
        host = str(self._server.server_address[0])
        structlog.get_logger("secor.health").info("listening", address=host, port=self.port)

    def close(self) -> None:
        """End; a second call changes nothing."""
        # ``shutdown`` waits for a loop to end, and would wait for ever for one that never began.
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    # A limit for each read, next to the one for the whole connection (``BoundedServer``).
    timeout = DEADLINE
    protocol_version = "HTTP/1.1"
    server_version = "secor"
    sys_version = ""

    def __init__(
        self,
        routes: Mapping[str, Callable[[], HealthResponse]],
        access: Access | None,
        *arguments: object,
        **named: object,
    ) -> None:
        self._routes = routes
        self._access = access
        super().__init__(*arguments, **named)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._send(self._answer(urlsplit(self.path).path))

    def do_POST(self) -> None:
        """Refuse: nothing here can be changed."""
        only = (("Allow", "GET, HEAD"),)
        self._send(
            HealthResponse(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", headers=only)
        )

    # The base class looks for these names.
    do_HEAD = do_GET  # noqa: N815
    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = do_POST  # noqa: N815

    def _send(self, answer: HealthResponse) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in answer.headers:
            self.send_header(name, value)
        # One request a connection: an idle client holds no descriptor, and a body that nobody
        # reads is not taken for the next request.
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _answer(self, path: str) -> HealthResponse:
        given = self.headers.get("Authorization")
        if self._access is not None and path not in OPEN and not self._access.admits(given):
            ask = (("WWW-Authenticate", 'Basic realm="secor", charset="UTF-8"'),)
            return HealthResponse(HTTPStatus.UNAUTHORIZED, b"a password is needed\n", headers=ask)
        # Only exact paths of the table: nothing here is a file, so there is nothing to climb out
        # of.
        route = self._routes.get(path)
        if route is None:
            known = ", ".join(self._routes)
            return HealthResponse(HTTPStatus.NOT_FOUND, f"known here: {known}\n".encode())
        return route()

    def log_message(self, format: str, *arguments: object) -> None:
        """Stay quiet: a scrape every few seconds is no event."""


def _unavailable(reasons: Sequence[str]) -> HealthResponse:
    return HealthResponse(HTTPStatus.SERVICE_UNAVAILABLE, _lines(reasons))


def _lines(texts: Sequence[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode(errors="backslashreplace")
