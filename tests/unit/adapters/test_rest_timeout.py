"""A REST catalog that does not answer holds nobody for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest
from pyiceberg.catalog.rest import RestCatalog

from secor.adapters.iceberg.catalog import IcebergTables, TimeLimit, limit_requests, open_catalog
from secor.core.errors import Unavailable


class Silent(BaseHTTPRequestHandler):
    """Answers the question for its settings, and nothing else."""

    ended = threading.Event()

    def do_GET(self) -> None:
        if "/config" not in self.path:
            self.ended.wait(30)
            return
        body = b'{"defaults": {}, "overrides": {}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def silent_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Silent.ended.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_catalog_that_is_silent_is_unavailable_after_a_while(
    silent_server: str,
) -> None:
    library = cast("RestCatalog", open_catalog("rest", {"type": "rest", "uri": silent_server}))
    assert isinstance(library._session.get_adapter(silent_server), TimeLimit)
    limit_requests(library, (0.2, 0.2))
    with pytest.raises(Unavailable, match=r"namespace db: .*timed out"):
        IcebergTables(library).list_tables("db")
