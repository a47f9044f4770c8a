"""The Hudi tables of a group: definitions, timelines, and how Spark reaches and writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from secor.config.model import Config
from secor.config.table_routes import TableRoute, parts_of
from secor.core.errors import ConfigurationError
from secor.tables.hudi import HudiEngine, HudiSettings
from secor.wiring.clients import clear
from secor.wiring.table_routes import route_of
from secor.wiring.table_storage import open_own_store, store_of_tables

if TYPE_CHECKING:
    from secor.adapters.hudi.catalog import HudiCatalog


def open_hudi_tables(config: Config, engine: HudiEngine | None = None) -> HudiCatalog:
    """Return the group's tables; without an ``engine`` nothing can be committed."""
    from secor.adapters.hudi.catalog import HudiCatalog
    from secor.adapters.hudi.definitions import Definitions
    from secor.adapters.hudi.timeline import TimelineReader

    own = open_own_store(config)()
    prefix = config.output.prefix
    definitions = Definitions(own, prefix, config.hudi.location_of)
    timelines = TimelineReader(store_of_tables(config, own))
    return HudiCatalog(definitions, own, prefix, config.group.name, timelines, engine)


def hudi_settings_of(config: Config, table: str) -> HudiSettings:
    """Return how a table is written.  Raises ``ConfigurationError`` where no route leads to it."""
    for route in config.tables:
        if _leads_to(route, table):
            settings = route_of(route).settings.changes
            return HudiSettings(settings.mode, route.type, route.precombine, route.properties)
    raise ConfigurationError(f"table {table}: no route of [[tables]] leads to it any more")


def _leads_to(route: TableRoute, table: str) -> bool:
    pattern = "".join(
        re.escape(text) + (".+" if path is not None else "") for text, path in parts_of(route.table)
    )
    return re.fullmatch(pattern, table) is not None


def hadoop_settings(config: Config) -> dict[str, str]:
    """Return how Spark reaches the files of tables: ``[store.s3]`` in the words of Hadoop."""
    if config.store.kind != "s3":
        return {}
    s3 = config.store.s3
    given = {
        "endpoint": s3.endpoint_url,
        "endpoint.region": s3.region,
        "path.style.access": "true" if s3.path_style else None,
        "access.key": s3.access_key,
        "secret.key": clear(s3.secret_key),
        "session.token": clear(s3.session_token),
        "assumed.role.arn": s3.role_arn,
        "connection.ssl.enabled": _uses_tls(s3.endpoint_url),
        "server-side-encryption-algorithm": _encryption(s3.sse),
        "server-side-encryption.key": s3.kms_key,
    }
    if s3.role_arn is not None:
        given["aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
        )
    elif s3.session_token is not None:
        given["aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        )
    elif s3.access_key is not None:
        given["aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    settings = {
        f"spark.hadoop.fs.s3a.{key}": value for key, value in given.items() if value is not None
    }
    return {"spark.redaction.regex": "(?i)secret|password|token|access.key", **settings}


def _encryption(sse: str | None) -> str | None:
    return {"AES256": "AES256", "aws:kms": "SSE-KMS"}.get(sse or "")


def _uses_tls(endpoint: str | None) -> str | None:
    return None if endpoint is None else str(endpoint.startswith("https")).lower()
