"""Installation of optional parts, from where Secor itself was installed."""

from __future__ import annotations

import hashlib
import importlib
import json
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

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


def how_to_install(extra: str) -> str:
    """Return the command that adds an optional part (a key of ``extras_require``) of Secor."""
    return f"run pip install '{_origin()}[{extra}]'"


def require_package(package: str, extra: str, what: str) -> None:
    """Raise ``ConfigurationError`` where a package of an optional part is not installed."""
    if find_spec(package) is None:
        raise ConfigurationError(
            f"{what} needs the package {package}, which is not installed: {how_to_install(extra)}"
        )


def _origin() -> str:
    """Return the checkout that runs or was installed; else the name of the package."""
    checkout = Path(__file__).parents[2]
    if (checkout / "setup.py").is_file():
        return str(checkout)
    try:
        # PEP 610: what pip was given, if that was a directory.
        text = distribution("secor").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    url = urlsplit(json.loads(text)["url"] if text else "")
    return unquote(url.path) if url.scheme == "file" else "secor"
