"""Faults below the clouds' stores: on the way to the server, and its refusals."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import crc32c
import pytest

from secor.adapters.clouds import CloudStore, gcs_store
from secor.core.errors import AccessDenied, AlreadyExists, NotFound, OutcomeUnknown, Unavailable
from secor.core.small_objects import read_bytes
from tests.fakes.gcs_server import TOKEN, GcsServer, gcs_server
from tests.faults.proxy import Fault, FaultProxy, Rule

BODY = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def server() -> Iterator[GcsServer]:
    with gcs_server() as running:
        yield running


@pytest.fixture
def proxy(server: GcsServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.url) as running:
        yield running


@pytest.fixture
def key() -> str:
    return f"faults/{uuid.uuid4().hex}"


def store_at(url: str, *, attempts: int = 2) -> CloudStore:
    return gcs_store(
        "secor", endpoint_url=url, token=TOKEN, max_attempts=attempts, request_timeout=2
    )


def put(store: CloudStore, key: str) -> None:
    store.put(key, BODY, crc32c.crc32c(BODY), {"topic": "clicks"})


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.SLOW_DOWN])
def test_a_passing_refusal_is_asked_again(fault: Fault, proxy: FaultProxy, key: str) -> None:
    store = store_at(proxy.url)
    for method in ("PUT", "HEAD", "GET"):
        proxy.set(Rule(fault, method=method, times=1))
        if method == "PUT":
            put(store, key)
        elif method == "HEAD":
            assert store.head(key).size == len(BODY)
        else:
            assert read_bytes(store, key) == BODY
    assert proxy.injected[fault] == 3


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.LOST, Fault.CUT])
def test_a_put_whose_answer_does_not_come_has_an_unknown_outcome(
    fault: Fault, proxy: FaultProxy, key: str
) -> None:
    store = store_at(proxy.url, attempts=1)
    proxy.set(Rule(fault, method="PUT"))
    with pytest.raises(OutcomeUnknown):
        put(store, key)
    proxy.set()
    if fault is Fault.LOST:
        assert read_bytes(store, key) == BODY
        with pytest.raises(AlreadyExists):
            put(store, key)
    else:
        assert read_bytes(store, key) is None


def test_a_body_that_is_cut_is_never_an_object(
    proxy: FaultProxy, server: GcsServer, key: str
) -> None:
    proxy.set(Rule(Fault.CUT, method="PUT", times=1))
    with pytest.raises(OutcomeUnknown):
        put(store_at(proxy.url, attempts=1), key)
    assert key not in server.objects


def test_an_answer_that_breaks_off_is_never_taken_for_the_object(
    proxy: FaultProxy, key: str
) -> None:
    store = store_at(proxy.url)
    put(store, key)
    proxy.set(Rule(Fault.CUT, method="GET", times=1))
    try:
        assert read_bytes(store, key) == BODY  # asked for again from where it broke
    except Unavailable:
        assert proxy.injected[Fault.CUT] == 1
    proxy.set()
    assert read_bytes(store, key) == BODY


def test_a_server_that_hangs_is_not_waited_for_longer_than_told(
    proxy: FaultProxy, key: str
) -> None:
    proxy.set(Rule(Fault.DELAY, seconds=60))
    store = gcs_store(
        "secor", endpoint_url=proxy.url, token=TOKEN, max_attempts=1, request_timeout=0.3
    )
    with pytest.raises(Unavailable):
        store.head(key)
    with pytest.raises(OutcomeUnknown):
        put(store, key)


def test_a_server_that_is_away_is_unavailable_with_advice(key: str) -> None:
    store = store_at("http://127.0.0.1:9", attempts=1)
    with pytest.raises(Unavailable, match=r"endpoint_url of \[store.gcs\]"):
        store.check()
    with pytest.raises(Unavailable):
        store.delete(key)


def test_wrong_credentials_and_a_missing_bucket_are_told(server: GcsServer, key: str) -> None:
    stranger = gcs_store("secor", endpoint_url=server.url, token="hidden")
    elsewhere = gcs_store("none", endpoint_url=server.url, token=TOKEN)
    for store, advice in ((stranger, "allow storage.objects"), (elsewhere, "make the bucket")):
        for call in (store.check, lambda store=store: put(store, key)):
            with pytest.raises(AccessDenied, match=advice) as raised:
                call()
            assert "hidden" not in str(raised.value)
    with pytest.raises(NotFound):
        store_at(server.url).head(key)
