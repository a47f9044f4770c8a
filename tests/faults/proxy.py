"""An HTTP server that stands before an S3 server and fails on command.

It passes ``Host`` on as it came, so that the signatures of requests stay valid.
"""

from __future__ import annotations

import http.client
import random
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_PIECE = 256 << 10
_NOT_PASSED_ON = frozenset({"connection", "expect", "keep-alive", "transfer-encoding"})


class Fault(StrEnum):
    """What can be done to a request.

    ``DELAY`` passes it on late.  ``RESET``, ``ERROR`` (500) and ``SLOW_DOWN`` (503) do not pass
    it on; ``LOST`` does, and drops the connection instead of answering.  ``CUT`` ends the
    connection in the middle of the request's body, or else of the answer's.  ``SPOIL`` changes
    a byte of the request's body.
    """

    DELAY = "delay"
    RESET = "reset"
    ERROR = "error"
    SLOW_DOWN = "slow_down"
    LOST = "lost"
    CUT = "cut"
    SPOIL = "spoil"


@dataclass(slots=True)
class Rule:
    """Do ``fault`` to requests of ``method`` (any when None) whose target has ``contains``.

    To each with ``probability``, to at most ``times`` of them; ``seconds`` is for delays.
    """

    fault: Fault
    method: str | None = None
    contains: str = ""
    probability: float = 1.0
    times: int | None = None
    seconds: float = 0.0

    def matches(self, method: str, target: str) -> bool:
        """Tell whether it is about this request, the draw aside."""
        return self.method in {None, method} and self.contains in target and self.times != 0


class FaultProxy:
    """The proxy, on a port of its own; ``injected`` counts faults by kind.

    Requests draw in the order in which they come from a generator with ``seed``; the first
    rule that matches and is drawn counts.  While ``outage`` is true every request is reset.
    """

    def __init__(self, upstream: str, *rules: Rule, seed: int = 0) -> None:
        target = urlsplit(upstream)
        assert target.hostname is not None
        assert target.port is not None
        self.upstream = (target.hostname, target.port)
        self.outage = False
        self.injected: Counter[Fault] = Counter()
        self.requests = 0
        self.closing = threading.Event()
        self._rules = list(rules)
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """What clients take for the S3 server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def set(self, *rules: Rule) -> None:
        """Replace all rules, from the next request on; none: all goes well."""
        with self._lock:
            self._rules = list(rules)

    def draw(self, method: str, target: str) -> Rule | None:
        """Decide what happens to a request, and count it."""
        with self._lock:
            self.requests += 1
            if self.outage:
                rule: Rule | None = Rule(Fault.RESET)
            else:
                rule = next(self._drawn(method, target), None)
            if rule is not None:
                self.injected[rule.fault] += 1
                rule.times = None if rule.times is None else rule.times - 1
            return rule

    def answered(
        self,
        method: str,
        target: str,
        headers: Message,
        response: http.client.HTTPResponse,
    ) -> None:
        """Take note of an answer of the server, for subclasses; its body is not read yet."""

    def close(self) -> None:
        """Stop listening; delayed requests go on at once, as resets."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _drawn(self, method: str, target: str) -> Iterator[Rule]:
        for rule in self._rules:
            if rule.matches(method, target) and self._random.random() < rule.probability:
                yield rule


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent about clients that were killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Broken(Exception):
    """The connection ends here, on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        rule = self.server.proxy.draw(self.command, self.path)
        try:
            self._serve(rule)
        except (_Broken, OSError, http.client.HTTPException):
            # Also when the server itself is down, or the client has given up.
            self._reset()

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815 - as the base calls them

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: ``injected`` tells."""

    def _serve(self, rule: Rule | None) -> None:
        fault = rule.fault if rule is not None else None
        if fault is Fault.RESET:
            raise _Broken
        if fault in {Fault.ERROR, Fault.SLOW_DOWN}:
            self._refuse(fault)
            return
        if (
            rule is not None
            and fault is Fault.DELAY
            and self.server.proxy.closing.wait(rule.seconds)
        ):
            raise _Broken
        upstream = http.client.HTTPConnection(*self.server.proxy.upstream, timeout=120)
        try:
            self._pass_on(upstream, fault)
            response = upstream.getresponse()
            self.server.proxy.answered(self.command, self.path, self.headers, response)
            if fault is Fault.LOST:
                response.read()
                raise _Broken
            self._answer(response, cut=fault is Fault.CUT)
        finally:
            upstream.close()

    def _refuse(self, fault: Fault | None) -> None:
        for _ in self._body():
            pass
        status, code = (500, "InternalError") if fault is Fault.ERROR else (503, "SlowDown")
        body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _pass_on(self, upstream: http.client.HTTPConnection, fault: Fault | None) -> None:
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _NOT_PASSED_ON:
                upstream.putheader(name, value)
        chunked = self._chunked
        if chunked:
            upstream.putheader("Transfer-Encoding", "chunked")
        upstream.endheaders()
        middle = self._length() // 2
        sent = 0
        for piece in self._body():
            if fault is Fault.CUT and sent + len(piece) > middle:
                upstream.send(piece[: middle - sent])
                raise _Broken
            if fault is Fault.SPOIL and sent <= middle < sent + len(piece):
                at = middle - sent
                piece = piece[:at] + bytes([piece[at] ^ 1]) + piece[at + 1 :]
            upstream.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            sent += len(piece)
        if chunked:
            upstream.send(b"0\r\n\r\n")

    def _length(self) -> int:
        return int(self.headers.get("Content-Length", 0))

    @property
    def _chunked(self) -> bool:
        return self.headers.get("Transfer-Encoding", "").lower() == "chunked"

    def _body(self) -> Iterator[bytes]:
        if self._chunked:
            while left := int(self.rfile.readline(), 16):
                yield from self._pieces(left)
                self.rfile.readline()
            self.rfile.readline()  # no trailers: they would have to be announced
        else:
            yield from self._pieces(self._length())

    def _pieces(self, left: int) -> Iterator[bytes]:
        while left:
            piece = self.rfile.read(min(left, _PIECE))
            if not piece:
                raise _Broken
            left -= len(piece)
            yield piece

    def _answer(self, response: http.client.HTTPResponse, *, cut: bool) -> None:
        length = response.getheader("Content-Length")
        whole = response.read() if length is None else None
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in _NOT_PASSED_ON:
                self.send_header(name, value)
        if whole is not None and response.status != http.HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        if whole is not None:
            self.wfile.write(whole[: len(whole) // 2] if cut else whole)
        elif self.command != "HEAD":
            self._copy(response, int(length or 0) // 2 if cut else None)
        if cut:
            raise _Broken

    def _copy(self, response: http.client.HTTPResponse, most: int | None) -> None:
        sent = 0
        while piece := response.read(_PIECE if most is None else min(_PIECE, most - sent)):
            self.wfile.write(piece)
            sent += len(piece)

    def _reset(self) -> None:
        """End the connection with a reset instead of an orderly end."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
