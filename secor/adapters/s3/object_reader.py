"""A stored S3 object as a seekable file, read ahead in windows."""

from __future__ import annotations

import io
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError

from secor.adapters.ranged_object import FIRST_WINDOW, RangedObject
from secor.adapters.s3.failures import require, status_of, translated
from secor.core.errors import Unavailable
from secor.core.text import error_text

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from typing_extensions import Buffer

LARGEST_WINDOW = 16 << 20


class S3ObjectReader(RangedObject):
    """An object as a raw, seekable file; one thread at a time.

    It asks for windows: the first after a seek has 256 KiB, each next one twice as much,
    to 16 MiB, so that reading on costs few requests and a look at a footer few bytes.
    The first is asked for at once: its answer has the size.  A broken answer is asked for
    again from where it broke, ``attempts`` times in a row.
    """

    def __init__(self, client: S3Client, bucket: str, key: str, attempts: int) -> None:
        """Ask for the object.  Raises ``NotFound``, ``Unavailable``, ``AccessDenied``."""
        super().__init__(f"s3://{bucket}/{key}")
        self._client = client
        self._at: dict[str, Any] = {"Bucket": bucket, "Key": key}
        self._attempts = attempts
        self._window = FIRST_WINDOW
        self._left = 0
        self._body: StreamingBody | None = None
        self.size = self._begin()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere; nothing is asked for until the next read."""
        before = self._position
        if super().seek(offset, whence) != before:
            self._window = FIRST_WINDOW
            self._drop()
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        """Read what has come, at least a byte before the end.

        Raises ``Unavailable``, ``AccessDenied``, ``NotFound``.
        """
        view = memoryview(buffer).cast("B")
        if not len(view) or self._position >= self.size:
            return 0
        failures = 0
        while True:
            try:
                return self._receive(view)
            except (HTTPClientError, IncompleteReadError) as error:
                self._drop()
                failures += 1
                if failures == self._attempts:
                    raise Unavailable(f"cannot read {self._name}: {error_text(error)}") from error

    def close(self) -> None:
        """Give the connection back."""
        self._drop()
        super().close()

    def _begin(self) -> int:
        """Ask for the first window; return the size of the whole object in bytes."""
        with translated(f"read {self._name}"):
            try:
                answer = self._client.get_object(**self._at, Range=f"bytes=0-{FIRST_WINDOW - 1}")
            except ClientError as error:
                if status_of(error) != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    raise
                return 0  # an empty object has no first byte
        self._require_object(answer)
        self._body, self._left = answer["Body"], answer["ContentLength"]
        total = answer.get("ContentRange", "").rpartition("/")[2]
        return int(total) if total.isdecimal() else self._left

    def _receive(self, view: memoryview) -> int:
        if self._body is None:
            self._body = self._ask()
        read = self._body.readinto(view[: self._left])  # type: ignore[arg-type]
        # The answer ended too early: a 0 would mean the end of the object to readers.
        if not read:
            raise IncompleteReadError(actual_bytes=0, expected_bytes=self._left)
        self._position += read
        self._left -= read
        if not self._left:
            self._window = min(2 * self._window, LARGEST_WINDOW)
            self._drop()
        return read

    def _ask(self) -> StreamingBody:
        self._left = min(self._window, self.size - self._position)
        last = self._position + self._left - 1
        with translated(f"read {self._name}"):
            answer = self._client.get_object(**self._at, Range=f"bytes={self._position}-{last}")
        self._require_object(answer)
        return answer["Body"]

    def _require_object(self, answer: Mapping[str, Any]) -> None:
        require(answer, ("Body", "ContentLength", "ETag"), f"read {self._name}")
        # Windows are requests of their own: another object under the key in between would be mixed
        # with this one.
        self._require_same(answer["ETag"])

    def _drop(self) -> None:
        if self._body is not None:
            if not self._left:
                self._body.read()  # takes the end of the answer, so that the connection stays
            self._body.close()
            self._body = None
