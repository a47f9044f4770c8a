"""``[output]``: names and format of the objects."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, Self

from pydantic import Field, model_validator

from secor.config.values import Maybe, Names, Section, fault

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
    format: Literal["sequencefile", "text", "parquet", "orc", "avro", "jsonlines"] = "sequencefile"
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
        offered = CODECS.get(str(data.get("format", "sequencefile")))
        return {**data, "codec": offered[0]} if offered else data

    @model_validator(mode="after")
    def _check(self) -> Self:
        offered = CODECS[self.format]
        if self.codec not in offered:
            raise fault(f"{self.format} offers {', '.join(sorted(offered))}", "codec")
        for key, formats in OF_FORMATS.items():
            if self.format not in formats and self.changed(key):
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

    def _check_prefix(self) -> None:
        if self.prefix.startswith("/") or any(
            part in ("", ".", "..") for part in self.prefix.strip("/").split("/") if self.prefix
        ):
            raise fault(
                'must be a path such as "raw_logs/backup", without "..", ".", "//"', "prefix"
            )

    def changed(self, key: str) -> bool:
        """Tell whether a setting differs from its default."""
        return bool(getattr(self, key) != type(self).model_fields[key].default)

    def check_of_backup(self, before: str) -> None:
        """Refuse what needs decoded fields; ``before`` is where the section is."""
        if self.format in TYPED_FORMATS and self.format != "parquet":
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
        if key != "codec" and str(chosen) in OF_FORMATS.get(key, (str(chosen),))
    }
