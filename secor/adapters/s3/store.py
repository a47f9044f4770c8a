"""The object store port on S3: conditional puts with checksums, listings, reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, BinaryIO, Unpack
from urllib.parse import urlencode

import crc32c as checksum

from secor.adapters.ranged_object import read_ahead
from secor.adapters.s3.client import Connection, connect
from secor.adapters.s3.failures import require, require_done, require_listing, translated
from secor.adapters.s3.multipart import FileSlice, MultipartUpload, encoded
from secor.adapters.s3.object_reader import S3ObjectReader
from secor.adapters.s3.small_puts import SmallPuts
from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    NotFound,
    RestartPartition,
    Unavailable,
    damaged_content,
)
from secor.core.model import StoredObject
from secor.core.ports import OldVersion
from secor.core.small_objects import with_sha256
from secor.core.text import mask_urls

_MIB = 1 << 20

WHOLE_BYTES = _MIB
"""Files of up to so many bytes are read and sent at once, see ``client``; of larger ones the
server is first asked whether it takes them."""


class S3Store:
    """An ``ObjectStore`` in one bucket; threads may share it.

    ``sse`` is ``AES256`` or ``aws:kms``, ``tags`` and ``acl`` go on every object; they are sent
    only when given, as many servers refuse them.  ``conditional_puts`` False is for servers
    without ``If-None-Match``: a look before the put, which two processes at once can defeat.
    Files of ``multipart_threshold`` bytes or more go in parts of ``part_size``.
    With ``sha256`` the metadata has the hash of the bytes.
    The other arguments are those of ``connect``.  Raises ``AccessDenied`` for credentials
    that cannot be found.
    """

    def __init__(
        self,
        bucket: str,
        *,
        sse: str | None = None,
        kms_key: str | None = None,
        storage_class: str | None = None,
        tags: Mapping[str, str] | None = None,
        acl: str | None = None,
        conditional_puts: bool = True,
        part_size: int = 16 * _MIB,
        multipart_threshold: int = 64 * _MIB,
        sha256: bool = False,
        **connection: Unpack[Connection],
    ) -> None:
        self._bucket = bucket
        self._conditional = conditional_puts
        self._sha256 = sha256
        self._part_size = part_size
        self._threshold = multipart_threshold
        self._attempts = connection.get("max_attempts", 5)
        settings = {
            "ServerSideEncryption": sse,
            "SSEKMSKeyId": kms_key,
            "StorageClass": storage_class,
            "Tagging": urlencode(tags) if tags else None,
            "ACL": acl,
        }
        self._settings: dict[str, Any] = {
            name: value for name, value in settings.items() if value is not None
        }
        with translated(f"use s3://{bucket}"):
            self._client = connect(**connection)
        self._condition = {"IfNoneMatch": "*"} if conditional_puts else {}
        self._put_arguments = {"Bucket": bucket, **self._settings, **self._condition}
        self._small_puts = SmallPuts(self._client, self._put_arguments)

    def check(self) -> None:
        """Ask whether the bucket can be reached with these credentials.

        Raises ``AccessDenied`` saying what to correct, ``Unavailable``.
        """
        try:
            self._look()
        except Unavailable as error:
            raise Unavailable(
                f"{error}; look at the S3 server at {self._server} and the"
                " network to it, or correct endpoint_url of [store.s3]"
            ) from error

    def server_time(self) -> float | None:
        """Return the server's clock, in whole seconds since the epoch; None if it does not say.

        Raises ``AccessDenied``, ``Unavailable``.
        """
        with translated(f"reach s3://{self._bucket}"):
            answer = self._client.head_bucket(Bucket=self._bucket)
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        return None if date is None else parsedate_to_datetime(date).timestamp()

    def put(
        self, key: str, content: Path | bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        """Store a file's bytes, in parts where they are many, or these; see ``ObjectStore``.

        Raises ``RestartPartition`` when the content does not have this CRC32C.
        """
        if isinstance(content, Path) and not content.is_file():
            raise RestartPartition(f"{content} is gone: its messages are read again")
        # Between this look and the put another process may put the same key: that is why such
        # servers cannot be shared by two processes at once.
        if not self._conditional:
            self._refuse_existing(key)
        if self._sha256:
            metadata = with_sha256(metadata, content)
        if isinstance(content, bytes):
            self._put_bytes(key, content, crc32c, metadata, self._name(key))
            return
        size = content.stat().st_size
        if size >= self._threshold:
            upload = MultipartUpload(
                self._client,
                self._bucket,
                key,
                parameters={"Metadata": dict(metadata), **self._settings},
                condition=self._condition,
            )
            upload.put(content, size, crc32c, self._part_size)
        else:
            self._put_file(key, content, size, crc32c, metadata)

    def head(self, key: str) -> StoredObject:
        """Return the object with its metadata, names in lower case; see ``ObjectStore``."""
        doing = f"look at {self._name(key)}"
        with translated(doing):
            answer = self._client.head_object(Bucket=self._bucket, Key=key)
        require(answer, ("LastModified", "ContentLength", "Metadata"), doing)
        metadata = {name.lower(): value for name, value in answer["Metadata"].items()}
        modified = answer["LastModified"].timestamp()
        return StoredObject(key, answer["ContentLength"], modified, metadata)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Give the objects by key, a page of 1,000 at a time; see ``ObjectStore``."""
        paginator = self._client.get_paginator("list_objects_v2")
        doing = f"list {self._name(prefix)}"
        with translated(doing):
            for page in paginator.paginate(Bucket=self._bucket, Prefix=prefix):
                require_listing(page, doing)
                for item in page.get("Contents", ()):
                    modified = item["LastModified"].timestamp()
                    yield StoredObject(item["Key"], item["Size"], modified)

    def open(self, key: str) -> BinaryIO:
        """Open for reading, seekable, reading ahead; a small object costs one request in all.

        See ``ObjectStore``.
        """
        raw = S3ObjectReader(self._client, self._bucket, key, self._attempts)
        return read_ahead(raw)

    def delete(self, key: str) -> None:
        """Delete; see ``ObjectStore``."""
        with translated(f"delete {self._name(key)}"):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def noncurrent(self, prefix: str) -> Iterator[OldVersion]:
        """Give what a bucket with versions still has; see ``VersionedStore``."""
        paginator = self._client.get_paginator("list_object_versions")
        with translated(f"list versions of {self._name(prefix)}"):
            try:
                for page in paginator.paginate(Bucket=self._bucket, Prefix=prefix):
                    for item in page.get("Versions", ()):
                        if not item["IsLatest"]:
                            yield OldVersion(item["Key"], item["VersionId"], item["Size"])
            except self._client.exceptions.ClientError as error:
                if error.response["Error"].get("Code") != "NotImplemented":
                    raise  # a server that knows no versions keeps none

    def delete_version(self, version: OldVersion) -> None:
        """Delete one for good; see ``VersionedStore``."""
        with translated(f"delete version {version.id} of {self._name(version.key)}"):
            self._client.delete_object(Bucket=self._bucket, Key=version.key, VersionId=version.id)

    def close(self) -> None:
        """Close the connections."""
        self._small_puts.close()
        self._client.close()

    @property
    def _server(self) -> str:
        """The address, which the environment may have given with a password in it."""
        return mask_urls(self._client.meta.endpoint_url)

    def _name(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def _look(self) -> None:
        with translated(f"reach s3://{self._bucket}"):
            try:
                self._client.head_bucket(Bucket=self._bucket)
            except self._client.exceptions.ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                    raise
                raise AccessDenied(
                    f"there is no bucket {self._bucket} at {self._server}:"
                    " make it, or correct bucket, region or endpoint_url of [store.s3]"
                ) from error

    def _put_file(
        self, key: str, path: Path, size: int, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        if size <= WHOLE_BYTES:
            with translated(f"read {path}"):
                content = path.read_bytes()
            self._put_bytes(key, content, crc32c, metadata, path)
            return
        with FileSlice(path, 0, size) as body:
            # Some servers check no checksum.  If one refuses this body, it was spoilt in transit.
            actual_crc32c = body.checksum()
            if actual_crc32c != crc32c:
                raise damaged_content(path, actual_crc32c, crc32c)
            doing = f"put {self._name(key)}"
            with translated(doing, writes=True):
                # No transfer manager: s3transfer does not pass If-None-Match.
                answer = self._client.put_object(
                    Key=key,
                    Body=body,  # type: ignore[arg-type]  # what botocore needs of a file
                    ChecksumCRC32C=encoded(crc32c),
                    Metadata=dict(metadata),
                    **self._put_arguments,
                )
            require_done(answer, doing)

    def _put_bytes(
        self,
        key: str,
        content: bytes,
        crc32c: int,
        metadata: Mapping[str, str],
        source: Path | str,
    ) -> None:
        actual_crc32c = checksum.crc32c(content)
        if actual_crc32c != crc32c:
            raise damaged_content(source, actual_crc32c, crc32c)
        with translated(f"put {self._name(key)}", writes=True):
            self._small_puts.put(key, content, crc32c, metadata)

    def _refuse_existing(self, key: str) -> None:
        try:
            self.head(key)
        except NotFound:
            return
        raise AlreadyExists(f"{self._name(key)} exists")
