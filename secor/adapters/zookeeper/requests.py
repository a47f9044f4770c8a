"""Requests to ZooKeeper: kazoo's, with every wait bounded and every outcome named.

Reads raise ``Unavailable``; writes are sent only while connected, and raise
``OutcomeUnknown`` when the answer is lost.  Both raise ``AccessDenied``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
from kazoo.protocol.states import KeeperState

from secor.adapters.zookeeper.exchanges import (
    Exchange,
    ExchangeAnswer,
    Operations,
    children,
    encoded_acl,
    get,
    names_of,
    node_of,
    results_of,
    sync,
)
from secor.adapters.zookeeper.options import Options
from secor.core.errors import AccessDenied, OutcomeUnknown, Unavailable

_DENIED = (
    AuthFailedError,
    InvalidACLError,
    NoAuthError,
    SASLException,
    SessionClosedRequireSaslError,
)

Watch = Callable[[object], None]

Node = tuple[bytes, Any]
"""A node's data and its stat."""

Look = Callable[[], tuple[list[str], list[Node | None]]]
"""Gives names and nodes that were asked for, None for no node; raises as a read does."""


class Requests:
    """The requests of one client."""

    def __init__(self, client: Any, options: Options) -> None:
        """``client`` is a ``KazooClient`` with ``options``."""
        self._client = client
        self._options = options
        self._timed_out: type[Exception] = client.handler.timeout_exception
        self._negotiated = options.session_timeout
        self._ensured: set[str] = set()
        self._acl = encoded_acl(client.default_acl)

    @property
    def timeout(self) -> float:
        """The session timeout that the server granted, in seconds."""
        return self._negotiated

    @property
    def connected(self) -> bool:
        """Return whether a server answers, as far as is known here."""
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
        # A follower may be behind: without the sync, an entry of before the last commit could be
        # read.
        exchange = self._send([sync(paths[0]), *map(get, paths)])
        self.read(lambda _: ExchangeAnswer(exchange, 0, bytes), paths[0])
        return [
            self._node(path, ExchangeAnswer(exchange, index, node_of))
            for index, path in enumerate(paths, start=1)
        ]

    def _send(self, requests: Sequence[bytes]) -> Exchange:
        exchange = Exchange(requests, self._timed_out)
        self._client._call(exchange, exchange)
        return exchange

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
        return self._names(path, self._client.get_children_async(path))

    def _names(self, path: str, sent: Any) -> list[str]:
        try:
            names: list[str] = self.read(lambda _: sent, path)
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

    def enter(
        self,
        directory: str,
        prefix: str,
        data: bytes,
        paths: Sequence[str],
        *,
        make_directory: bool,
    ) -> tuple[str, Look]:
        """Make a sequential node of this session in ``directory``, or in a new one.

        Returns its path and what came along: the names in the directory, then the nodes at
        ``paths``, both read after the node was made, so no older than that.  Raises
        ``NoNodeError`` and ``NodeExistsError`` for the directory.
        """
        operations = self.transaction()
        if make_directory:
            operations.create(directory)
        operations.create(f"{directory}/{prefix}", data, ephemeral=True, sequence=True)
        requests = [operations.encoded(), children(directory), *map(get, paths)]
        sent: list[Exchange] = []

        def send() -> ExchangeAnswer:
            sent.append(self._send(requests))
            return ExchangeAnswer(sent[0], 0, results_of)

        def look() -> tuple[list[str], list[Node | None]]:
            return self._names(directory, ExchangeAnswer(sent[0], 1, names_of)), [
                self._node(path, ExchangeAnswer(sent[0], index, node_of))
                for index, path in enumerate(paths, start=2)
            ]

        results = self.commit(operations, prefix, send)
        for error in (result for result in results if isinstance(result, Exception)):
            # The first one is the cause: the operations behind it were not tried.
            if isinstance(error, _DENIED):
                raise self._denied(directory, error) from error
            if isinstance(error, NoNodeError | NodeExistsError):
                raise error
            raise OutcomeUnknown(f"ZooKeeper did not make {prefix} ({type(error).__name__})")
        return str(results[-1]), look

    def transaction(self) -> Operations:
        """Begin a transaction."""
        return Operations(self._acl)

    def commit(
        self, operations: Operations, what: str, send: Callable[[], ExchangeAnswer] | None = None
    ) -> list[Any]:
        """Send a transaction; the result has one item for each operation, errors included."""

        def send_alone() -> ExchangeAnswer:
            return ExchangeAnswer(self._send([operations.encoded()]), 0, results_of)

        results: list[Any] = self._write(send or send_alone, what)
        if len(results) != len(operations):
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
