"""The whole paths that are fuzzed, by names: ``table/orc/declared/bucket(4, s)/_timestamp``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from secor.config.load import validate
from secor.config.model import Config
from tests.fuzz.columns import SCHEMA_FILE

BACKUP = (
    *("sequencefile gzip", "sequencefile zstd", "sequencefile snappy", "sequencefile none"),
    *("text gzip", "text none", "parquet zstd"),
)
TYPED = ("parquet", "orc", "avro", "jsonlines")
SCHEMAS = ("declared", "inferred")
LAYOUTS: Mapping[str, tuple[str, str]] = {
    "time": ("dt={time:%Y-%m-%d}/hr={time:%H}", "none"),
    "ts": ("dt={time:%Y-%m-%d}", "ts"),
    "s": ("s={s}", "none"),
    "l": ("l={l}", "none"),
}
"""Layouts by name, and the field that the time is in: without one, Kafka's timestamp."""
PARTITION_METADATA = (
    "",
    "_offset,_timestamp",
    "_topic,_partition,_offset,_timestamp,_key,_headers",
)
TABLE_METADATA = ("", "_offset,_timestamp", "_topic,_kafka_partition,_offset,_timestamp")
FILES = ("parquet", "orc", "avro")
TRANSFORMS = (
    "",
    *("s", "l", "i", "dec", "day", "ts", "b", "yes"),
    *(f"bucket(4, {name})" for name in ("s", "l", "i", "dec", "day", "ts", "b")),
    *(f"truncate(7, {name})" for name in ("s", "l", "i", "dec", "b")),
    *(f"{unit}({name})" for unit in ("year", "month", "day") for name in ("day", "ts")),
    *("hour(ts)", "void(s)"),
)


@dataclass(frozen=True)
class FuzzedPath:
    """One way of messages: ``layout`` is the transform of a table."""

    kind: str
    format: str
    schema: str = ""
    layout: str = ""
    metadata: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name, as the corpus has it."""
        if self.kind == "backup":
            return f"{self.kind}/{self.format}"
        parts = (self.kind, self.format, self.schema, self.layout, ",".join(self.metadata))
        return "/".join(parts)

    def config(self, directory: Path) -> Config:
        """Return the configuration of a group in a directory.  It writes a schema file there."""
        tree: dict[str, Any] = {
            "group": {"name": "g", "kind": self.kind},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["flights"]},
            "store": {"kind": "local", "local": {"directory": str(directory / "store")}},
            "output": {"prefix": "lake"},
            "policy": {"max_age": "60s"},
        }
        schema_file = directory / "schema.json"
        schema_file.write_text(SCHEMA_FILE)
        declared = {"schema_file": str(schema_file)} if self.schema == "declared" else {}
        if self.kind == "backup":
            output, _, codec = self.format.partition(" ")
            tree["output"] |= {"format": output, "codec": codec}
        else:
            tree["parser"] = {"max_bad_ratio": "none"}
        if self.kind == "partition":
            layout, time_field = LAYOUTS[self.layout]
            tree["parser"] |= {"layout": layout, "time_field": time_field}
            tree["output"] |= {"format": self.format, "metadata_columns": list(self.metadata)}
            tree["output"] |= declared
        if self.kind == "table":
            table = {
                "table": "db.flights",
                "auto_create": True,
                "evolve": self.schema == "inferred",
                "properties": {"write.format.default": self.format},
                **declared,
            }
            tree["tables"] = [table | ({"partition_by": [self.layout]} if self.layout else {})]
            tree["rows"] = {"metadata_columns": list(self.metadata)}
            warehouse = f"file://{directory}/warehouse"
            tree["catalog"] = {"properties": {"warehouse": warehouse}}
        config, faults = validate(tree)
        assert config is not None, faults
        return config


def path_of(name: str) -> FuzzedPath:
    """Return the path of a name."""
    kind, _, rest = name.partition("/")
    if kind == "backup":
        return FuzzedPath(kind, rest)
    file_format, schema, *layout, metadata = rest.split("/")
    columns = tuple(metadata.split(",")) if metadata else ()
    return FuzzedPath(kind, file_format, schema, "/".join(layout), columns)


def every_path() -> Sequence[FuzzedPath]:
    """Return all paths, in a fixed order."""
    partitions = product(TYPED, SCHEMAS, LAYOUTS, PARTITION_METADATA)
    declared = product(FILES, ("declared",), TRANSFORMS, TABLE_METADATA)
    inferred = product(FILES, ("inferred",), ("",), TABLE_METADATA)
    return (
        *(FuzzedPath("backup", name) for name in BACKUP),
        *(FuzzedPath("partition", *it[:3], _columns(it[3])) for it in partitions),
        *(FuzzedPath("table", *it[:3], _columns(it[3])) for it in (*declared, *inferred)),
    )


def _columns(names: str) -> tuple[str, ...]:
    return tuple(names.split(",")) if names else ()
