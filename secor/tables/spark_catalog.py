"""Translates the properties of a table group's catalog for Spark.

``catalog.properties`` have the names of the Iceberg library for Python.  Most names mean the same
in Iceberg's Java library; this module knows those that differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from secor.core.errors import ConfigurationError

CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
FILE_IO = "org.apache.iceberg.io.ResolvingFileIO"
"""Takes the storage by the scheme of each location, as the library for Python does."""

REDACTED = r"(?i)secret|password|token|access[.-]?key|credential|jdbc\.user"
"""Names of values that Spark must not show in its logs and pages."""

_KINDS = MappingProxyType(
    {
        "sql": {"type": "jdbc", "jdbc.schema-version": "V1"},
        "rest": {"type": "rest"},
        "glue": {"type": "glue"},
        "hive": {"type": "hive"},
    }
)
"""By ``type`` of the library for Python; schema V1 is the one that it makes in a database."""

_SCHEMES = MappingProxyType(
    {"http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
)
"""The type where only ``uri`` says what the catalog is."""

_RENAMED = MappingProxyType(
    {
        "s3.role-arn": "client.assume-role.arn",
        "s3.role-session-name": "client.assume-role.session-name",
        "client.role-arn": "client.assume-role.arn",
        "client.role-session-name": "client.assume-role.session-name",
    }
)

_ONLY_PYTHON = frozenset(
    {
        "type",
        "uri",
        "py-io-impl",
        "py-catalog-impl",
        "echo",
        "pool_pre_ping",
        "init_catalog_tables",
        "s3.region",
        "glue.region",
        "client.region",
        "s3.force-virtual-addressing",
        "s3.resolve-region",
        "s3.connect-timeout",
        "s3.request-timeout",
        "s3.proxy-uri",
        "s3.retry-strategy-impl",
        "glue.max-retries",
        "glue.retry-mode",
    }
)
"""Names that are translated below, or mean nothing to Java."""

_CREDENTIALS = MappingProxyType(
    {
        "access-key-id": "AWS_ACCESS_KEY_ID",
        "secret-access-key": "AWS_SECRET_ACCESS_KEY",
        "session-token": "AWS_SESSION_TOKEN",
        "profile-name": "AWS_PROFILE",
    }
)
"""What Java's clients take from the environment only, by the end of the property's name."""

_SERVICES = ("client", "glue")


@dataclass(frozen=True, slots=True)
class SparkCatalog:
    """A Spark session's access to the catalog.

    ``settings`` are Spark's configuration.  ``environment`` is what Java's process needs as well as
    it, before it starts: credentials that Iceberg's Java library takes from nowhere else.
    """

    name: str
    settings: Mapping[str, str]
    environment: Mapping[str, str]


def spark_catalog(name: str, properties: Mapping[str, str]) -> SparkCatalog:
    """Return the catalog ``name`` that the Iceberg library for Python opens with ``properties``.

    Both see the same tables, and each commit of one is refused by the other's compare-and-set.
    Raises ``ConfigurationError`` for a catalog that Java does not know.
    """
    kind = _kind(properties)
    options = {
        "io-impl": FILE_IO,
        # Each look asks the catalog: a cached table would be an older one than the library for
        # Python has committed.
        "cache-enabled": "false",
        **_KINDS[kind],
        **_region(properties),
        **_s3(properties),
    }
    environment: dict[str, str] = {}
    for key, value in properties.items():
        service, _, credential = key.partition(".")
        if service in _SERVICES and credential in _CREDENTIALS:
            environment[_CREDENTIALS[credential]] = value
        elif key == "s3.profile-name":
            environment["AWS_PROFILE"] = value
        elif key not in _ONLY_PYTHON:
            options[_RENAMED.get(key, key)] = value
    if "client.assume-role.arn" in options:
        options = {**_role(options), **options}
        environment = {**_keys_of_s3(properties), **environment}
    if "uri" in properties:
        uri = properties["uri"]
        options |= _jdbc(uri) if kind == "sql" else {"uri": uri}
    prefix = f"spark.sql.catalog.{name}"
    settings = {
        "spark.sql.extensions": EXTENSIONS,
        "spark.redaction.regex": REDACTED,
        prefix: CATALOG_CLASS,
        **{f"{prefix}.{key}": value for key, value in options.items()},
    }
    return SparkCatalog(name, MappingProxyType(settings), MappingProxyType(environment))


def _kind(properties: Mapping[str, str]) -> str:
    scheme = urlsplit(properties.get("uri", "")).scheme.partition("+")[0]
    kind = properties.get("type") or _SCHEMES.get(scheme, "")
    if "py-catalog-impl" in properties or kind not in _KINDS:
        what = properties.get("py-catalog-impl") or kind or "a catalog without a type"
        known = ", ".join(_KINDS)
        raise ConfigurationError(f"[catalog] {what!r}: Spark cannot use it; it knows {known}")
    return kind


def _jdbc(uri: str) -> dict[str, str]:
    """Return the JDBC options for a URI of SQLAlchemy.  Raises ``ConfigurationError``."""
    parts = urlsplit(uri)
    database = parts.scheme.partition("+")[0]
    path = unquote(parts.path)
    if database == "sqlite":
        if path in ("", "/", "/:memory:"):
            raise ConfigurationError("[catalog] uri: nobody else sees a database in memory")
        return {"uri": f"jdbc:sqlite:{path.removeprefix('/')}"}
    if database != "postgresql":
        raise ConfigurationError(
            f"[catalog] uri: Spark is given drivers of SQLite and PostgreSQL, not of {database}"
        )
    if not parts.hostname:
        raise ConfigurationError(
            "[catalog] uri: Java reaches PostgreSQL by TCP only: name host and port"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    query = f"?{parts.query}" if parts.query else ""
    login = {"jdbc.user": parts.username, "jdbc.password": parts.password}
    return {
        "uri": f"jdbc:postgresql://{host}{port}/{path.removeprefix('/')}{query}",
        **{key: unquote(value) for key, value in login.items() if value},
    }


def _region(properties: Mapping[str, str]) -> dict[str, str]:
    for key in ("s3.region", "client.region", "glue.region"):
        if properties.get(key):
            return {"client.region": properties[key]}
    # Java's client asks for a region even where the server does not care.
    return {"client.region": "us-east-1"} if "s3.endpoint" in properties else {}


def _s3(properties: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    if "s3.access-key-id" not in properties:
        for key in ("access-key-id", "secret-access-key", "session-token"):
            if f"client.{key}" in properties:
                options[f"s3.{key}"] = properties[f"client.{key}"]
    by_path = "true" if "s3.endpoint" in properties else "false"
    virtual = properties.get("s3.force-virtual-addressing", "").lower()
    options["s3.path-style-access"] = {"true": "false", "false": "true"}.get(virtual, by_path)
    return options


def _role(options: Mapping[str, str]) -> dict[str, str]:
    return {
        "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
        "client.assume-role.region": options.get("client.region", "us-east-1"),
    }


def _keys_of_s3(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the credentials that may assume the role."""
    names = {f"s3.{key}": variable for key, variable in _CREDENTIALS.items()}
    return {names[key]: value for key, value in properties.items() if key in names}
