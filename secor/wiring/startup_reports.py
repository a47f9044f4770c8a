"""Reports, wherever a person may look, of what the start of a daemon waits for."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from secor.core.ports import Clock
from secor.service.daemon import ServiceManager
from secor.service.monitoring.health import Health
from secor.service.startup import Hindrance
from secor.service.status.board import Board

PATIENCE = 30.0
"""Seconds after which a server that has not answered at all is worth a warning."""

REMIND = 300.0
"""Seconds between warnings about the same server."""


class StartupReports:
    """Readiness, status page, service manager and log of a daemon that does not work yet."""

    def __init__(
        self,
        health: Health,
        board: Board,
        manager: ServiceManager,
        clock: Clock,
        addresses: Mapping[str, str],
    ) -> None:
        """Say nothing yet; ``addresses`` are those of the servers, by a hindrance's ``server``."""
        self._health = health
        self._board = board
        self._manager = manager
        self._clock = clock
        self._addresses = addresses
        self._warned_of = ""
        self._warned_with_error = False
        """Whether the last warning had an error: the first of a server is reported at once."""
        self._warned_at = clock.monotonic()
        self._log = structlog.get_logger("secor.start")

    def report(self, hindrance: Hindrance) -> None:
        """Report it; to be called about once a second."""
        # Probes need no password: no names and addresses for them.
        self._health.waiting([f"starting: waiting for {hindrance.server}"])
        self._board.hinder(hindrance)
        address = self._addresses.get(hindrance.server, "")
        text, where = "no answer yet", f" at {address}"
        if hindrance.error is not None:
            text, where = str(hindrance.error), ""  # errors name their server themselves
        self._manager.status(f"waiting for {hindrance.server}{where}: {text}")
        now = self._clock.monotonic()
        waited = now - hindrance.since
        has_error = hindrance.error is not None
        due = (
            hindrance.server != self._warned_of
            or now - self._warned_at >= REMIND
            or (has_error and not self._warned_with_error)
        )
        if due and (has_error or waited >= PATIENCE):
            self._warned_of, self._warned_at = hindrance.server, now
            self._warned_with_error = has_error
            self._log.warning(
                "waiting",
                server=hindrance.server,
                address=address,
                error=text,
                seconds=round(waited),
                next="tried again until it answers; secor doctor looks at all servers",
            )
