"""The HTTP server of a daemon, as the configuration describes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from secor import __version__
from secor.config.process import Metrics as MetricsConfig
from secor.config.show import settings
from secor.core.ports import Clock
from secor.service.metrics import Metrics
from secor.service.metrics_registry import MetricsRegistry
from secor.service.monitoring.health import (
    Access,
    Health,
    HealthResponse,
    HealthServer,
    tls_context,
)
from secor.service.monitoring.servers import Servers
from secor.service.status.board import About, Board
from secor.service.status.document import HEADERS
from secor.service.status.page import page
from secor.service.status.picture import picture
from secor.service.status.restore_page import RestoreStatus, restore_page
from secor.service.status.table_picture import coordinator_picture
from secor.service.status.table_section import tables_page
from secor.wire import DECODER
from secor.wiring.clients import clear

if TYPE_CHECKING:
    from secor.config.model import Config
    from secor.service.status.table_board import TableBoard

Pages = Mapping[str, Callable[[], HealthResponse]]
"""What answers each path."""


def board_of(
    config: Config, clock: Clock, instance: str, tables: TableBoard | None = None
) -> Board:
    """Return an empty board that knows the configuration, secrets masked."""
    shown = tuple((setting.key, setting.text(), setting.source) for setting in settings(config))
    about = About(__version__, config.group.name, instance, shown, DECODER)
    keeper = "ZooKeeper" if config.ledger.kind == "zookeeper" else "the ledger in Kafka"
    return Board(clock, about, tables, Servers(clock, keeper))


def server_of(config: Config, health: Health, metrics: Metrics, board: Board) -> HealthServer:
    """Return the server, bound and not started.  Raises ``ConfigurationError``."""
    pages = _pages(lambda: page(picture(board, health)), lambda: picture(board, health))
    return _server(config.metrics, health, metrics, pages)


def _server(
    given: MetricsConfig,
    health: Health,
    metrics: MetricsRegistry,
    pages: Pages,
) -> HealthServer:
    assert given.port is not None
    password = clear(given.password)
    access = None
    if given.username is not None and password is not None:
        access = Access(given.username, password)
    return HealthServer(
        given.address,
        given.port,
        health=health,
        metrics=metrics.text,
        pages=pages,
        access=access,
        tls=tls_context(given.tls_certfile, given.tls_keyfile) if given.tls_certfile else None,
    )


@contextmanager
def metrics_server(
    given: MetricsConfig,
    health: Health,
    metrics: MetricsRegistry,
    pages: Pages,
) -> Iterator[None]:
    """Serve metrics, health and ``pages`` of a process, if a port is configured."""
    if given.port is None:
        yield
        return
    with closing(_server(given, health, metrics, pages)) as server:
        server.start()
        yield


def pages_of_restore(status: Callable[[], RestoreStatus]) -> Pages:
    """Return the status pages of a daemon that restores."""
    return _pages(lambda: restore_page(status()), lambda: status().as_json())


def pages_of_tables(group: str, tables: TableBoard, health: Health, clock: Clock) -> Pages:
    """Return the status pages of a process that only coordinates."""

    def values() -> dict[str, Any]:
        alive = health.alive().status is HTTPStatus.OK
        return coordinator_picture(group, tables.known(), clock.now(), alive=alive)

    return _pages(lambda: tables_page(values()), values)


def _pages(html: Callable[[], str], values: Callable[[], dict[str, Any]]) -> Pages:
    def page_for_people() -> HealthResponse:
        page = html().encode(errors="backslashreplace")  # errors quote what messages hold
        return HealthResponse(HTTPStatus.OK, page, "text/html; charset=utf-8", HEADERS)

    def page_for_programs() -> HealthResponse:
        body = json.dumps(values(), indent=1).encode()
        return HealthResponse(HTTPStatus.OK, body, "application/json")

    return {"/": page_for_people, "/status.json": page_for_programs}
