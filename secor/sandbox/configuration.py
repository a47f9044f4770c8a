"""Complete configurations over the servers of a sandbox, as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from secor.sandbox.sandbox import Sandbox

Settings = Mapping[str, Mapping[str, object]]
"""By section (``"ledger.zookeeper"``), its keys and their values."""


def configuration(sandbox: Sandbox, local: Path, settings: Settings, *, about: str) -> str:
    """Return ``settings`` of a daemon with what the servers need beside them, as TOML.

    ``about`` becomes the comment at the top, ``local`` the directory of local files.
    Where both name a key, ``settings`` have the last word.
    """
    servers: Settings = {
        "kafka": {"bootstrap_servers": [sandbox.kafka]},
        "ledger.zookeeper": {"hosts": [sandbox.zookeeper]},
        "store.s3": _store(sandbox),
        "local": {"directory": str(local.resolve())},
        "metrics": {"port": 0},
    }
    return _toml(servers, settings, about)


def restore_job(sandbox: Sandbox, settings: Settings, *, about: str) -> str:
    """Return ``settings`` of a restore job likewise; it has no ledger and no local files."""
    servers: Settings = {
        "kafka": {"bootstrap_servers": [sandbox.kafka]},
        "store.s3": _store(sandbox),
    }
    return _toml(servers, settings, about)


def _store(sandbox: Sandbox) -> Mapping[str, object]:
    access = sandbox.s3
    return {
        "bucket": access.bucket,
        "endpoint_url": access.endpoint_url,
        "region": access.region,
        "path_style": True,
        "access_key": access.access_key,
        "secret_key": access.secret_key,
    }


def _toml(servers: Settings, settings: Settings, about: str) -> str:
    names = [*settings, *(name for name in servers if name not in settings)]
    sections = [
        "\n".join([f"[{name}]", *_lines({**servers.get(name, {}), **settings.get(name, {})})])
        for name in names
    ]
    return "\n\n".join([f"# {about}", *sections]) + "\n"


def _lines(keys: Mapping[str, object]) -> list[str]:
    """Write values as JSON, which TOML reads alike."""
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
