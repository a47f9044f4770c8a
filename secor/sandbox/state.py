"""The state of a sandbox in its folder: the same ports and servers at every start."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from secor.core.errors import ConfigurationError

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


STATE_FILE = "sandbox.json"
SERVICES = ("kafka", "zookeeper", "s3")
S3_SERVERS = ("s3proxy", "versitygw")
CATALOGS = ("sqlite", "rest", "postgresql")
"""Catalogs of tables: a file, or a server that is called like this."""

TICK = 500
"""Milliseconds of a ZooKeeper tick: sessions from one second on."""


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """The servers of a sandbox.  ``zookeeper_tick`` is in milliseconds.

    ``catalog`` is what new configurations use; ``services`` has its server.  The settings are
    lines of each server's configuration, over ours.
    """

    services: tuple[str, ...]
    ports: Mapping[str, int]
    s3_server: str = "s3proxy"
    zookeeper_tick: int = TICK
    kafka_settings: Mapping[str, object] = field(default_factory=dict)
    zookeeper_settings: Mapping[str, object] = field(default_factory=dict)
    s3_settings: Mapping[str, object] = field(default_factory=dict)
    catalog: str = "sqlite"


def new_plan(
    services: Sequence[str],
    *,
    s3_server: str,
    zookeeper_tick: int,
    kafka_settings: Mapping[str, object],
) -> SandboxPlan:
    """Choose free ports.  Raises ``ConfigurationError`` for a server we do not know."""
    unknown = sorted(set(services) - set(SERVICES))
    if unknown:
        raise ConfigurationError(f"no server is called {unknown[0]}: {', '.join(SERVICES)}")
    if s3_server not in S3_SERVERS:
        raise ConfigurationError(f"no S3 server is called {s3_server}: {', '.join(S3_SERVERS)}")
    ports: dict[str, int] = {}
    for name in (*SERVICES, "kafka_controller"):
        ports[name] = free_port(ports.values())
    return SandboxPlan(tuple(services), ports, s3_server, zookeeper_tick, dict(kafka_settings))


def with_catalog(plan: SandboxPlan, catalog: str) -> SandboxPlan:
    """Return the plan with a catalog, and its server added to those that are there.

    Raises ``ConfigurationError`` for a catalog we do not know.
    """
    if catalog not in CATALOGS:
        raise ConfigurationError(f"no catalog is called {catalog}: {', '.join(CATALOGS)}")
    if catalog == "sqlite" or catalog in plan.services:
        return replace(plan, catalog=catalog)
    return replace(
        plan,
        catalog=catalog,
        services=(*plan.services, catalog),
        ports={**plan.ports, catalog: free_port(plan.ports.values())},
    )


def save_plan(plan: SandboxPlan, directory: Path) -> None:
    """Write it into the sandbox's folder."""
    path = directory / STATE_FILE
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(plan), indent=2) + "\n")
    new.rename(path)


def load_plan(directory: Path) -> SandboxPlan | None:
    """Read it back; None where there is no sandbox.  Raises ``ConfigurationError``."""
    path = directory / STATE_FILE
    try:
        fields = json.loads(path.read_text())
        return SandboxPlan(**{**fields, "services": tuple(fields["services"])})
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror}); name a folder of this user's"
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(
            f"{path} is not a sandbox's state ({error}); delete {directory} and start anew"
        ) from error
