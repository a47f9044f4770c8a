"""Google Cloud Storage over HTTP, in memory: as much of its XML interface as obstore speaks.

No package has this interface: fake-gcs-server (1.56) and gcp-storage-emulator know the JSON
one.  Here only the cloud's side is a fake: the client, its requests and its retries are real.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

TOKEN = "token-of-tests"
META = "x-goog-meta-"
PAGE = 3
"""Objects of a page, few, so that listings have pages."""


@dataclass(frozen=True, slots=True)
class Stored:
    content: bytes
    metadata: dict[str, str]
    generation: int
    storage_class: str | None


class GcsServer(ThreadingHTTPServer):
    """One bucket, ``secor``, for whoever shows ``TOKEN``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, Stored] = {}
        self.generations = count(1)
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def gcs_server() -> Iterator[GcsServer]:
    with GcsServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: GcsServer

    def do_PUT(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(size)
        if len(content) < size:  # the client has hung up
            self.close_connection = True
            return
        answer = self._reply(content)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _reply(self, content: bytes) -> _Answer:
        bucket, _, key = urlsplit(self.path).path.lstrip("/").partition("/")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _refusal(HTTPStatus.FORBIDDEN, "AccessDenied")
        if bucket != "secor":
            return _refusal(HTTPStatus.NOT_FOUND, "NoSuchBucket")
        with self.server.lock:
            if not key:
                return self._list()
            if self.command == "PUT":
                return self._put(unquote(key), content)
            if self.command == "DELETE":
                return self._delete(unquote(key))
            return self._get(unquote(key))

    def _put(self, key: str, content: bytes) -> _Answer:
        expected = self.headers.get("x-goog-if-generation-match")
        present = self.server.objects.get(key)
        if expected is not None and int(expected) != (present.generation if present else 0):
            return _refusal(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
        names = {name.lower(): value for name, value in self.headers.items()}
        metadata = {
            name.removeprefix(META): value for name, value in names.items() if name.startswith(META)
        }
        generation = next(self.server.generations)
        self.server.objects[key] = Stored(
            content, metadata, generation, names.get("x-goog-storage-class")
        )
        return _Answer(HTTPStatus.OK, headers={"ETag": f'"{generation}"'})

    def _get(self, key: str) -> _Answer:
        stored = self.server.objects.get(key)
        if stored is None:
            return _refusal(HTTPStatus.NOT_FOUND, "NoSuchKey")
        wanted = self.headers.get("Range")
        if wanted is None or self.command == "HEAD":
            return _Answer(HTTPStatus.OK, stored.content, _headers(stored))
        start, _, last = wanted.removeprefix("bytes=").partition("-")
        content = stored.content[int(start) : int(last) + 1]
        if not content:
            return _refusal(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange")
        end = int(start) + len(content) - 1
        span = {"Content-Range": f"bytes {start}-{end}/{len(stored.content)}"}
        return _Answer(HTTPStatus.PARTIAL_CONTENT, content, {**_headers(stored), **span})

    def _delete(self, key: str) -> _Answer:
        if self.server.objects.pop(key, None) is None:
            return _refusal(HTTPStatus.NOT_FOUND, "NoSuchKey")
        return _Answer(HTTPStatus.NO_CONTENT)

    def _list(self) -> _Answer:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        after = max(query.get("start-after", ""), query.get("continuation-token", ""))
        keys = [key for key in sorted(self.server.objects) if key > after]
        keys = [key for key in keys if key.startswith(query.get("prefix", ""))]
        more = ""
        if len(keys) > PAGE:
            more = f"<NextContinuationToken>{escape(keys[PAGE - 1])}</NextContinuationToken>"
        listed = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[key].content)}</Size>"
            "<LastModified>2026-11-22T12:00:00.000Z</LastModified><ETag>e</ETag></Contents>"
            for key in keys[:PAGE]
        )
        body = f"<ListBucketResult>{listed}{more}</ListBucketResult>"
        return _Answer(HTTPStatus.OK, body.encode(), {"Content-Type": "application/xml"})


def _refusal(status: HTTPStatus, code: str) -> _Answer:
    body = f"<Error><Code>{code}</Code><Message>{status.phrase}</Message></Error>"
    return _Answer(status, body.encode(), {"Content-Type": "application/xml"})


def _headers(stored: Stored) -> dict[str, str]:
    shown = {f"{META}{name}": value for name, value in stored.metadata.items()}
    when = formatdate(_NOON, usegmt=True)
    return {"ETag": f'"{stored.generation}"', "Last-Modified": when, **shown}


_NOON = 1_795_348_800
"""2026-11-22T12:00Z in seconds since the epoch."""
