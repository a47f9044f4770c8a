"""A schema registry that speaks the real protocol over HTTP."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote


class Registry:
    """Schemas by id and by subject, and the faults that a test asks for."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.guids: dict[str, dict[str, Any]] = {}
        self.subjects: dict[tuple[str, int], dict[str, Any]] = {}
        self.requests: list[str] = []
        self.failures: list[int] = []
        self.credentials: tuple[str, str] | None = None
        self.token: str | None = None
        self.url = ""
        self.delay = 0.0
        self.redirect: str | None = None
        self.deleted: set[tuple[str, int]] = set()
        self.compatibility: dict[str, str] = {"": "BACKWARD"}
        self.query: dict[str, list[str]] = {}
        self.modes: dict[str, str] = {}
        self.takes_ids = True
        self.incompatible = False

    def register(
        self,
        schema_id: int,
        schema: Any,
        *,
        kind: str | None = None,
        subject: str | None = None,
        version: int = 1,
        guid: str | None = None,
        references: Sequence[dict[str, Any]] = (),
    ) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer: dict[str, Any] = {"schema": text}
        if kind is not None:
            answer["schemaType"] = kind
        if references:
            answer["references"] = list(references)
        self.schemas[schema_id] = answer
        if subject is not None:
            place = {"subject": subject, "version": version, "id": schema_id}
            self.subjects[subject, version] = answer | place
        if guid is not None:
            self.guids[guid] = answer

    def answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        self.requests.append(path)
        if self.failures:
            return self.failures.pop(0), {"error_code": 50001, "message": "as told"}
        if self.credentials is not None:
            expected = base64.b64encode(":".join(self.credentials).encode()).decode()
            if authorization != f"Basic {expected}":
                return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.token is not None and authorization != f"Bearer {self.token}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        return self._found([unquote(part) for part in path.strip("/").split("/")])

    def _found(self, parts: list[str]) -> tuple[int, Any]:
        if parts[0] in ("ids", "groups"):
            return self._of_apicurio(parts)
        if parts == ["schemas"]:
            return 200, self._listed()
        if parts[0] == "mode":
            mode = self.modes.get(parts[1])
            return (200, {"mode": mode}) if mode else (404, {"error_code": 40409, "message": ""})
        if parts[0] == "config":
            level = self.compatibility.get(parts[1] if len(parts) > 1 else "")
            unknown = {"error_code": 40408, "message": "Subject does not have a configuration"}
            return (200, {"compatibilityLevel": level}) if level else (404, unknown)
        if parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            return (200, found) if found else (404, {"error_code": 40403, "message": "not found"})
        if parts[:2] == ["schemas", "guids"]:
            found = self.guids.get(parts[2])
            return (200, found) if found else (404, {"error_code": 40403, "message": "not found"})
        if parts[0] == "subjects":
            found = self.subjects.get((parts[1], int(parts[3])))
            return (200, found) if found else (404, {"error_code": 40401, "message": "not found"})
        return 404, {"message": "no such resource"}

    def change(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Do what POST, PUT and DELETE ask for, as a registry does that knows the mode IMPORT."""
        self.requests.append(f"{method} {path}")
        if self.failures:
            return self.failures.pop(0), {"error_code": 50001, "message": "as told"}
        parts = [unquote(part) for part in path.strip("/").split("/")]
        name = parts[1] if len(parts) > 1 else ""
        if parts[0] == "config":
            self.compatibility[name] = body["compatibility"]
            return 200, body
        if parts[0] == "mode":
            return self._set_mode(method, name, body)
        if method == "DELETE":
            self.deleted.add((name, int(parts[3])))
            return 200, int(parts[3])
        if self.modes.get(name) != "IMPORT":
            if "id" not in body:
                return self._append(name, body)
            return 422, {"error_code": 42205, "message": f"Subject {name} is not in import mode"}
        found = self.schemas.get(body["id"])
        if found is not None and found["schema"] != body["schema"]:
            message = f"Overwrite new schema with id {body['id']} is not permitted."
            return 422, {"error_code": 42205, "message": message}
        kind, references = body.get("schemaType"), body.get("references", ())
        self.register(
            body["id"],
            body["schema"],
            kind=kind,
            subject=name,
            version=body["version"],
            references=references,
        )
        return 200, {"id": body["id"]}

    def _append(self, subject: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Register as a producer does: behind the other versions, under the next id."""
        if self.incompatible:
            message = f"Schema being registered is incompatible with an earlier one of {subject}"
            return 409, {"error_code": 409, "message": message}
        kind, references = body.get("schemaType"), body.get("references", ())
        same = {"schema": body["schema"], **({"schemaType": kind} if kind else {})}
        if references:
            same["references"] = list(references)
        known = [number for number, schema in self.schemas.items() if schema == same]
        schema_id = known[0] if known else max(self.schemas, default=0) + 1
        version = max((number for name, number in self.subjects if name == subject), default=0) + 1
        self.register(
            schema_id,
            body["schema"],
            kind=kind,
            subject=subject,
            version=version,
            references=references,
        )
        return 200, {"id": schema_id}

    def _set_mode(self, method: str, subject: str, body: dict[str, Any]) -> tuple[int, Any]:
        if not self.takes_ids:
            return 405, {"message": "HTTP 405 Method Not Allowed"}
        if method == "DELETE":
            return 200, {"mode": self.modes.pop(subject)}
        if any(name == subject for name, _ in self.subjects):
            message = f"Cannot import since found existing subjects: {subject}"
            return 422, {"error_code": 42205, "message": message}
        self.modes[subject] = body["mode"]
        return 200, body

    def _listed(self) -> list[dict[str, Any]]:
        deleted = self.query["deleted"] == ["true"]
        known = [it for it in sorted(self.subjects) if deleted or it not in self.deleted]
        begin, limit = int(self.query["offset"][0]), int(self.query["limit"][0])
        return [self.subjects[it] for it in known[begin : begin + limit]]

    def _of_apicurio(self, parts: list[str]) -> tuple[int, Any]:
        """Answer as Apicurio's own interface does; artifacts are the subjects."""
        references = parts[-1] == "references"
        if parts[0] == "ids":
            found = self.schemas.get(int(parts[2]))
        else:
            assert parts[1] == "default"
            found = self.subjects.get((parts[3], int(parts[5])))
        if found is None:
            return 404, {"status": 404, "name": "ContentNotFoundException"}
        if not references:
            return 200, found["schema"]
        named = found.get("references", [])
        return 200, [
            {"name": it["name"], "groupId": None, "artifactId": it["subject"], "version": "1"}
            for it in named
        ]


@contextmanager
def running_registry(tls: ssl.SSLContext | None = None) -> Iterator[Registry]:
    """Serve a registry on a port of the system's choice, by TLS if a context is given."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(registry.delay)
            if registry.redirect is not None and not self.path.endswith("?moved"):
                self.send_response(302)
                self.send_header("Location", f"{registry.redirect}{self.path}?moved")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            registry.query = parse_qs(self.path.partition("?")[2])
            status, body = registry.answer(
                self.path.partition("?")[0], self.headers.get("Authorization")
            )
            self._send(status, body)

        def do_POST(self) -> None:
            self._change()

        def do_PUT(self) -> None:
            self._change()

        def do_DELETE(self) -> None:
            self._change()

        def _change(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            given = json.loads(self.rfile.read(length) or b"{}")
            self._send(*registry.change(self.command, self.path.partition("?")[0], given))

        def _send(self, status: int, body: Any) -> None:
            content = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    registry.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
