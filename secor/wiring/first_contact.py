"""The first contact of a command with a server: reported to the person while it takes long."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from secor.config.servers import Brokers
from secor.config.stores import S3, LocalStore
from secor.core.errors import Unavailable
from secor.core.text import mask_urls
from secor.service.monitoring.servers import BROKERS, STORE, ZOOKEEPER

if TYPE_CHECKING:
    from secor.config.model import Catalog, Config, Store, ZooKeeper

QUIET = 1.0
"""Seconds without an answer before it is reported."""

LOOK = 1.0
"""Seconds, at most, to find out why there is none."""

LOOKED_AT = 3
"""Most addresses of a server that are tried for that."""

PATIENCE = 22.0
"""Seconds that a first answer of a store or a catalog may take where a person waits."""

CATALOG = "the catalog"

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server to ask: its kind, addresses, and seconds until it is given up (None: unknown).

    Of ``hidden`` ones, behind a proxy, nobody else can find out why they do not answer.
    """

    kind: str
    addresses: tuple[str, ...]
    most: float | None = None
    usual_port: int = 443
    hidden: bool = False

    def __str__(self) -> str:
        return f"{self.kind} at {', '.join(self.addresses)}"


def kafka_server(brokers: Brokers, most: float = 30.0) -> Endpoint:
    """Return the brokers; ``most`` as in their clients' options."""
    return Endpoint("Kafka", brokers.bootstrap_servers, most, usual_port=9092)


def zookeeper_server(zookeeper: ZooKeeper, most: float = 20.0) -> Endpoint:
    """Return the ensemble; ``most`` is its client's time to connect, and to give up."""
    return Endpoint("ZooKeeper", zookeeper.hosts, most, usual_port=2181)


def store_server(store: Store) -> Endpoint:
    """Return the store's server, or its bucket where the cloud's own server is used."""
    section = store.chosen
    if isinstance(section, LocalStore):
        return Endpoint("the store", (store.place,))
    proxy = section.proxies if isinstance(section, S3) else section.proxy
    wait = section.read_timeout if isinstance(section, S3) else section.request_timeout
    attempts = section.max_attempts
    longest = attempts * max(section.connect_timeout, wait) + attempts  # a second between two
    return Endpoint(
        "the store",
        (section.endpoint_url or f"{store.kind} {store.place}",),
        min(longest, PATIENCE),
        hidden=bool(proxy or getproxies() or not section.endpoint_url),
    )


def catalog_server(catalog: Catalog) -> Endpoint:
    """Return the server of a group's tables; only one that speaks HTTP can be tried."""
    uri = catalog.properties.get("uri", "")
    if not uri.startswith(("http://", "https://")):
        return Endpoint("the catalog", (catalog.name,), PATIENCE, hidden=True)
    address = mask_urls(uri).partition("?")[0]
    return Endpoint("the catalog", (address,), PATIENCE, hidden=bool(getproxies()))


def addresses_of(config: Config) -> dict[str, str]:
    """Return where the servers are that a daemon asks at its start, by their names in its log."""
    servers = {
        STORE: store_server(config.store),
        CATALOG: catalog_server(config.catalog),
        BROKERS: kafka_server(config.kafka),
        ZOOKEEPER: zookeeper_server(config.ledger.zookeeper),
    }
    return {name: ", ".join(server.addresses) for name, server in servers.items()}


@contextmanager
def report_while_slow(server: Endpoint) -> Iterator[None]:
    """Log once whom a command waits for, and why, if what is done here takes long.

    Commands have no handlers for logs: it is a line on standard error.
    """
    if server.most is not None and server.most <= QUIET + LOOK:
        yield  # it is over before anybody asks
        return
    over = threading.Event()
    threading.Thread(target=_report_slow, args=(server, over), name="waiting", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def ask_once(server: Endpoint, ask: Callable[[], T]) -> T:
    """Return what ``ask`` does; report while it takes long, but no longer than ``PATIENCE``.

    A library's own attempts, which ``ask`` makes, may take minutes, or never end.  Raises what
    ``ask`` does, and ``Unavailable``.
    """
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            answer.set_exception(error)

    # A daemon thread: one that waits on does not keep the command from ending.
    threading.Thread(target=work, name="first contact", daemon=True).start()
    with report_while_slow(server):
        try:
            return answer.result(PATIENCE)
        except TimeoutError:
            why = "no answer" if server.hidden else "; ".join(_reasons(server))
            raise Unavailable(
                f"{server} does not answer within {PATIENCE:.0f} s ({why}): check the address, the"
                " network, and that a server is running there"
            ) from None


def _report_slow(server: Endpoint, over: threading.Event) -> None:
    if over.wait(QUIET):
        return
    why = "no answer yet" if server.hidden else "; ".join(_reasons(server))
    most = "" if server.most is None else f" ({server.most:.0f} s at most)"
    if not over.is_set():
        _log.warning("waiting for %s: %s%s", server, why, most)


def _reasons(server: Endpoint) -> Sequence[str]:
    """Return why the first addresses do not answer, each reason once."""
    tried = server.addresses[:LOOKED_AT]
    reasons = [_reason(address, server.usual_port, LOOK / len(tried)) for address in tried]
    return list(dict.fromkeys(reasons))


def _reason(address: str, usual_port: int, timeout: float) -> str:
    """Try to connect, as libraries do: most of them only say at the end why they cannot."""
    url = urlsplit(address if "://" in address else f"//{address}")
    port = url.port or {"http": 80, "https": 443}.get(url.scheme, usual_port)
    try:
        socket.create_connection((url.hostname, port), timeout).close()
    except TimeoutError:
        return "no answer yet"
    except socket.gaierror:
        return f"no address is known for {url.hostname}"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "connected, no answer yet"
