"""Free ports on the loopback address."""

from __future__ import annotations

import random
import socket
from collections.abc import Container

_LOWEST, _HIGHEST = 15_000, 30_000
"""Below the ports that kernels give to outgoing connections: a server that is stopped and
started again finds its port as it left it."""


def free_port(taken: Container[int] = ()) -> int:
    """Return a port of 127.0.0.1 that nobody listens on and that is not in ``taken``."""
    while True:
        port = random.randrange(_LOWEST, _HIGHEST)
        if port not in taken and _is_free(port):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # As servers do: a connection of the past in TIME_WAIT is no hindrance.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
