"""Keys that are URIs go to the store of their place, all others to the group's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from secor.config.load import validate
from secor.config.model import S3, Store
from secor.core.errors import ConfigurationError
from secor.core.ports import ObjectStore
from secor.tables.staging.uri_store import UriStore
from secor.wiring import table_catalogs, table_storage
from tests.fakes.store import FakeStore

BODY = b"rows"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(BODY)
    return path


def test_each_place_has_one_store_which_is_opened_when_it_is_needed(file: Path) -> None:
    own, opened = FakeStore(), dict[str, FakeStore]()

    def open_store(uri: str) -> tuple[str, ObjectStore]:
        place = "/".join(uri.split("/")[:3]) + "/"
        assert place not in opened
        opened[place] = FakeStore()
        return place, opened[place]

    store = UriStore(own, open_store)
    for key in ("group/a", "s3://lake/t/a", "s3://lake/t/b", "s3://other/a"):
        store.put(key, file, crc32c(BODY), {"key": key})
    assert list(own.objects) == ["group/a"]
    assert {place: sorted(it.objects) for place, it in opened.items()} == {
        "s3://lake/": ["t/a", "t/b"],
        "s3://other/": ["a"],
    }
    assert [it.key for it in store.list("s3://lake/t/")] == ["s3://lake/t/a", "s3://lake/t/b"]
    assert [it.key for it in store.list("group/")] == ["group/a"]
    stored = store.head("s3://other/a")
    assert (stored.key, stored.metadata) == ("s3://other/a", {"key": "s3://other/a"})
    assert store.open("s3://lake/t/b").read() == BODY
    store.delete("s3://lake/t/b")
    assert sorted(opened["s3://lake/"].objects) == ["t/a"]


def configured(directory: Path) -> Any:
    s3 = {"bucket": "own", "access_key": "me", "secret_key": "my secret", "path_style": True}
    config, faults = validate(
        {
            "group": {"name": "g", "kind": "table"},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["t"]},
            "store": {"s3": s3},
            "catalog": {"properties": {"warehouse": f"file://{directory}/lake/"}},
            "tables": [{"table": "db.t"}],
        }
    )
    assert config is not None, faults
    return config


def test_another_bucket_is_opened_with_the_same_credentials(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[S3] = []

    class Bucket(FakeStore):
        def check(self) -> None:
            """Fine."""

    def s3_store(s3: S3, connections: int) -> Bucket:
        assert connections > 1
        opened.append(s3)
        return Bucket()

    monkeypatch.setattr(table_storage, "s3_store", s3_store)
    own = FakeStore()
    store = table_storage.store_of_tables(configured(tmp_path), own)
    store.put("s3://own/t/a", file, crc32c(BODY), {})
    store.put("s3a://lake/t/a", file, crc32c(BODY), {})
    assert list(own.objects) == ["t/a"]
    (lake,) = opened
    assert (lake.bucket, lake.access_key, lake.path_style) == ("lake", "me", True)
    assert lake.secret_key is not None
    assert lake.secret_key.get_secret_value() == "my secret"


def test_directories_are_used_below_the_warehouse_or_the_table(tmp_path: Path, file: Path) -> None:
    store = table_storage.store_of_tables(configured(tmp_path), FakeStore())
    for place in ("lake/db/t/data/x=1/a", "elsewhere/t/data/a"):
        key = f"file://{tmp_path}/{place}"
        store.put(key, file, crc32c(BODY), {})
        assert (tmp_path / place).read_bytes() == BODY
        assert store.head(key).size == len(BODY)
    assert (tmp_path / "lake" / ".secor").is_dir()
    assert (tmp_path / "elsewhere" / "t" / ".secor").is_dir()


@pytest.mark.parametrize(
    ("kind", "section", "own_place", "other_place", "other"),
    [
        ("gcs", {"bucket": "own", "token": "t"}, "gs://own/", "gs://lake/", "lake"),
        (
            "azure",
            {"account": "acme", "container": "own", "account_key": "k"},
            "abfss://own@acme.dfs.core.windows.net/",
            "abfs://lake@acme.dfs.core.windows.net/",
            "acme/lake",
        ),
    ],
)
def test_tables_in_a_cloud_have_the_credentials_of_the_group_s_store(
    kind: str,
    section: dict[str, str],
    own_place: str,
    other_place: str,
    other: str,
    tmp_path: Path,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[Store] = []

    def open_described(described: Store, connections: int) -> FakeStore:
        assert connections > 1
        opened.append(described)
        return FakeStore()

    monkeypatch.setattr(table_storage, "store_of", open_described)
    own, config = FakeStore(), configured(tmp_path)
    config = config.model_copy(
        update={"store": Store.model_validate({"kind": kind, kind: section})}
    )
    store = table_storage.store_of_tables(config, own)
    store.put(f"{own_place}t/a", file, crc32c(BODY), {})
    store.put(f"{other_place}t/a", file, crc32c(BODY), {})
    assert list(own.objects) == ["t/a"]
    (described,) = opened
    assert described.place == other
    for key in ("token", "account_key"):
        assert getattr(described.chosen, key, None) == getattr(config.store.chosen, key, None)


def test_tables_in_a_cloud_need_its_credentials(tmp_path: Path, file: Path) -> None:
    store = table_storage.store_of_tables(configured(tmp_path), FakeStore())
    with pytest.raises(ConfigurationError, match=r'when store\.kind = "gcs"'):
        store.put("gs://lake/t/a", file, crc32c(BODY), {})
    azure = {"kind": "azure", "azure": {"account": "acme", "container": "own"}}
    config = configured(tmp_path).model_copy(update={"store": Store.model_validate(azure)})
    with pytest.raises(ConfigurationError, match="write abfss://container@account"):
        table_storage.store_of_tables(config, FakeStore()).put(
            "abfss://lake/t/a", file, crc32c(BODY), {}
        )
    with pytest.raises(ConfigurationError, match="Spark without the libraries"):
        table_catalogs.spark_catalog_of(config)


def test_a_place_that_no_store_is_for_is_refused(tmp_path: Path, file: Path) -> None:
    store = table_storage.store_of_tables(configured(tmp_path), FakeStore())
    with pytest.raises(ConfigurationError, match="data files can be in S3"):
        store.put("hdfs://namenode/t/a", file, crc32c(BODY), {})


def test_the_library_gets_the_store_s_credentials_unless_the_catalog_has_its_own(
    tmp_path: Path,
) -> None:
    given = table_catalogs._s3_properties(configured(tmp_path))
    assert given["s3.secret-access-key"] == "my secret"
    assert given["s3.access-key-id"] == "me"
