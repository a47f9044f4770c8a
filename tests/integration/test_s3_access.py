"""What a person reads whose bucket, credentials or options are wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import boto3
import crc32c
import pytest
from moto import mock_aws

from secor.adapters.s3 import S3Store
from secor.core.errors import AccessDenied, SecorError, Unavailable

if TYPE_CHECKING:
    from secor.sandbox import Sandbox


@pytest.fixture
def without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine's or its user's is found."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def store(sandbox: Sandbox, **changed: Any) -> S3Store:
    access = sandbox.s3
    arguments: dict[str, Any] = {
        "bucket": access.bucket,
        "endpoint_url": access.endpoint_url,
        "region": access.region,
        "path_style": True,
        "access_key": access.access_key,
        "secret_key": access.secret_key,
        "max_attempts": 1,
    }
    return S3Store(**{**arguments, **changed})


def put(store: S3Store, key: str, folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(b"content")
    store.put(key, path, crc32c.crc32c(b"content"), {"a": "1"})


WRONG = [
    ({"access_key": "nobody"}, AccessDenied, "access_key"),
    ({"secret_key": "wrong"}, AccessDenied, "access_key"),
    ({"bucket": "not-there"}, AccessDenied, "bucket"),
    ({"access_key": None, "secret_key": None}, AccessDenied, "access_key"),
]


@pytest.mark.usefixtures("without_credentials")
@pytest.mark.parametrize(("changed", "error", "advice"), WRONG)
def test_wrong_credentials_and_buckets_are_told_with_what_to_correct(
    sandbox: Sandbox,
    tmp_path: Path,
    changed: dict[str, Any],
    error: type[SecorError],
    advice: str,
) -> None:
    wrong = store(sandbox, **changed)
    calls: list[Callable[[], object]] = [
        lambda: put(wrong, "access/a", tmp_path),
        lambda: list(wrong.list("access/")),
    ]
    for call in calls:
        with pytest.raises(error, match=advice):
            call()
    with pytest.raises(error):
        wrong.check()


def test_an_address_where_nobody_listens_is_told_and_named(sandbox: Sandbox) -> None:
    nobody = "http://127.0.0.1:1"
    with pytest.raises(Unavailable, match=nobody):
        store(sandbox, endpoint_url=nobody).check()


@pytest.mark.usefixtures("without_credentials")
def test_a_profile_that_is_not_there_is_told_at_once(sandbox: Sandbox) -> None:
    with pytest.raises(AccessDenied, match="ghost"):
        store(sandbox, access_key=None, secret_key=None, profile="ghost")


def test_options_that_a_server_does_not_know_are_named(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(AccessDenied, match="tags"):
        put(store(sandbox, tags={"a": "b"}), "access/tagged", tmp_path)


@pytest.mark.usefixtures("without_credentials")
@pytest.mark.parametrize("threshold", [1, 1 << 20])
def test_every_object_has_the_options_of_the_store(tmp_path: Path, threshold: int) -> None:
    with mock_aws():
        admin = boto3.client(
            "s3", region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s"
        )
        admin.create_bucket(Bucket="options")
        options = S3Store(
            "options",
            region="us-east-1",
            access_key="k",
            secret_key="s",
            sse="aws:kms",
            kms_key="key-1",
            storage_class="STANDARD_IA",
            tags={"team": "logs + more=1"},
            acl="bucket-owner-full-control",
            multipart_threshold=threshold,
        )
        options.check()
        put(options, "a", tmp_path)
        found = admin.head_object(Bucket="options", Key="a")
        tags = admin.get_object_tagging(Bucket="options", Key="a")["TagSet"]
    assert (found["ServerSideEncryption"], found["SSEKMSKeyId"]) == ("aws:kms", "key-1")
    assert found["StorageClass"] == "STANDARD_IA"
    assert tags == [{"Key": "team", "Value": "logs + more=1"}]
    assert found["Metadata"] == {"a": "1"}


class _Aws(BaseHTTPRequestHandler):
    """A token service that gives keys to whoever asks, and a bucket for every request."""

    server: _AwsServer

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.roles.append(parse_qs(self.rfile.read(length).decode()))
        body = b"""<AssumeRoleResponse><AssumeRoleResult><Credentials>
            <AccessKeyId>ROLES</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>
            <SessionToken>token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
            </Credentials></AssumeRoleResult></AssumeRoleResponse>"""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        signed = self.headers["Authorization"].partition("Credential=")[2]
        self.server.signers.append((signed.split("/")[0], self.headers["X-Amz-Security-Token"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _AwsServer(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Aws)
        self.roles: list[dict[str, list[str]]] = []
        self.signers: list[tuple[str, str]] = []


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[_AwsServer]:
    with _AwsServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("without_credentials")
def test_a_role_is_assumed_once_and_its_keys_sign(aws: _AwsServer) -> None:
    assumed = S3Store(
        "bucket",
        endpoint_url=f"http://127.0.0.1:{aws.server_port}",
        region="us-east-1",
        path_style=True,
        access_key="OWN",
        secret_key="own",
        role_arn="arn:aws:iam::123456789012:role/archiver",
        external_id="outside",
    )
    assumed.check()
    assumed.check()
    (request,) = aws.roles
    assert request["Action"] == ["AssumeRole"]
    assert request["RoleArn"] == ["arn:aws:iam::123456789012:role/archiver"]
    assert request["ExternalId"] == ["outside"]
    assert aws.signers == [("ROLES", "token")] * 2
