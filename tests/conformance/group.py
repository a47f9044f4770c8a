"""Configuration of the table group that stores the changes, and of the converter before it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from secor.sandbox import Sandbox
from tests.conformance.columns import stored_kind
from tests.conformance.databases import DATABASES, Database
from tests.conformance.servers import AVRO_CONVERTER, JSON_CONVERTER, PREFIX
from tests.conformance.source_tables import BROAD, SourceTable
from tests.conformance.tables import HUDI, NAMESPACE, catalog_properties
from tests.integration.daemons import write_config

TABLES = ("iceberg-cow", "iceberg-mor", "hudi")
"""Kinds of tables."""

_SPARK = """
[spark]
timeout = "20m"  # on a machine that does much else

[spark.settings]
"spark.master" = "local[2]"
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = "2"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""
_KEYS = """
[parser.key]
decoder = "avro"
framing = "apicurio"
field = "none"  # keys only say which rows are deleted
"""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a comparison."""

    seconds: float
    seed: int
    format: str
    table: str
    rate: float
    kill: bool = False
    database: str = "postgresql"
    broad: bool = False
    changes: int | None = None
    """Transactions; None for as many as there are in ``seconds``."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the kinds of tables that one source feeds."""
        return TABLES if self.table == "all" else (self.table,)

    @property
    def source(self) -> type[Database]:
        """Return the database."""
        return DATABASES[self.database]

    @property
    def sources(self) -> Mapping[str, SourceTable]:
        """Return the tables of the database that messages of the format can be of."""
        sources = {**self.source.sources, **({BROAD.name: BROAD} if self.broad else {})}
        if self.format == "json":
            sources = {name: source.without_schema() for name, source in sources.items()}
        return {
            name: source
            for name, source in sources.items()
            if self.format == "json-schemas" or not source.strange
        }

    def stored_in(self, table: str) -> list[SourceTable]:
        """Return the tables that are compared with tables of a kind: Hudi's names are Avro's, and
        its columns are not renamed.
        """
        return [it for it in self.sources.values() if table != "hudi" or not it.iceberg_only]

    @property
    def length(self) -> str:
        """Return how long rows are changed, in words."""
        if self.changes is None:
            return f"for {self.seconds:.0f} s"
        return f"in {self.changes:,} transactions"

    def stored(self, source: SourceTable, table: str) -> SourceTable:
        """Return a source with what the columns of its table of this kind hold."""
        unlike = self.source.without_schema if self.format == "json" else {}
        # A column by which a table is divided is no UUID, but its text.
        divided = {word for term in source.partition_by for word in re.findall(r"\w+", term)}
        kinds = {
            name: stored_kind(unlike.get(name, kind), uuids=table != "hudi" and name not in divided)
            for name, kind in source.columns.items()
        }
        return replace(source, columns=kinds)


def converter(form: str, registry: str | None = None) -> dict[str, str]:
    """Return the settings of the converters; ``registry`` is the URL of one for Avro."""
    if registry is not None:
        return {
            "converter": AVRO_CONVERTER,
            "apicurio.registry.url": registry,
            "apicurio.registry.auto-register": "true",
        }
    return {
        "converter": JSON_CONVERTER,
        "schemas.enable": str(form == "json-schemas").lower(),
    }


def write_group(
    folder: Path, sandbox: Sandbox, options: Options, table: str, registry: str | None = None
) -> Path:
    """Write the configuration of the group for tables of one kind; make its folder."""
    folder.mkdir()
    group = f"cdc-{table}"
    place = (
        f'[hudi]\nwarehouse = "s3://{sandbox.s3.bucket}/{HUDI}"\n'
        if table == "hudi"
        else _section("catalog.properties", catalog_properties(sandbox, table))
    )
    routes = [
        _route(folder, options.stored(source, table), options, table)
        for source in options.stored_in(table)
    ]
    return write_config(
        folder,
        sandbox,
        group=group,
        topic="unused",
        ledger="zookeeper",
        settings={
            "group": {"name": group, "kind": "table"},
            "kafka": {
                "topics": [f"{PREFIX}.public.{it.topic}" for it in options.stored_in(table)],
                "session_timeout": "10s",
            },
            "parser": {"max_bad_messages": 0, "max_bad_ratio": "none", **_decoder(registry)},
            "policy": {"max_messages": 5000, "max_age": "2s"},
            "commit": {"interval": "5s", "timeout": "5s", "coordinator": "alone"},
        },
        more="\n".join([place, _SPARK, *([] if registry is None else [_KEYS]), *routes]),
    )


def _decoder(registry: str | None) -> dict[str, object]:
    if registry is None:
        return {"decoder": "json"}
    return {"decoder": "avro", "framing": "apicurio", "registry_url": registry}


def _section(name: str, properties: Mapping[str, str]) -> str:
    return "\n".join(
        [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in properties.items())]
    )


def _route(folder: Path, source: SourceTable, options: Options, table: str) -> str:
    lines = [
        "[[tables]]",
        f'table = "{NAMESPACE}.{source.topic}"',
        f'topics = "{PREFIX}\\\\.public\\\\.{source.topic}"',
        'mode = "cdc"',
        f"key = {json.dumps(source.key)}",
        "auto_create = true",
        "evolve = true",
    ]
    if source.keep_deletes:
        lines.append("keep_deletes = true")
    if source.truncate:
        lines.append(f'truncate = "{source.truncate}"')
    if options.format == "json":
        declared = folder / f"{source.topic}.avsc"
        declared.write_text(json.dumps(_declared(source)))
        units = ", ".join(f'{name} = "{unit}"' for name, unit in options.source.time_units.items())
        lines += [
            f'schema_file = "{declared}"',
            'encodings = "debezium"',
            f"time_units = {{{units}}}",
        ]
    # Hudi has no buckets, and its readers take an empty text in a path for null.
    if source.partition_by and table != "hudi":
        lines.append(f"partition_by = {json.dumps(source.partition_by)}")
    if table == "hudi":
        lines += ['format = "hudi"', 'properties = {"hoodie.bucket.index.num.buckets" = "2"}']
    elif table == "iceberg-mor":
        lines.append('properties = {"write.merge.mode" = "merge-on-read"}')
    return "\n".join(lines)


def _declared(source: SourceTable) -> dict[str, object]:
    """Return the columns of a table as an Avro schema."""
    fields = [
        {"name": name, "type": ["null", _avro(kind.arrow)], "default": None}
        for name, kind in source.columns.items()
    ]
    return {"type": "record", "name": source.topic, "fields": fields}


def _avro(kind: pa.DataType) -> object:
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro(kind.value_type)]}
    if pa.types.is_struct(kind):
        fields = [
            {"name": field.name, "type": ["null", _avro(field.type)], "default": None}
            for field in kind
        ]
        return {"type": "record", "name": "shape", "fields": fields}
    if pa.types.is_decimal(kind):
        size = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **size}
    if pa.types.is_timestamp(kind):
        local = "local-" if kind.tz is None else ""
        return {"type": "long", "logicalType": f"{local}timestamp-micros"}
    return _AVRO[kind]


_AVRO: Mapping[pa.DataType, object] = MappingProxyType(
    {
        pa.int32(): "int",
        pa.int64(): "long",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.bool_(): "boolean",
        pa.string(): "string",
        pa.binary(): "bytes",
        pa.date32(): {"type": "int", "logicalType": "date"},
        pa.uuid(): {"type": "string", "logicalType": "uuid"},
    }
)
