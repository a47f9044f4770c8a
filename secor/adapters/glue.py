"""AWS Glue: complete partitions become partitions of a table in its catalogue; its schemas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from secor.adapters.aws_denials import is_denial
from secor.core.errors import (
    AccessDenied,
    ActionFailed,
    ConfigurationError,
    NotFound,
    Unavailable,
)
from secor.core.text import error_text


class GlueTable:
    """One table; its partitions get the table's own format and columns."""

    def __init__(
        self,
        database: str,
        table: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        profile: str | None = None,
    ) -> None:
        """Look the table up at the first partition.  Without keys boto3's own are used.

        Raises ``ConfigurationError``.
        """
        self._where = {"DatabaseName": database, "TableName": table}
        self._table: dict[str, Any] | None = None
        try:
            self._client: Any = boto3.session.Session(profile_name=profile).client(
                "glue",
                region_name=region,
                endpoint_url=endpoint_url,
                aws_access_key_id=access_key,
                aws_secret_access_key=secret_key,
                aws_session_token=session_token,
            )
        except (BotoCoreError, ValueError) as error:
            raise ConfigurationError(
                f"Glue: {error_text(error)}; check finalize.glue.region and"
                " finalize.glue.endpoint_url, and the credentials of [store.s3]"
            ) from error

    def add(self, pairs: Sequence[tuple[str, str]], location: str) -> None:
        """Add a partition; one that is there already stays as it is.

        Raises ``ActionFailed``, ``AccessDenied``, ``ConfigurationError``.
        """
        table = self._looked_up()
        keys = [key["Name"] for key in table.get("PartitionKeys", [])]
        # Glue has column names in small letters.
        if [name.lower() for name, _ in pairs] != [key.lower() for key in keys]:
            raise ConfigurationError(
                f"finalize.glue: {self._name} is partitioned by {', '.join(keys) or 'nothing'},"
                f" the layout by {', '.join(name for name, _ in pairs)}"
            )
        # Hive and Athena read a partition by its own descriptor: without format and columns they
        # would find no rows.
        descriptor = {**table.get("StorageDescriptor", {}), "Location": location}
        values = [value for _, value in pairs]
        try:
            self._client.create_partition(
                **self._where,
                PartitionInput={"Values": values, "StorageDescriptor": descriptor},
            )
        except ClientError as error:
            # Made by an attempt whose answer was lost, or by a crawler.
            if _code(error) != "AlreadyExistsException":
                raise self._failure(error) from error
        except BotoCoreError as error:
            raise ActionFailed(f"Glue: {self._name}: {error_text(error)}") from error

    @property
    def _name(self) -> str:
        return f"{self._where['DatabaseName']}.{self._where['TableName']}"

    def _looked_up(self) -> dict[str, Any]:
        if self._table is None:
            names = {"DatabaseName": self._where["DatabaseName"], "Name": self._where["TableName"]}
            try:
                table: dict[str, Any] = self._client.get_table(**names)["Table"]
            except ClientError as error:
                raise self._failure(error) from error
            except BotoCoreError as error:
                raise ActionFailed(f"Glue: {self._name}: {error_text(error)}") from error
            self._table = table
        return self._table

    def _failure(self, error: ClientError) -> Exception:
        if is_denial(error.response):
            return AccessDenied(
                f"Glue: {self._name}: {error_text(error)}; check credentials and policies"
            )
        if _code(error) == "EntityNotFoundException":
            return ConfigurationError(
                f"finalize.glue: there is no table {self._name}; make it, or correct its name"
            )
        return ActionFailed(f"Glue: {self._name}: {error_text(error)}")


class GlueSchemas:
    """The schemas of AWS Glue's registry, by the GUIDs of their versions.

    Source: https://docs.aws.amazon.com/glue/latest/webapi/API_GetSchemaVersion.html
    """

    def __init__(
        self, url: str, *, access_key: str | None = None, secret_key: str | None = None
    ) -> None:
        """Take the region from the address; without keys boto3's own are used.

        Raises ``ConfigurationError``.
        """
        self.url = url
        region = _REGION.search(url)
        try:
            self._client: Any = boto3.session.Session().client(
                "glue",
                region_name=region[1] if region else None,
                endpoint_url=url,
                aws_access_key_id=access_key,
                aws_secret_access_key=secret_key,
            )
        except (BotoCoreError, ValueError) as error:
            raise ConfigurationError(
                f"schema registry: {error_text(error)}; check parser.registry_url, such as"
                " https://glue.eu-west-1.amazonaws.com, and the credentials"
            ) from error

    def schema(self, guid: str) -> tuple[str, str]:
        """Return the kind and the text of a schema; NotFound, Unavailable or AccessDenied."""
        try:
            version = self._client.get_schema_version(SchemaVersionId=guid)
        except ClientError as error:
            why = f"schema registry: {self.url}: {error_text(error)}"
            if is_denial(error.response):
                raise AccessDenied(
                    f"{why}; check credentials and policies (glue:GetSchemaVersion)"
                ) from error
            if _code(error) == "EntityNotFoundException":
                raise NotFound(why) from error
            raise Unavailable(why) from error
        except BotoCoreError as error:
            raise Unavailable(f"schema registry: {self.url}: {error_text(error)}") from error
        return version["DataFormat"], version["SchemaDefinition"]


_REGION = re.compile(r"[/.]glue(?:-fips)?\.([a-z0-9-]+)\.")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
