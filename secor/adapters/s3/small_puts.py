"""Puts of small objects, at a fraction of the CPU that botocore takes for each.

For every object of a store botocore does nearly the same: it resolves the endpoint, serializes
the settings and parses an empty answer.  Here it does that once: what it sent for the first put
is a template for the others, which the AWS Common Runtime signs.  What fails is botocore's again:
it repeats the put, follows it to another region, and says what is wrong.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from awscrt.auth import (
    AwsCredentialsProvider,
    AwsSignatureType,
    AwsSignedBodyHeaderType,
    AwsSignedBodyValue,
    AwsSigningAlgorithm,
    AwsSigningConfig,
    aws_sign_request,
)
from awscrt.exceptions import AwsCrtError
from awscrt.http import HttpHeaders, HttpRequest
from botocore.exceptions import ClientError
from botocore.httpsession import where
from urllib3.util.wait import wait_for_read

from secor.adapters import tls
from secor.adapters.s3.failures import UNREADABLE, is_done, require_done
from secor.adapters.s3.multipart import encoded
from secor.adapters.s3.put_template import CHECKSUM, METADATA, PutTemplate
from secor.core.errors import OutcomeUnknown, SecorError, Unavailable
from secor.core.text import error_text

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.credentials import ReadOnlyCredentials
    from mypy_boto3_s3 import S3Client

    from secor.adapters.s3.put_template import PutRequest


_MOST_OF_ANSWER = 1 << 16
"""Bytes of an answer that are read; S3's to a put has none."""


class PutConnections:
    """Sends puts to one server; threads may share it, and each uses a connection of its own.

    Only the server counts of ``url``.  ``verify`` is botocore's: the path of the authorities,
    True for its own ones, False to trust everybody.  Times are in seconds.  Raises
    ``ConfigurationError`` for authorities that it cannot read.
    """

    def __init__(
        self, url: str, *, verify: bool | str, connect_timeout: float, read_timeout: float
    ) -> None:
        server = urlsplit(url)
        self._address = (server.hostname or "", server.port)
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._tls = None
        if server.scheme == "https":
            authorities = where() if verify is True else verify or None
            self._tls = tls.client_context("S3", authorities=authorities, verify=bool(verify))
        self._idle: list[HTTPConnection] = []
        weakref.finalize(self, _close_all, self._idle)  # those that come back after ``close``
        self._signing: tuple[object, AwsSigningConfig] | None = None

    def put(self, put: PutRequest, region: str, credentials: ReadOnlyCredentials) -> None:
        """Send the put.

        Raises ``Unavailable`` when the server has not done it, ``OutcomeUnknown``.
        """
        try:
            signed = self._signed(put, region, credentials)
            connection = self._connection()
        except (OSError, AwsCrtError) as error:
            raise Unavailable(f"nothing was sent: {error_text(error)}") from error
        try:
            answer, body = _exchange(connection, put, signed)
        except (OSError, HTTPException, *UNREADABLE) as error:
            connection.close()
            raise OutcomeUnknown(f"no answer: {error_text(error)}") from error
        headers = {name.lower(): value for name, value in answer.getheaders()}
        if not is_done(answer.status, headers) or body:
            # After an interim answer (1xx) the real one is still to come.
            connection.close()
            refused = 300 <= answer.status < 500 or answer.status == HTTPStatus.SERVICE_UNAVAILABLE
            raise (Unavailable if refused else OutcomeUnknown)(f"HTTP status {answer.status}")
        if answer.will_close:
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Close the connections that are not in use."""
        _close_all(self._idle)

    def _connection(self) -> HTTPConnection:
        """Return a connection that is open, and that no other thread has."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            # Something to read on an idle connection is its end: a put that is sent there would
            # have an unknown outcome for nothing.
            if not wait_for_read(connection.sock, timeout=0):
                return connection
            connection.close()  # the server has closed it
        if self._tls is None:
            connection = HTTPConnection(*self._address, timeout=self._connect_timeout)
        else:
            connection = HTTPSConnection(
                *self._address, timeout=self._connect_timeout, context=self._tls
            )
        connection.connect()
        connection.sock.settimeout(self._read_timeout)
        return connection

    def _signed(
        self, put: PutRequest, region: str, credentials: ReadOnlyCredentials
    ) -> list[tuple[str, str]]:
        """Return the headers of the put with those of its signature."""
        headers = HttpHeaders([("host", put.host), *put.headers])
        request = HttpRequest("PUT", put.path, headers)
        aws_sign_request(request, self._signing_config(region, credentials)).result()
        return list(request.headers)

    def _signing_config(self, region: str, credentials: ReadOnlyCredentials) -> AwsSigningConfig:
        """Return how to sign: made anew when the credentials or the region are others."""
        identity = (region, credentials)
        # Read once: another thread may replace it between two looks.
        signing = self._signing
        if signing is None or signing[0] != identity:
            provider = AwsCredentialsProvider.new_static(
                credentials.access_key, credentials.secret_key, credentials.token
            )
            config = AwsSigningConfig(
                algorithm=AwsSigningAlgorithm.V4,
                signature_type=AwsSignatureType.HTTP_REQUEST_HEADERS,
                credentials_provider=provider,
                region=region,
                service="s3",
                use_double_uri_encode=False,
                # S3 signs the path as it is: a key may have "//" or "..".
                should_normalize_uri_path=False,
                # The CRC32C protects the body already; a SHA-256 of it would cost more than all the
                # rest.
                signed_body_value=AwsSignedBodyValue.UNSIGNED_PAYLOAD,
                signed_body_header_type=AwsSignedBodyHeaderType.X_AMZ_CONTENT_SHA_256,
            )
            signing = self._signing = (identity, config)
        return signing[1]


def _close_all(connections: list[HTTPConnection]) -> None:
    while connections:
        try:
            connection = connections.pop()
        except IndexError:  # another thread was faster
            break
        connection.close()


def _exchange(
    connection: HTTPConnection, put: PutRequest, headers: list[tuple[str, str]]
) -> tuple[HTTPResponse, bytes]:
    """Send the put, and return the answer and its body.

    Headers and body go at once: ``http.client`` would send them apart, and each time wait for
    the interpreter's lock.
    """
    lines = [
        f"PUT {put.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers),
        f"Content-Length: {len(put.content)}",
        "\r\n",
    ]
    connection.sock.sendall("\r\n".join(lines).encode("latin-1") + put.content)
    with closing(HTTPResponse(connection.sock, method="PUT")) as answer:
        answer.begin()
        return answer, answer.read(_MOST_OF_ANSWER)


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
        # Only after a success: what failed is no example.
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
    """Return whether a name and its value need no encoding in a header."""
    name, value = item
    return name.isascii() and value.isascii() and value.isprintable()
