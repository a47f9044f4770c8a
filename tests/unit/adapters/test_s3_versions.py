"""Noncurrent versions of a bucket that keeps them, which moto plays; and servers without any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from crc32c import crc32c
from moto import mock_aws

from secor.adapters.s3 import S3Store
from secor.core.errors import AccessDenied
from secor.core.ports import VersionedStore


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of moto")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        yield client


def put(store: S3Store, key: str, content: bytes) -> None:
    store.put(key, content, crc32c(content), {})


def test_versions_of_what_was_deleted_are_given_and_deleted_for_good(client: Any) -> None:
    enabled = {"Status": "Enabled"}
    client.put_bucket_versioning(Bucket="bucket", VersioningConfiguration=enabled)
    store = S3Store("bucket", region="us-east-1")
    assert isinstance(store, VersionedStore)
    for key in ("p/clicks/a", "p/clicks/b", "p/views/a"):
        put(store, key, b"content")
    assert list(store.noncurrent("p/clicks/")) == []
    for key in ("p/clicks/a", "p/views/a"):
        store.delete(key)
    (version,) = store.noncurrent("p/clicks/")
    assert (version.key, version.size) == ("p/clicks/a", 7)
    store.delete_version(version)
    store.delete_version(version)
    assert list(store.noncurrent("p/clicks/")) == []
    assert len(list(store.noncurrent("p/"))) == 1
    store.close()


def test_a_bucket_or_a_server_without_versions_has_none(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3Store("bucket", region="us-east-1")
    put(store, "a", b"content")
    store.delete("a")
    assert list(store.noncurrent("")) == []
    for code, answer in (("NotImplemented", None), ("AccessDenied", AccessDenied)):

        def refuse(_: Any, code: str = code, **__: Any) -> Iterator[Any]:
            response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 403}}
            raise ClientError(response, "ListObjectVersions")

        monkeypatch.setattr("botocore.paginate.Paginator.paginate", refuse)
        if answer is None:
            assert list(store.noncurrent("")) == []
        else:
            with pytest.raises(answer):
                list(store.noncurrent(""))
    store.close()
