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
    else:
        _bucket(draft, "s3")
        _endpoint(draft)
        _credentials(draft)
        _encryption(draft)
        _other_stores(draft, service, manager)
    _prefix(draft)
    if path := draft.value("secor.local.path").rstrip("/"):
        note = "A folder of its own, beside what Java Secor left. Several processes may share it."
        draft.set("local.directory", f"{path}/secor", "secor.local.path", note=note)


def _bucket(draft: Draft, service: str) -> None:
    name, path = f"secor.{service}.bucket", f"secor.{service}.path"
    if not draft.value(name):
        draft.fault(name, f"is empty: name the bucket, by -D {name}=logs")
    draft.set("store.s3.bucket", draft.value(name), name)
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


def _google(draft: Draft) -> None:
    _bucket(draft, "gs")
    draft.set(
        "store.s3.endpoint_url",
        "https://storage.googleapis.com",
        "cloud.service",
        "secor.upload.manager.class",
        note="Google's S3-compatible interface; nobody has tried it with this Secor.",
    )
    note = "It does not know If-None-Match: look first."
    draft.set("store.s3.conditional_puts", value=False, note=note)
    why = "Google's own interface is not offered: its S3-compatible one takes HMAC keys"
    draft.unsupported(why, "secor.gs.credentials.path")
    draft.todo(
        "make HMAC keys for the bucket and put them into the environment as"
        " SECOR_STORE__S3__ACCESS_KEY and SECOR_STORE__S3__SECRET_KEY; say secor doctor, since"
        " Google's interface is not tested"
    )


def _other_stores(draft: Draft, service: str, manager: str) -> None:
    why = "objects go to S3 only: copy them on, or use a gateway that speaks S3"
    if manager not in ("", "S3UploadManager", "HadoopS3UploadManager"):
        draft.unsupported(why, "secor.upload.manager.class")
    if service != "S3":
        draft.unsupported(why, "cloud.service")
    for name in draft.properties:
        if name.startswith(("secor.azure.", "secor.swift.", "swift.")) and (
            service.lower() in name or ("Azure" in manager and ".azure." in name)
        ):
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
