"""The HTTP server of a daemon, as the configuration describes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus

from secor import __version__
from secor.config.model import Config
from secor.config.process import Metrics as MetricsConfig
from secor.config.show import settings
from secor.core.ports import Clock
from secor.service.metrics import Metrics
from secor.service.metrics_registry import MetricsRegistry
from secor.service.monitoring.access import Access, tls_context
from secor.service.monitoring.health import Answer, Health, HealthServer
from secor.service.status.board import About, Board
from secor.service.status.page import page
from secor.service.status.picture import picture
from secor.service.status.restore_page import RestoreStatus, restore_page
from secor.service.status.style import HEADERS
from secor.service.status.table_board import TableBoard
from secor.wiring.clients import clear


def board_of(
    config: Config, clock: Clock, instance: str, tables: TableBoard | None = None
) -> Board:
    """Return an empty board that knows the configuration, secrets masked."""
    shown = tuple((setting.key, setting.text(), setting.source) for setting in settings(config))
    return Board(clock, About(__version__, config.group.name, instance, shown), tables)


def server_of(config: Config, health: Health, metrics: Metrics, board: Board) -> HealthServer:
    """Return the server, bound and not started.  Raises ``ConfigurationError``."""
    pages = {"/": partial(_page, board, health), "/status.json": partial(_json, board, health)}
    return _server(config.metrics, health, metrics, pages)


def _server(
    given: MetricsConfig,
    health: Health,
    metrics: MetricsRegistry,
    pages: Mapping[str, Callable[[], Answer]],
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
    status: Callable[[], RestoreStatus] | None = None,
) -> Iterator[None]:
    """Serve metrics and health of a process, if a port is configured.

    ``status`` is what the status page of a restore shows; other processes have no page here.
    """
    if given.port is None:
        yield
        return
    pages = {} if status is None else _pages_of_restore(status)
    server = _server(given, health, metrics, pages)
    try:
        server.start()
        yield
    finally:
        server.close()


def _pages_of_restore(status: Callable[[], RestoreStatus]) -> Mapping[str, Callable[[], Answer]]:
    def html() -> Answer:
        body = restore_page(status()).encode()
        return Answer(HTTPStatus.OK, body, "text/html; charset=utf-8", HEADERS)

    def plain() -> Answer:
        body = json.dumps(status().as_json(), indent=1).encode()
        return Answer(HTTPStatus.OK, body, "application/json")

    return {"/": html, "/status.json": plain}


def _page(board: Board, health: Health) -> Answer:
    body = page(picture(board, health)).encode()
    return Answer(HTTPStatus.OK, body, "text/html; charset=utf-8", HEADERS)


def _json(board: Board, health: Health) -> Answer:
    body = json.dumps(picture(board, health), indent=1).encode()
    return Answer(HTTPStatus.OK, body, "application/json")
