"""Formats of decoded fields, as the configuration describes them."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.archive.kept_schemas import KeptSchema
from secor.batch.plan import TopicPlan
from secor.config.load import validate
from secor.config.model import Config
from secor.config.output import CODECS, METADATA_COLUMNS, OF_FORMATS, TYPED_FORMATS
from secor.core.errors import ConfigurationError, SchemaGrew
from secor.core.model import QUARANTINE, SCHEMA, Chunk, Part
from secor.formats.typed.metadata import COLUMNS
from secor.wiring.plans import growing_plans, kept_schema, plan_for
from tests.fakes.observer import SilentObserver
from tests.fakes.store import FakeStore
from tests.unit.parsing.parsing_cases import chunk_of, json_chunk, places, reasons

AT = 1_772_366_706
KEPT = KeptSchema.parse(
    json.dumps(
        {
            "fields": [
                {"name": "at", "type": "int64"},
                {"name": "n", "type": "double"},
                {"name": "s", "type": {"list": "string"}},
            ]
        }
    ),
    "kept",
    1,
)
DECLARED = {"fields": [{"name": "at", "type": "int64"}, {"name": "n", "type": "int32"}]}


def validated(output: dict[str, Any], **tables: Any) -> tuple[Config | None, dict[str, str]]:
    tree = {
        "group": {"name": "g", "kind": "partition"},
        "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
        "store": {"kind": "local", "local": {"directory": "/nowhere"}},
        "parser": {"time_field": "at"},
        "output": output,
        **tables,
    }
    made, faults = validate(tree)
    return made, dict(faults)


def plan(count: Any = None, **output: Any) -> TopicPlan:
    """Return a plan whose kept schema, where one is kept, has the fields of these tests."""
    made, faults = validated(output)
    assert made is not None, faults
    return plan_for(made, "clicks", count, kept=KEPT)


@pytest.fixture
def declared(tmp_path: Path) -> str:
    path = tmp_path / "clicks.json"
    path.write_text(json.dumps(DECLARED))
    return str(path)


def stored(chosen: TopicPlan, parts: list[Part]) -> list[dict[str, Any]]:
    """Return the rows of a file of all the parts that are not in quarantine."""
    sink = io.BytesIO()
    writer = chosen.log_format.create(sink, b"seed")
    for part in parts:
        if part.stream != QUARANTINE:
            writer.append(part.records)
    writer.close()
    sink.seek(0)
    table = pa.Table.from_batches(list(chosen.log_format.read(sink, "file")))
    values = table.column("value").to_pylist()
    return [
        {**json.loads(value), "offset": offset}
        for value, offset in zip(values, table.column("offset").to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("name", TYPED_FORMATS)
def test_every_format_stores_the_fields_and_what_is_asked_for_beside_them(name: str) -> None:
    chosen = plan(format=name, metadata_columns=["_topic", "_partition", "_offset"])
    parts = list(chosen.parser.split(json_chunk([{"at": AT, "n": n} for n in range(3)])))
    assert stored(chosen, parts) == [{"at": AT, "n": n, "offset": n} for n in range(3)]
    [part] = parts
    assert part.records.column("topic").to_pylist() == ["clicks"] * 3
    assert part.records.column("partition").to_pylist() == [3] * 3


@pytest.mark.parametrize("name", TYPED_FORMATS)
def test_without_being_asked_the_parser_adds_nothing_but_the_row(name: str) -> None:
    chosen = plan(format=name)
    [part] = chosen.parser.split(json_chunk([{"at": AT}]))
    assert "topic" not in part.records.schema.names
    assert stored(chosen, [part]) == [{"at": AT, "offset": None}]


@pytest.mark.parametrize("name", TYPED_FORMATS)
def test_a_message_that_does_not_fit_the_schema_is_in_quarantine_with_the_reason(
    name: str, declared: str
) -> None:
    counts: Counter[str] = Counter()
    chosen = plan(
        lambda _, counter, messages: counts.update({counter: messages}),
        format=name,
        schema_file=declared,
        metadata_columns=["_offset"],
    )
    items = [{"at": AT, "n": 1}, {"at": AT, "n": "many"}, {"n": 1}, {"at": AT, "n": 2, "x": 1}]
    parts = list(chosen.parser.split(json_chunk(items)))
    assert places(parts) == {"dt=2026-03-01": [0, 3], "quarantine:": [1, 2]}
    why = reasons(parts)
    assert why[1].startswith("schema: n")
    assert why[2].startswith("time: ")
    assert counts == {"quarantined_schema": 1, "quarantined_time": 1}
    assert [row["offset"] for row in stored(chosen, parts)] == [0, 3]
    assert [row["n"] for row in stored(chosen, parts)] == [1, 2]


@pytest.mark.parametrize("name", TYPED_FORMATS)
def test_a_date_that_nobody_can_read_is_in_quarantine_also_where_nothing_is_declared(
    name: str, tmp_path: Path
) -> None:
    day = {"type": "int", "logicalType": "date"}
    avro = {"type": "record", "name": "R", "fields": [{"name": "day", "type": day}]}
    (tmp_path / "r.avsc").write_text(json.dumps(avro))
    parser = {"decoder": "avro", "schema_file": str(tmp_path / "r.avsc"), "layout": "all"}
    made, faults = validated({"format": name}, parser=parser)
    assert made is not None, faults
    kept = KeptSchema(1, pa.struct({"day": pa.date32()}))
    chosen = plan_for(made, "clicks", kept=kept)
    values = [b"\x02", b"\xfe\xff\xff\xff\x0f"]  # 1 and 2^31 - 1, as Avro writes them
    parts = list(chosen.parser.split(chunk_of(values)))
    assert places(parts) == {"all": [0], "quarantine:": [1]}
    assert reasons(parts)[1].startswith("schema: day")


@pytest.mark.parametrize(
    ("extra", "bad", "kept"),
    [("drop", [], None), ("quarantine", [0], None), ("json", [], '{"x":1}')],
)
def test_what_becomes_of_fields_that_are_not_declared(
    extra: str, bad: list[int], kept: str | None, declared: str
) -> None:
    chosen = plan(format="parquet", schema_file=declared, extra_fields=extra)
    parts = list(chosen.parser.split(json_chunk([{"at": AT, "x": 1}, {"at": AT}])))
    assert places(parts).get("quarantine:", []) == bad
    rows = stored(chosen, parts)
    assert len(rows) == 2 - len(bad)
    assert rows[0].get("_extra") == kept


@settings(deadline=None, max_examples=40, derandomize=True)
@given(cut=st.integers(0, 6), name=st.sampled_from(TYPED_FORMATS))
def test_the_bytes_do_not_depend_on_how_the_log_was_cut(cut: int, name: str) -> None:
    items = [{"at": AT, "n": n if n % 2 else n / 2, "s": [str(n)] * n} for n in range(6)]
    chunk = json_chunk(items)

    def written(chunks: list[Chunk]) -> bytes:
        chosen, sink = plan(format=name, metadata_columns="_topic,_offset"), io.BytesIO()
        writer = chosen.log_format.create(sink, b"seed")
        for one in chunks:
            for part in chosen.parser.split(one):
                writer.append(part.records)
        writer.close()
        return sink.getvalue()

    assert written([chunk.until(cut), chunk.since(cut)]) == written([chunk])


class _Telling(SilentObserver):
    def __init__(self) -> None:
        self.told: list[tuple[str, int, list[str]]] = []

    def schema_grew(
        self, topic: str, version: int, fields: Sequence[str], outvoted: Sequence[str]
    ) -> None:
        self.told.append((topic, version, list(fields)))


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_a_kept_schema_grows_with_the_messages_of_its_topic(name: str, tmp_path: Path) -> None:
    made, _ = validated({"format": name, "prefix": "p"})
    assert made is not None
    store, observer = FakeStore(), _Telling()
    plans = growing_plans(made, store, observer, lambda *_: None)
    items = [{"at": AT, "n": 1}, {"n": "bad", "never": 1}, {"at": AT, "n": 1.5, "s": []}]
    first = plans("clicks", None)
    with pytest.raises(SchemaGrew) as grew:
        first.parser.split(json_chunk(items, first=40))
    assert grew.value.offset == 40
    second = plans("clicks", None)
    parts = list(second.parser.split(json_chunk(items, first=40)))
    assert places(parts) == {"dt=2026-03-01": [40, 42], "quarantine:": [41]}
    assert stored(second, parts)[1] == {"_extra": '{"s":[]}', "at": AT, "n": 1.5, "offset": None}
    assert observer.told == [("clicks", 1, ["at (int64)", "n (double)"])]
    assert list(store.objects) == ["p/_schema/clicks/1_0001.json"]
    assert list(tmp_path.iterdir()) == []
    assert plans("clicks", first.fingerprint).fingerprint == first.fingerprint
    assert kept_schema(made, "clicks", store) == KeptSchema.parse(
        '{"fields": [{"name": "at", "type": "int64"}, {"name": "n", "type": "double"}]}', "", 1
    )
    frozen = plan_for(made, "clicks", kept=kept_schema(made, "clicks", store))
    assert frozen.fingerprint != second.fingerprint
    later = list(frozen.parser.split(json_chunk([{"at": AT, "new": 1}])))
    assert stored(frozen, later) == [{"_extra": '{"new":1}', "at": AT, "offset": None}]


def test_a_topic_without_a_kept_schema_has_one_plan(declared: str, tmp_path: Path) -> None:
    store = FakeStore()
    for output in ({"format": "jsonlines"}, {"format": "parquet", "schema_file": declared}):
        made, _ = validated(output)
        assert made is not None
        plans = growing_plans(made, store, SilentObserver(), lambda *_: None)
        assert plans("clicks", None) is plans("clicks", "whatever")
        assert kept_schema(made, "clicks", store) is None
    assert not store.objects


def test_everything_that_changes_the_objects_changes_the_fingerprint(declared: str) -> None:
    plans = [
        plan(format="parquet"),
        plan(format="orc"),
        plan(format="parquet", codec="gzip"),
        plan(format="parquet", metadata_columns=["_key"]),
        plan(format="parquet", row_group_rows=7),
        plan(format="parquet", schema_file=declared),
        plan(format="parquet", schema_file=declared, extra_fields="json"),
    ]
    assert len({one.fingerprint for one in plans}) == len(plans)


def test_a_schema_that_cannot_be_read_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"output\.schema_file .*absent.* cannot be read"):
        plan(format="orc", schema_file=str(tmp_path / "absent"))
    (tmp_path / "odd").write_text("[]")
    with pytest.raises(ConfigurationError, match=r"output\.schema_file .*odd: is neither"):
        plan(format="orc", schema_file=str(tmp_path / "odd"))


# --------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("output", "key", "word"),
    [
        ({"format": "orc", "codec": "deflate"}, "output.codec", "orc offers"),
        ({"format": "orc", "row_group_rows": 5}, "output.row_group_rows", "only parquet"),
        ({"format": "parquet", "stripe_rows": 5}, "output.stripe_rows", "only orc"),
        ({"format": "orc", "block_rows": 5}, "output.block_rows", "only avro"),
        ({"format": "avro", "block_rows": 0}, "output.block_rows", "1"),
        ({"format": "text", "schema_file": "x"}, "output.schema_file", "only parquet, orc"),
        ({"format": "text", "metadata_columns": "_key"}, "output.metadata_columns", "only"),
        ({"format": "avro", "metadata_columns": "_ky"}, "output.metadata_columns", "_key"),
        ({"format": "avro", "extra_fields": "json"}, "output.extra_fields", "schema_file"),
    ],
)
def test_settings_of_another_format_are_faults(output: dict[str, Any], key: str, word: str) -> None:
    made, faults = validated(output)
    assert made is None
    assert list(faults) == [key]
    assert word in faults[key]


@pytest.mark.parametrize("name", ["orc", "avro", "jsonlines"])
def test_the_backup_group_has_no_formats_of_fields(name: str) -> None:
    _, faults = validated({"format": name}, group={"name": "g"}, parser={})
    assert 'only group.kind "partition"' in faults["output.format"]


def test_the_backup_groups_parquet_has_no_settings_of_fields() -> None:
    backup = {"group": {"name": "g"}, "parser": {}}
    made, _ = validated({"format": "parquet"}, **backup)
    assert made is not None
    _, faults = validated({"format": "parquet", "metadata_columns": ["_key"]}, **backup)
    assert "only group.kind" in faults["output.metadata_columns"]


def test_a_rule_of_another_format_keeps_what_that_has_too() -> None:
    rule = {"match": "clicks", "output": {"format": "jsonlines"}}
    general = {"format": "parquet", "codec": "lz4", "row_group_rows": 9, "metadata_columns": "_key"}
    made, faults = validated(general, topics=[rule])
    assert made is not None, faults
    output = made.for_topic("clicks").output
    assert (output.codec, output.row_group_rows) == ("gzip", 50_000)
    assert output.metadata_columns == ("_key",)


@pytest.mark.parametrize("name", TYPED_FORMATS)
def test_every_codec_of_the_configuration_is_one_of_the_format(name: str) -> None:
    identities = {plan(format=name, codec=codec).fingerprint for codec in CODECS[name]}
    assert len(identities) == len(CODECS[name])


def test_configuration_and_formats_name_the_same_columns_and_formats() -> None:
    assert tuple(COLUMNS) == METADATA_COLUMNS
    assert set(TYPED_FORMATS) < set(CODECS)
    assert all(set(formats) <= set(CODECS) for formats in OF_FORMATS.values())


@pytest.mark.parametrize(
    ("names", "beside"),
    [([], []), (["_topic", "_key"], ["key"]), (["_headers", "_offset"], ["headers"])],
)
def test_parts_have_the_columns_of_messages_that_their_files_are_made_from(
    names: list[str], beside: list[str]
) -> None:
    chosen = plan(format="parquet", metadata_columns=names)
    parts = list(chosen.parser.split(json_chunk([{"at": AT}, {"at": "no time"}])))
    typed, bad = sorted(parts, key=lambda part: part.stream == QUARANTINE)
    origin = ["topic", "partition"] if "_topic" in names else []
    assert typed.records.schema.names == ["offset", "timestamp", *beside, *origin, "row"]
    assert bad.records.schema.equals(SCHEMA)


def test_parts_of_text_have_the_payloads_alone() -> None:
    (part,) = plan(format="text").parser.split(json_chunk([{"at": AT}]))
    assert part.records.schema.names == ["offset", "timestamp", "value"]
