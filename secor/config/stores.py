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

    bucket: str = Field(
        default="",
        description="The bucket, or the ARN of an access point; it must exist.",
        examples=["my-logs"],
    )
    endpoint_url: Maybe[Url] = Field(
        default=None,
        description="The server, if it is not Amazon's. Many other servers need path_style = true.",
        examples=["http://minio:9000"],
    )
    region: Maybe[str] = Field(
        default=None,
        description="The bucket's region. \"none\": the environment's or the profile's.",
        examples=["eu-west-1"],
    )
    path_style: bool = Field(
        default=False,
        description="Put the bucket into the path of addresses instead of the host's name.",
    )
    access_key: Maybe[str] = Field(
        default=None,
        description='Credentials: the access key. "none": the profile, the environment, the'
        " machine's role, in boto3's order.",
        examples=["AKIAIOSFODNN7EXAMPLE"],
    )
    secret_key: Maybe[Secret] = Field(
        default=None,
        description="Credentials: the secret key of store.s3.access_key.",
        examples=["${S3_SECRET_KEY}"],
    )
    session_token: Maybe[Secret] = Field(
        default=None,
        description="Credentials: the session token of a temporary access key.",
        examples=["${S3_SESSION_TOKEN}"],
    )
    profile: Maybe[str] = Field(
        default=None,
        description="Credentials: a profile of the AWS configuration files, instead of an access"
        " key.",
        examples=["archive"],
    )
    role_arn: Maybe[str] = Field(
        default=None,
        description="A role to assume with these credentials.",
        examples=["arn:aws:iam::123456789012:role/secor"],
    )
    external_id: Maybe[str] = Field(
        default=None, description="The external id that the role asks for.", examples=["secor-1"]
    )
    sse: Maybe[Literal["AES256", "aws:kms"]] = Field(
        default=None, description='Encryption at rest: "AES256", or "aws:kms" with the id of a key.'
    )
    kms_key: Maybe[str] = Field(
        default=None, description='The key of sse = "aws:kms".', examples=["alias/logs"]
    )
    storage_class: Maybe[str] = Field(
        default=None, description="Storage class to set on every object.", examples=["STANDARD_IA"]
    )
    tags: dict[str, str] = Field(
        default_factory=dict,
        description="Tags to set on every object.",
        examples=[{"team": "data"}],
    )
    acl: Maybe[str] = Field(
        default=None,
        description="A canned ACL to set on every object.",
        examples=["bucket-owner-full-control"],
    )
    conditional_puts: bool = Field(
        default=True,
        description="The store refuses to overwrite (If-None-Match). false, for stores without"
        " it: look first.",
    )
    part_size: Size = Field(
        default=16 * MIB, description="Size of the parts of large objects, 5 MiB to 5 GiB."
    )
    multipart_threshold: Size = Field(
        default=64 * MIB, description="Objects of this size or more are uploaded in parts."
    )
    max_attempts: int = Field(default=5, ge=1, description="Attempts of one request.")
    connect_timeout: Duration = Field(default=10.0, description="Time limit to connect.")
    read_timeout: Duration = Field(default=60.0, description="Time limit for an answer.")
    proxies: dict[str, str] = Field(
        default_factory=dict,
        description="Proxies for addresses that begin with http or https.",
        examples=[{"https": "http://proxy:3128"}],
    )
    verify_tls: bool = Field(default=True, description="Whether to check the server's certificate.")
    ca_bundle: Maybe[str] = Field(
        default=None,
        description="A file of authorities for the server's certificate, in PEM format."
        ' "none": botocore\'s own.',
        examples=["/etc/secor/ca.pem"],
    )

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
        # Never less than it may take: a request that lands later could put an object of an old
        # batch over one of its successor.
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
    """The common settings of Google's and Azure's stores; times in seconds."""

    endpoint_url: Maybe[Url] = Field(
        default=None,
        description="The server, if it is not the cloud's own.",
        examples=["http://emulator:4443"],
    )
    storage_class: Maybe[str] = Field(
        default=None,
        description="Storage class (Google) or access tier (Azure) to set on every object.",
        examples=["NEARLINE"],
    )
    max_attempts: int = Field(default=5, ge=1, description="Attempts of one request.")
    connect_timeout: Duration = Field(default=10.0, description="Time limit to connect.")
    request_timeout: Duration = Field(
        default=300.0,
        description="Time limit for a whole request. The largest object must fit into it: an"
        " object is uploaded in one request.",
    )
    proxy: Maybe[Url] = Field(
        default=None, description="A proxy for all requests.", examples=["http://proxy:3128"]
    )
    verify_tls: bool = Field(default=True, description="Whether to check the server's certificate.")
    ca_bundle: Maybe[str] = Field(
        default=None,
        description="A file of further authorities to trust, in PEM format.",
        examples=["/etc/secor/ca.pem"],
    )

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

    bucket: str = Field(
        default="",
        description="A bucket of Google Cloud Storage. Needs pip install '.[clouds]'.",
        examples=["my-logs"],
    )
    service_account: Maybe[str] = Field(
        default=None,
        description="Credentials: the path of a service account's key file. Default of all"
        " credentials: GOOGLE_APPLICATION_CREDENTIALS, gcloud's file, the identity of the machine"
        " or the workload.",
        examples=["/etc/secor/account.json"],
    )
    service_account_key: Maybe[Secret] = Field(
        default=None,
        description="Credentials: the content of a service account's key file.",
        examples=["${GCS_KEY}"],
    )
    token: Maybe[Secret] = Field(
        default=None,
        description="Credentials: an access token. Tokens expire.",
        examples=["${GCS_TOKEN}"],
    )

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

    account: str = Field(
        default="",
        description="A storage account. Needs pip install '.[clouds]'.",
        examples=["acmelogs"],
    )
    container: str = Field(
        default="", description="A container in the storage account.", examples=["my-logs"]
    )
    account_key: Maybe[Secret] = Field(
        default=None,
        description="Credentials: the account's key. Default of all credentials: AZURE_... in"
        " the environment, workload identity, the machine's identity.",
        examples=["${AZURE_KEY}"],
    )
    sas_token: Maybe[Secret] = Field(
        default=None,
        description="Credentials: a shared access signature.",
        examples=["${AZURE_SAS_TOKEN}"],
    )
    tenant_id: Maybe[str] = Field(
        default=None,
        description="Credentials: the tenant of an application.",
        examples=["72f988bf-0000-0000-0000-2d7cd011db47"],
    )
    client_id: Maybe[str] = Field(
        default=None,
        description="Credentials: an application, with its secret or the file of its federated"
        " token. Alone: a managed identity.",
        examples=["6731de76-0000-0000-0000-12d8ad9d9b62"],
    )
    client_secret: Maybe[Secret] = Field(
        default=None,
        description="Credentials: the application's secret.",
        examples=["${AZURE_CLIENT_SECRET}"],
    )
    federated_token_file: Maybe[str] = Field(
        default=None,
        description="Credentials: the file of the application's federated token.",
        examples=["/var/run/secrets/azure/tokens/azure-identity-token"],
    )

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

    directory: Maybe[Path] = Field(
        default=None, description="The directory to use as the bucket.", examples=["/srv/archive"]
    )

    @property
    def request_lifetime(self) -> float:
        """Seconds in which a directory has taken a file, or not."""
        return _LOCAL_REQUEST


class Store(Section):
    """``[store]``: where objects go."""

    kind: Literal["s3", "gcs", "azure", "local"] = Field(
        default="s3",
        description='Where objects are: "s3", "gcs" (Google Cloud Storage), "azure" (Azure Blob'
        ' Storage), or "local": a directory, for trials. Tables with changed rows, and Hudi'
        ' tables, are written to "s3" and "local" only.',
    )
    sha256: bool = Field(
        default=False,
        description="Record the SHA-256 of each object in its metadata when it is put"
        " (docs/lifecycle.md). It costs 0.7 CPU ms a megabyte.",
    )
    s3: S3 = Field(
        default_factory=S3, description="A bucket of S3, or of a server that speaks its protocol."
    )
    gcs: Gcs = Field(
        default_factory=Gcs, description="A bucket of Google Cloud Storage (docs/stores.md)."
    )
    azure: Azure = Field(
        default_factory=Azure, description="A container of Azure Blob Storage (docs/stores.md)."
    )
    local: LocalStore = Field(
        default_factory=LocalStore, description="A directory instead of a bucket."
    )

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
            raise fault("name the directory of the objects", "local.directory")
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
