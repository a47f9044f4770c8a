"""How optional parts are installed: from where Secor itself was."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from secor.core.errors import ConfigurationError


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
        # PEP 610: what pip was told, where that was a directory.
        text = distribution("secor").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    url = urlsplit(json.loads(text)["url"] if text else "")
    return unquote(url.path) if url.scheme == "file" else "secor"
