"""``[output]``: the settings of object names, format and codec."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from secor.config.values import Maybe, Names, Section, fault
from secor.core.entry_points import FORMATS, offered

CODECS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sequencefile": ("gzip", "none", "default", "snappy", "lz4", "bzip2", "zstd"),
        "text": ("gzip", "none", "zstd"),
        "parquet": ("zstd", "none", "gzip", "snappy", "lz4"),
        "orc": ("zstd", "none", "gzip", "snappy", "lz4"),
        "avro": ("deflate", "none", "snappy"),
        "jsonlines": ("gzip", "none", "zstd"),
    }
)
"""The codecs that each format offers; the first is its default."""

TYPED_FORMATS = ("parquet", "orc", "avro", "jsonlines")
"""The formats that store decoded fields, in the partition group."""

OF_FORMATS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "keys": ("sequencefile",),
        "delimiter": ("text",),
        "on_delimiter": ("text",),
        "null_values": ("text",),
        "row_group_rows": ("parquet",),
        "stripe_rows": ("orc",),
        "block_rows": ("avro",),
        "metadata_columns": TYPED_FORMATS,
        "schema_file": TYPED_FORMATS,
        "extra_fields": TYPED_FORMATS,
    }
)
"""The settings that only some formats have."""

OF_FIELDS = ("metadata_columns", "schema_file", "extra_fields")
"""The settings about decoded fields: only the partition group has them."""

METADATA_COLUMNS = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")


class Output(Section):
    """``[output]``: names and format of the objects."""

    prefix: str = "backup"
    generation: int = Field(default=1, ge=0)
    format: str = "sequencefile"
    format_settings: dict[str, Any] = Field(default_factory=dict)
    codec: Literal["none", "gzip", "default", "snappy", "lz4", "bzip2", "zstd", "deflate"] = "gzip"
    keys: Literal["messagepack", "legacy"] = "messagepack"
    delimiter: str = Field(default="\n", min_length=1)
    on_delimiter: Literal["keep", "refuse"] = "keep"
    null_values: Literal["skip", "empty"] = "skip"
    row_group_rows: int = Field(default=50_000, ge=1)
    stripe_rows: int = Field(default=50_000, ge=1)
    block_rows: int = Field(default=5_000, ge=1)
    metadata_columns: Names = ()
    schema_file: Maybe[str] = None
    extra_fields: Literal["drop", "quarantine", "json"] = "drop"
    offsets_per_partition: int = Field(default=10_000_000, ge=1)
    hash_prefix: bool = False

    @model_validator(mode="before")
    @classmethod
    def _codec_of_the_format(cls, data: object) -> object:
        if not isinstance(data, dict) or "codec" in data:
            return data
        codecs = CODECS.get(str(data.get("format", "sequencefile")))
        return {**data, "codec": codecs[0]} if codecs else data

    @model_validator(mode="after")
    def _check(self) -> Self:
        codecs = CODECS.get(self.format)
        if codecs is None:
            self._check_plugged()
        elif self.codec not in codecs:
            raise fault(f"{self.format} offers {', '.join(sorted(codecs))}", "codec")
        elif self.format_settings:
            raise fault("is for formats that packages offer", "format_settings")
        for key, formats in OF_FORMATS.items():
            takes = self.format in formats or (codecs is None and key in OF_FIELDS)
            if not takes and self.changed(key):
                raise fault(f"{self.format} has no such setting, only {', '.join(formats)}", key)
        for name in self.metadata_columns:
            if name not in METADATA_COLUMNS:
                raise fault(
                    f"no column {name!r}: use some of {', '.join(METADATA_COLUMNS)}",
                    "metadata_columns",
                )
        if self.schema_file is None and self.changed("extra_fields"):
            raise fault("without schema_file every field has a column", "extra_fields")
        self._check_prefix()
        return self

    def _check_plugged(self) -> None:
        """Refuse what neither Secor nor an installed package offers; nothing is imported."""
        plugged = offered(FORMATS)
        if self.format not in plugged:
            known = [*CODECS, *plugged]
            near = get_close_matches(self.format, known, n=1)
            hint = f"do you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"
            others = f"packages may offer others (entry points {FORMATS})"
            raise fault(f"there is no format {self.format!r}: {hint}; {others}", "format")
        if self.changed("codec"):
            raise fault(f"{self.format} has no such setting: see format_settings", "codec")

    @property
    def stores_fields(self) -> bool:
        """Tell whether objects hold decoded fields, in the partition group."""
        return self.format in TYPED_FORMATS or self.format not in CODECS

    def _check_prefix(self) -> None:
        if self.prefix.startswith("/") or any(
            part in ("", ".", "..") for part in self.prefix.strip("/").split("/") if self.prefix
        ):
            raise fault(
                'must be a path such as "raw_logs/backup", without "..", ".", "//"', "prefix"
            )

    def losses(self, kind: str) -> list[str]:
        """Return what objects of a group of this kind do not hold, a sentence each."""
        lost = []
        if self.format == "sequencefile" and self.keys == "legacy":
            lost.append('keys = "legacy" loses message keys, headers, timestamps and null values')
        if self.format == "sequencefile" and self.codec == "zstd":
            needs = "needs native Hadoop libraries to be read by it"
            lost.append(f'codec = "zstd" in SequenceFiles {needs}')
        if self.format == "text" and kind == "backup":
            lost.append(
                'format = "text" records values only: no offsets, keys, headers, timestamps'
            )
            if self.null_values == "skip":
                lost.append('null_values = "skip" leaves messages without a value out')
        return lost

    def changed(self, key: str) -> bool:
        """Tell whether a setting differs from its default."""
        default = type(self).model_fields[key].get_default(call_default_factory=True)
        return bool(getattr(self, key) != default)

    def check_of_backup(self, before: str) -> None:
        """Refuse what needs decoded fields; ``before`` is where the section is."""
        if self.stores_fields and self.format != "parquet":
            why = f'{self.format} stores decoded fields: only group.kind "partition" has them'
            raise fault(why, f"{before}format")
        for key in OF_FIELDS:
            if self.changed(key):
                why = 'is about decoded fields: only group.kind "partition" has them'
                raise fault(why, f"{before}{key}")


def without_settings_of(general: Mapping[str, object], chosen: object) -> dict[str, object]:
    """Return an ``[output]`` table without its codec and what the format ``chosen`` lacks."""
    return {
        key: value
        for key, value in general.items()
        if key not in ("codec", "format_settings")
        and str(chosen) in OF_FORMATS.get(key, (str(chosen),))
    }
