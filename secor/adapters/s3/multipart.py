"""Large objects, uploaded in parts: they become visible by the completion, which is conditional."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import crc32c as checksum
from botocore.exceptions import BotoCoreError, ClientError

from secor.adapters.s3.failures import NOT_S3, code_of, require, translated
from secor.core.errors import (
    AlreadyExists,
    OutcomeUnknown,
    SecorError,
    Unavailable,
    damaged_content,
)
from secor.core.text import error_text

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef


BLOCK = 1 << 20


class FileSlice:
    """The bytes ``[start, start + length)`` of a file as the body of a request.

    It has what botocore asks of a body, and gives blocks of 1 MiB whatever size is asked for:
    the HTTP client would otherwise send 16 KiB at a time, at several times the CPU.
    """

    def __init__(self, path: Path, start: int, length: int) -> None:
        """Open the file.  Raises ``Unavailable`` when no file descriptor is free."""
        with translated(f"read {path}"):
            self._file = path.open("rb", buffering=0)
        self._start = start
        self._length = length
        self._at = 0

    def __len__(self) -> int:
        return self._length

    def read(self, size: int = -1) -> bytes:
        """Return the next block, empty at the end."""
        self._file.seek(self._start + self._at)
        most = BLOCK if size >= 0 else self._length
        block = self._file.read(min(most, self._length - self._at))
        self._at += len(block)
        return block

    def tell(self) -> int:
        """Return the position in the slice."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position in the slice; botocore does so before it sends the body again."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = base + offset
        return self._at

    def checksum(self, crc32c: int = 0) -> int:
        """Return the CRC32C of the whole slice, going on from ``crc32c``; rewinds."""
        self.seek(0)
        while block := self.read(BLOCK):
            crc32c = checksum.crc32c(block, crc32c)
        self.seek(0)
        return crc32c

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


MOST_PARTS = 10_000


def encoded(crc32c: int) -> str:
    """Return a CRC32C as S3's headers have it: base64 of four bytes, big-endian."""
    return base64.b64encode(crc32c.to_bytes(4, "big")).decode()


def part_size_for(size: int, part_size: int) -> int:
    """Return the size of the parts, larger where S3's 10,000 parts would not do."""
    return max(part_size, -(-size // MOST_PARTS))


class MultipartUpload:
    """One object put in parts, one after the other, each with its CRC32C.

    ``parameters`` are those of every object of the store, ``condition`` goes with the
    completion.  Memory: one block of a part.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        key: str,
        *,
        parameters: Mapping[str, Any],
        condition: Mapping[str, Any],
    ) -> None:
        self._client = client
        self._at: dict[str, Any] = {"Bucket": bucket, "Key": key}
        self._name = f"s3://{bucket}/{key}"
        self._parameters = parameters
        self._condition = condition

    def put(self, path: Path, size: int, crc32c: int, part_size: int) -> None:
        """Upload and complete; on any failure abort, so that no paid parts are left behind.

        Raises as ``ObjectStore.put`` does.
        """
        upload, whole = self._begin()
        try:
            parts, actual_crc32c = self._parts(upload, path, size, part_size_for(size, part_size))
            # Before the completion: until then nobody sees the object.
            if actual_crc32c != crc32c:
                raise damaged_content(path, actual_crc32c, crc32c)
            self._complete(upload, parts, {"ChecksumCRC32C": encoded(crc32c)} if whole else {})
        except SecorError as error:
            self._abort(upload, error)
            raise

    def _begin(self) -> tuple[str, bool]:
        """Return the id, and whether the server checks the CRC32C of the whole body."""
        doing = f"begin putting {self._name}"
        with translated(doing):
            answer = self._client.create_multipart_upload(
                **self._at,
                **self._parameters,
                ChecksumAlgorithm="CRC32C",
                # With the default, a checksum of checksums, the server could not compare the whole
                # body with what was written.
                ChecksumType="FULL_OBJECT",
            )
        require(answer, ("UploadId",), doing)
        return answer["UploadId"], answer.get("ChecksumType") == "FULL_OBJECT"

    def _parts(
        self, upload: str, path: Path, size: int, part_size: int
    ) -> tuple[list[CompletedPartTypeDef], int]:
        """Upload the parts; return them, and the CRC32C of all their bytes."""
        parts: list[CompletedPartTypeDef] = []
        crc32c = 0
        for start in range(0, size, part_size):
            with FileSlice(path, start, min(part_size, size - start)) as body:
                # Of the file as it is read now, not as it was written: it is compared before the
                # completion.
                crc32c = body.checksum(crc32c)
                parts.append(self._part(upload, len(parts) + 1, body))
        return parts, crc32c

    def _part(self, upload: str, number: int, body: FileSlice) -> CompletedPartTypeDef:
        checksum = encoded(body.checksum())
        doing = f"put part {number} of {self._name}"
        with translated(doing):
            answer = self._client.upload_part(
                **self._at,
                UploadId=upload,
                PartNumber=number,
                Body=body,  # type: ignore[arg-type]  # what botocore needs of a file
                ChecksumCRC32C=checksum,
            )
        require(answer, ("ETag",), doing)
        return {"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32C": checksum}

    def _complete(
        self, upload: str, parts: list[CompletedPartTypeDef], checksum: Mapping[str, Any]
    ) -> None:
        if checksum:
            checksum = {**checksum, "ChecksumType": "FULL_OBJECT"}
        doing = f"complete {self._name}"
        with translated(doing, writes=True):
            try:
                answer = self._client.complete_multipart_upload(
                    **self._at,
                    # Only the completion makes the object visible, so only it carries
                    # If-None-Match.
                    **self._condition,
                    **checksum,
                    UploadId=upload,
                    MultipartUpload={"Parts": parts},
                )
            except ClientError as error:
                # botocore sends a completion without an answer again, and the second finds no
                # upload.
                if code_of(error) != "NoSuchUpload":
                    raise
                self._settle_completion(error)
        # S3 may answer 200 before it is done, and put an error into the body.
        if "ETag" not in answer:
            raise OutcomeUnknown(f"cannot {doing}: {NOT_S3}")

    def _settle_completion(self, error: ClientError) -> NoReturn:
        """Settle a completion that found no upload: an earlier one, its answer lost, ended it.

        Raises ``AlreadyExists`` when the object is there, perhaps ours.
        """
        try:
            self._client.head_object(**self._at)
        except ClientError as absent:
            if code_of(absent) in {"404", "NotFound", "NoSuchKey"}:
                raise Unavailable(
                    f"cannot complete {self._name}: somebody aborted the upload; put it again"
                ) from error
            raise
        raise AlreadyExists(f"{self._name} exists, and its upload is complete") from error

    def _abort(self, upload: str, error: SecorError) -> None:
        try:
            self._client.abort_multipart_upload(**self._at, UploadId=upload)
        except (ClientError, BotoCoreError) as second:
            if not (isinstance(second, ClientError) and code_of(second) == "NoSuchUpload"):
                error.add_note(
                    f"the upload {upload} could not be aborted ({error_text(second)}); a lifecycle"
                    " rule for incomplete uploads removes it"
                )
