"""``[output]``, ``[policy]``: names, format and codec of objects, and when they are uploaded."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from secor.config.values import MIB, Duration, Maybe, Names, Section, Size, fault
from secor.core.installing import FORMATS, offered
from secor.core.naming import ConnectName

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
        "numbers": ("parquet", "orc", "avro"),
        "json_types": ("jsonlines",),
    }
)
"""The settings that only some formats have."""

OF_FIELDS = ("metadata_columns", "schema_file", "extra_fields", "numbers", "json_types")
"""The settings about decoded fields: only the partition group has them."""

METADATA_COLUMNS = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")


class Output(Section):
    """``[output]``: names and format of the objects."""

    prefix: str = Field(
        default="backup",
        description="Where the group's objects are in the bucket:"
        " <prefix>/<topic>/<directory>/<generation>_<partition>_<offset><extension>, where the"
        " directory is offset=<n> in a backup group and the layout's in a partition group. A"
        " table group has staged files (_staged) and quarantine (_quarantine) here; rows are in"
        " the location of their table. Give every group its own prefix.",
        examples=["raw_logs/backup"],
    )
    generation: int = Field(
        default=1,
        ge=0,
        description="Raise it when the output changes incompatibly: it separates old objects"
        " from new ones.",
    )
    naming: str = Field(
        default="secor",
        description='Names of objects. "secor": <generation>_<partition>_<offset>; "confluent": as'
        " Confluent's S3 sink names them, <topic>+<partition>+<offset>; or a template, as Aiven's"
        ' sink has it: "{topic}-{partition}-{offset}", with +, - or _ between them, widths as in'
        " {offset:020}, and at the end, if it is not the format's, an extension. Offsets are where"
        " the batch begins. Names as a connector's have no generation, so output.generation stays"
        " 1, and there is no backfill (docs/from-kafka-connect.md).",
        examples=["confluent"],
    )
    format: str = Field(
        default="sequencefile",
        description='Format of the objects. "sequencefile" loses nothing, and "text" keeps'
        ' values only; both have the messages unchanged. In a backup group "parquet" loses'
        ' nothing, either. In a partition group "parquet", "orc", "avro" and "jsonlines" have the'
        " decoded fields. Installed packages may offer others (docs/formats.md).",
        examples=["parquet"],
    )
    format_settings: dict[str, Any] = Field(
        default_factory=dict,
        description="Settings of a format that an installed package offers.",
        examples=[{"level": 3}],
    )
    codec: Literal["none", "gzip", "default", "snappy", "lz4", "bzip2", "zstd", "deflate"] = Field(
        default="gzip",
        description='Compression; the default is the first of each format. sequencefile: "gzip",'
        ' "none", "default" (zlib), "snappy", "lz4", "bzip2", "zstd" (Hadoop and Spark read that'
        ' only with Hadoop\'s native library). text and jsonlines: "gzip", "none", "zstd".'
        ' avro: "deflate", "none", "snappy". parquet and orc: "zstd", "none", "gzip", "snappy",'
        ' "lz4".',
    )
    keys: Literal["messagepack", "legacy"] = Field(
        default="messagepack",
        description='sequencefile: "messagepack" keys lose nothing; "legacy" has the offset only.',
    )
    delimiter: str = Field(default="\n", min_length=1, description="text: the end of each message.")
    on_delimiter: Literal["keep", "refuse"] = Field(
        default="keep", description='text: "keep" or "refuse" messages that contain the delimiter.'
    )
    null_values: Literal["skip", "empty"] = Field(
        default="skip",
        description='text: leave out messages without a value ("skip"), or write empty ones'
        ' ("empty").',
    )
    row_group_rows: int = Field(
        default=50_000,
        ge=1,
        description="parquet: messages in one row group. Each open file holds so many in memory.",
    )
    stripe_rows: int = Field(
        default=50_000,
        ge=1,
        description="orc: messages in one stripe. Each open file holds so many in memory.",
    )
    block_rows: int = Field(
        default=5_000,
        ge=1,
        description="avro: messages in one block. Each open file holds so many in memory.",
    )
    metadata_columns: Names = Field(
        default=(),
        description='Columns in addition to the fields, some of "_topic", "_partition", "_offset",'
        ' "_timestamp", "_key", "_headers". With "_offset" \'secor verify\' compares'
        " offsets, without it only counts.",
        examples=[["_partition", "_offset"]],
    )
    schema_file: Maybe[str] = Field(
        default=None,
        description="A file that declares the fields: an Avro schema, or a file of 'secor schema"
        " infer' or 'secor schema show'. Messages that do not fit go into quarantine. Without it"
        " parquet, orc and avro have a schema that is kept with the topic's objects and grows"
        " with the messages (docs/formats.md).",
        examples=["/etc/secor/clicks.avsc"],
    )
    extra_fields: Literal["drop", "quarantine", "json"] = Field(
        default="drop",
        description='Fields that output.schema_file does not have: "drop" them, "quarantine" the'
        ' message, or "json": keep them in a column _extra.',
    )
    json_types: Literal["text", "connect", "connect-numeric"] = Field(
        default="text",
        description='jsonlines: how dates, times and decimals are written. "text": in ISO 8601, and'
        ' decimals as strings; "connect": as Kafka Connect\'s JSON converter writes them: days'
        " since 1970, milliseconds, decimals in base64 of the number without its point;"
        ' "connect-numeric": likewise, but decimals as numbers.',
    )
    numbers: Literal["as seen", "double", "decimal"] = Field(
        default="as seen",
        description="What new columns of numbers become in a schema that is kept:"
        ' "as seen" (64 bits of integers until a fraction is seen), "double", or "decimal" (38'
        " digits, 18 of them after the point).",
    )
    offsets_per_partition: int = Field(
        default=10_000_000, ge=1, description="Offsets in one offset=<n> directory."
    )
    hash_prefix: bool = Field(
        default=False,
        description="Put four hexadecimal digits in front of the prefix, to spread the keys of a"
        " bucket.",
    )

    @model_validator(mode="before")
    @classmethod
    def _codec_of_the_format(cls, data: object) -> object:
        # Before pydantic fills in the field's own default, which cannot depend on the format.
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
            # A package's format stores decoded fields, too (see stores_fields).
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
        if self.schema_file is not None and self.changed("numbers"):
            raise fault("the types are those of schema_file", "numbers")
        try:
            named = self.names_of_connect[0]
        except ValueError:
            why = 'use "secor", "confluent" or a template such as "{topic}-{partition}-{offset}"'
            raise fault(why, "naming") from None
        # Objects of two generations would have the same names, and the second could not be put.
        if named and self.generation != 1:
            why = f'names of naming = "{self.naming}" have none: leave it 1, or take another prefix'
            raise fault(why, "generation")
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
    def names_of_connect(self) -> tuple[ConnectName | None, str]:
        """How a connector names objects, None for names of our own; and their extension, if it is
        not the format's.  Raises ``ValueError`` for what is no template.
        """
        if self.naming == "secor":
            return None, ""
        if self.naming == "confluent":
            return ConnectName(), ""
        return ConnectName.of_template(self.naming)

    @property
    def stores_fields(self) -> bool:
        """Return whether objects hold decoded fields, in the partition group."""
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
        """Return whether a setting differs from its default."""
        # Compared with the default, not asked of model_fields_set: a file may write defaults out.
        default = type(self).model_fields[key].get_default(call_default_factory=True)
        return bool(getattr(self, key) != default)

    def check_of_backup(self, before: str) -> None:
        """Refuse what needs decoded fields; ``before`` is where the section is."""
        if self.stores_fields and self.format != "parquet":
            why = f'{self.format} stores decoded fields: only group.kind "partition" has them'
            raise fault(why, f"{before}format")
        if self.naming != "secor":
            why = 'only group.kind "partition" has directories as Confluent\'s'
            raise fault(why, f"{before}naming")
        for key in OF_FIELDS:
            if self.changed(key):
                why = 'is about decoded fields: only group.kind "partition" has them'
                raise fault(why, f"{before}{key}")


class Policy(Section):
    """``[policy]``: when a batch is uploaded; times in seconds, sizes in bytes."""

    max_bytes: Size = Field(
        default=128 * MIB, description="Upload a batch when it has this size on disk."
    )
    max_age: Duration = Field(
        default=600.0,
        description="Upload a batch when it has this age, counted as policy.age says.",
    )
    age: Literal["oldest", "youngest"] = Field(
        default="oldest",
        description='Which file of a batch policy.max_age counts from: its "oldest" or its'
        ' "youngest".',
    )
    max_messages: Maybe[int] = Field(
        default=None,
        ge=1,
        description="Upload a batch when it has this number of messages. Checked after each"
        " fetched batch of messages, so a batch may have some more.",
        examples=[1000000],
    )
    minute_mark: Maybe[int] = Field(
        default=None,
        ge=0,
        le=59,
        description="Upload open batches at this minute of every hour, 0 to 59.",
        examples=[0],
    )
    max_files: int = Field(
        default=1000,
        ge=1,
        description="Most files of a batch, one for each output partition. The message that"
        " needs one more begins the next batch.",
    )
    upload_on_shutdown: bool = Field(
        default=True,
        description="Upload open batches when the process is asked to stop. Otherwise their"
        " messages are read again.",
    )
    upload_on_revoke: bool = Field(
        default=False,
        description="Upload the open batch before a partition moves to another process. Only"
        " with the ZooKeeper ledger.",
    )


def without_settings_of(general: Mapping[str, object], chosen: object) -> dict[str, object]:
    """Return an ``[output]`` table without its codec and what the format ``chosen`` lacks."""
    return {
        key: value
        for key, value in general.items()
        if key not in ("codec", "format_settings")
        and str(chosen) in OF_FORMATS.get(key, (str(chosen),))
    }
