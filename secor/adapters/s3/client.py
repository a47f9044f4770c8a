"""The botocore client of an S3 store: credentials, assumed roles, timeouts and retries."""

from __future__ import annotations

import gzip
import io
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import botocore
import botocore.client
import botocore.session
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    Credentials,
    DeferredRefreshableCredentials,
    ReadOnlyCredentials,
)
from botocore.exceptions import NoCredentialsError
from botocore.loaders import JSONFileLoader, Loader, create_loader
from botocore.session import Session
from botocore.utils import S3RegionRedirectorv2

from secor.adapters import tls
from secor.core.errors import ConfigurationError
from secor.core.text import mask_urls

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from mypy_boto3_s3 import S3Client


class RegionRedirector(S3RegionRedirectorv2):
    """Botocore's, for servers that redirect every request.

    To learn the region, botocore asks about the bucket.  If that is redirected too, as by a
    proxy's maintenance page, botocore asks again for that request, until Python's stack ends.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._asking = threading.local()

    def get_bucket_region(self, bucket: str, response: Any) -> Any:
        """Return the bucket's region, None where it is not known."""
        if getattr(self._asking, "is_set", False):
            return None
        self._asking.is_set = True
        try:
            return super().get_bucket_region(bucket, response)
        finally:
            self._asking.is_set = False


def use_our_redirector() -> None:
    """Let the clients that botocore makes from now on have it."""
    vars(botocore.client)["S3RegionRedirectorv2"] = RegionRedirector


def _unpack(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


_READERS: Mapping[str, Callable[[Path], bytes]] = {".json": Path.read_bytes, ".json.gz": _unpack}


def _is_there(look: Callable[[], bool]) -> bool:
    """Return what ``look`` says; False within a folder that this user may not enter."""
    try:
        return look()
    except PermissionError:
        return False


class _ModelFiles(JSONFileLoader):
    """Reads JSON files, plain or compressed; paths have no suffix."""

    def load_file(self, file_path: str) -> Any:
        """Return what the file says, None where there is none."""
        for suffix, read in _READERS.items():
            file = Path(file_path + suffix)
            if _is_there(file.is_file):
                return json.loads(read(file))
        return None


class ModelLoader(Loader):
    """A loader of service models that takes every folder for a service."""

    FILE_LOADER_CLASS = _ModelFiles

    def list_available_services(self, type_name: str) -> list[str]:
        """Return the names of all services, without checking that they have such a model."""
        folders = [path for path in map(Path, self.search_paths) if _is_there(path.is_dir)]
        return sorted({service.name for folder in folders for service in folder.iterdir()})


def use_quick_models(session: Session) -> None:
    """Let the session read its models with ``ModelLoader``, from the same folders."""
    paths = create_loader(session.get_config_variable("data_path")).search_paths
    loader = ModelLoader(extra_search_paths=list(paths), include_default_search_paths=False)
    session.register_component("data_loader", loader)


class Connection(TypedDict, total=False):
    """The way to a bucket: the keyword arguments of ``connect``.

    Times in seconds.  Without keys, a profile or a role, credentials come from where every AWS
    tool finds them: environment, files, the machine's or container's role.
    """

    endpoint_url: str | None
    region: str | None
    path_style: bool
    access_key: str | None
    secret_key: str | None
    session_token: str | None
    profile: str | None
    role_arn: str | None
    external_id: str | None
    max_attempts: int
    connect_timeout: float
    read_timeout: float
    proxies: Mapping[str, str] | None
    verify_tls: bool
    ca_bundle: str | None
    pool_size: int


def connect(
    *,
    endpoint_url: str | None = None,
    region: str | None = None,
    path_style: bool = False,
    access_key: str | None = None,
    secret_key: str | None = None,
    session_token: str | None = None,
    profile: str | None = None,
    role_arn: str | None = None,
    external_id: str | None = None,
    max_attempts: int = 5,
    connect_timeout: float = 10.0,
    read_timeout: float = 60.0,
    proxies: Mapping[str, str] | None = None,
    verify_tls: bool = True,
    ca_bundle: str | None = None,
    pool_size: int = 10,
) -> S3Client:
    """Make a client, which threads may share; nothing is sent yet.

    ``max_attempts`` counts the first one; ``pool_size`` is the most connections kept open.
    Raises what botocore raises for a profile or credentials that do not hold together, and
    ``ConfigurationError`` for a ``ca_bundle`` that cannot be read.
    """
    if ca_bundle is not None:
        tls.client_context("S3", authorities=ca_bundle)
    core = botocore.session.Session(profile=profile)
    use_quick_models(core)
    use_our_redirector()
    if access_key is not None:
        core.set_credentials(access_key, secret_key or "", session_token)
    config = Config(
        retries={"mode": "standard", "total_max_attempts": max_attempts},
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
        max_pool_connections=pool_size,
        tcp_keepalive=True,
        proxies=dict(proxies) if proxies else None,
        # Botocore's own, of many parts, is put together twice for each request: a tenth of its CPU.
        user_agent=f"secor botocore/{botocore.__version__}",
        parameter_validation=False,  # what is sent here is typed, and checked by the server
        # Every put carries our own CRC32C in a signed header: a SHA-256 of the body would
        # double the CPU, and over plain http make servers hold the body in memory.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={
            "payload_signing_enabled": False,
            "addressing_style": "path" if path_style else "auto",
        },
    )
    verify: bool | str | None = (ca_bundle or None) if verify_tls else False
    if core.get_credentials() is None:
        vars(core)["_credentials"] = _AwaitedCredentials(profile)  # as below
    if role_arn is not None:
        _assume_role(core, role_arn, external_id, region, verify, config)
    try:
        # Without boto3, which only adds conveniences: importing it takes as long again.
        client = core.create_client(
            "s3", region_name=region, endpoint_url=endpoint_url, verify=verify, config=config
        )
    except ValueError as error:  # also for an address that the environment or a profile gives
        raise ConfigurationError(
            f"S3: {mask_urls(str(error))}; correct endpoint_url of [store.s3], or AWS_ENDPOINT_URL"
        ) from error
    client.meta.events.register_last("before-call.s3", _send_at_once)
    return cast("S3Client", client)


