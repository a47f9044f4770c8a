"""S3 errors of every kind, between the store and a real server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import crc32c
import pytest

from secor.adapters.s3 import S3Store
from secor.core.errors import AlreadyExists, OutcomeUnknown, SecorError, Unavailable
from tests.faults.proxy import Fault, FaultProxy, Rule

if TYPE_CHECKING:
    from secor.sandbox import Sandbox

MIB = 1 << 20
SMALL = b"content " * 1000
LARGE = bytes(range(256)) * (11 * MIB // 256)
METADATA = {"topic": "clicks"}

Connect = Callable[..., S3Store]


@pytest.fixture
def proxy(sandbox: Sandbox) -> Iterator[FaultProxy]:
    with FaultProxy(sandbox.s3.endpoint_url) as running:
        yield running


@pytest.fixture
def connect(sandbox: Sandbox, proxy: FaultProxy) -> Connect:
    """Makes a store behind the proxy, in which boto tries once unless told otherwise.

    Its ``later`` puts go another way than its first one.
    """

    def store(max_attempts: int = 1, read_timeout: float = 60.0, *, later: bool = False) -> S3Store:
        access = sandbox.s3
        made = S3Store(
            access.bucket,
            endpoint_url=proxy.url,
            region=access.region,
            path_style=True,
            access_key=access.access_key,
            secret_key=access.secret_key,
            part_size=5 * MIB,
            multipart_threshold=6 * MIB,
            max_attempts=max_attempts,
            read_timeout=read_timeout,
        )
        if later:
            content = b"first"
            made.put(f"warm/{uuid.uuid4().hex}", content, crc32c.crc32c(content), METADATA)
        return made

    return store


@pytest.fixture
def key() -> str:
    return f"faults/{uuid.uuid4().hex}/a"


def put(store: S3Store, key: str, data: bytes, folder: Path) -> None:
    path = folder / uuid.uuid4().hex
    path.write_bytes(data)
    try:
        store.put(key, path, crc32c.crc32c(data), METADATA)
    finally:
        path.unlink()


def put_until_there(store: S3Store, key: str, data: bytes, folder: Path) -> list[SecorError]:
    """Repeat as an upload does; return what it met on the way."""
    met: list[SecorError] = []
    for _ in range(50):
        try:
            put(store, key, data, folder)
        except AlreadyExists as error:
            return [*met, error]
        except (Unavailable, OutcomeUnknown) as error:
            met.append(error)
        else:
            return met
    raise AssertionError(f"{key} could not be put: {met}")


def assert_whole(store: S3Store, key: str, data: bytes) -> None:
    assert [item.key for item in store.list(key.rpartition("/")[0])] == [key]
    assert store.head(key).metadata == METADATA
    with store.open(key) as file:
        assert file.read() == data


def open_uploads(sandbox: Sandbox, key: str) -> int:
    access = sandbox.s3
    client = boto3.client(
        "s3",
        endpoint_url=access.endpoint_url,
        region_name=access.region,
        aws_access_key_id=access.access_key,
        aws_secret_access_key=access.secret_key,
    )
    uploads = client.list_multipart_uploads(Bucket=access.bucket).get("Uploads", [])
    client.close()
    return sum(upload["Key"] == key for upload in uploads)


@pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
@pytest.mark.parametrize(
    ("fault", "error", "stored"),
    [
        (Fault.RESET, OutcomeUnknown, False),
        (Fault.ERROR, OutcomeUnknown, False),
        (Fault.SLOW_DOWN, Unavailable, False),
        (Fault.LOST, OutcomeUnknown, True),
        (Fault.CUT, OutcomeUnknown, False),
        (Fault.SPOIL, Unavailable, False),
    ],
)
def test_a_put_that_fails_says_whether_it_may_have_had_effect_and_can_be_repeated(
    connect: Connect,
    proxy: FaultProxy,
    key: str,
    tmp_path: Path,
    fault: Fault,
    error: type[SecorError],
    stored: bool,
    later: bool,
) -> None:
    store = connect(later=later)
    times = 2 if later else 1  # a later one is botocore's only when it has failed
    proxy.set(Rule(fault, method="PUT", times=times))
    with pytest.raises(error):
        put(store, key, SMALL, tmp_path)
    assert (key in [item.key for item in store.list(key)]) == stored
    met = put_until_there(store, key, SMALL, tmp_path)
    assert [type(each) for each in met] == ([AlreadyExists] if stored else [])
    assert_whole(store, key, SMALL)
    assert proxy.injected == {fault: times}


def test_a_put_that_takes_too_long_may_have_had_effect(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path
) -> None:
    store = connect(read_timeout=0.5, later=True)
    proxy.set(Rule(Fault.DELAY, method="PUT", seconds=600))
    with pytest.raises(OutcomeUnknown):
        put(store, key, SMALL, tmp_path)
    proxy.set()
    patient = connect()
    put_until_there(patient, key, SMALL, tmp_path)
    assert_whole(patient, key, SMALL)


def test_a_short_delay_is_only_waited_for(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path
) -> None:
    store = connect()
    proxy.set(Rule(Fault.DELAY, seconds=0.05))
    put(store, key, SMALL, tmp_path)
    assert_whole(store, key, SMALL)
    assert proxy.injected[Fault.DELAY] == proxy.requests


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.SLOW_DOWN, Fault.CUT])
def test_boto_repeats_what_failed_without_effect(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path, fault: Fault
) -> None:
    store = connect(max_attempts=3, later=True)
    proxy.set(Rule(fault, method="PUT", times=3))
    put(store, key, SMALL, tmp_path)
    assert_whole(store, key, SMALL)


def test_when_boto_repeats_a_put_whose_answer_was_lost_it_meets_our_own_object(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path
) -> None:
    store = connect(max_attempts=3, later=True)
    proxy.set(Rule(Fault.LOST, method="PUT", times=1))
    with pytest.raises(AlreadyExists):
        put(store, key, SMALL, tmp_path)
    assert_whole(store, key, SMALL)


def test_when_boto_repeats_a_completion_whose_answer_was_lost_the_object_is_there(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path
) -> None:
    store = connect(max_attempts=3)
    proxy.set(Rule(Fault.LOST, method="POST", contains="uploadId=", times=1))
    # Servers answer the second one with success, NoSuchUpload or 412: each is right.
    met = put_until_there(store, key, LARGE, tmp_path)
    assert [type(each) for each in met] in ([], [AlreadyExists])
    assert proxy.injected == {Fault.LOST: 1}
    assert_whole(store, key, LARGE)


@pytest.mark.parametrize(
    ("method", "target", "fault", "error"),
    [
        ("POST", "?uploads", Fault.RESET, Unavailable),
        ("POST", "?uploads", Fault.LOST, Unavailable),
        ("PUT", "partNumber=1", Fault.ERROR, Unavailable),
        ("PUT", "partNumber=2", Fault.CUT, Unavailable),
        ("PUT", "partNumber=3", Fault.SPOIL, Unavailable),
        ("POST", "uploadId=", Fault.RESET, OutcomeUnknown),
        ("POST", "uploadId=", Fault.SLOW_DOWN, Unavailable),
        ("POST", "uploadId=", Fault.LOST, OutcomeUnknown),
    ],
)
def test_an_upload_in_parts_that_fails_at_any_call_can_be_repeated(
    connect: Connect,
    proxy: FaultProxy,
    sandbox: Sandbox,
    key: str,
    tmp_path: Path,
    method: str,
    target: str,
    fault: Fault,
    error: type[SecorError],
) -> None:
    store = connect()
    proxy.set(Rule(fault, method=method, contains=target, times=1))
    with pytest.raises(error):
        put(store, key, LARGE, tmp_path)
    begun_unheard = int(target == "?uploads" and fault is Fault.LOST)
    assert open_uploads(sandbox, key) == begun_unheard
    put_until_there(store, key, LARGE, tmp_path)
    assert_whole(store, key, LARGE)
    assert proxy.injected == {fault: 1}


def test_an_upload_that_cannot_be_aborted_is_told_with_the_error(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path
) -> None:
    store = connect()
    proxy.set(
        Rule(Fault.ERROR, method="PUT", contains="partNumber=1"),
        Rule(Fault.RESET, method="DELETE"),
    )
    with pytest.raises(Unavailable) as raised:
        put(store, key, LARGE, tmp_path)
    (note,) = raised.value.__notes__
    assert "could not be aborted" in note


def test_a_reader_goes_on_where_an_answer_broke(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path
) -> None:
    store = connect(max_attempts=3)
    put(store, key, LARGE, tmp_path)
    proxy.set(Rule(Fault.CUT, method="GET", contains=key, times=4))
    with store.open(key) as file:
        assert file.read() == LARGE
    assert proxy.injected == {Fault.CUT: 4}


def test_a_reader_gives_up_when_nothing_comes(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path
) -> None:
    store = connect()
    put(store, key, SMALL, tmp_path)
    proxy.set(Rule(Fault.RESET, method="GET"))
    with pytest.raises(Unavailable, match=key):
        store.open(key)


def test_an_outage_is_told_by_every_call_and_leaves_nothing_broken(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path
) -> None:
    store = connect()
    store.check()
    proxy.outage = True
    calls: list[Callable[[], object]] = [
        store.check,
        lambda: store.head(key),
        lambda: list(store.list(key)),
        lambda: store.open(key),
        lambda: store.delete(key),
    ]
    for call in calls:
        with pytest.raises(Unavailable):
            call()
    with pytest.raises(OutcomeUnknown):
        put(store, key, SMALL, tmp_path)
    assert proxy.injected == {Fault.RESET: len(calls) + 1}
    proxy.outage = False
    put(store, key, SMALL, tmp_path)
    assert_whole(store, key, SMALL)


def test_in_a_storm_every_object_is_there_once_and_unchanged(
    connect: Connect, proxy: FaultProxy, key: str, tmp_path: Path
) -> None:
    store = connect()
    quiet = (Fault.DELAY, Fault.SPOIL)
    proxy.set(
        *(Rule(fault, probability=0.12) for fault in Fault if fault not in quiet),
        Rule(Fault.SPOIL, method="PUT", probability=0.12),
        Rule(Fault.DELAY, probability=0.1, seconds=0.02),
    )
    objects = {f"{key}{n:02}": bytes([n]) * (n + 1) * 4096 for n in range(24)}
    objects[f"{key}-large"] = LARGE
    for name, data in objects.items():
        put_until_there(store, name, data, tmp_path)
    assert all(proxy.injected[fault] for fault in Fault)
    proxy.set()
    assert [item.key for item in store.list(key)] == sorted(objects)
    for name, data in objects.items():
        assert store.head(name).metadata == METADATA
        with store.open(name) as file:
            assert file.read() == data
