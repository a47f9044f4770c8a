"""Stores of the clouds: credentials, timeouts and retries in obstore's words.

Without credentials obstore looks where the clouds' tools do: variables of the environment, files
of credentials, workload identity, the machine's own identity.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore

from secor.adapters import tls
from secor.adapters.clouds.failures import AZURE, GCS, Provider, describe
from secor.adapters.clouds.store import CloudStore
from secor.core.errors import ConfigurationError

LONGEST_BACKOFF = 20.0
"""Most seconds between two attempts of a request."""


class ClientOptions(TypedDict, total=False):
    """The way to the server; times in seconds.  ``max_attempts`` counts the first one."""

    max_attempts: int
    connect_timeout: float
    request_timeout: float
    proxy: str | None
    verify_tls: bool
    ca_bundle: str | None


def gcs_store(
    bucket: str,
    *,
    service_account: str | None = None,
    service_account_key: str | None = None,
    token: str | None = None,
    endpoint_url: str | None = None,
    storage_class: str | None = None,
    sha256: bool = False,
    **connection: Unpack[ClientOptions],
) -> CloudStore:
    """Return a bucket of Google Cloud Storage, which is not looked at yet.

    ``service_account`` is the path of a key file, ``service_account_key`` its content, ``token``
    an access token, which ends some time.  Raises ``ConfigurationError``.
    """
    settings = {
        "service_account": service_account,
        "service_account_key": service_account_key,
        "bearer_token": token,
        "base_url": endpoint_url,
    }
    client = _connect(GCSStore, bucket, settings, GCS, endpoint_url, connection)
    server = endpoint_url or "storage.googleapis.com"
    return CloudStore(
        client, f"gs://{bucket}", GCS, server=server, storage_class=storage_class, sha256=sha256
    )


def azure_store(
    account: str,
    container: str,
    *,
    account_key: str | None = None,
    sas_token: str | None = None,
    tenant_id: str | None = None,
    client_id: str | None = None,
    client_secret: str | None = None,
    federated_token_file: str | None = None,
    endpoint_url: str | None = None,
    storage_class: str | None = None,
    sha256: bool = False,
    **connection: Unpack[ClientOptions],
) -> CloudStore:
    """Return a container of Azure Blob Storage, which is not looked at yet.

    ``client_id`` alone is a managed identity that the machine has been given; with a secret or a
    file of a federated token it is an application.  Raises ``ConfigurationError``.
    """
    settings = {
        "account_name": account,
        "account_key": account_key,
        "sas_key": sas_token,
        "tenant_id": tenant_id,
        "client_id": client_id,
        "client_secret": client_secret,
        "federated_token_file": federated_token_file,
        "endpoint": endpoint_url,
    }
    client = _connect(AzureStore, container, settings, AZURE, endpoint_url, connection)
    host = f"{account}.blob.core.windows.net"
    address = f"abfss://{container}@{account}.dfs.core.windows.net"
    return CloudStore(
        client,
        address,
        AZURE,
        server=endpoint_url or host,
        storage_class=storage_class,
        sha256=sha256,
    )


def _connect(
    kind: Callable[..., Any],
    container: str,
    settings: dict[str, str | None],
    provider: Provider,
    endpoint_url: str | None,
    connection: ClientOptions,
) -> Any:
    """Return obstore's client; nothing is sent yet.  Raises ``ConfigurationError``."""
    authorities = connection.get("ca_bundle")
    # Only to see that the file can be read: obstore's own error does not name it.
    tls.client_context(provider.section, authorities=authorities)
    attempts = connection.get("max_attempts", 5)
    connecting = timedelta(seconds=connection.get("connect_timeout", 10.0))
    asking = timedelta(seconds=connection.get("request_timeout", 300.0))
    options: dict[str, Any] = {
        "connect_timeout": connecting,
        "timeout": asking,
        "user_agent": "secor",
        "allow_http": urlsplit(endpoint_url or "").scheme == "http",
        "allow_invalid_certificates": not connection.get("verify_tls", True),
        "proxy_url": connection.get("proxy"),
        "root_certificate": Path(authorities).read_bytes() if authorities else None,
    }
    retries = {
        "max_retries": attempts - 1,
        # Long enough for all attempts: obstore gives up at this time, however many are left.
        "retry_timeout": attempts * (connecting + asking + timedelta(seconds=LONGEST_BACKOFF)),
        "backoff": {"max_backoff": timedelta(seconds=LONGEST_BACKOFF)},
    }
    given = {name: value for name, value in settings.items() if value is not None}
    chosen = {name: value for name, value in options.items() if value is not None}
    try:
        return kind(container, config=given, client_options=chosen, retry_config=retries)
    except BaseError as error:
        raise ConfigurationError(
            f"{provider.section}: {describe(error)}; correct {provider.credentials}, or the"
            " variables of the environment that say it"
        ) from None
