"""One ZooKeeper session: it reconnects by itself, and deletes what has to go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.protocol.states import KazooState

from secor.adapters.zookeeper.connection_failures import Contact
from secor.adapters.zookeeper.options import Options
from secor.adapters.zookeeper.requests import Requests
from secor.core.errors import AccessDenied, SecorError, Unavailable

_LOOK = 0.05
"""Seconds between looks whether the servers refuse."""


class Session(Requests):
    """A session that reconnects by itself; ``epoch`` counts the sessions lost so far."""

    def __init__(self, options: Options) -> None:
        """Connect.  Raises ``ConfigurationError``, ``Unavailable``, ``AccessDenied``."""
        options.check()
        log = logging.getLogger("kazoo")
        if not log.handlers:
            # Without a handler its warnings go to a terminal, between a command's lines.
            log.addHandler(logging.NullHandler())
        super().__init__(KazooClient(**options.client_arguments()), options)
        self._contact = Contact(self._client, options)
        self._epoch = 0
        self._closed = False
        # Deletions not yet known to be done; each stays until it is, or its session ends.
        self._leftovers: dict[str, Callable[[], None]] = {}
        _watch_negotiation(self._client, self._negotiate)
        self._client.add_listener(self._state_changed)
        self._connect()

    def _connect(self) -> None:
        options = self._options
        try:
            self._start()
            self.read(self._client.exists_async, "/")
        except (self._timed_out, KazooException) as error:
            self.close()
            raise Unavailable(
                f"ZooKeeper at {options.hosts} did not answer in {options.connect_timeout:g} s:"
                f" {self._contact.hint()}"
            ) from error
        except SecorError:
            self.close()
            raise

    def _start(self) -> None:
        deadline = time.monotonic() + self._options.connect_timeout
        started = self._client.start_async()
        while not started.wait(_LOOK):
            refused = self._contact.refusal()
            if refused is not None:
                raise AccessDenied(f"ZooKeeper at {self._options.hosts}: {refused}")
            if time.monotonic() >= deadline:
                raise self._timed_out("not connected")

    @property
    def epoch(self) -> int:
        """The number of sessions lost; what belonged to an earlier one is gone."""
        return self._epoch

    @property
    def closed(self) -> bool:
        """Tell whether ``close`` was called."""
        return self._closed

    # ------------------------------------------------------ nodes to be deleted

    def delete_soon(self, path: str) -> None:
        """Delete a node of this session, at reconnection if need be; does not wait."""

        def delete() -> None:
            self._client.delete_async(path).rawlink(deleted)

        def deleted(result: Any) -> None:
            if result.successful() or isinstance(result.exception, NoNodeError):
                self._leftovers.pop(path, None)

        self._soon(path, delete)

    def sweep_soon(self, directory: str, prefix: str) -> None:
        """Delete children of ``directory`` that a create with a lost answer may have made."""

        def sweep() -> None:
            self._client.get_children_async(directory).rawlink(listed)

        def listed(result: Any) -> None:
            # Anything else than a listing stays for the next connection.
            if result.successful():
                self._leftovers.pop(prefix, None)
                for name in result.value:
                    if name.startswith(prefix):
                        self.delete_soon(f"{directory}/{name}")

        self._soon(prefix, sweep)

    def _soon(self, key: str, action: Callable[[], None]) -> None:
        self._leftovers[key] = action
        if self.connected:
            action()

    # ----------------------------------------------------------------- states

    def _negotiate(self, seconds: float) -> None:
        self._negotiated = seconds

    def _state_changed(self, state: str) -> None:
        # Runs on kazoo's own thread: nothing here may wait.
        if state == KazooState.LOST:
            self._epoch += 1
            self._leftovers.clear()
            # A server that forgot the session may have forgotten the nodes, too.
            self._ensured.clear()
        elif state == KazooState.CONNECTED:
            for action in list(self._leftovers.values()):
                action()

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        self._closed = True
        # A connection thread that hangs keeps kazoo from stopping; the session then
        # ends by itself at its timeout.
        with suppress(KazooException, OSError):
            self._client.stop()
        with suppress(KazooException, OSError):
            self._client.close()


def _watch_negotiation(client: Any, tell: Callable[[float], None]) -> None:
    """Tell the session timeout of each connection: kazoo keeps it in a local variable."""
    connection = client._connection
    invoke = connection._invoke

    def invoke_and_tell(timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = invoke(timeout, request, xid)
        if xid is None and isinstance(answer, tuple):
            granted = getattr(answer[0], "time_out", 0)
            if granted > 0:
                tell(granted / 1000.0)
        return answer

    connection._invoke = invoke_and_tell
