"""Puts of small objects, at a fraction of the CPU that botocore takes for each.

For every object of a store botocore does nearly the same: it resolves the endpoint, serializes
the settings and parses an empty answer.  Here it does that once: what it sent for the first put
is a template for the others, which the AWS Common Runtime signs.  What fails is botocore's again:
it repeats the put, follows it to another region, and says what is wrong.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from secor.adapters.s3.answers import require_done
from secor.adapters.s3.multipart import encoded
from secor.adapters.s3.put_template import CHECKSUM, METADATA, PutTemplate
from secor.core.errors import OutcomeUnknown, SecorError, Unavailable

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from mypy_boto3_s3 import S3Client

    from secor.adapters.s3.put_connections import PutConnections

_log = logging.getLogger(__name__)


class SmallPuts:
    """Puts bytes into one bucket with the same settings; threads may share it."""

    def __init__(self, client: S3Client, parameters: Mapping[str, Any]) -> None:
        """``parameters`` are those of every ``put_object``, the bucket among them."""
        self._client = client
        self._parameters = parameters
        self._sender: _Sender | None = None
        self._learning = threading.Lock()
        self._sent = threading.local()
        client.meta.events.register_last("before-send.s3.PutObject", self._keep_sent)

    def put(self, key: str, content: bytes, crc32c: int, metadata: Mapping[str, str]) -> None:
        """Put the object.  Raises what ``put_object`` raises."""
        sender = self._sender
        if sender is None or not all(map(_is_plain, metadata.items())):
            self._put_by_botocore(key, content, crc32c, metadata)
            return
        headers = {METADATA + name: value for name, value in metadata.items()}
        put = sender.template.put(key, content, {CHECKSUM: encoded(crc32c), **headers})
        # botocore has no public way to the credentials that it renews.
        credentials = vars(self._client)["_request_signer"]._credentials.get_frozen_credentials()
        try:
            sender.connections.put(put, sender.template.region, credentials)
        except (Unavailable, OutcomeUnknown) as failure:
            _log.debug("botocore puts %s: %s", key, failure)
            with _repeated(failure):
                self._put_by_botocore(key, content, crc32c, metadata)

    def close(self) -> None:
        """Close the connections; the next put is botocore's."""
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.connections.close()

    def _put_by_botocore(
        self, key: str, content: bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        answer = self._client.put_object(
            Key=key,
            Body=content,
            ChecksumCRC32C=encoded(crc32c),
            Metadata=metadata,
            **self._parameters,
        )
        try:
            require_done(answer, f"put s3://{self._parameters['Bucket']}/{key}")
        except OutcomeUnknown:
            # After an interim answer the real one is read as that of the next request.
            self._client.close()
            raise
        self._learn(key, *self._sent.request)

    def _learn(self, key: str, url: str, headers: Mapping[str, str | bytes]) -> None:
        """Send the next puts as botocore sent this one; it may have changed the server."""
        config: Any = self._client.meta.config
        template = PutTemplate.of(url, headers, key, config)
        with self._learning:
            sender = self._sender
            if template != (sender and sender.template):
                self.close()
                if template is not None:  # None: only botocore can send the like
                    self._sender = _Sender.of(self._client, url, template)

    def _keep_sent(self, request: AWSPreparedRequest, **_: object) -> None:
        """Keep what this thread sends, without the body; botocore's events call this."""
        self._sent.request = (request.url, request.headers)


@dataclass(frozen=True, slots=True)
class _Sender:
    """Sends puts like one that botocore has sent."""

    template: PutTemplate
    connections: PutConnections

    @classmethod
    def of(cls, client: S3Client, url: str, template: PutTemplate) -> _Sender:
        """Make it for the server of a URL."""
        from secor.adapters.s3.put_connections import PutConnections  # not for reading

        # botocore has no public way to what it verifies, which the environment may have set.
        verify = vars(vars(client)["_endpoint"].http_session)["_verify"]
        config: Any = client.meta.config
        connections = PutConnections(
            url,
            verify=verify,
            connect_timeout=config.connect_timeout,
            read_timeout=config.read_timeout,
        )
        return cls(template, connections)


@contextmanager
def _repeated(failure: SecorError) -> Iterator[None]:
    """Make botocore's error that of a repetition where the first put may have succeeded."""
    try:
        yield
    except ClientError as error:
        if isinstance(failure, OutcomeUnknown):
            answer = error.response["ResponseMetadata"]
            answer["RetryAttempts"] = answer.get("RetryAttempts", 0) + 1
        raise


def _is_plain(item: tuple[str, str]) -> bool:
    """Tell whether a name and its value need no encoding in a header."""
    name, value = item
    return name.isascii() and value.isascii() and value.isprintable()
