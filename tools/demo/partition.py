"""Two partition groups of the demonstration, and a question to what they store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.sandbox import S3Access, Sandbox
from secor.sandbox.first_steps import Settings, configuration
from secor.wiring.clients import open_ledger_for_operator, open_reader
from tools.demo import flights
from tools.demo.backup import SecorProcess, surroundings

if TYPE_CHECKING:
    from pyarrow import fs

SCHEMA = "flights.json"
FILES = frozenset({"parquet.toml", "parquet.log", "lines.toml", "lines.log", SCHEMA})

_LOOK_EVERY = 0.25
_ALL_STORED_WITHIN = 600.0

Answer = Mapping[str, tuple[int, float]]
"""By carrier: flights that left, and the sum of their delays in minutes."""

_NAMES = ("parquet", "lines")


def write_configurations(folder: Path, sandbox: Sandbox) -> Mapping[str, Path]:
    """Write ``parquet.toml`` and ``lines.toml`` for the servers; return their paths."""
    outputs: Mapping[str, Mapping[str, object]] = {
        "parquet": {
            "format": "parquet",
            "metadata_columns": ["_offset"],
            "schema_file": str((folder / SCHEMA).resolve()),
        },
        "lines": {"format": "jsonlines", "codec": "gzip"},
    }
    layouts = {"parquet": "dt={time:%Y-%m}", "lines": "{origin}/dt={time:%Y-%m}"}
    about = "Written by the demonstration; docs/configuration.md explains every setting."
    paths = {name: folder / f"{name}.toml" for name in _NAMES}
    for name, path in paths.items():
        settings: Settings = {
            "group": {"name": f"demo_{name}", "kind": "partition"},
            "kafka": {"topics": [flights.TOPIC]},
            "policy": {"max_age": "3s"},
            "output": {"prefix": name, **outputs[name]},
            "parser": {
                "layout": layouts[name],
                "time_field": "time_hour",
                "time_format": "iso8601",
            },
            "logs": {"format": "json"},
        }
        path.write_text(configuration(sandbox, folder / "local", settings, about=about))
    return paths


class Parsing:
    """The processes of the groups, side by side, until everything is committed."""

    def __init__(self, configurations: Iterable[Path]) -> None:
        self._configurations = list(configurations)
        self._processes = [SecorProcess(each) for each in self._configurations]

    def wait(self) -> int:
        """Return the number of messages when all groups have committed and ended."""
        numbers = range(flights.PARTITIONS)
        partitions = [TopicPartition(flights.TOPIC, number) for number in numbers]
        loaded = [load(each, surroundings()) for each in self._configurations]
        with open_reader(loaded[0]) as reader:
            total = sum(reader.log_range(each).end for each in partitions)
        for config in loaded:
            self._wait(config, partitions, total)
        for process in self._processes:
            code = process.stop()
            if code != 0:
                raise SecorError(f"secor run ended with code {code} on SIGTERM; see {process.log}")
        return total

    def _wait(self, config: Config, partitions: list[TopicPartition], total: int) -> None:
        deadline = time.monotonic() + _ALL_STORED_WITHIN
        with open_ledger_for_operator(config) as ledger:
            while sum(ledger.read(each).committed or 0 for each in partitions) < total:
                for process in self._processes:
                    process.check()
                if time.monotonic() > deadline:
                    raise Unavailable(f"{config.group.name}: see its log, it is too slow")
                time.sleep(_LOOK_EVERY)

    def close(self) -> None:
        """Leave nothing running."""
        for process in self._processes:
            process.end()


def bucket_of(access: S3Access) -> fs.S3FileSystem:
    """Return the S3 server as what reads Parquet takes it."""
    from pyarrow import fs

    scheme, _, server = access.endpoint_url.partition("://")
    return fs.S3FileSystem(
        access_key=access.access_key,
        secret_key=access.secret_key,
        region=access.region,
        endpoint_override=server,
        scheme=scheme,
    )


def asked_of_parquet(access: S3Access, config: Config) -> Answer:
    """Ask the objects in the bucket, as an analyst would."""
    from pyarrow import dataset

    place = f"{access.bucket}/{config.output.prefix}/{flights.TOPIC}"
    stored = dataset.dataset(place, filesystem=bucket_of(access), partitioning="hive")
    table = stored.to_table(columns=["carrier", "dep_delay"])
    delays = table.group_by("carrier").aggregate([("dep_delay", "count"), ("dep_delay", "sum")])
    return {
        row["carrier"]: (row["dep_delay_count"], float(row["dep_delay_sum"]))
        for row in delays.to_pylist()
    }


def asked_of_source() -> Answer:
    """Ask the table that the messages were made of, by other means."""
    delays = flights.table("flights").groupby("carrier")["dep_delay"].agg(["count", "sum"])
    return {
        str(carrier): (int(row["count"]), float(row["sum"])) for carrier, row in delays.iterrows()
    }


def latest(answer: Answer) -> list[tuple[str, tuple[int, float]]]:
    """Return the five carriers with the greatest mean delay."""
    return sorted(answer.items(), key=lambda each: each[1][1] / each[1][0], reverse=True)[:5]
