"""The request that puts an object, as it would leave the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import crc32c
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from secor.adapters.s3 import S3Store
from secor.adapters.s3.client import connect
from secor.adapters.s3.multipart import encoded
from secor.adapters.s3.store import WHOLE_BYTES
from secor.core.errors import RestartPartition


class Wire:
    """Keeps the requests of a client, and answers each that it is done."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.bodies: list[object] = []

    def __call__(self, request: Any, **_: object) -> AWSResponse:
        headers = {name: _text(value) for name, value in request.headers.items()}
        self.headers.append(headers)
        body = request.body
        self.bodies.append(body if isinstance(body, bytes) else body.read())
        done = HTTPHeaders.from_dict({"etag": '"1"'})
        return AWSResponse(request.url, 200, done, _Empty())


class _Empty:
    """The body of an answer."""

    def stream(self) -> list[bytes]:
        return []


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    wire = Wire()

    def connected(**settings: Any) -> Any:
        client = connect(**settings)
        client.meta.events.register("before-send.s3", cast("Any", wire))
        return client

    monkeypatch.setattr("secor.adapters.s3.store.connect", connected)
    return wire


@pytest.fixture
def store(wire: Wire) -> S3Store:
    return S3Store("b", region="us-east-1", access_key="k", secret_key="s", tags={"a": "ü b"})


@pytest.mark.parametrize("size", [0, 1, WHOLE_BYTES, WHOLE_BYTES + 1])
def test_a_put_is_conditional_and_checked(
    size: int, store: S3Store, wire: Wire, tmp_path: Path
) -> None:
    content = bytes(size)
    path = tmp_path / "file"
    path.write_bytes(content)
    checksum = crc32c.crc32c(content)
    store.put("a/b=ü/1.seq", path, checksum, {"secor-topic": "t"})
    (headers,) = wire.headers
    assert headers["If-None-Match"] == "*"
    assert headers["x-amz-checksum-crc32c"] == encoded(checksum)
    assert headers["x-amz-meta-secor-topic"] == "t"
    assert headers["x-amz-tagging"] == "a=%C3%BC+b"
    assert headers["User-Agent"].startswith("secor")
    assert wire.bodies == [content]


def test_only_for_a_large_file_the_server_is_first_asked_whether_it_takes_it(
    store: S3Store, wire: Wire, tmp_path: Path
) -> None:
    for size in (WHOLE_BYTES, WHOLE_BYTES + 1):
        path = tmp_path / str(size)
        path.write_bytes(bytes(size))
        store.put(str(size), path, crc32c.crc32c(bytes(size)), {})
    assert [headers.get("Expect") for headers in wire.headers] == [None, "100-continue"]


@pytest.mark.parametrize("size", [10, WHOLE_BYTES + 1])
def test_a_file_that_was_damaged_is_not_sent(
    size: int, store: S3Store, wire: Wire, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    with pytest.raises(RestartPartition):
        store.put("k", path, 1, {})
    assert wire.headers == []
