"""Connections to ZooKeeper by TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

from secor.adapters.zookeeper.polling_handler import PollingHandler
from secor.adapters.zookeeper.sockets import BufferedSocket
from secor.core.errors import ConfigurationError


class TlsHandler(PollingHandler):
    """kazoo's threads, with connections of our own.

    kazoo's leave their socket behind when a handshake fails, and show no certificate that
    has its key in the same file.
    """

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        """``context`` is asked for each connection: certificates may be renewed."""
        super().__init__()
        self._context = context

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> BufferedSocket:
        """Connect to an address of ``hostname``.  Raises ``OSError``."""
        try:
            context = self._context()
        except ConfigurationError as error:
            # Files that are being renewed: anything else would end kazoo's thread for good.
            raise OSError(str(error)) from error
        plain = socket.create_connection(address, timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Closed by itself when it raises.
        return BufferedSocket(context.wrap_socket(plain, server_hostname=hostname), timeout)
