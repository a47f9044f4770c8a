"""Bucket, credentials and encryption of Confluent's and Aiven's S3 sinks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import quote, unquote, urlsplit

from secor.config.translation.draft import Draft

_PROVIDER = "s3.credentials.provider."
_FOUND_BY_BOTO = (
    *("DefaultAWSCredentialsProviderChain", "DefaultCredentialsProvider"),
    *("EnvironmentVariableCredentialsProvider", "SystemPropertiesCredentialsProvider"),
    *("InstanceProfileCredentialsProvider", "ProfileCredentialsProvider"),
    *("EC2ContainerCredentialsProviderWrapper", "ContainerCredentialsProvider"),
    *("WebIdentityTokenCredentialsProvider", "WebIdentityTokenFileCredentialsProvider"),
    "AwsCredentialsProviderChain",
)
"""Providers of Amazon's library that boto3 has too."""

_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "s3.path.style.access": "s3.path.style.access.enabled",
        "s3.force.path.style": "s3.path.style.access.enabled",
        "aws.s3.path.style.access": "s3.path.style.access.enabled",
        "s3.endpoint": "store.url",
        "s3.access.key.id": "aws.access.key.id",
        "s3.secret.access.key": "aws.secret.access.key",
    }
)
"""Names that people write, which no sink reads, by the one that is meant."""


def convert_bucket(draft: Draft, bucket: str, region: str, endpoint: str) -> None:
    """Set bucket, region and server; the arguments are the names of the sink's settings."""
    if not draft.value(bucket):
        draft.fault(bucket, f"is empty: name the bucket, by -D {bucket}=logs")
    draft.set("store.s3.bucket", draft.value(bucket), bucket)
    draft.copy("store.s3.region", region)
    address = draft.value(endpoint)
    host = urlsplit(address if "://" in address else f"https://{address}").hostname or ""
    # It follows from the region; as an endpoint it would hold for a bucket elsewhere, too.
    if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) and host.startswith("s3"):
        draft.unneeded("it is Amazon's own", endpoint)
    elif address:
        full = address if "://" in address else f"https://{address}"
        draft.set("store.s3.endpoint_url", full, endpoint)
    _path_style(draft, own_server="store.s3.endpoint_url" in {item.key for item in draft.lines})
    for name, meant in _ALIASES.items():
        if name != endpoint:
            draft.unneeded(f"the sink does not read it: {meant} is meant", name)


def _path_style(draft: Draft, *, own_server: bool) -> None:
    name = "s3.path.style.access.enabled"
    # The sink's default is the path; servers that are not Amazon's mostly know nothing else.
    if own_server and draft.flag(name, default=True):
        note = "" if draft.value(name) else "the sink's default"
        draft.set("store.s3.path_style", True, name, note=note)
    draft.unneeded("Amazon's addresses need none, and names in hosts are the default", name)


def convert_credentials(draft: Draft) -> None:
    """Leave keys to the environment, and set the role that is assumed."""
    for key, names in {
        "store.s3.access_key": ("aws.access.key.id", f"{_PROVIDER}sts.aws.access.key.id"),
        "store.s3.secret_key": ("aws.secret.access.key", f"{_PROVIDER}sts.aws.secret.key.id"),
    }.items():
        for name in names:
            draft.secret(key, name)
    roles = (f"{_PROVIDER}sts.role.arn", "aws.sts.role.arn")
    externals = (f"{_PROVIDER}sts.role.external.id", "aws.sts.role.external.id")
    for role, external in zip(roles, externals, strict=True):
        draft.copy("store.s3.role_arn", role)
        if draft.value(role):
            draft.copy("store.s3.external_id", external)
    why = "sessions are called and renewed by boto3"
    for before in (_PROVIDER, "aws."):
        draft.unneeded(why, *(f"{before}sts.role.session.{item}" for item in ("name", "duration")))
    draft.unneeded("it is that of the region", "aws.sts.config.endpoint", f"{_PROVIDER}sts.region")
    for name in (f"{_PROVIDER}class", "aws.credentials.provider", "aws.credential.provider"):
        _provider(draft, name, assumes=any(draft.value(role) for role in roles))
    known = ("aws.access.key.id", *roles)
    if not any(draft.value(name) for name in known):
        draft.todo(
            "see that the process finds credentials for the bucket: the machine's role, a profile"
            " or the environment, in boto3's order (secor doctor tries them)"
        )


def _provider(draft: Draft, name: str, *, assumes: bool) -> None:
    kind = draft.value(name).rpartition(".")[2]
    if kind in _FOUND_BY_BOTO:
        draft.unneeded("boto3 looks in the same places", name)
    elif "AssumeRole" in kind and assumes:
        draft.unneeded("store.s3.role_arn is assumed", name)
    else:
        why = "Java classes cannot be used: boto3 finds credentials in its own order"
        draft.unsupported(f"{why} (secor doctor tries them), or store.s3.role_arn", name)


def convert_encryption(draft: Draft, algorithm: str, key: str = "s3.sse.kms.key.id") -> None:
    """Set the encryption that the store does."""
    kind = draft.value(algorithm)
    if kind in ("AES256", "aws:kms"):
        draft.set("store.s3.sse", kind, algorithm)
        if kind == "aws:kms":
            draft.copy("store.s3.kms_key", key)
    else:
        draft.unsupported("AES256 and aws:kms are offered, or the bucket's encryption", algorithm)
    draft.unneeded(f"{algorithm} does not ask for it", key)
    why = "keys of one's own (SSE-C) are not offered: use aws:kms, or the bucket's encryption"
    draft.unsupported(why, "s3.sse.customer.key")


def convert_proxy(draft: Draft) -> None:
    """Set the proxy; with a password it is the environment's."""
    url, user, password = (f"s3.proxy.{name}" for name in ("url", "user", "password"))
    address = draft.value(url)
    if not address:
        draft.unneeded("there is no s3.proxy.url", user, password)
        return
    parts = urlsplit(address)
    # People write the password into the address, too: no password goes into the file.
    within = unquote(parts.username or "") if parts.password else ""
    if draft.value(user) or within:
        name = f"{quote(draft.value(user) or within, safe='')}:${{S3_PROXY_PASSWORD}}@"
        address = f"{parts.scheme}://{name}{parts.netloc.rpartition('@')[2]}"
        where = f"the value of {password}" if draft.value(user) else f"the password in {url}"
        draft.todo(f"put {where} into the environment as S3_PROXY_PASSWORD")
        draft.unneeded("S3_PROXY_PASSWORD, in the environment, has it", password)
    draft.set("store.s3.proxies", {"http": address, "https": address}, url, user)
