"""``[store]``: where objects go, with the settings of each kind of store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from secor.config.values import MIB, Duration, Maybe, Secret, Section, Size, Url, fault

_BUCKET = re.compile(r"[a-zA-Z0-9._-]{1,255}|arn:[^/\s]+(?:[/:][\w.-]+)+")
"""A bucket's name, or the ARN of an access point; as botocore takes them."""

_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}|\$root")
_LONGEST_BACKOFF = 20.0
"""Most seconds that a store's client waits between two attempts of a request."""

_LOCAL_REQUEST = 60.0
"""Seconds in which a local directory has taken a file, or not."""


class S3(Section):
    """``[store.s3]``: the bucket and how to reach it; sizes in bytes, times in seconds."""

    bucket: str = ""
    endpoint_url: Maybe[Url] = None
    region: Maybe[str] = None
    path_style: bool = False
    access_key: Maybe[str] = None
    secret_key: Maybe[Secret] = None
    session_token: Maybe[Secret] = None
    profile: Maybe[str] = None
    role_arn: Maybe[str] = None
    external_id: Maybe[str] = None
    sse: Maybe[Literal["AES256", "aws:kms"]] = None
    kms_key: Maybe[str] = None
    storage_class: Maybe[str] = None
    tags: dict[str, str] = Field(default_factory=dict)
    acl: Maybe[str] = None
    conditional_puts: bool = True
    part_size: Size = 16 * MIB
    multipart_threshold: Size = 64 * MIB
    max_attempts: int = Field(default=5, ge=1)
    connect_timeout: Duration = 10.0
    read_timeout: Duration = 60.0
    proxies: dict[str, str] = Field(default_factory=dict)
    verify_tls: bool = True
    ca_bundle: Maybe[str] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_names()
        if (self.access_key is None) != (self.secret_key is None):
            key = "secret_key" if self.secret_key is None else "access_key"
            raise fault("access_key and secret_key belong together: give both or none", key)
        if self.session_token is not None and self.access_key is None:
            raise fault("needs access_key and secret_key", "session_token")
        if self.access_key is not None and self.profile is not None:
            raise fault("credentials are given by access_key already: keep one", "profile")
        if self.external_id is not None and self.role_arn is None:
            raise fault("needs role_arn", "external_id")
        if self.kms_key is not None and self.sse != "aws:kms":
            raise fault('needs sse = "aws:kms"', "kms_key")
        if not 5 * MIB <= self.part_size <= 5 * 1024 * MIB:
            raise fault("must be 5MiB to 5GiB, as S3 asks of parts", "part_size")
        if self.ca_bundle is not None and not self.verify_tls:
            raise fault("verify_tls is false, so it would not be looked at", "ca_bundle")
        return self

    @property
    def request_lifetime(self) -> float:
        """Seconds after which a request has landed, or will not, with all its attempts.

        A put may have one before botocore's.
        """
        tries = (self.max_attempts + 1) * (self.connect_timeout + self.read_timeout)
        return tries + self.max_attempts * _LONGEST_BACKOFF

    def _check_names(self) -> None:
        if self.bucket and not _BUCKET.fullmatch(self.bucket):
            name = self.bucket.removeprefix("s3://").strip("/")
            bucket, _, prefix = name.partition("/")
            advice = f"write {bucket!r}" + (f", and {prefix!r} as output.prefix" if prefix else "")
            raise fault(f"{self.bucket!r} is not the name of a bucket: {advice}", "bucket")
        for scheme in self.proxies:
            if scheme not in ("http", "https"):
                raise fault(f"{scheme!r} is no kind of address: http or https", "proxies")


class Cloud(Section):
    """What Google's and Azure's stores have in common; times in seconds."""

    endpoint_url: Maybe[Url] = None
    storage_class: Maybe[str] = None
    max_attempts: int = Field(default=5, ge=1)
    connect_timeout: Duration = 10.0
    request_timeout: Duration = 300.0
    proxy: Maybe[Url] = None
    verify_tls: bool = True
    ca_bundle: Maybe[str] = None

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if self.ca_bundle is not None and not self.verify_tls:
            raise fault("verify_tls is false, so it would not be looked at", "ca_bundle")
        return self

    @property
    def request_lifetime(self) -> float:
        """Seconds after which a request has landed, or will not, with all its attempts."""
        tries = self.max_attempts * (self.connect_timeout + self.request_timeout)
        return tries + (self.max_attempts - 1) * _LONGEST_BACKOFF


