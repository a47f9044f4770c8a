"""The HTTP server of a daemon, as the configuration describes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus

from secor import __version__
from secor.config.model import Config
from secor.config.show import settings
from secor.core.ports import Clock
from secor.service.metrics import Metrics
from secor.service.monitoring.access import Access, tls_context
from secor.service.monitoring.health import Answer, Health, HealthServer
from secor.service.status.board import About, Board
from secor.service.status.page import page
from secor.service.status.picture import picture
from secor.service.status.style import HEADERS
from secor.wiring.clients import clear


def board_of(config: Config, clock: Clock, instance: str) -> Board:
    """Return an empty board that knows the configuration, secrets masked."""
    shown = tuple((one.key, one.text(), one.source) for one in settings(config))
    return Board(clock, About(__version__, config.group.name, instance, shown))


def server_of(config: Config, health: Health, metrics: Metrics, board: Board) -> HealthServer:
    """Return the server, bound and not started.  Raises ``ConfigurationError``."""
    pages = {"/": partial(_page, board, health), "/status.json": partial(_json, board, health)}
    return _server(config, health, metrics, pages)


def _server(
    config: Config, health: Health, metrics: Metrics, pages: Mapping[str, Callable[[], Answer]]
) -> HealthServer:
    given = config.metrics
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
def metrics_server(config: Config, health: Health, metrics: Metrics) -> Iterator[None]:
    """Serve metrics and health of a process without a status page, if a port is configured."""
    if config.metrics.port is None:
        yield
        return
    server = _server(config, health, metrics, {})
    try:
        server.start()
        yield
    finally:
        server.close()


def _page(board: Board, health: Health) -> Answer:
    body = page(picture(board, health)).encode()
    return Answer(HTTPStatus.OK, body, "text/html; charset=utf-8", HEADERS)


def _json(board: Board, health: Health) -> Answer:
    body = json.dumps(picture(board, health), indent=1).encode()
    return Answer(HTTPStatus.OK, body, "application/json")
