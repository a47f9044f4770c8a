"""Puts after the first one: the same requests, and the same care for what goes wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import crc32c
import pytest

from secor.adapters.s3 import S3Store
from secor.core.errors import AccessDenied, AlreadyExists, OutcomeUnknown, SecorError, Unavailable
from tests.certificates import Authority
from tests.fakes.s3_answers import Answer, AnswerServer, answer_server

METADATA = {"secor-topic": "clicks", "secor-crc": "ab+/=="}
DIFFERENT = {
    "accept-encoding",
    "amz-sdk-invocation-id",
    "amz-sdk-request",
    "authorization",
    "x-amz-date",
}
"""Headers that have no meaning for the object, or another value in each request."""


@pytest.fixture
def server() -> Iterator[AnswerServer]:
    with answer_server() as server:
        yield server


_opened: list[S3Store] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def store(server: AnswerServer, **settings: Any) -> S3Store:
    defaults = {"access_key": "k", "secret_key": "s", "path_style": True, "region": "us-east-1"}
    opened = S3Store("b-1", **{"endpoint_url": server.url, **defaults, **settings})
    _opened.append(opened)
    return opened


def put(store: S3Store, key: str, metadata: Mapping[str, str] = METADATA) -> None:
    store.put(key, b"content", crc32c.crc32c(b"content"), metadata)


def warm(server: AnswerServer, **settings: Any) -> S3Store:
    """Return a store that has put one object, of which the server remembers nothing."""
    warmed = store(server, **settings)
    put(warmed, "first", {"secor-other": "1"})
    server.requests.clear()
    return warmed


def by_botocore(server: AnswerServer) -> list[bool]:
    """Tell of each request whether botocore sent it."""
    return [request.by_botocore for request in server.requests]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"below": True},
        {"conditional_puts": False},
        {"sse": "aws:kms", "kms_key": "arn:aws:kms:key", "storage_class": "STANDARD_IA"},
        {"acl": "bucket-owner-full-control", "tags": {"a": "ü b"}, "session_token": "t/+="},
    ],
    ids=["plain", "path", "unconditional", "encryption", "acl"],
)
@pytest.mark.parametrize("key", ["a/b=ü&?#%20 +~/../x//1_0_00.seq", "plain"])
def test_a_later_put_is_sent_as_the_first_of_another_store(
    server: AnswerServer, settings: dict[str, Any], key: str
) -> None:
    looks = [Answer(404)] if not settings.get("conditional_puts", True) else []
    server.answers = [*looks, Answer(), *looks, Answer(), *looks]
    settings = dict(settings)
    if settings.pop("below", False):
        settings["endpoint_url"] = f"{server.url}/below"
    put(store(server, **settings), key)
    warmed = store(server, **settings)
    put(warmed, "other", {"secor-other": "1"})
    put(warmed, key)
    first, _, later = (request for request in server.requests if request.method == "PUT")
    assert (first.by_botocore, later.by_botocore) == (True, False)
    assert (later.target, later.body) == (first.target, first.body)
    for name in DIFFERENT:
        first.headers.pop(name, None), later.headers.pop(name, None)
    assert later.headers == first.headers
    assert later.headers["x-amz-meta-secor-crc"] == "ab+/=="


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(412, "PreconditionFailed"), AlreadyExists),
        (Answer(403, "AccessDenied"), AccessDenied),
        (Answer(500, "InternalError"), OutcomeUnknown),
        (Answer(200, "InternalError"), OutcomeUnknown),  # an error behind a success
        (Answer(0), OutcomeUnknown),  # no answer
    ],
    ids=lambda value: f"{value.status}" if isinstance(value, Answer) else "",
)
def test_what_a_server_refuses_is_told_as_of_every_put(
    server: AnswerServer, answer: Answer, error: type[SecorError]
) -> None:
    used = warm(server, max_attempts=1)
    server.answers = [answer] * 2  # botocore repeats it once
    with pytest.raises(error):
        put(used, "k")
    server.answers.clear()
    for key in ("k", "other"):
        put(used, key)
    assert by_botocore(server) == [False, True, False, False]


def test_a_failure_is_repeated(server: AnswerServer) -> None:
    used = warm(server)
    server.answers = [Answer(500, "InternalError")]
    put(used, "k")
    assert by_botocore(server) == [False, True]
    first, *_, last = server.requests
    assert (first.body, first.target) == (last.body, last.target)


def test_a_failure_may_hide_that_the_first_put_succeeded(server: AnswerServer) -> None:
    used = warm(server, max_attempts=1)
    server.answers = [Answer(500, "InternalError"), Answer(503, "SlowDown")]
    with pytest.raises(OutcomeUnknown):
        put(used, "k")
    put(used, "other")
    server.answers = [Answer(503, "SlowDown")] * 2
    with pytest.raises(Unavailable):
        put(used, "k")


def test_an_answer_that_does_not_come_is_not_awaited_for_ever(server: AnswerServer) -> None:
    used = warm(server, read_timeout=0.2)
    forever = threading.Event()
    server.answers = [Answer(delay=forever)]
    try:
        put(used, "k")
    finally:
        forever.set()
    assert by_botocore(server) == [False, True]


@pytest.mark.parametrize(
    "closing",
    [Answer(headers={"Connection": "close"}), Answer(closes=True)],
    ids=["said", "silent"],
)
def test_a_connection_that_the_server_closed_costs_nothing(
    server: AnswerServer, closing: Answer
) -> None:
    used = warm(server)
    put(used, "k")
    server.answers = [closing]
    for _ in range(3):
        put(used, "k")
        time.sleep(0.05)  # the end of a connection is on its way
    assert by_botocore(server) == [False] * 4


def test_a_bucket_of_another_region_is_followed_once(server: AnswerServer) -> None:
    used = warm(server)
    moved = Answer(400, "AuthorizationHeaderMalformed", region="eu-west-1")
    server.answers = [moved, moved]
    for _ in range(3):
        put(used, "k")
    assert [request.region for request in server.requests] == [
        "us-east-1",
        "us-east-1",
        *["eu-west-1"] * 3,
    ]
    assert by_botocore(server) == [False, True, True, False, False]


def test_credentials_that_change_sign_the_next_put(server: AnswerServer) -> None:
    used = warm(server)
    put(used, "k")
    credentials = vars(used)["_client"]._request_signer._credentials
    credentials.access_key, credentials.token = "renewed", "new token"
    put(used, "other")
    assert "Credential=k/" in server.requests[0].headers["authorization"]
    assert "Credential=renewed/" in server.requests[1].headers["authorization"]
    assert server.requests[1].headers["x-amz-security-token"] == "new token"
    assert by_botocore(server) == [False, False]


def test_metadata_that_is_no_header_is_refused_as_by_botocore(server: AnswerServer) -> None:
    used = warm(server)
    with pytest.raises(AccessDenied, match="ascii"):
        put(used, "k", {"secor-topic": "ü"})
    assert not server.requests


@pytest.mark.parametrize("changed", ["payload", "proxy", "environment"])
def test_what_only_botocore_can_do_is_left_to_botocore(
    changed: str, server: AnswerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {}
    if changed == "proxy":
        settings = {"proxies": {"http": server.url}}
    elif changed == "environment":
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("NO_PROXY", "nowhere")
    used = store(server, **settings)
    if changed == "payload":
        client = vars(used)["_client"]
        monkeypatch.setitem(client.meta.config.s3, "payload_signing_enabled", True)
    for _ in range(2):
        put(used, "k")
    assert by_botocore(server) == [True, True]


@pytest.mark.filterwarnings("ignore:Unverified HTTPS")
def test_puts_by_tls_trust_the_authority_of_the_settings(tmp_path: Path) -> None:
    ours, foreign = Authority(tmp_path, "ours"), Authority(tmp_path, "foreign")
    certificate = ours.issue("server", hosts=("localhost",))
    with answer_server(certificate) as server:
        for settings in ({"ca_bundle": str(ours.path)}, {"verify_tls": False}):
            used = warm(server, **cast("dict[str, Any]", settings))
            put(used, "k")
            assert by_botocore(server) == [False]
        used = store(server, ca_bundle=str(ours.path))
        vars(vars(vars(used)["_client"])["_endpoint"].http_session)["_verify"] = str(foreign.path)
        with pytest.raises(AccessDenied):
            put(used, "k")
        server.requests.clear()


def test_threads_may_put_while_another_one_learns_of_a_move(server: AnswerServer) -> None:
    used = warm(server)
    hanging = threading.Event()
    moved = Answer(400, "AuthorizationHeaderMalformed", region="eu-west-1")
    server.answers = [Answer(delay=hanging), moved, moved]
    with ThreadPoolExecutor(1) as other:
        slow = other.submit(put, used, "slow")
        while not server.requests:
            time.sleep(0.001)
        put(used, "moved")
        hanging.set()
        slow.result()
    put(used, "k")
    assert by_botocore(server) == [False, False, True, True, False]


def test_threads_share_a_store(server: AnswerServer) -> None:
    used = warm(server)

    def put_some(thread: int) -> None:
        for number in range(25):
            put(used, f"{thread}/{number}")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(put_some, range(6)))
    assert len({request.target for request in server.requests}) == 150 == len(server.requests)
    assert not any(by_botocore(server))
