"""The fault proxy with a memory: every successful put, so that none can be hidden."""

from __future__ import annotations

import base64
import http.client
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from urllib.parse import parse_qs, unquote, urlsplit

from tests.faults.proxy import FaultProxy

_CHECKSUM = "x-amz-checksum-crc32c"
_OBJECT = re.compile(
    r"(?P<log>.*/[0-9]+_[0-9]+_)(?P<start>[0-9]{20})(\.rewrite-(?P<n>[0-9]+)-to-(?P<end>[0-9]+))?\..*"
)
"""The name of an object: a rewritten one tells how often, and where its range ends."""


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
        self.rewritten = False
        """Objects may be deleted when another is there that takes their place."""
        self.replaced = 0
        self._replacing: dict[str, list[tuple[int, int, int]]] = {}

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
            elif self.rewritten and self._is_replaced(key):
                self.replaced += key not in self._deleted
                self._deleted.add(key)
            elif self.upgraded:
                self.superseded += self.puts.pop(key, None) is not None
            else:
                self._violated(f"{key} was deleted")

    def _is_replaced(self, key: str) -> bool:
        """Tell whether what was put later has the range of an object in it."""
        match = _OBJECT.fullmatch(key)
        return match is not None and any(
            start <= int(match["start"]) < end and number > int(match["n"] or 0)
            for start, end, number in self._replacing.get(match["log"], ())
        )

    def _put(self, put: Put) -> None:
        if not put.conditional:
            self._violated(f"{put.key} was put without If-None-Match")
        with self._lock:
            earlier = self.puts.setdefault(put.key, put)
            match = _OBJECT.fullmatch(put.key)
            if match is not None and match["end"]:
                numbers = int(match["start"]), int(match["end"]), int(match["n"])
                self._replacing.setdefault(match["log"], []).append(numbers)
            # A put may take effect late, when its object has been replaced.
            if put.key in self._deleted and self._is_replaced(put.key):
                earlier = put if put.crc32c == earlier.crc32c else earlier
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
