"""Something else than S3 answers at its address: nothing is taken for stored, and nothing ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import crc32c
import pytest

from secor.adapters.s3 import S3Store
from secor.core.errors import AccessDenied, OutcomeUnknown, Unavailable
from tests.fakes.s3_answers import Answer, AnswerServer, answer_server

ATTEMPTS = 2
LOGIN = Answer(page="<html><body>Please log in.</body></html>")
DONE = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 0\r\n\r\n'

Use = Callable[[S3Store], object]
USES: dict[str, Use] = {
    "put": lambda store: put(store, "k"),
    "head": lambda store: store.head("k"),
    "list": lambda store: list(store.list("x")),
    "open": lambda store: store.open("k"),
    "check": lambda store: store.check(),
}


@pytest.fixture
def server() -> Iterator[AnswerServer]:
    with answer_server() as server:
        yield server


@pytest.fixture
def store(server: AnswerServer) -> Iterator[S3Store]:
    store = S3Store(
        "b-1",
        endpoint_url=server.url,
        access_key="k",
        secret_key="s",
        path_style=True,
        region="us-east-1",
        max_attempts=ATTEMPTS,
    )
    yield store
    store.close()


def put(store: S3Store, key: str) -> None:
    store.put(key, b"content", crc32c.crc32c(b"content"), {})


def answer_all(server: AnswerServer, answer: Answer) -> None:
    server.answers[:] = [answer] * 50


@pytest.mark.parametrize("puts_before", [0, 1])
@pytest.mark.parametrize(
    "answer",
    [
        LOGIN,
        Answer(page=LOGIN.page, headers={"ETag": '"of the page"'}),
        Answer(status=204),
        Answer(status=206),
        Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        Answer(raw=b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: -5\r\n\r\n', closes=True),
        Answer(
            raw=b"HTTP/1.1 200 OK\r\nContent-Length: 1" + b"0" * 20 + b"\r\n\r\nab", closes=True
        ),
        Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000000\r\n\r\nab", closes=True),
        Answer(
            raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n", closes=True
        ),
        Answer(
            raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 19 + b"\r\nabc",
            closes=True,
        ),
    ],
    ids=[
        *("page", "page with tag", "204", "206", "no tag", "negative length"),
        *("length beyond integers", "length beyond memory", "negative chunk", "huge chunk"),
    ],
)
def test_what_is_no_answer_to_a_put_does_not_count_as_done(
    answer: Answer, puts_before: int, server: AnswerServer, store: S3Store
) -> None:
    for number in range(puts_before):
        put(store, f"before-{number}")
    answer_all(server, answer)
    with pytest.raises(OutcomeUnknown, match=r"b-1/k: "):
        put(store, "k")
    server.answers.clear()
    put(store, "k")


@pytest.mark.parametrize("status", [102, 103])
def test_after_an_interim_answer_no_put_gets_that_of_another(
    status: int, server: AnswerServer, store: S3Store
) -> None:
    put(store, "before")
    interim = Answer(raw=b"HTTP/1.1 %d Interim\r\n\r\n" % status + DONE)
    refused = Answer(status=503, code="SlowDown")
    server.answers[:] = [interim, interim, *[refused] * (1 + ATTEMPTS)]
    with pytest.raises(OutcomeUnknown, match=f"HTTP status {status}"):
        put(store, "a")
    with pytest.raises((Unavailable, OutcomeUnknown), match="SlowDown"):
        put(store, "b")


@pytest.mark.parametrize("use", ["put", "head", "list", "open"])
def test_a_page_that_is_not_s3s_is_told_and_tried_again(
    use: str, server: AnswerServer, store: S3Store
) -> None:
    answer_all(server, LOGIN)
    with pytest.raises((Unavailable, OutcomeUnknown), match=r"none of S3's.*endpoint_url"):
        USES[use](store)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("status", [302, 307, 308])
def test_a_redirection_of_every_request_is_told_and_tried_again(
    status: int, use: str, server: AnswerServer, store: S3Store
) -> None:
    answer_all(server, Answer(status=status, headers={"Location": "https://127.0.0.1:1/login"}))
    with pytest.raises(Unavailable, match="sends elsewhere: correct endpoint_url"):
        USES[use](store)
    assert len(server.requests) < 10


def test_a_permanent_redirection_of_every_request_is_a_denial(
    server: AnswerServer, store: S3Store
) -> None:
    answer_all(server, Answer(status=301, headers={"Location": "https://127.0.0.1:1/"}))
    for use in USES.values():
        with pytest.raises(AccessDenied, match=r"301"):
            use(store)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("status", [520, 529, 599, 999])
def test_a_status_that_only_a_proxy_knows_is_that_of_a_failing_server(
    status: int, use: str, server: AnswerServer, store: S3Store
) -> None:
    answer_all(server, Answer(status=status, page="<html>Web server is down</html>"))
    with pytest.raises((Unavailable, OutcomeUnknown), match=str(status)):
        USES[use](store)


@pytest.mark.parametrize("status", [418, 499])
def test_another_unknown_status_is_a_denial(
    status: int, server: AnswerServer, store: S3Store
) -> None:
    answer_all(server, Answer(status=status, page="<html></html>"))
    with pytest.raises(AccessDenied, match=f"HTTP status {status}"):
        put(store, "k")


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 10",
        "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
        "Content-Length: 10\r\nLast-Modified: yesterday",
    ],
    ids=["no time", "no length", "no time that it can read"],
)
def test_an_object_without_size_or_time_is_looked_at_again(
    head: str, server: AnswerServer, store: S3Store
) -> None:
    answer_all(server, Answer(raw=f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode()))
    with pytest.raises(Unavailable, match="none of S3's"):
        store.head("k")
