"""What installed packages offer Secor, by their entry points.

A package names its class in its own ``pyproject.toml``:

    [project.entry-points."secor.decoders"]
    syslog = "acme_secor.syslog:SyslogDecoder"

Only the one that a configuration names is imported.
"""

from __future__ import annotations

import hashlib
import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from secor.core.errors import ConfigurationError

DECODERS = "secor.decoders"
FORMATS = "secor.formats"


def offered(group: str) -> list[str]:
    """Return the names of a group, in order; nothing is imported."""
    return sorted({entry.name for entry in entry_points(group=group)})


def entry_point(group: str, name: str) -> EntryPoint:
    """Return the one of this name.  Raises ``ConfigurationError`` for none, and for several."""
    candidates = {entry.value: entry for entry in entry_points(group=group, name=name)}
    if len(candidates) == 1:
        [entry] = candidates.values()
        return entry
    if candidates:
        who = ", ".join(sorted(candidates))
        raise ConfigurationError(f"{name!r} is offered more than once in {group}: {who}")
    raise ConfigurationError(f"no installed package offers {name!r} in {group}")


def identity_of(entry: EntryPoint) -> str:
    """Return what changes with the code: place, version of its package, bytes of its module."""
    module = importlib.import_module(entry.module)
    file: str | None = getattr(module, "__file__", None)
    loader: Any = module.__loader__
    source = loader.get_data(file) if file and hasattr(loader, "get_data") else b""
    version = entry.dist.version if entry.dist is not None else ""
    return f"{entry.value}@{version}:{hashlib.sha256(source).hexdigest()[:16]}"
