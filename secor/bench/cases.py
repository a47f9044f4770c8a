"""What is measured: the settings of each case, and what is expected of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from secor.sandbox import Sandbox

Settings = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to store the topic.

    ``goal`` is the CPU time to reach, in microseconds a message; ``others`` what other
    programs need for the same job and messages, measured on one machine in one run.
    """

    name: str
    output: Mapping[str, object]
    goal: float | None
    others: str


CASES = (
    Case(
        "sequencefile",
        {"format": "sequencefile", "codec": "none"},
        1.2,
        "Java Secor 13, with BLOCK zlib 9.4",
    ),
    Case("sequencefile-gzip", {"format": "sequencefile", "codec": "gzip"}, None, "Java Secor 9.4"),
    Case(
        "text-gzip",
        {"format": "text", "codec": "gzip"},
        1.5,
        "Java Secor 5.7 (plain), Redpanda Connect 4.1, Kafka Connect 12",
    ),
    Case("parquet", {"format": "parquet", "codec": "zstd"}, None, "Kafka Connect + Iceberg 11.4"),
)

GOAL_MEMORY = 250_000_000
"""Bytes that no case may need more of."""


def settings_of(
    case: Case, sandbox: Sandbox, *, group: str, topic: str, directory: Path, port: int | None
) -> Settings:
    """Return a whole configuration; ``directory`` is for local files, ``port`` for metrics."""
    s3 = sandbox.s3
    return {
        "group": {"name": group},
        "kafka": {"bootstrap_servers": [sandbox.kafka], "topics": [topic]},
        "ledger.zookeeper": {"hosts": [sandbox.zookeeper]},
        "store.s3": {
            "bucket": s3.bucket,
            "endpoint_url": s3.endpoint_url,
            "region": s3.region,
            "path_style": True,
            "access_key": s3.access_key,
            "secret_key": s3.secret_key,
        },
        "output": {**case.output, "prefix": f"bench/{group}"},
        # Every partition is uploaded several times, and the rest of it soon after its end.
        "policy": {"max_bytes": "32MiB", "max_age": "2s"},
        "local": {"directory": str(directory)},
        "metrics": {"port": "none" if port is None else port},
        "logs": {"level": "warning", "format": "json"},
    }


def write_config(settings: Settings, path: Path) -> Path:
    """Write the settings as TOML; return ``path``."""
    lines = []
    for section, values in settings.items():
        lines.append(f"[{section}]")
        # Texts, numbers, booleans and lists of texts are the same in JSON and TOML.
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    path.write_text("\n".join(lines) + "\n")
    return path