class _AwaitedCredentials(Credentials):
    """Credentials that nobody had when the client was made; each request looks for them again.

    A client of botocore keeps what it was made with, so without them it would never have any:
    the service that hands them out may only have been slow, a file may be mounted late.
    """

    def __init__(self, profile: str | None) -> None:
        super().__init__("", "")
        self._profile = profile
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """Return those that are right now.  Raises ``NoCredentialsError``."""
        with self._lock:
            if self._credentials is None:  # a session remembers the files that it has read
                session = botocore.session.Session(profile=self._profile)
                self._credentials = session.get_credentials()
            credentials = self._credentials
        if credentials is None:
            raise NoCredentialsError
        return credentials.get_frozen_credentials()


def _send_at_once(params: dict[str, Any], **_: object) -> None:
    """Send a body that is in memory without first asking whether the server accepts it.

    The question is another round trip, and costs as much again as the sending.
    """
    if isinstance(params.get("body"), io.BytesIO | bytes):
        params["headers"].pop("Expect", None)


def _assume_role(
    core: botocore.session.Session,
    role_arn: str,
    external_id: str | None,
    region: str | None,
    verify: bool | str | None,
    config: Config,
) -> None:
    """Make the session's credentials those of a role, renewed before they expire.

    botocore does this by itself for a role named in a profile; for a role given by its ARN the
    same parts are put together here.
    """

    def sts(service: str, **arguments: Any) -> BaseClient:
        arguments.setdefault("region_name", region)
        return core.create_client(service, **{**arguments, "verify": verify, "config": config})

    fetcher = AssumeRoleCredentialFetcher(
        client_creator=sts,
        source_credentials=core.get_credentials(),
        role_arn=role_arn,
        extra_args={"ExternalId": external_id} if external_id is not None else {},
    )
    credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    vars(core)["_credentials"] = credentials  # botocore has no public way for this
