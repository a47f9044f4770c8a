"""Import of what Java Secor's properties say about the store, prefixes and local files."""

from __future__ import annotations

import re

from secor.config.translation.draft import Draft

_AMAZON = re.compile(r"(?:https?://)?s3(?:[.-](?P<region>[a-z]{2}-[a-z-]+-\d))?\.amazonaws\.com/?")
_PROXY = ("aws.proxy.isEnabled", "aws.proxy.http.host", "aws.proxy.http.port")


def convert(draft: Draft) -> None:
    """Convert what is about the store and its prefixes."""
    service = draft.value("cloud.service") or "S3"
    manager = draft.value("secor.upload.manager.class").rpartition(".")[2]
    if service == "GS" or manager == "GsUploadManager":
        _google(draft)
    elif service == "Azure" or manager == "AzureUploadManager":
        _azure(draft)
    else:
        _container(draft, "store.s3.bucket", "secor.s3.bucket", "secor.s3.path")
        _endpoint(draft)
        _credentials(draft)
        _encryption(draft)
        _other_stores(draft, service, manager)
    _prefix(draft)
    if path := draft.value("secor.local.path").rstrip("/"):
        note = "A folder of its own, next to what Java Secor left. Several processes may share it."
        draft.set("local.directory", f"{path}/secor", "secor.local.path", note=note)


def _container(draft: Draft, key: str, name: str, path: str) -> None:
    if not draft.value(name):
        what = key.rpartition(".")[2]
        draft.fault(name, f"is empty: name the {what}, by -D {name}=logs")
    draft.set(key, draft.value(name), name)
    draft.set("output.prefix", draft.value(path).strip("/"), path)


def _endpoint(draft: Draft) -> None:
    endpoint, region = draft.value("aws.endpoint"), draft.value("aws.region")
    amazon = _AMAZON.fullmatch(endpoint)
    if amazon:
        if amazon["region"] and not region:
            draft.set("store.s3.region", amazon["region"], "aws.endpoint")
        draft.unneeded("it is Amazon's own", "aws.endpoint")
    elif endpoint:
        address = endpoint if "://" in endpoint else f"https://{endpoint}"
        draft.set("store.s3.endpoint_url", address, "aws.endpoint")
    draft.copy("store.s3.region", "aws.region")
    if draft.value("aws.client.pathstyleaccess"):
        path_style = draft.flag("aws.client.pathstyleaccess")
        draft.set("store.s3.path_style", path_style, "aws.client.pathstyleaccess")
    enabled, host, port = draft.flag(_PROXY[0]), draft.value(_PROXY[1]), draft.value(_PROXY[2])
    if enabled and host:
        proxy = f"http://{host}:{port or 80}"
        draft.set("store.s3.proxies", {"http": proxy, "https": proxy}, *_PROXY)
    draft.unneeded("the proxy is not enabled", *_PROXY)


def _credentials(draft: Draft) -> None:
    draft.secret("store.s3.access_key", "aws.access.key")
    draft.secret("store.s3.secret_key", "aws.secret.key")
    if not draft.value("aws.secret.key") and not draft.value("aws.access.key"):
        draft.todo(
            "see that the process finds credentials for the bucket: the machine's role, a profile"
            " or the environment, in boto3's order (secor doctor tries them)"
        )
    draft.secret("store.s3.session_token", "aws.session.token")
    draft.copy("store.s3.role_arn", "aws.role")


def _encryption(draft: Draft) -> None:
    kind, key, customer = "aws.sse.type", "aws.sse.kms.key", "aws.sse.customer.key"
    if draft.value(kind) == "S3":
        draft.set("store.s3.sse", "AES256", kind)
    elif draft.value(kind) == "KMS":
        draft.set("store.s3.sse", "aws:kms", kind)
        draft.copy("store.s3.kms_key", key)
    else:
        why = "keys of one's own (SSE-C) are not offered: use aws:kms, or the bucket's encryption"
        draft.unsupported(why, kind, customer)
    draft.unneeded("aws.sse.type does not ask for it", key, customer)


_SERVICE = ("cloud.service", "secor.upload.manager.class")


def _google(draft: Draft) -> None:
    draft.set("store.kind", "gcs", *_SERVICE)
    _container(draft, "store.gcs.bucket", "secor.gs.bucket", "secor.gs.path")
    draft.copy("store.gcs.service_account", "secor.gs.credentials.path")
    if not draft.value("secor.gs.credentials.path"):
        draft.todo(_IDENTITY.format(where="GOOGLE_APPLICATION_CREDENTIALS or the machine's"))
    draft.todo(_CLOUDS)


def _azure(draft: Draft) -> None:
    draft.set("store.kind", "azure", *_SERVICE)
    _container(draft, "store.azure.container", "secor.azure.container.name", "secor.azure.path")
    account = "secor.azure.account.name"
    if not draft.value(account):
        draft.fault(account, f"is empty: name the storage account, by -D {account}=logs")
    draft.set("store.azure.account", draft.value(account), account)
    draft.secret("store.azure.account_key", "secor.azure.account.key")
    if not draft.value("secor.azure.account.key"):
        draft.todo(_IDENTITY.format(where="AZURE_... in the environment, or the machine's"))
    if draft.value("secor.azure.endpoints.protocol") not in ("", "https"):
        why = "the account is reached by https; store.azure.endpoint_url names another server"
        draft.unsupported(why, "secor.azure.endpoints.protocol")
    draft.unneeded("the account is reached by https", "secor.azure.endpoints.protocol")
    draft.todo(_CLOUDS)


_IDENTITY = "see that the process finds credentials: {where} identity (secor doctor tries them)"
_CLOUDS = "install what reaches this store: pip install '.[clouds]' in a checkout"


def _other_stores(draft: Draft, service: str, manager: str) -> None:
    why = "this store is not offered: copy objects on, or use a gateway that speaks S3"
    if manager not in ("", "S3UploadManager", "HadoopS3UploadManager"):
        draft.unsupported(why, "secor.upload.manager.class")
    if service != "S3":
        draft.unsupported(why, "cloud.service")
    for name in draft.properties:
        if name.startswith(("secor.swift.", "swift.")) and service.lower() in name:
            draft.unsupported(why, name)


def _prefix(draft: Draft) -> None:
    if draft.flag("secor.s3.prefix.md5hash"):
        note = "Here the hash is that of the topic; Java Secor's was that of each directory."
        draft.set("output.hash_prefix", True, "secor.s3.prefix.md5hash", note=note)
        draft.todo(
            "look for the old objects elsewhere: directories with hashes differ from Java Secor's"
        )
    if draft.value("secor.s3.alter.path.date"):
        why = "there is one prefix: change output.prefix with a new output.generation on that day"
        draft.unsupported(why, "secor.s3.alter.path.date", "secor.s3.alternative.path")
    draft.copy_number("output.generation", "secor.generation")
