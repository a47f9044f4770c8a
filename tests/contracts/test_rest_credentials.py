"""What a REST catalog asks for, and lends: tokens by OAuth2, credentials of a table's store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from secor.adapters.iceberg.catalog import IcebergTables, library_table_of, open_catalog
from secor.core.errors import AccessDenied
from secor.tables.catalog import NewTable
from tests.faults.rest_catalog import Answer, RestCatalogServer
from tests.unit.adapters.iceberg_tables import SCHEMA

TOKEN, EVENTS = "a-token", "lake.events"
LENT = {"s3.access-key-id": "lent", "s3.secret-access-key": "secret", "s3.session-token": "s1"}


class LendingCatalog(RestCatalogServer):
    """Takes requests with its token alone, and lends the credentials of each table."""

    def answer(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if target.endswith("/oauth/tokens"):
            form = parse_qs(body.decode())
            if (form["client_id"], form["client_secret"]) != (["me"], ["hush"]):
                error = {"error": "invalid_client", "error_description": "who are you"}
                return HTTPStatus.UNAUTHORIZED, error
            return HTTPStatus.OK, {"access_token": TOKEN, "token_type": "bearer"}
        if headers["Authorization"] != f"Bearer {TOKEN}":
            denied = {"message": "no token", "type": "NotAuthorizedException", "code": 401}
            return HTTPStatus.UNAUTHORIZED, {"error": denied}
        status, answered = super().answer(method, target, body, headers)
        if (
            "metadata" in answered
            and headers["X-Iceberg-Access-Delegation"] == "vended-credentials"
        ):
            answered = {**answered, "config": LENT}
        return status, answered


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[LendingCatalog]:
    with LendingCatalog(tmp_path / "catalog.db", tmp_path.as_uri(), {}) as server:
        yield server


def properties(catalog: LendingCatalog, secret: str) -> dict[str, str]:
    return {
        "type": "rest",
        "uri": catalog.url,
        "credential": f"me:{secret}",
        "oauth2-server-uri": f"{catalog.url}/v1/oauth/tokens",
        "s3.access-key-id": "of the store",
        "s3.secret-access-key": "of the store",
    }


def test_a_table_is_reached_by_a_token_and_with_the_credentials_that_are_lent(
    catalog: LendingCatalog,
) -> None:
    tables = IcebergTables(open_catalog("lake", properties(catalog, "hush")))
    made = tables.create_table(EVENTS, NewTable(SCHEMA))
    assert tables.load_table(EVENTS).uuid == made.uuid
    lent = library_table_of(tables.load_table(EVENTS)).io.properties
    assert {key: lent[key] for key in LENT} == LENT


def test_a_wrong_credential_is_refused_with_what_the_server_says(catalog: LendingCatalog) -> None:
    with pytest.raises(AccessDenied, match="who are you"):
        IcebergTables(open_catalog("lake", properties(catalog, "wrong"))).load_table(EVENTS)
