"""The store, and where in it objects and local files lie."""

from __future__ import annotations

import re

from secor.config.java_secor.draft import Draft

GOOGLE = "https://storage.googleapis.com"
_AMAZON = re.compile(r"(?:https?://)?s3(?:[.-](?P<region>[a-z]{2}-[a-z-]+-\d))?\.amazonaws\.com/?")
_NO_STORE = "objects go to S3 only: copy them on, or use a gateway that speaks S3"


def convert(draft: Draft) -> None:
    """Convert what is about the store and its prefixes."""
    service = draft.value("cloud.service") or "S3"
    manager = draft.value("secor.upload.manager.class").rpartition(".")[2]
    if service == "GS" or manager == "GsUploadManager":
        _google(draft)
    else:
        _amazon(draft)
        _elsewhere(draft, service, manager)
    _prefix(draft)
    _local(draft)


def _amazon(draft: Draft) -> None:
    bucket = draft.value("secor.s3.bucket")
    if not bucket:
        draft.fault("secor.s3.bucket", "is empty: name the bucket, by -D secor.s3.bucket=logs")
    draft.set("store.s3.bucket", bucket, "secor.s3.bucket")
    draft.set("output.prefix", draft.value("secor.s3.path").strip("/"), "secor.s3.path")
    draft.unneeded("s3 is the only store", "cloud.service")
    _endpoint(draft)
    _credentials(draft)
    _encryption(draft)


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
    if region:
        draft.set("store.s3.region", region, "aws.region")
    if draft.value("aws.client.pathstyleaccess"):
        path_style = draft.flag("aws.client.pathstyleaccess")
        draft.set("store.s3.path_style", path_style, "aws.client.pathstyleaccess")
    host, port = draft.value("aws.proxy.http.host"), draft.value("aws.proxy.http.port")
    if draft.flag("aws.proxy.isEnabled") and host:
        proxy = f"http://{host}:{port or 80}"
        names = ("aws.proxy.isEnabled", "aws.proxy.http.host", "aws.proxy.http.port")
        draft.set("store.s3.proxies", {"http": proxy, "https": proxy}, *names)
    draft.unneeded(
        "the proxy is not enabled",
        "aws.proxy.isEnabled",
        "aws.proxy.http.host",
        "aws.proxy.http.port",
    )


def _credentials(draft: Draft) -> None:
    if draft.value("aws.access.key"):
        draft.secret("store.s3.access_key", "aws.access.key")
    if draft.value("aws.secret.key"):
        draft.secret("store.s3.secret_key", "aws.secret.key")
    elif not draft.value("aws.access.key"):
        draft.todo(
            "see that the process finds credentials for the bucket: the machine's role, a profile"
            " or the environment, in boto3's order (secor doctor tries them)"
        )
    if draft.value("aws.session.token"):
        draft.secret("store.s3.session_token", "aws.session.token")
    if role := draft.value("aws.role"):
        draft.set("store.s3.role_arn", role, "aws.role")


def _encryption(draft: Draft) -> None:
    kind, key = "aws.sse.type", "aws.sse.kms.key"
    if draft.value(kind) == "S3":
        draft.set("store.s3.sse", "AES256", kind)
    elif draft.value(kind) == "KMS":
        draft.set("store.s3.sse", "aws:kms", kind)
        if draft.value(key):
            draft.set("store.s3.kms_key", draft.value(key), key)
    else:
        why = "keys of one's own (SSE-C) are not offered: use aws:kms, or the bucket's encryption"
        draft.unsupported(kind, why)
        draft.unsupported("aws.sse.customer.key", why)
    draft.unneeded("aws.sse.type does not ask for it", key, "aws.sse.customer.key")


def _google(draft: Draft) -> None:
    bucket = draft.value("secor.gs.bucket")
    if not bucket:
        draft.fault("secor.gs.bucket", "is empty: name the bucket, by -D secor.gs.bucket=logs")
    draft.set("store.s3.bucket", bucket, "secor.gs.bucket")
    draft.set(
        "store.s3.endpoint_url",
        GOOGLE,
        "cloud.service",
        "secor.upload.manager.class",
        note="Google's S3-compatible interface; nobody has tried it with this Secor.",
    )
    draft.set(
        "store.s3.conditional_puts", value=False, note="It does not know If-None-Match: look first."
    )
    draft.set("output.prefix", draft.value("secor.gs.path").strip("/"), "secor.gs.path")
    why = "Google's own interface is not offered: its S3-compatible one takes HMAC keys"
    draft.unsupported("secor.gs.credentials.path", why)
    draft.todo(
        "make HMAC keys for the bucket and put them into the environment as"
        " SECOR_STORE__S3__ACCESS_KEY and SECOR_STORE__S3__SECRET_KEY; say secor doctor, since"
        " Google's interface is not tested"
    )
    draft.unneeded("the store is Google's", "secor.s3.bucket", "secor.s3.path")


def _elsewhere(draft: Draft, service: str, manager: str) -> None:
    known = ("", "S3UploadManager", "HadoopS3UploadManager")
    if manager not in known:
        draft.unsupported("secor.upload.manager.class", _NO_STORE)
    if service != "S3":
        draft.fates.pop("cloud.service", None)
        draft.unsupported("cloud.service", _NO_STORE)
    draft.unneeded("boto3 uploads", "secor.upload.manager.class")
    elsewhere = [
        name for name in draft.given if name.startswith(("secor.azure.", "secor.swift.", "swift."))
    ]
    for name in elsewhere:
        if service.lower() in name or ("Azure" in manager and ".azure." in name):
            draft.unsupported(name, _NO_STORE)


def _prefix(draft: Draft) -> None:
    if draft.flag("secor.s3.prefix.md5hash"):
        draft.set(
            "output.hash_prefix",
            True,
            "secor.s3.prefix.md5hash",
            note="Here the hash is that of the topic; Java Secor's was that of each directory.",
        )
        draft.todo(
            "look for the old objects elsewhere: directories with hashes differ from Java Secor's"
        )
    draft.unneeded("no hash is the default", "secor.s3.prefix.md5hash")
    dated = "secor.s3.alter.path.date"
    why = "there is one prefix: change output.prefix with a new output.generation on that day"
    draft.unsupported(dated, why)
    if draft.value(dated):
        draft.unsupported("secor.s3.alternative.path", why)
    draft.unneeded(f"{dated} is empty", "secor.s3.alternative.path")
    generation = draft.number("secor.generation")
    if generation is not None:
        draft.set("output.generation", generation, "secor.generation")


def _local(draft: Draft) -> None:
    name = "secor.local.path"
    if path := draft.value(name).rstrip("/"):
        note = "A folder of its own, beside what Java Secor left. Several processes may share it."
        draft.set("local.directory", f"{path}/secor", name, note=note)
