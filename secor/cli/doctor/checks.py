"""The checks of ``secor doctor``: each returns what it saw, or raises with what to do."""

from __future__ import annotations

import errno
import http.client
import platform
import re
import resource
import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from secor import __version__
from secor.cli.open_archive import human_size
from secor.config.model import Config
from secor.core.errors import (
    ConfigurationError,
    SecorError,
)

SCRATCH = "_secor-doctor"
"""A name in place of a topic, where the doctor tries what the service does."""

CONTENT = b"secor doctor was here\n"
OTHER_FILES = 128
"""Open files besides local ones: connections, logs, libraries."""

ASK = 3.0
"""Seconds to wait for the server that listens on our port."""

LIBRARIES = ("kafka-python", "pyarrow", "boto3", "kazoo", "crc32c")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line: what was looked at, and what was seen or what is to be done."""

    check: str
    ok: bool
    text: str


Check = tuple[str, Callable[[], str]]


def examine(check: str, look: Callable[[], str]) -> CheckResult:
    """Return what ``look`` returned, or the message of its error."""
    try:
        return CheckResult(check, True, look())
    except SecorError as error:
        return CheckResult(check, False, str(error))


# ---------------------------------------------------------------- this machine


def versions() -> str:
    """See that the libraries are there, and the exact versions of those used by their internals.

    Says also whether record batches are decoded by the compiled extension.
    """
    from secor.wire import DECODER

    try:
        asked = requires("secor") or []
    except PackageNotFoundError:
        asked = []  # run from a directory of sources
    pins = {match[1]: match[2] for requirement in asked if (match := _PIN.fullmatch(requirement))}
    installed = {}
    for name in (*LIBRARIES, *pins):
        try:
            installed[name] = version(name)
        except PackageNotFoundError as error:
            raise ConfigurationError(f"{name} is missing: pip install {name}") from error
    for name, wanted in pins.items():
        if installed[name] != wanted:
            raise ConfigurationError(
                f"{name} is {installed[name]}, tested is {wanted}: pip install {name}=={wanted}"
            )
    libraries = ", ".join(f"{name} {number}" for name, number in installed.items())
    python = platform.python_version()
    return f"secor {__version__}, Python {python}, {libraries}, decoder: {DECODER}"


_PIN = re.compile(r"([A-Za-z0-9-]+)==([^;, ]+)")


def disk(config: Config) -> str:
    """See that local files can be made and that limits.local_bytes fit."""
    directory = config.local.directory / config.group.name
    existing = _nearest_existing(directory)
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(CONTENT)
        free = shutil.disk_usage(existing).free
        # What a running process holds there counts among its limit.
        used = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    except OSError as error:
        raise ConfigurationError(
            f"{existing} cannot be used: {error.strerror}; correct local.directory, or let the "
            "service's user write there"
        ) from error
    limit = config.limits.local_bytes
    if free + used < limit:
        raise ConfigurationError(
            f"{existing} has {human_size(free)} free, limits.local_bytes is {human_size(limit)}: "
            "make room, or lower the limit"
        )
    return f"{existing} is writable, {human_size(free)} free, {human_size(limit)} needed"


def _nearest_existing(directory: Path) -> Path:
    """Return the directory, or the nearest above it: the service makes the rest."""
    for path in (directory, *directory.parents):
        try:
            if path.exists():
                return path
        except PermissionError:  # it is within a directory that this user may not enter
            return path
    return directory


def open_files(config: Config) -> str:
    """See that the process may open as many files as limits.open_files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = config.limits.open_files + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        raise ConfigurationError(
            f"this shell may open {soft} files, limits.open_files and connections need {needed}: "
            "raise it (ulimit -n; LimitNOFILE= in the unit), or lower limits.open_files"
        )
    return f"{'unlimited' if soft == resource.RLIM_INFINITY else soft} may be open, {needed} needed"


def metrics_port(config: Config) -> str:
    """See that the HTTP server's port is free, or held by a process of Secor."""
    address, port = config.metrics.address, config.metrics.port
    if port is None or port == 0:
        return "no HTTP server" if port is None else "the system chooses a free port"
    where = f"{address}:{port}"
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE and _is_secor(config):
            return f"{where} is in use by a process of Secor; each process needs its own"
        raise ConfigurationError(
            f"{where} cannot be used ({error.strerror}): set metrics.address and metrics.port, or"
            " SECOR_METRICS__PORT for this process"
        ) from error
    return f"{where} is free"


def _is_secor(config: Config) -> bool:
    """Ask the server that listens; a server without our name is somebody else's."""
    address, port = config.metrics.address, config.metrics.port
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104
    if config.metrics.tls_certfile is None:
        asked = http.client.HTTPConnection(host, port, timeout=ASK)
    else:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # only its name is asked
        asked = http.client.HTTPSConnection(host, port, timeout=ASK, context=context)
    try:
        asked.request("HEAD", "/healthz")
        return (asked.getresponse().getheader("Server") or "").startswith("secor")
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asked.close()
