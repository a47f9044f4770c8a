from __future__ import annotations

import hashlib
import io
from pathlib import Path

import crc32c
import obstore
import pytest
from obstore.store import MemoryStore

from secor.adapters.clouds import CloudStore, azure_store, gcs_store
from secor.adapters.clouds.failures import AZURE, GCS, Provider
from secor.adapters.clouds.store import LARGEST_WINDOW, CloudObjectReader
from secor.adapters.ranged_object import FIRST_WINDOW
from secor.core.errors import ConfigurationError, StopPartition, Unavailable


def in_memory(provider: Provider) -> tuple[CloudStore, MemoryStore]:
    memory = MemoryStore()
    return CloudStore(memory, "mem://b", provider, server="here"), memory


def put(store: CloudStore, key: str, body: bytes, metadata: dict[str, str] | None = None) -> None:
    store.put(key, body, crc32c.crc32c(body), metadata or {})


@pytest.mark.parametrize(("provider", "name"), [(GCS, "batch-start"), (AZURE, "batch_start")])
def test_azure_takes_no_hyphens_in_names_of_metadata(provider: Provider, name: str) -> None:
    store, memory = in_memory(provider)
    put(store, "a/b", b"x", {"batch-start": "0", "Topic": "clicks"})
    assert obstore.get(memory, "a/b").attributes[name] == "0"
    assert store.head("a/b").metadata == {"batch-start": "0", "topic": "clicks"}


def test_the_sha256_is_in_the_metadata_if_it_is_wished() -> None:
    store = CloudStore(MemoryStore(), "mem://b", AZURE, server="here", sha256=True)
    put(store, "a", b"x", {"topic": "clicks"})
    recorded = hashlib.sha256(b"x").hexdigest()
    assert store.head("a").metadata == {"topic": "clicks", "sha256": recorded}


def test_the_storage_class_goes_with_every_object() -> None:
    memory = MemoryStore()
    store = CloudStore(memory, "mem://b", AZURE, server="here", storage_class="Cool")
    put(store, "a", b"x", {"topic": "clicks"})
    assert obstore.get(memory, "a").attributes["Storage-Class"] == "Cool"
    assert store.head("a").metadata == {"topic": "clicks"}


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/1", "a/1_", "a/1_0_", "a/1_1", "b/x/", "z/"])
@pytest.mark.parametrize("provider", [GCS, AZURE], ids=["gcs", "azure"])
def test_a_listing_has_what_begins_with_the_prefix(provider: Provider, prefix: str) -> None:
    store, _ = in_memory(provider)
    keys = ["a", "a-b/1", "a/1", "a/1_0_0", "a/1_0_1", "a/1_1_0", "a/2", "ab/1", "b/x/y/z", "b/y"]
    for key in keys:
        put(store, key, key.encode())
    assert [item.key for item in store.list(prefix)] == [
        key for key in sorted(keys) if key.startswith(prefix)
    ]


@pytest.mark.parametrize("key", ["/a", "a/", "a//b", "a/../b", "./a"])
def test_a_key_that_obstore_would_change_is_refused(key: str) -> None:
    store, memory = in_memory(GCS)
    with pytest.raises(StopPartition):
        put(store, key, b"x")
    assert [item for page in obstore.list(memory) for item in page] == []


def test_a_client_may_hold_a_file_longer_than_the_put_takes(tmp_path: Path) -> None:
    store, memory = in_memory(GCS)  # which keeps the very bytes that it was given
    path = tmp_path / "file"
    path.write_bytes(b"abc" * 1000)
    store.put("a", path, crc32c.crc32c(path.read_bytes()), {})
    path.unlink()
    assert str(path) in Path("/proc/self/maps").read_text()
    with store.open("a") as file:
        assert file.read() == b"abc" * 1000
    obstore.delete(memory, "a")
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_a_reader_asks_for_windows_that_grow() -> None:
    body = bytes(range(256)) * (1 << 17)
    asked: list[int] = []

    def fetch(start: int, end: int) -> tuple[bytes, int, str]:
        asked.append(end - start)
        return body[start:end], len(body), "etag"

    raw = CloudObjectReader(fetch, "mem://b/k")
    file = io.BufferedReader(raw, 128 << 10)
    assert file.read() == body
    assert asked[:3] == [FIRST_WINDOW, 2 * FIRST_WINDOW, 4 * FIRST_WINDOW]
    assert max(asked) == LARGEST_WINDOW
    file.seek(-8, io.SEEK_END)
    asked.clear()
    file.seek(1 << 20)
    assert file.read(4) == body[:4]
    assert asked == [FIRST_WINDOW]


def test_a_reader_tells_that_its_object_was_replaced() -> None:
    etags = iter(["first", "first", "second"])
    raw = CloudObjectReader(
        lambda start, end: (bytes(end - start), 8 << 20, next(etags)), "mem://b/k"
    )
    assert len(raw.read(FIRST_WINDOW)) == FIRST_WINDOW
    assert len(raw.read(2 * FIRST_WINDOW)) == 2 * FIRST_WINDOW
    with pytest.raises(Unavailable, match="mem://b/k: it was replaced"):
        raw.read(1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"service_account": "/nowhere.json"}, "/nowhere.json"),
        ({"service_account_key": "{}"}, "private_key"),
        ({"ca_bundle": "/nowhere.pem", "token": "t"}, "/nowhere.pem"),
    ],
)
def test_credentials_that_cannot_be_read_are_told_at_once(
    settings: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"\[store.gcs\]") as raised:
        gcs_store("b", **settings)  # type: ignore[arg-type]
    assert said in str(raised.value)


def test_a_signature_that_is_none_is_told_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"\[store.azure\].*sas_token") as raised:
        azure_store("account", "logs", sas_token="hidden-and-wrong")
    assert "hidden" not in str(raised.value)
