"""The sink's catalog, in the words of the Iceberg library for Python."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from secor.config.translation.draft import Draft, PropertyOutcome

PREFIX = "iceberg.catalog."

_CLASSES = {
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.jdbc.JdbcCatalog": "sql",
}
_TYPES = {"rest": "rest", "hive": "hive", "glue": "glue", "jdbc": "sql"}

_SAME = frozenset(
    {
        *("prefix", "scope", "audience", "resource", "oauth2-server-uri", "glue.id"),
        *("rest.sigv4-enabled", "rest.signing-region", "rest.signing-name", "glue.endpoint"),
        *("token-refresh-enabled", "header.X-Iceberg-Access-Delegation"),
    }
)
"""Both libraries call these alike."""

_STORE = {
    "s3.endpoint": "store.s3.endpoint_url",
    "client.region": "store.s3.region",
    "s3.path-style-access": "store.s3.path_style",
    "client.assume-role.arn": "store.s3.role_arn",
    "client.assume-role.external-id": "store.s3.external_id",
}
_STORE_SECRETS = {
    "s3.access-key-id": "store.s3.access_key",
    "s3.secret-access-key": "store.s3.secret_key",
    "s3.session-token": "store.s3.session_token",
}
_FILE_IO = ("S3FileIO", "GCSFileIO", "ADLSFileIO", "HadoopFileIO", "ResolvingFileIO")
_SECRETS = {"credential": "ICEBERG_CREDENTIAL", "token": "ICEBERG_TOKEN"}
_SECRET_HEADER = re.compile("authorization|key|token|secret|password|cookie", re.IGNORECASE)
"""Headers of requests to a REST catalog that are as good as a password."""


def convert(draft: Draft) -> None:
    """Translate ``iceberg.catalog`` and all below it."""
    draft.set("catalog.name", draft.value("iceberg.catalog") or "iceberg", "iceberg.catalog")
    properties: dict[str, str] = {}
    kind = _kind(draft)
    if kind:
        properties["type"] = kind
    _place(draft, properties, kind)
    for name in [name for name in draft.properties if name.startswith(PREFIX)]:
        if name not in draft.outcomes:
            _property(draft, name, properties)
    names = [key for key in draft.properties if key.startswith(PREFIX)]
    mapped = [word for word in names if draft.outcomes.get(word, (None,))[0] is None]
    draft.set("catalog.properties", properties, *mapped)


def _kind(draft: Draft) -> str | None:
    by_type, by_class = draft.value(f"{PREFIX}type"), draft.value(f"{PREFIX}catalog-impl")
    kind = _CLASSES.get(by_class) if by_class else _TYPES.get(by_type.lower())
    name = f"{PREFIX}catalog-impl" if by_class else f"{PREFIX}type"
    if kind is None:
        why = "the Iceberg library for Python commits to rest, sql, glue and hive"
        if "nessie" in by_class.lower():
            why = 'Nessie serves the REST protocol: type = "rest", uri = "https://host/iceberg"'
        draft.unsupported(why, name)
        draft.todo("set catalog.properties: type, uri, warehouse (docs/tables.md, Catalogs)")
        return None
    draft.outcomes[name] = (PropertyOutcome.MAPPED, f'catalog.properties.type = "{kind}"')
    return kind


def _place(draft: Draft, properties: dict[str, str], kind: str | None) -> None:
    uri, warehouse = draft.value(f"{PREFIX}uri"), draft.value(f"{PREFIX}warehouse")
    if uri:
        if kind == "sql":
            uri = uri.removeprefix("jdbc:").replace("postgresql://", "postgresql+psycopg2://", 1)
            # JDBC takes them in the address, too; no password goes into the file.
            uri = re.sub(r"(?<=[?&])(user|password)=[^&]*&?", "", uri).rstrip("?&")
            draft.todo("put user and password into catalog.properties.uri: user:${PASSWORD}@host")
        properties["uri"] = uri
        _say(draft, "uri", uri)
    if warehouse:
        warehouse = warehouse.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
        properties["warehouse"] = warehouse
        _say(draft, "warehouse", warehouse)
    _own_objects(draft, warehouse)


def _own_objects(draft: Draft, warehouse: str) -> None:
    """Put the group's own objects next to its tables, where that is known."""
    place, source = urlsplit(warehouse), f"{PREFIX}warehouse"
    note = "the group's own objects are next to the tables; another bucket will do"
    container, _, host = place.netloc.partition("@")
    if place.scheme == "s3" and place.netloc:
        draft.set("store.s3.bucket", place.netloc, source, note=note)
    elif place.scheme == "gs" and place.netloc:
        draft.set("store.kind", "gcs", source)
        draft.set("store.gcs.bucket", place.netloc, source, note=note)
    elif place.scheme in ("abfs", "abfss") and container and host:
        draft.set("store.kind", "azure", source)
        draft.set("store.azure.account", host.partition(".")[0], source)
        draft.set("store.azure.container", container, source, note=note)
    else:
        draft.set("store.s3.bucket", "change-me")
        draft.todo("name a bucket for the group's own objects: store.s3.bucket")


def _property(draft: Draft, name: str, properties: dict[str, str]) -> None:
    own, value = name.removeprefix(PREFIX), draft.value(name)
    if own in _STORE:
        is_flag = own == "s3.path-style-access"
        draft.set(_STORE[own], draft.flag(name) if is_flag else value, name)
    elif own in _STORE_SECRETS:
        draft.secret(_STORE_SECRETS[own], name)
    elif own in _SECRETS or (own.startswith("header.") and _SECRET_HEADER.search(own)):
        variable = _SECRETS.get(own) or f"ICEBERG_{re.sub(r'[^A-Z0-9]', '_', own.upper())}"
        properties[own] = f"${{{variable}:-}}"
        draft.outcomes[name] = (PropertyOutcome.MAPPED, f"{variable}, in the environment")
        draft.todo(f"put the value of {name} into the environment as {variable}")
    elif own in _SAME or own.startswith("header."):
        properties[own] = value
        _say(draft, own, value)
    elif own == "io-impl":
        draft.unneeded("data files are written by Secor itself", name)
        if value and not value.endswith(_FILE_IO):
            why = "data files can be in S3, Google's and Azure's stores, or in a directory"
            draft.unsupported(why, name)
    elif own in ("jdbc.user", "jdbc.password"):
        draft.outcomes[name] = (PropertyOutcome.UNNEEDED, "it is a part of catalog.properties.uri")
    else:
        why = "no counterpart is known; if the Iceberg library for Python has one, it belongs into"
        draft.outcomes[name] = (PropertyOutcome.UNKNOWN, f"{why} catalog.properties")


def _say(draft: Draft, own: str, value: str) -> None:
    draft.outcomes[PREFIX + own] = (
        PropertyOutcome.MAPPED,
        f'catalog.properties."{own}" = "{value}"',
    )
