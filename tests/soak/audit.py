"""The fault proxy with a memory: every successful put, so that none can be hidden."""

from __future__ import annotations

import base64
import http.client
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from urllib.parse import parse_qs, unquote, urlsplit

from tests.faults.proxy import FaultProxy

_CHECKSUM = "x-amz-checksum-crc32c"


@dataclass(frozen=True, slots=True)
class Put:
    """A put that the server said yes to.

    ``crc32c`` is None where the request had none; ``upload`` is the id of one in parts.
    """

    key: str
    crc32c: int | None
    conditional: bool
    upload: str | None = None


class Audit:
    """Every change of the store, and what must not be among them.  Threads may share it."""

    def __init__(
        self,
        bucket: str,
        violated: Callable[[str], None],
        *,
        of_others: Callable[[str], bool] = lambda key: False,
        may_be_deleted: Callable[[str], bool] = lambda key: False,
    ) -> None:
        """Keys ``of_others`` are not looked at; those that ``may_be_deleted`` never come back."""
        self._bucket = bucket
        self._violated = violated
        self._of_others = of_others
        self._may_be_deleted = may_be_deleted
        self._lock = threading.Lock()
        self._deleted: set[str] = set()
        self.puts: dict[str, Put] = {}
        self.refused = 0
        self.upgraded = False
        """Whoever finds an intent of other settings deletes what is put of it, and puts its own."""
        self.superseded = 0

    def answered(
        self, method: str, target: str, headers: Mapping[str, str], status: int, body: bytes
    ) -> None:
        """Take note of a server's answer.

        Names of ``headers`` are in lower case; ``body`` is the beginning of the answer's.
        """
        url = urlsplit(target)
        query = parse_qs(url.query, keep_blank_values=True)
        key = unquote(url.path).removeprefix(f"/{self._bucket}/")
        if self._of_others(key):
            return
        whole = method == "PUT" and "partNumber" not in query
        completed = method == "POST" and "uploadId" in query
        if method == "DELETE" and "uploadId" not in query and status < 300:
            self._delete(key)
        if not (whole or completed):
            return
        if status >= 300 or b"<Error" in body:
            with self._lock:
                self.refused += 1
            return
        conditional = headers.get("if-none-match") == "*"
        upload = query["uploadId"][0] if completed else None
        self._put(Put(key, checksum(headers.get(_CHECKSUM)), conditional, upload))

    def _delete(self, key: str) -> None:
        with self._lock:
            if self._may_be_deleted(key):
                self._deleted.add(key)
            elif self.upgraded:
                self.superseded += self.puts.pop(key, None) is not None
            else:
                self._violated(f"{key} was deleted")

    def _put(self, put: Put) -> None:
        if not put.conditional:
            self._violated(f"{put.key} was put without If-None-Match")
        with self._lock:
            earlier = self.puts.setdefault(put.key, put)
        # To be asked once more to complete the very same upload is no second put.
        if earlier is not put and (put.upload is None or put.upload != earlier.upload):
            self._violated(f"{put.key} was put twice: {earlier} and {put}")

    def compare(self, stored: Iterable[tuple[str, int]]) -> None:
        """Compare with the keys and CRC32C of what is stored in the end."""
        there = dict(stored)
        for key in self.puts.keys() - there.keys() - self._deleted:
            self._violated(f"{key} was put and is not there any more")
        for key in there.keys() & self._deleted:
            self._violated(f"{key} was deleted and is there again")
        for key in there.keys() - self.puts.keys():
            if not self._of_others(key):
                self._violated(f"{key} is there and was never put")
        for key in there.keys() & self.puts.keys():
            expected = self.puts[key].crc32c
            if expected is not None and expected != there[key]:
                self._violated(f"{key} has CRC32C {there[key]:08x}, it was put with {expected:08x}")


def checksum(header: str | None) -> int | None:
    """Return the CRC32C of a header: big-endian in base64."""
    return None if header is None else int.from_bytes(base64.b64decode(header), "big")


class AuditingProxy(FaultProxy):
    """Tells an audit of every answer of the server, whether it reaches the client or not."""

    def __init__(self, upstream: str, audit: Audit, seed: int) -> None:
        self._audit = audit
        super().__init__(upstream, seed=seed)

    def answered(
        self,
        method: str,
        target: str,
        headers: Message,
        response: http.client.HTTPResponse,
    ) -> None:
        """Tell it."""
        body = response.peek(1024) if method == "POST" else b""
        lower = {name.lower(): value for name, value in headers.items()}
        self._audit.answered(method, target, lower, response.status, body)
