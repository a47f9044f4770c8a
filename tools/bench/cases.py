"""What is measured: the settings of each case, and what is expected of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from secor.sandbox import S3Access, Sandbox

WAREHOUSE = "bench-warehouse"

Settings = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to store the topic.

    ``goal`` is the CPU time to reach, in microseconds a message; ``others`` what other
    programs need for the same job and messages, measured on one machine in one run.
    With ``parser`` it is a partition group, with ``partition_by`` a table group: then
    ``output`` is empty, since the table says how its files are written.  Each message of its
    topic has so many ``headers``.  Where it is another shape of the same work as ``beside``,
    it may take ``most_times`` as much CPU.
    """

    name: str
    output: Mapping[str, object]
    goal: float | None
    others: str
    parser: Mapping[str, object] | None = None
    partition_by: Sequence[str] | None = None
    headers: int = 0
    beside: str | None = None
    most_times: float | None = None

    @property
    def kind(self) -> str:
        """The kind of group."""
        if self.partition_by is not None:
            return "table"
        return "backup" if self.parser is None else "partition"


JAVA_PARSES = "Java Secor 12.5"
ICEBERG = "Kafka Connect + Iceberg 11.4"

ONE_HOUR = {"time_field": "timestamp", "layout": "dt={time:%Y-%m-%d}/hr={time:%H}"}
"""Where the messages of ``fill`` go into one directory, or two."""

DAY_LONG = {"time_field": "user_id", "time_format": "ms", "layout": "hr={time:%H}"}
"""User ids, read as milliseconds, fall into every hour of a day: 24 directories at any time."""

TWO_HUNDRED = {
    "time_field": "user_id",
    "time_format": "ms",
    "layout": "{country}/{agent}/hr={time:%H}",
}
"""216 directories at any time: three countries, three agents, 24 hours."""

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
    Case("parquet", {"format": "parquet", "codec": "zstd"}, None, ICEBERG),
    Case("sequencefile-1-header", {"format": "sequencefile", "codec": "none"}, None, "", headers=1),
    Case(
        "sequencefile-4-headers", {"format": "sequencefile", "codec": "none"}, None, "", headers=4
    ),
    Case("json-text-1-hour", {"format": "text"}, 2.5, JAVA_PARSES, ONE_HOUR),
    Case(
        "json-text-24-hours",
        {"format": "text"},
        2.5,
        JAVA_PARSES,
        DAY_LONG,
        beside="json-text-1-hour",
        most_times=1.25,
    ),
    Case(
        "json-text-200",
        {"format": "text"},
        None,
        "",
        TWO_HUNDRED,
        beside="json-text-1-hour",
        most_times=1.6,
    ),
    Case("json-parquet-1-hour", {"format": "parquet"}, 4.0, ICEBERG, ONE_HOUR),
    Case(
        "json-parquet-24-hours",
        {"format": "parquet"},
        4.0,
        ICEBERG,
        DAY_LONG,
        beside="json-parquet-1-hour",
        most_times=1.25,
    ),
    Case(
        "json-parquet-200",
        {"format": "parquet"},
        None,
        "",
        TWO_HUNDRED,
        beside="json-parquet-1-hour",
        most_times=1.6,
    ),
    Case("json-iceberg-1", {}, 2.7, ICEBERG, partition_by=()),
    Case("json-iceberg-24", {}, 3.6, ICEBERG, partition_by=("truncate(3600000, user_id)",)),
)

POLICY: Mapping[str, object] = {"max_bytes": "32MiB", "max_age": "2s"}
"""Every partition is uploaded several times, and the rest of it soon after its end."""

POLICY_OF_SHAPES: Mapping[str, object] = {"max_messages": 250_000, "max_age": "10s"}
"""Batches that do not depend on the machine's speed: shapes of the same work are compared."""

GOAL_MEMORY = 250_000_000
"""Bytes that no case may need more of."""


def settings_of(
    case: Case, sandbox: Sandbox, *, group: str, topic: str, directory: Path, port: int | None
) -> Settings:
    """Return a whole configuration; ``directory`` is for local files, ``port`` for metrics."""
    s3 = sandbox.s3
    return {
        "group": {"name": group, "kind": case.kind},
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
        **({} if case.parser is None else {"parser": case.parser}),
        **({} if case.partition_by is None else _tables(case.partition_by, s3, group, directory)),
        "policy": POLICY if case.kind == "backup" else POLICY_OF_SHAPES,
        "local": {"directory": str(directory)},
        "metrics": {"port": "none" if port is None else port},
        "logs": {"level": "warning", "format": "json"},
    }


def data_prefix(case: Case, group: str, topic: str) -> str:
    """Return what the keys of all data begin with."""
    if case.kind == "table":
        return f"{WAREHOUSE}/{table_of(group).replace('.', '/')}/data/"
    return f"bench/{group}/{topic}/"


def table_of(group: str) -> str:
    """Return the table that a group writes."""
    return f"bench.{group.replace('-', '_')}"


def _tables(
    partition_by: Sequence[str], s3: S3Access, group: str, directory: Path
) -> dict[str, dict[str, object]]:
    catalog: dict[str, object] = {
        "type": "sql",
        "uri": f"sqlite:///{directory.parent / group}.db",
        "warehouse": f"s3://{s3.bucket}/{WAREHOUSE}",
    }
    route = {"table": table_of(group), "auto_create": True, "partition_by": list(partition_by)}
    return {
        "catalog.properties": catalog,
        "commit": {"interval": "10s", "timeout": "10s"},
        "[tables]": route,
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
