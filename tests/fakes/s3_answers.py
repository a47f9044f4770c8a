"""An S3 server that keeps what it is sent, and answers as it was told to."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server says; it waits before for ``delay``, and says nothing for status 0.

    ``region`` is where the bucket is, which an error names.  ``closes`` ends the connection
    afterwards, without a word in ``headers``.  ``page`` is HTML of something else than S3.
    ``raw`` is sent as it is, instead of everything else, but ``delay``.
    """

    status: int = 200
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay: threading.Event | None = None
    region: str = ""
    closes: bool = False
    page: str = ""
    raw: bytes = b""

    @property
    def body(self) -> bytes:
        if self.page:
            return self.page.encode()
        region = f"<Region>{self.region}</Region>" if self.region else ""
        error = f"<Error><Code>{self.code}</Code><Message>no</Message>{region}</Error>"
        return error.encode() if self.code else b""


@dataclass(frozen=True, slots=True)
class Request:
    """What the server was sent; the names of ``headers`` in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def by_botocore(self) -> bool:
        """Whether botocore sent it; it counts its attempts."""
        return "amz-sdk-request" in self.headers

    @property
    def region(self) -> str:
        return self.headers["authorization"].split("/")[2]


class AnswerServer(ThreadingHTTPServer):
    """Gives each request the next of ``answers``, and says that it is done when there is none."""

    daemon_threads = True

    def __init__(self, certificate: Path | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = []
        self.requests: list[Request] = []
        self._tls = certificate is not None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://localhost:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients hang up where a test wants it."""

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return self.answers.pop(0) if self.answers else Answer()


@contextmanager
def answer_server(certificate: Path | None = None) -> Iterator[AnswerServer]:
    """Run a server; with ``certificate``, a file with its key, too, by TLS."""
    with AnswerServer(certificate) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AnswerServer

    def do_PUT(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.answer(Request(self.command, self.path, headers, body))
        if answer.delay is not None:
            answer.delay.wait(30)
        self.close_connection |= answer.closes or not answer.status
        if not answer.status:
            return
        if answer.raw:
            self.wfile.write(answer.raw)
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.page:
            self.send_header("Content-Type", "text/html")
        elif answer.status == HTTPStatus.OK and self.command == "PUT":
            self.send_header("ETag", '"5d41402abc4b2a76b9719d911017c592"')
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else answer.body)
