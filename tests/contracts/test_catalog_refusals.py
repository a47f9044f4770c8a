"""What a REST catalog answers to a commit: who waits, who tries again, and what a person sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

import pytest

from secor.adapters.iceberg.catalog import open_catalog
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.core.errors import AccessDenied, ConfigurationError, SecorError
from secor.tables.catalog import Outcome, Table, TableCommit
from tests.faults.rest_catalog import Answer, RestCatalogServer
from tests.unit.adapters.iceberg_tables import ids_of, make_table, stage


class RefusingCatalog(RestCatalogServer):
    """Answers commits with a status, after or before it has done them; without one it is right."""

    status: HTTPStatus | None = None
    does_them = False

    def answer(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Answer a request."""
        if method != "POST" or self.status is None or "/tables/" not in target:
            return super().answer(method, target, body, headers)
        if self.does_them:
            super().answer(method, target, body, headers)
        message = {"message": "no", "type": "Refused", "code": self.status}
        return self.status, {"error": message}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RefusingCatalog]:
    warehouse = f"file://{tmp_path / 'warehouse'}"
    with RefusingCatalog(tmp_path / "catalog.db", warehouse, {}) as running:
        yield running


@pytest.fixture
def catalog(server: RefusingCatalog) -> IcebergCatalog:
    return IcebergCatalog(open_catalog("secor", {"type": "rest", "uri": server.url}))


def commit(catalog: IcebergCatalog, table: Table) -> Outcome | type[SecorError]:
    try:
        return catalog.commit(table, TableCommit(None, (stage(table, [1]),))).outcome
    except SecorError as error:
        return type(error)


def metadata_files(table: Table) -> list[Path]:
    return [*Path(table.location.removeprefix("file://")).glob("metadata/*.avro")]


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (400, ConfigurationError),
        (401, AccessDenied),
        (403, AccessDenied),
        (404, Outcome.REFUSED),
        (408, Outcome.UNKNOWN),
        (409, Outcome.REFUSED),
        (413, ConfigurationError),
        (422, ConfigurationError),
        (429, Outcome.UNKNOWN),
        (500, Outcome.UNKNOWN),
        (501, ConfigurationError),
        (502, Outcome.UNKNOWN),
        (503, Outcome.UNKNOWN),
        (504, Outcome.UNKNOWN),
    ],
)
@pytest.mark.parametrize("does_it", [False, True])
def test_each_answer_is_settled_and_the_next_commit_is_right(
    server: RefusingCatalog,
    catalog: IcebergCatalog,
    status: int,
    result: object,
    does_it: bool,
) -> None:
    table = make_table(catalog)
    server.status, server.does_them = HTTPStatus(status), does_it
    answered = commit(catalog, table)
    server.status = None
    if does_it:  # a proxy gave a wrong answer: the next look finds the commit, or nothing is tried
        assert answered in (Outcome.UNKNOWN, AccessDenied)
        assert ids_of(catalog) == [1]
        assert commit(catalog, table) is Outcome.REFUSED
        return
    assert answered is result
    if answered is ConfigurationError or answered is Outcome.REFUSED:
        assert metadata_files(table) == []  # nothing is left behind
    assert ids_of(catalog) == []
    assert commit(catalog, table) is Outcome.DONE
    assert ids_of(catalog) == [1]
