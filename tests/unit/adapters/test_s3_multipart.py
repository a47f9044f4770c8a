from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crc32c
import pytest
from botocore.stub import ANY, Stubber

from secor.adapters.s3.client import connect
from secor.adapters.s3.multipart import (
    BLOCK,
    MOST_PARTS,
    FileSlice,
    MultipartUpload,
    encoded,
    part_size_for,
)
from secor.core.errors import AlreadyExists, OutcomeUnknown, RestartPartition, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MIB = 1 << 20
AT: dict[str, Any] = {"Bucket": "b", "Key": "k"}
CONTENT = b"0123456789"
CRC = crc32c.crc32c(CONTENT)


@pytest.fixture(scope="module")
def client() -> S3Client:
    return connect(region="us-east-1", access_key="k", secret_key="s", max_attempts=1)


@pytest.fixture
def server(client: S3Client) -> Iterator[Stubber]:
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    return file


def upload(client: S3Client) -> MultipartUpload:
    return MultipartUpload(
        client, "b", "k", parameters={"Metadata": {"a": "1"}}, condition={"IfNoneMatch": "*"}
    )


def begin(server: Stubber, kind: str = "FULL_OBJECT") -> list[dict[str, object]]:
    """Answer the beginning and three parts of 4, 4 and 2 bytes; return the parts."""
    server.add_response(
        "create_multipart_upload",
        {"UploadId": "u", "ChecksumType": kind},
        {**AT, "Metadata": {"a": "1"}, "ChecksumAlgorithm": "CRC32C", "ChecksumType": ANY},
    )
    parts: list[dict[str, object]] = []
    for number, content in enumerate((b"0123", b"4567", b"89"), 1):
        sent = {"PartNumber": number, "ChecksumCRC32C": encoded(crc32c.crc32c(content))}
        server.add_response(
            "upload_part", {"ETag": f"e{number}"}, {**AT, "UploadId": "u", "Body": ANY, **sent}
        )
        parts.append({**sent, "ETag": f"e{number}"})
    return parts


def complete(parts: list[dict[str, object]]) -> dict[str, object]:
    return {**AT, "UploadId": "u", "IfNoneMatch": "*", "MultipartUpload": {"Parts": parts}}


def test_the_completion_is_conditional_and_has_the_checksum_of_the_whole(
    client: S3Client, server: Stubber, path: Path
) -> None:
    whole = {"ChecksumCRC32C": encoded(CRC), "ChecksumType": "FULL_OBJECT"}
    expected = {**complete(begin(server)), **whole}
    server.add_response("complete_multipart_upload", {"ETag": "e"}, expected)
    upload(client).put(path, len(CONTENT), CRC, 4)


def test_a_server_that_knows_only_composite_checksums_gets_those_of_the_parts(
    client: S3Client, server: Stubber, path: Path
) -> None:
    expected = complete(begin(server, "COMPOSITE"))
    server.add_response("complete_multipart_upload", {"ETag": "e"}, expected)
    upload(client).put(path, len(CONTENT), CRC, 4)


def test_a_completion_that_something_else_answers_is_not_known_to_be_done(
    client: S3Client, server: Stubber, path: Path
) -> None:
    server.add_response(
        "complete_multipart_upload",
        {},
        {**complete(begin(server)), "ChecksumCRC32C": ANY, "ChecksumType": ANY},
    )
    server.add_response("abort_multipart_upload", {}, {**AT, "UploadId": "u"})
    with pytest.raises(OutcomeUnknown, match="none of S3's"):
        upload(client).put(path, len(CONTENT), CRC, 4)


def test_a_damaged_file_is_never_completed(client: S3Client, server: Stubber, path: Path) -> None:
    begin(server)
    server.add_response("abort_multipart_upload", {}, {**AT, "UploadId": "u"})
    with pytest.raises(RestartPartition):
        upload(client).put(path, len(CONTENT), CRC ^ 1, 4)


def test_an_upload_that_is_gone_with_the_object_there_was_completed_before(
    client: S3Client, server: Stubber, path: Path
) -> None:
    begin(server)
    server.add_client_error("complete_multipart_upload", "NoSuchUpload", http_status_code=404)
    server.add_response("head_object", {}, AT)
    server.add_client_error("abort_multipart_upload", "NoSuchUpload", http_status_code=404)
    with pytest.raises(AlreadyExists) as raised:
        upload(client).put(path, len(CONTENT), CRC, 4)
    assert not hasattr(raised.value, "__notes__")


def test_an_upload_that_is_gone_without_an_object_is_put_again(
    client: S3Client, server: Stubber, path: Path
) -> None:
    begin(server)
    server.add_client_error("complete_multipart_upload", "NoSuchUpload", http_status_code=404)
    server.add_client_error("head_object", "404", http_status_code=404)
    server.add_client_error("abort_multipart_upload", "NoSuchUpload", http_status_code=404)
    with pytest.raises(Unavailable, match="aborted"):
        upload(client).put(path, len(CONTENT), CRC, 4)


@pytest.mark.parametrize("size", [1, 16 * MIB * MOST_PARTS, 5 << 40])
def test_parts_grow_before_there_are_too_many(size: int) -> None:
    part = part_size_for(size, 16 * MIB)
    assert part >= 16 * MIB
    assert -(-size // part) <= MOST_PARTS


def test_a_checksum_is_written_as_s3_does() -> None:
    assert encoded(crc32c.crc32c(b"123456789")) == "4waSgw=="  # the check value e3069283


def test_a_slice_gives_its_part_of_the_file_in_large_blocks_and_again(tmp_path: Path) -> None:
    data = bytes(range(256)) * (3 * BLOCK // 256)
    path = tmp_path / "file"
    path.write_bytes(data)
    with FileSlice(path, 100, 2 * BLOCK + 7) as body:
        expected = data[100 : 100 + 2 * BLOCK + 7]
        assert body.checksum() == crc32c.crc32c(expected)
        for _ in range(2):
            blocks = list(iter(lambda: body.read(16384), b""))
            assert [len(block) for block in blocks] == [BLOCK, BLOCK, 7]
            assert b"".join(blocks) == expected
            body.seek(0)
        assert body.read() == expected
        assert (len(body), body.seek(0, 2), body.tell()) == (len(expected),) * 3


def test_a_body_that_finds_no_free_descriptor_is_sent_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_free(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "open", none_free)
    with pytest.raises(Unavailable, match="Too many open files"):
        FileSlice(path, 0, 1)
