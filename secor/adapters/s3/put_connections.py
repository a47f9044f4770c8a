"""Connections for puts: each is signed by the AWS Common Runtime, and sent once."""

from __future__ import annotations

import weakref
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING
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
from botocore.httpsession import where
from urllib3.util.wait import wait_for_read

from secor.adapters import tls
from secor.adapters.s3.answers import is_done
from secor.adapters.s3.failures import UNREADABLE
from secor.core.errors import OutcomeUnknown, Unavailable
from secor.core.text import error_text

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials

    from secor.adapters.s3.put_template import Put


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

    def put(self, put: Put, region: str, credentials: ReadOnlyCredentials) -> None:
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
        self, put: Put, region: str, credentials: ReadOnlyCredentials
    ) -> list[tuple[str, str]]:
        """Return the headers of the put with those of its signature."""
        headers = HttpHeaders([("host", put.host), *put.headers])
        request = HttpRequest("PUT", put.path, headers)
        aws_sign_request(request, self._signing_config(region, credentials)).result()
        return list(request.headers)

    def _signing_config(self, region: str, credentials: ReadOnlyCredentials) -> AwsSigningConfig:
        """Return how to sign: made anew when the credentials or the region are others."""
        identity = (region, credentials)
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
                should_normalize_uri_path=False,
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
    connection: HTTPConnection, put: Put, headers: list[tuple[str, str]]
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
