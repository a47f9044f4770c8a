"""An Iceberg REST catalog in this process: the protocol's table calls over a SQLite catalog.

It answers over HTTP, so a ``FaultProxy`` may stand before it: gone, slow, refusing, or silent
after the commit was done.  Source: the REST catalog's OpenAPI specification (Apache Iceberg).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from pyiceberg import exceptions
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

Answer = tuple[HTTPStatus, Mapping[str, Any]]

_STATUS: Mapping[type[Exception], HTTPStatus] = {
    exceptions.NoSuchNamespaceError: HTTPStatus.NOT_FOUND,
    exceptions.NoSuchTableError: HTTPStatus.NOT_FOUND,
    exceptions.NamespaceAlreadyExistsError: HTTPStatus.CONFLICT,
    exceptions.TableAlreadyExistsError: HTTPStatus.CONFLICT,
    exceptions.CommitFailedException: HTTPStatus.CONFLICT,
}


class RestCatalogServer:
    """Serves tables from a port of its own; ``catalog`` is what lies behind it."""

    def __init__(self, database: Path, warehouse: str, properties: Mapping[str, str]) -> None:
        """``properties`` say how metadata is written, ``s3.endpoint`` and such."""
        uri = f"sqlite:///{database}"
        self.catalog = SqlCatalog("soak", uri=uri, warehouse=warehouse, **properties)
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """What clients take for the catalog."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop listening."""
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

    def answer(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Answer a request; failures of the catalog are answers, too."""
        parts = [unquote(part) for part in urlsplit(target).path.split("/") if part][1:]
        try:
            match method, parts:
                case "GET", ["config"]:
                    return HTTPStatus.OK, {"defaults": {}, "overrides": {}}
                case "POST", ["namespaces"]:
                    namespace = json.loads(body)["namespace"]
                    self.catalog.create_namespace(tuple(namespace))
                    return HTTPStatus.OK, {"namespace": namespace, "properties": {}}
                case "GET", ["namespaces", name]:
                    properties = self.catalog.load_namespace_properties(name)
                    return HTTPStatus.OK, {"namespace": [name], "properties": properties}
                case "GET", ["namespaces", name, "tables"]:
                    tables = self.catalog.list_tables(name)
                    listed = [{"namespace": it[:-1], "name": it[-1]} for it in tables]
                    return HTTPStatus.OK, {"identifiers": listed}
                case "POST", ["namespaces", name, "tables"]:
                    return HTTPStatus.OK, self._create(name, body)
                case "GET", ["namespaces", name, "tables", table]:
                    return HTTPStatus.OK, _described(self.catalog.load_table((name, table)))
                case "POST", ["namespaces", name, "tables", table]:
                    return HTTPStatus.OK, self._commit((name, table), body)
        except tuple(_STATUS) as error:
            status = next(_STATUS[kind] for kind in _STATUS if isinstance(error, kind))
            return status, _error(error, status)
        status = HTTPStatus.NOT_ACCEPTABLE
        return status, _error(ValueError(f"{method} {target}"), status)

    def _create(self, namespace: str, body: bytes) -> Mapping[str, Any]:
        # The library leaves out what is null, and does not read back what is left out.
        request = CreateTableRequest.model_validate({"location": None, **json.loads(body)})
        table = self.catalog.create_table(
            (namespace, request.name),
            request.table_schema,
            request.location,
            request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            request.write_order or UNSORTED_SORT_ORDER,
            request.properties,
        )
        return _described(table)

    def _commit(self, identifier: tuple[str, str], body: bytes) -> Mapping[str, Any]:
        request = CommitTableRequest.model_validate_json(body)
        table = self.catalog.load_table(identifier)
        answer = self.catalog.commit_table(table, request.requirements, request.updates)
        return json.loads(answer.model_dump_json(by_alias=True))


def _described(table: Table) -> Mapping[str, Any]:
    return {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json(by_alias=True)),
        "config": {},
    }


def _error(error: Exception, status: HTTPStatus) -> Mapping[str, Any]:
    return {"error": {"message": str(error), "type": type(error).__name__, "code": status}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, catalog: RestCatalogServer) -> None:
        self.answers: Callable[[str, str, bytes, Mapping[str, str]], Answer] = catalog.answer
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, answer = self.server.answers(self.command, self.path, body, dict(self.headers))
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET  # noqa: N815 - as the base calls it

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