class Gcs(Cloud):
    """``[store.gcs]``: a bucket of Google Cloud Storage and how to reach it."""

    bucket: str = ""
    service_account: Maybe[str] = None
    service_account_key: Maybe[Secret] = None
    token: Maybe[Secret] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.bucket and not _BUCKET.fullmatch(self.bucket):
            name = self.bucket.removeprefix("gs://").strip("/").partition("/")[0]
            why = f"{self.bucket!r} is not the name of a bucket: write {name!r}"
            raise fault(f"{why}; what follows it is output.prefix", "bucket")
        keys = ("service_account", "service_account_key", "token")
        given = [key for key in keys if getattr(self, key) is not None]
        if len(given) > 1:
            raise fault(f"credentials are given by {given[0]} already: keep one", given[1])
        return self


class Azure(Cloud):
    """``[store.azure]``: a container of Azure Blob Storage and how to reach it."""

    account: str = ""
    container: str = ""
    account_key: Maybe[Secret] = None
    sas_token: Maybe[Secret] = None
    tenant_id: Maybe[str] = None
    client_id: Maybe[str] = None
    client_secret: Maybe[Secret] = None
    federated_token_file: Maybe[str] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.account and not _ACCOUNT.fullmatch(self.account):
            raise fault("an account's name has 3 to 24 small letters and digits", "account")
        if self.container and not _CONTAINER.fullmatch(self.container):
            why = f"{self.container!r} is not the name of a container: 3 to 63 small letters,"
            raise fault(f"{why} digits and single hyphens; the rest is output.prefix", "container")
        if self.account_key is not None and self.sas_token is not None:
            raise fault("credentials are given by account_key already: keep one", "sas_token")
        for key in ("client_secret", "federated_token_file"):
            if getattr(self, key) is not None and not (self.tenant_id and self.client_id):
                raise fault("needs tenant_id and client_id", key)
        return self


class LocalStore(Section):
    """``[store.local]``: a directory instead of a bucket."""

    directory: Maybe[Path] = None

    @property
    def request_lifetime(self) -> float:
        """Seconds in which a directory has taken a file, or not."""
        return _LOCAL_REQUEST


class Store(Section):
    """``[store]``: where objects go."""

    kind: Literal["s3", "gcs", "azure", "local"] = "s3"
    s3: S3 = Field(default_factory=S3)
    gcs: Gcs = Field(default_factory=Gcs)
    azure: Azure = Field(default_factory=Azure)
    local: LocalStore = Field(default_factory=LocalStore)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "s3" and not self.s3.bucket:
            raise fault("name the bucket", "s3.bucket")
        if self.kind == "gcs" and not self.gcs.bucket:
            raise fault("name the bucket", "gcs.bucket")
        for key in ("account", "container"):
            if self.kind == "azure" and not getattr(self.azure, key):
                raise fault(f"name the {key}", f"azure.{key}")
        if self.kind == "local" and self.local.directory is None:
            raise fault("name the directory that stands for the bucket", "local.directory")
        return self

    @property
    def place(self) -> str:
        """The bucket, container or directory."""
        places = {
            "s3": self.s3.bucket,
            "gcs": self.gcs.bucket,
            "azure": f"{self.azure.account}/{self.azure.container}",
        }
        return places.get(self.kind) or str(self.local.directory)

    @property
    def chosen(self) -> S3 | Gcs | Azure | LocalStore:
        """The section of its kind."""
        sections: dict[str, S3 | Gcs | Azure | LocalStore] = {
            "s3": self.s3,
            "gcs": self.gcs,
            "azure": self.azure,
            "local": self.local,
        }
        return sections[self.kind]
