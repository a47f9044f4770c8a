"""``[hudi]``, and what of ``[[tables]]`` is for Hudi tables alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Self

from pydantic import Field, model_validator

from secor.config.values import Maybe, Section, fault
from secor.core.partition_terms import parse_term

OWN = frozenset(
    {
        "hoodie.table.name",
        "hoodie.database.name",
        "hoodie.datasource.write.commitmeta.key.prefix",
        "hoodie.datasource.write.operation",
        "hoodie.datasource.write.partitionpath.field",
        "hoodie.datasource.write.precombine.field",
        "hoodie.datasource.write.recordkey.field",
        "hoodie.datasource.write.table.type",
        "hoodie.record.merge.mode",
        "hoodie.table.ordering.fields",
    }
)
"""Settings of Hudi's that follow from those of a route."""

GLOBAL_INDEXES = frozenset(
    {"GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX"}
)
"""Those that find a row in whatever partition it is."""

ONLY_HUDI: Mapping[str, object] = MappingProxyType({"type": "copy-on-write", "precombine": None})
"""Settings of Hudi tables, with their defaults."""

WRITER_KEYS = ("location", "properties")
"""Settings of each commit to a Hudi table, new or not."""

PATH_TRANSFORMS = frozenset({"identity", "year", "month", "day", "hour", "truncate"})
"""Transforms that make the path of a partition of a Hudi table."""


def check_place(uri: str, key: str) -> None:
    """Raise a fault for a URI where no table can be."""
    if not re.match(r"(s3|s3a|s3n)://[^/]+/.|file:///.", uri):
        raise fault(f"{uri}: write s3://bucket/path, or file:///path", key)


class Hudi(Section):
    """``[hudi]``: where Hudi tables are."""

    warehouse: Maybe[str] = Field(
        default=None,
        description="Location of new Hudi tables: <warehouse>/<namespace>/<table>. A route may"
        " have a location of its own instead.",
        examples=["s3://my-logs/hudi"],
    )

    def location_of(self, table: str) -> str:
        """Return the base path of a table that has none of its own."""
        assert self.warehouse is not None, "the configuration was checked"
        namespace, _, name = table.rpartition(".")
        return f"{self.warehouse.rstrip('/')}/{namespace}/{name}"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.warehouse is not None:
            check_place(self.warehouse, "warehouse")
        return self


def check_hudi(location: str | None, properties: Mapping[str, str]) -> None:
    """Raise a fault for what no Hudi table can have."""
    if location is not None:
        check_place(location, "location")
    for name in properties:
        if not name.startswith("hoodie.") or name in OWN:
            why = "follows from the other keys" if name in OWN else "Hudi's begin with hoodie."
            raise fault(f"{name!r}: {why}", "properties")


def check_partitions(
    terms: Sequence[str], properties: Mapping[str, str], key: Sequence[str], mode: str
) -> None:
    """Raise a fault unless rows are found again: in their partition, or by a global index."""
    index = properties.get("hoodie.index.type", "").upper()
    for term in terms:
        transform, column = parse_term(term)
        if transform.partition("[")[0] not in PATH_TRANSFORMS:
            known = ", ".join(sorted(PATH_TRANSFORMS - {"identity"}))
            raise fault(f"{term}: use a column, or one of {known} of it", "partition_by")
        if mode != "append" and column not in key and index not in GLOBAL_INDEXES:
            why = (
                f"{term}: {column} is not in key, so a row with a changed {column} would stay in"
                " its old partition, too: add it to key, or set a global hoodie.index.type"
            )
            raise fault(why, "partition_by")
