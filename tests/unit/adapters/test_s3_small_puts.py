"""Puts after the first one: the same requests, and the same care for what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import crc32c
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from secor.adapters.s3 import S3Store
from secor.adapters.s3.client import connect
from secor.core.errors import AccessDenied, AlreadyExists, OutcomeUnknown, SecorError, Unavailable

METADATA = {"secor-topic": "clicks", "secor-crc": "ab+/=="}
CHANGING = {"authorization", "x-amz-date", "amz-sdk-invocation-id"}


class Answer:
    """What a server says; the body is given once, as from a socket."""

    def __init__(
        self, status: int = 200, code: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        error = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
        self.status = status
        self.headers = HTTPHeaders()
        for name, value in (headers or {}).items():
            self.headers[name] = value
        self._body = error.encode() if code else b""

    def stream(self) -> list[bytes]:
        return [self._body]


class Server:
    """Keeps what a client sends, and gives it these answers, then that all is done."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[dict[str, str]] = []
        self.prepared = 0

    def connected(self, **settings: Any) -> Any:
        client = connect(**settings)
        client.meta.events.register("before-send.s3", cast("Any", self._send))
        client.meta.events.register("before-call.s3.PutObject", cast("Any", self._count))
        return client

    def _send(self, request: Any, **_: object) -> AWSResponse:
        sent = {name.lower(): _text(value) for name, value in request.headers.items()}
        body = request.body
        if body is not None and not isinstance(body, bytes):
            body = body.read()
        self.requests.append({**sent, "": f"{request.method} {request.url} {body!r}"})
        answer = self.answers.pop(0) if self.answers else Answer()
        return AWSResponse(request.url, answer.status, answer.headers, answer)

    def _count(self, **_: object) -> None:
        self.prepared += 1


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr("secor.adapters.s3.store.connect", server.connected)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    return server


def store(**settings: Any) -> S3Store:
    return S3Store("b-1", region="us-east-1", access_key="k", secret_key="s", **settings)


def put(store: S3Store, key: str, metadata: Mapping[str, str] = METADATA) -> None:
    store.put(key, b"content", crc32c.crc32c(b"content"), metadata)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"path_style": True, "endpoint_url": "https://localhost:9000/below"},
        {"endpoint_url": "http://s3.example:80", "conditional_puts": False},
        {"sse": "aws:kms", "kms_key": "arn:aws:kms:key", "storage_class": "STANDARD_IA"},
        {"acl": "bucket-owner-full-control", "tags": {"a": "ü b"}, "session_token": "t/+="},
    ],
    ids=["aws", "path", "virtual-host", "encryption", "acl"],
)
@pytest.mark.parametrize("key", ["a/b=ü&?#%20 +~/1_0_00.seq", "plain"])
def test_a_later_put_is_sent_as_the_first_of_another_store(
    server: Server, settings: dict[str, Any], key: str
) -> None:
    looks = [Answer(404)] if not settings.get("conditional_puts", True) else []
    server.answers = [*looks, Answer(), *looks, Answer(), *looks]
    for warmed in (False, True):
        used = store(**settings)
        if warmed:
            put(used, "other", {"secor-other": "1"})
        put(used, key)
    puts = [sent for sent in server.requests if sent[""].startswith("PUT")]
    first, _, later = ({name: sent[name] for name in sent.keys() - CHANGING} for sent in puts)
    assert later == first
    assert later["x-amz-meta-secor-crc"] == "ab+/=="
    assert server.prepared == 2  # by botocore: the first of each store
    signed = [sent["authorization"].partition("Signature")[0] for sent in puts]
    assert signed[2].split(", ")[1:] == signed[0].split(", ")[1:]  # the names of what is signed


def warm(server: Server, **settings: Any) -> S3Store:
    """Return a store that has put one object, of which the server remembers nothing."""
    warmed = store(**settings)
    put(warmed, "first")
    server.requests.clear()
    server.prepared = 0
    return warmed


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(412, "PreconditionFailed"), AlreadyExists),
        (Answer(403, "AccessDenied"), AccessDenied),
        (Answer(503, "SlowDown"), Unavailable),
        (Answer(500, "InternalError"), OutcomeUnknown),
        (Answer(200, "InternalError"), OutcomeUnknown),  # an error behind a success
    ],
    ids=lambda value: f"{value.status}" if isinstance(value, Answer) else "",
)
def test_what_a_server_refuses_is_told_as_of_every_put(
    server: Server, answer: Answer, error: type[SecorError]
) -> None:
    used = warm(server, max_attempts=1)
    server.answers = [answer]
    with pytest.raises(error):
        put(used, "k")
    assert server.prepared == 0
    put(used, "k")
    assert len(server.requests) == 2


def test_a_failure_is_repeated_and_may_hide_a_success(server: Server) -> None:
    used = warm(server, max_attempts=3)
    server.answers = [Answer(500, "InternalError"), Answer()]
    put(used, "k")
    assert [sent["amz-sdk-request"] for sent in server.requests] == [
        "attempt=1; max=3",
        "attempt=2; max=3",
    ]
    first, second = ({**sent, "authorization": ""} for sent in server.requests)
    assert {name for name in first if first[name] != second[name]} <= {
        "amz-sdk-request",
        "x-amz-date",
    }
    server.answers = [
        Answer(500, "InternalError"),
        Answer(503, "SlowDown"),
        Answer(503, "SlowDown"),
    ]
    with pytest.raises(OutcomeUnknown):
        put(used, "k")


def test_puts_that_succeed_give_back_the_right_to_repeat(server: Server) -> None:
    used = warm(server, max_attempts=2)
    for _ in range(120):  # botocore's quota alone is enough for a hundred
        server.answers = [Answer(500, "InternalError")]
        put(used, "k")
    assert len(server.requests) == 240


def test_a_bucket_of_another_region_is_followed_once(server: Server) -> None:
    used = warm(server)
    moved = {"x-amz-bucket-region": "eu-west-1"}
    server.answers = [Answer(301, "PermanentRedirect", moved)]
    for _ in range(3):
        put(used, "k")
    regions = [sent["authorization"].split("/")[2] for sent in server.requests]
    assert regions == ["us-east-1", *["eu-west-1"] * 3]
    assert {sent[""].split()[1] for sent in server.requests[1:]} == {
        "https://b-1.s3.eu-west-1.amazonaws.com/k"
    }
    assert server.prepared == 1  # the one after the redirection


def test_a_later_put_is_signed_once(server: Server) -> None:
    signed = []
    used = warm(server)
    events = vars(used)["_client"].meta.events
    events.register("before-sign.s3.PutObject", lambda **_: signed.append(1))
    put(used, "k")
    assert len(signed) == 1


def test_credentials_that_change_sign_the_next_put(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = warm(server)
    credentials = vars(used)["_client"]._request_signer._credentials
    credentials.access_key = "renewed"
    put(used, "k")
    assert "Credential=renewed/" in server.requests[0]["authorization"]


def test_metadata_that_is_no_header_is_refused_as_by_botocore(server: Server) -> None:
    used = warm(server)
    with pytest.raises(AccessDenied, match="ascii"):
        put(used, "k", {"secor-topic": "ü"})
    assert not server.requests


def test_a_payload_that_is_signed_is_signed_by_botocore(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = warm(server)
    settings = vars(used)["_client"].meta.config.s3
    monkeypatch.setitem(settings, "payload_signing_enabled", True)
    put(used, "k")
    (sent,) = server.requests
    # The SHA-256 of the content.
    assert sent["x-amz-content-sha256"].startswith("ed7002b439e9ac845f22357d822bac14")
