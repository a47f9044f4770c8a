"""What every object store does: on the fake, on a directory, on servers and the clouds' emulators.

Those that this machine cannot run are left out; the head of the run's output says which.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import crc32c
import pytest

from secor.adapters.clouds import CloudStore, azure_store, gcs_store
from secor.adapters.local import DirectoryStore
from secor.adapters.s3 import S3Store
from secor.core.errors import AlreadyExists, NotFound, RestartPartition, Unavailable
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.sandbox.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, VersityServer
from secor.sandbox.state import free_port
from tests import emulators
from tests.fakes.gcs_server import TOKEN, gcs_server
from tests.fakes.store import FakeStore

if TYPE_CHECKING:
    from secor.sandbox import Sandbox

MIB = 1 << 20
METADATA = {"topic": "clicks", "batch-start": "0", "fingerprint": "abc=+/ 1"}

Write = Callable[[bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    folder = tmp_path / "files"
    folder.mkdir()

    def give(content: bytes) -> Path:
        path = folder / uuid.uuid4().hex
        path.write_bytes(content)
        return path

    return give


SERVERS = {
    "s3": "s3",
    "s3-looking-first": "s3_looking_first",
    "versitygw": "versity",
    "gcs": "gcs",
    "azure": "azure",
}
"""By store, the fixture that gives it."""

STORES = ["fake", "local", *(name for name in SERVERS if name not in emulators.absent())]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "fake":
        yield FakeStore()
    elif request.param == "local":
        yield DirectoryStore(tmp_path / "bucket")
    else:
        yield request.getfixturevalue(SERVERS[request.param])


@pytest.fixture(scope="module")
def s3(sandbox: Sandbox) -> Iterator[S3Store]:
    yield from s3_at(sandbox.s3.endpoint_url)


@pytest.fixture(scope="module")
def s3_looking_first(sandbox: Sandbox) -> Iterator[S3Store]:
    yield from s3_at(sandbox.s3.endpoint_url, conditional=False)


@pytest.fixture(scope="module")
def versity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Store]:
    folder = tmp_path_factory.mktemp("versitygw")
    server = VersityServer(folder=folder, log=folder / "log", port=free_port(), progress=print)
    server.start()
    yield from s3_at(f"http://{server.address}")
    server.stop()


@pytest.fixture(scope="module")
def gcs() -> Iterator[CloudStore]:
    with gcs_server() as server:
        yield gcs_store("secor", endpoint_url=server.url, token=TOKEN)


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudStore]:
    server = emulators.AzuriteServer(tmp_path_factory.mktemp("azurite"), free_port(), print)
    server.start()
    server.make_container()
    yield azure_store(
        emulators.ACCOUNT,
        emulators.CONTAINER,
        account_key=emulators.KEY,
        endpoint_url=server.url,
    )
    server.stop()


def s3_at(
    endpoint_url: str, *, conditional: bool = True, sha256: bool = False
) -> Iterator[S3Store]:
    store = S3Store(
        BUCKET,
        endpoint_url=endpoint_url,
        region="us-east-1",
        path_style=True,
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        conditional_puts=conditional,
        part_size=5 * MIB,
        multipart_threshold=6 * MIB,
        sha256=sha256,
    )
    yield store
    store.close()


@pytest.fixture
def root() -> str:
    return f"contract/{uuid.uuid4().hex}"


def put(store: ObjectStore, key: str, path: Path, metadata: dict[str, str] = METADATA) -> None:
    store.put(key, path, crc32c.crc32c(path.read_bytes()), metadata)


def content(store: ObjectStore, key: str) -> bytes:
    with store.open(key) as file:
        return file.read()


@pytest.mark.parametrize("size", [0, 1, MIB + 1, 11 * MIB + 3])
def test_an_object_comes_back_as_it_was_put(
    store: ObjectStore, write: Write, root: str, size: int
) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    put(store, f"{root}/a", write(data[:size]))
    assert content(store, f"{root}/a") == data[:size]
    assert store.head(f"{root}/a").size == size


def test_bytes_come_back_as_they_were_put(store: ObjectStore, root: str) -> None:
    store.put(f"{root}/a", b"marker", crc32c.crc32c(b"marker"), METADATA)
    assert content(store, f"{root}/a") == b"marker"
    assert store.head(f"{root}/a").metadata == METADATA


def test_bytes_do_not_replace_an_object(store: ObjectStore, root: str) -> None:
    assert put_bytes(store, f"{root}/a", b"first")
    assert not put_bytes(store, f"{root}/a", b"second")
    assert read_bytes(store, f"{root}/a") == b"first"
    assert read_bytes(store, f"{root}/b") is None


def test_bytes_with_another_checksum_are_refused(store: ObjectStore, root: str) -> None:
    with pytest.raises(RestartPartition, match="CRC32C"):
        store.put(f"{root}/a", b"marker", crc32c.crc32c(b"another"), METADATA)
    assert read_bytes(store, f"{root}/a") is None


def test_metadata_comes_back_with_the_head(store: ObjectStore, write: Write, root: str) -> None:
    put(store, f"{root}/a", write(b"x"))
    found = store.head(f"{root}/a")
    assert (found.key, found.size, found.metadata) == (f"{root}/a", 1, METADATA)


def test_the_sha256_is_in_the_metadata_of_small_and_large_objects(
    sandbox: Sandbox, write: Write, root: str, tmp_path: Path
) -> None:
    stores: list[ObjectStore] = [
        *s3_at(sandbox.s3.endpoint_url, sha256=True),
        DirectoryStore(tmp_path / "bucket", sha256=True),
    ]
    for hashing in stores:
        for size in (1, 3 * MIB, 7 * MIB):
            content = bytes(size)
            put(hashing, f"{root}/{size}", write(content))
            recorded = hashlib.sha256(content).hexdigest()
            metadata = hashing.head(f"{root}/{size}").metadata
            assert metadata == {**METADATA, "sha256": recorded}


def test_large_objects_have_their_metadata_too(store: ObjectStore, write: Write, root: str) -> None:
    put(store, f"{root}/a", write(bytes(6 * MIB)))
    assert store.head(f"{root}/a").metadata == METADATA


@pytest.mark.parametrize("size", [1, 7 * MIB])
def test_a_second_put_is_refused_and_changes_nothing(
    store: ObjectStore, write: Write, root: str, size: int
) -> None:
    put(store, f"{root}/a", write(b"a" * size))
    with pytest.raises(AlreadyExists):
        put(store, f"{root}/a", write(b"b" * size), {"topic": "other"})
    assert content(store, f"{root}/a") == b"a" * size
    assert store.head(f"{root}/a").metadata == METADATA


@pytest.mark.parametrize("size", [0, 1000, 7 * MIB])
def test_a_file_that_does_not_have_its_checksum_is_not_stored(
    store: ObjectStore, write: Write, root: str, size: int
) -> None:
    path = write(b"a" * size)
    with pytest.raises(RestartPartition, match="CRC32C"):
        store.put(f"{root}/a", path, crc32c.crc32c(path.read_bytes()) ^ 1, METADATA)
    assert list(store.list(root)) == []
    put(store, f"{root}/a", path)  # nothing of the first try is in the way


def test_a_listing_has_the_keys_of_a_prefix_in_order(
    store: ObjectStore, write: Write, root: str
) -> None:
    names = ["a/b/1", "a/b/10", "a/b/2", "a-b/1", "a.b/1", "a/c", "ab", "A", "a_", "a/ü/1"]
    for name in names:
        put(store, f"{root}/{name}", write(name.encode()))
    prefix = f"{root}/"
    listed = [item.key.removeprefix(prefix) for item in store.list(prefix)]
    assert listed == sorted(names)
    below = [item.key.removeprefix(prefix) for item in store.list(f"{prefix}a/b/1")]
    assert below == ["a/b/1", "a/b/10"]
    assert [item.size for item in store.list(f"{prefix}a/ü")] == [len("a/ü/1".encode())]
    assert list(store.list(f"{prefix}z")) == []


def test_a_listing_tells_size_and_age_but_no_metadata(
    store: ObjectStore, write: Write, root: str
) -> None:
    put(store, f"{root}/a", write(b"12345"))
    (item,) = store.list(root)
    assert (item.size, item.metadata) == (5, None)
    assert abs(item.modified - store.head(f"{root}/a").modified) < 1.5


@pytest.mark.parametrize(
    "name",
    [
        "topic.with-all_of.them/offset=0/1_0_00000000000000000000.seq",
        "-/1_0_0",
        "..a/1_0_0",
        ".hidden/1_0_0",
        ".x.metadata/1_0_0",
        "t" * 249 + "/1_0_0",
        "country=%2F..%2F/1_0_0",
        "a+b c&d=e;f,g@h!i(j)k~l$m/1_0_0",
        "city=Zürich 東京/1_0_0",
        "__HIVE_DEFAULT_PARTITION__/1_0_0.gz",
    ],
)
def test_every_name_that_topics_and_fields_can_make_is_a_key(
    store: ObjectStore, write: Write, root: str, name: str
) -> None:
    key = f"{root}/{name}"
    put(store, key, write(name.encode()))
    assert [item.key for item in store.list(root)] == [key]
    assert store.head(key).metadata == METADATA
    assert content(store, key) == name.encode()
    store.delete(key)
    assert list(store.list(root)) == []


def test_a_deleted_object_is_gone_and_its_name_is_free(
    store: ObjectStore, write: Write, root: str
) -> None:
    put(store, f"{root}/a", write(b"first"))
    store.delete(f"{root}/a")
    store.delete(f"{root}/a")
    with pytest.raises(NotFound):
        store.head(f"{root}/a")
    put(store, f"{root}/a", write(b"second"), {"topic": "other"})
    assert content(store, f"{root}/a") == b"second"
    assert store.head(f"{root}/a").metadata == {"topic": "other"}


def test_what_is_absent_is_not_found(store: ObjectStore, root: str) -> None:
    with pytest.raises(NotFound, match=root):
        store.head(f"{root}/a")
    with pytest.raises(NotFound, match=root):
        store.open(f"{root}/a")
    assert list(store.list(root)) == []


def test_a_reader_seeks_like_a_file(store: ObjectStore, write: Write, root: str) -> None:
    data = bytes(i * 7 % 256 for i in range(600_000))
    put(store, f"{root}/a", write(data))
    with store.open(f"{root}/a") as file:
        assert file.seekable()
        assert file.read(4) == data[:4]
        assert file.seek(-8, io.SEEK_END) == len(data) - 8
        assert file.read() == data[-8:]
        assert file.read(1) == b""
        assert file.seek(300_000) == 300_000
        assert file.read(10) == data[300_000:300_010]
        assert file.seek(-5, io.SEEK_CUR) == 300_005
        buffer = bytearray(200_000)
        assert file.readinto(buffer) == len(buffer)  # type: ignore[attr-defined]
        assert bytes(buffer) == data[300_005:500_005]
        assert file.tell() == 500_005


@pytest.mark.parametrize("new", [b"new+" * MIB, b"new"], ids=["as long", "shorter"])
def test_a_reader_never_mixes_an_object_with_its_successor(
    new: bytes, store: ObjectStore, write: Write, root: str
) -> None:
    old = b"old-" * MIB
    put(store, f"{root}/a", write(old))
    with store.open(f"{root}/a") as file:
        content = file.read(4)
        store.delete(f"{root}/a")
        put(store, f"{root}/a", write(new))
        # A directory keeps the file that is open; servers answer each request by what is there.
        with suppress(Unavailable):
            content += file.read()
        assert content in (old[:4], old)
    with store.open(f"{root}/a") as file:
        assert file.read() == new


def test_a_file_that_is_gone_sends_the_partition_back(
    store: ObjectStore, root: str, tmp_path: Path
) -> None:
    with pytest.raises(RestartPartition, match="gone"):
        store.put(f"{root}/a", tmp_path / "nothing", 0, METADATA)


@pytest.mark.parametrize("size", [10, 6 * MIB])
@pytest.mark.parametrize(
    "store", [name for name in STORES if name != "s3-looking-first"], indirect=True
)
def test_of_puts_at_once_exactly_one_wins_whole(
    store: ObjectStore, write: Write, root: str, size: int
) -> None:
    rivals = 6

    def contend(number: int) -> bool:
        try:
            put(store, f"{root}/a", write(b"%d" % number * size), {"by": str(number)})
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(rivals) as pool:
        (winner,) = [n for n, won in enumerate(pool.map(contend, range(rivals))) if won]
    assert content(store, f"{root}/a") == b"%d" % winner * size
    assert store.head(f"{root}/a").metadata == {"by": str(winner)}
    assert [item.key for item in store.list(root)] == [f"{root}/a"]
