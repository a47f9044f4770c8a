"""One ZooKeeper session: kazoo's client with every wait bounded and every outcome named.

Reads raise ``Unavailable``; writes are sent only while connected, and raise
``OutcomeUnknown`` when the answer is lost.  Both raise ``AccessDenied``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SASLException,
    SessionClosedRequireSaslError,
)
from kazoo.protocol.states import KazooState, KeeperState

from secor.adapters.zookeeper.connection_failures import Contact
from secor.adapters.zookeeper.options import Options
from secor.core.errors import AccessDenied, OutcomeUnknown, SecorError, Unavailable

_DENIED = (
    AuthFailedError,
    InvalidACLError,
    NoAuthError,
    SASLException,
    SessionClosedRequireSaslError,
)

_LOOK = 0.05
"""Seconds between looks whether the servers refuse."""

Watch = Callable[[object], None]

Node = tuple[bytes, Any]
"""A node's data and its stat."""


class Session:
    """A session that reconnects by itself; ``epoch`` counts the sessions lost so far."""

    def __init__(self, options: Options) -> None:
        """Connect.  Raises ``ConfigurationError``, ``Unavailable``, ``AccessDenied``."""
        options.check()
        self._options = options
        log = logging.getLogger("kazoo")
        if not log.handlers:
            # Without a handler its warnings go to a terminal, between a command's lines.
            log.addHandler(logging.NullHandler())
        self._client = KazooClient(**options.client_arguments())
        self._contact = Contact(self._client, options)
        self._timed_out: type[Exception] = self._client.handler.timeout_exception
        self._epoch = 0
        self._closed = False
        self._negotiated = options.session_timeout
        self._ensured: set[str] = set()
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
    def timeout(self) -> float:
        """The session timeout that the server granted, in seconds."""
        return self._negotiated

    @property
    def epoch(self) -> int:
        """The number of sessions lost; what belonged to an earlier one is gone."""
        return self._epoch

    @property
    def closed(self) -> bool:
        """Tell whether ``close`` was called."""
        return self._closed

    @property
    def connected(self) -> bool:
        """Tell whether a server answers, as far as is known here."""
        return bool(self._client.connected)

    # ------------------------------------------------------------------ reads

    def read(self, call: Callable[..., Any], path: str, **arguments: object) -> Any:
        """Return what the asynchronous ``call`` gives; waits out a short reconnection."""
        try:
            return call(path, **arguments).get(timeout=self.timeout)
        except NoNodeError:
            raise
        except _DENIED as error:
            raise self._denied(path, error) from error
        except (KazooException, self._timed_out) as error:
            if self._client.client_state == KeeperState.AUTH_FAILED:
                # The connection may be closed before the request hears of the refusal.
                raise self._denied(path, error) from error
            raise Unavailable(
                f"ZooKeeper at {self._options.hosts}: no answer about {path}"
                f" ({type(error).__name__})"
            ) from error

    def fresh(self, paths: Sequence[str]) -> list[Node | None]:
        """Read nodes, one after the other but sent together: data and stat, None for no node.

        First the server that we read from catches up with its leader.
        """
        synced = self._client.sync_async(paths[0])
        sent = [(path, self._client.get_async(path)) for path in paths]
        self.read(lambda _: synced, paths[0])
        return [self._node(path, result) for path, result in sent]

    def get(self, path: str) -> Node | None:
        """Return a node's data and stat; None when there is no node."""
        return self._node(path, self._client.get_async(path))

    def _node(self, path: str, sent: Any) -> Node | None:
        try:
            data, stat = self.read(lambda _: sent, path)
        except NoNodeError:
            return None
        return data, stat

    def exists(self, path: str, watch: Watch | None = None) -> Any | None:
        """Return a node's stat; ``watch`` is called once when the node changes."""
        return self.read(self._client.exists_async, path, watch=watch)

    def children(self, path: str) -> list[str]:
        """Return the names below ``path``; none when it is not there."""
        try:
            names: list[str] = self.read(self._client.get_children_async, path)
        except NoNodeError:
            return []
        return names

    # ----------------------------------------------------------------- writes

    def ensure_path(self, path: str) -> None:
        """Make a node and its parents where missing: harmless to repeat."""
        if path in self._ensured:
            return
        try:
            self.read(self._client.ensure_path_async, path)
        except NoNodeError as error:
            raise Unavailable(f"{path}: somebody deletes its parents; making them anew") from error
        self._ensured.add(path)

    def forget_path(self, path: str) -> None:
        """Look again at the next ``ensure_path``: somebody deletes nodes."""
        self._ensured.discard(path)

    def create_ephemeral(self, prefix: str, data: bytes) -> str:
        """Make a sequential node of this session and return its path."""
        create = self._client.create_async
        return str(self._write(lambda: create(prefix, data, ephemeral=True, sequence=True), prefix))

    def transaction(self) -> Any:
        """Begin a transaction."""
        return self._client.transaction()

    def commit(self, transaction: Any, what: str) -> list[Any]:
        """Send a transaction; the result has one item for each operation, errors included."""
        results: list[Any] = self._write(transaction.commit_async, what)
        if len(results) != len(transaction.operations):
            raise OutcomeUnknown(f"ZooKeeper gave {len(results)} results for {what}; reading back")
        return results

    def _write(self, send: Callable[[], Any], what: str) -> Any:
        # kazoo would queue a request made while disconnected and send it at any later time.
        if not self.connected:
            raise Unavailable(
                f"ZooKeeper at {self._options.hosts} is not connected; {what} was not written"
            )
        try:
            return send().get(timeout=self.timeout)
        except _DENIED as error:
            raise self._denied(what, error) from error
        except (NoNodeError, NodeExistsError):
            raise
        except (KazooException, self._timed_out) as error:
            raise OutcomeUnknown(
                f"ZooKeeper's answer about {what} was lost ({type(error).__name__})"
            ) from error

    def _denied(self, path: str, error: Exception) -> AccessDenied:
        return AccessDenied(
            f"ZooKeeper at {self._options.hosts} refuses {path} ({type(error).__name__}): check"
            " the username, the password and the ACLs of the nodes"
        )

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
