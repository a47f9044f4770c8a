"""What becomes of a message depends on itself and the settings alone, with every decoder."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.archive.kept_schemas import KeptSchema
from secor.config.parser import Parser
from secor.core.errors import SchemaGrew
from secor.parsing.pipeline import Pipeline
from secor.schema.growth import GrowthFinder
from secor.schema.schema import RowSchema
from secor.wiring.parsers import pipeline_for
from tests.fakes.registry import running_registry
from tests.unit.parsing import neighbours
from tests.unit.parsing.neighbours import (
    PATTERN,
    THRIFT_NAMES,
    Source,
    agree,
    damaged,
    lines,
    outcomes,
)
from tests.unit.parsing.parsing_cases import chunk_of
from tests.unit.parsing.test_decoder_protobuf import descriptors

STEADY = settings(deadline=None, max_examples=25, derandomize=True)
DECODERS = (
    *("json", "messagepack", "avro", "protobuf", "protobuf-json"),
    *("thrift", "thrift-class", "regex"),
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Source]]:
    descriptor_set = tmp_path_factory.mktemp("protobuf") / "shop.desc"
    descriptor_set.write_bytes(descriptors().SerializeToString())
    with running_registry() as registry:
        yield _sources(descriptor_set, registry)


def _sources(descriptor_set: Path, registry: Any) -> dict[str, Source]:
    proto = {
        "decoder": "protobuf",
        "message": "shop.Event",
        "descriptor_set": str(descriptor_set),
    }
    generated = {"decoder": "thrift", "message_class": "tests.unit.parsing.thrift_for_tests:Event"}
    return {
        "json": Source({"decoder": "json"}, neighbours.json_messages),
        "messagepack": Source({"decoder": "messagepack"}, neighbours.messagepack_messages),
        "avro": Source(
            {"decoder": "avro", "registry_url": registry.url},
            lambda chance: neighbours.avro_messages(chance, registry),
        ),
        "protobuf": Source(proto, neighbours.protobuf_messages),
        "protobuf-json": Source({**proto, "encoding": "json"}, neighbours.protobuf_json_messages),
        "thrift": Source({"decoder": "thrift", "names": THRIFT_NAMES}, neighbours.thrift_messages),
        "thrift-class": Source(
            {"decoder": "thrift", **generated}, neighbours.thrift_class_messages
        ),
        "regex": Source({"decoder": "regex", "pattern": PATTERN}, neighbours.regex_messages),
    }


def pipeline(
    source: Source,
    steps: dict[str, Any] | None = None,
    *,
    typed: bool = True,
    schema: RowSchema | None = None,
    growth: GrowthFinder | None = None,
) -> Pipeline:
    given = {**source.settings, "max_bad_ratio": "none", **(steps or {})}
    return pipeline_for(Parser.model_validate(given), typed=typed, schema=schema, growth=growth)


X = [{"name": "x", "type": "double"}, {"name": "y", "type": "string"}]
KINDS: list[Any] = [
    *("string", "binary", "double", "float", "int64", "int32", "json", "bool", "date"),
    *("decimal(20, 0)", "decimal(10, 2)", "decimal(38, 25)", "timestamp(us, UTC)"),
    *("time(ms)", "timestamp(ms)", "time(us)"),
    *({"list": it} for it in ("string", "binary", "json", "double", "timestamp(us, UTC)")),
    *({"map": it} for it in ("string", "binary", "json", "int64", {"list": "string"})),
    *({"struct": X}, {"list": {"struct": X}}, {"struct": [{"name": "x", "type": "json"}]}),
    {"struct": [{"name": "x", "type": "binary", "default": "none"}]},
]
NAMES = {
    "protobuf": ["user", "raw", "score", "parent", "sizes", "counts", "color"],
    "protobuf-json": ["user", "raw", "score", "parent", "sizes", "counts", "color"],
    "thrift-class": ["user", "country", "share", "blobs", "ts"],
}


def schema_of(chance: random.Random, decoder: str) -> RowSchema:
    names = NAMES.get(decoder, ["a", "b"])
    chosen = chance.sample(names, min(2, len(names)))
    fields = [{"name": name, "type": chance.choice(KINDS)} for name in chosen]
    return RowSchema.parse(
        json.dumps({"fields": fields}), "it", chance.choice(["drop", "json", "quarantine"])
    )


@pytest.mark.parametrize("decoder", DECODERS)
@STEADY
@given(seed=st.integers(0, 1 << 30))
@pytest.mark.slow
def test_whether_a_message_fits_a_schema(
    decoder: str, sources: dict[str, Source], seed: int
) -> None:
    chance = random.Random(seed)
    source = sources[decoder]
    values = damaged(chance, source.messages(chance))
    for _ in range(2):
        schema = schema_of(chance, decoder)
        agree(outcomes, pipeline(source, schema=schema), values)
        assert schema.fields is not None
        exact = RowSchema(schema.fields, "json", exact=True)
        agree(outcomes, pipeline(source, schema=exact), values)


@pytest.mark.parametrize("decoder", DECODERS)
@STEADY
@given(seed=st.integers(0, 1 << 30))
def test_whether_a_message_grows_a_kept_schema(
    decoder: str, sources: dict[str, Source], seed: int
) -> None:
    chance = random.Random(seed)
    source = sources[decoder]
    values = damaged(chance, source.messages(chance))
    kept = KeptSchema(1, schema_of(chance, decoder).fields or pa.struct([]))
    steps = steps_of(chance, decoder, changing=True) if chance.random() < 0.5 else None
    proposed: list[pa.StructType] = []
    growth = GrowthFinder(kept.rows, lambda fields, _: proposed.append(fields))
    parser = pipeline(source, steps, schema=kept.rows, growth=growth)

    def grows(some: list[bytes | None]) -> int | None:
        try:
            parser.split(chunk_of(some))
        except SchemaGrew as grown:
            return grown.offset
        return None

    alone = [grows([value]) is not None for value in values]
    first = alone.index(True) if any(alone) else None
    proposed.clear()
    assert grows(values) == first
    if first is not None:  # one step is enough for it
        [fields] = proposed
        rows = KeptSchema(2, fields).rows
        growth = GrowthFinder(rows, lambda fields, _: proposed.append(fields))
        after = pipeline(source, steps, schema=rows, growth=growth)
        after.split(chunk_of([values[first]]))


@pytest.mark.parametrize("decoder", DECODERS)
@STEADY
@given(seed=st.integers(0, 1 << 30))
def test_what_a_line_of_json_is(decoder: str, sources: dict[str, Source], seed: int) -> None:
    chance = random.Random(seed)
    source = sources[decoder]
    values = damaged(chance, source.messages(chance))
    agree(lines, pipeline(source, schema=RowSchema()), values)


PATHS = {
    "protobuf": ["user", "user.country", "raw", "score", "parent", "parent.raw", "ts", "counts"],
    "thrift-class": ["user", "user.country", "user.friend", "user.friend.country", "blobs", "ts"],
}
PATHS["protobuf-json"] = PATHS["protobuf"]
PATHS["regex"] = ["a", "b"]


def steps_of(chance: random.Random, decoder: str, *, changing: bool) -> dict[str, Any]:
    def path() -> str:
        return chance.choice(PATHS.get(decoder, ["a", "a", "a.x", "a.x", "a.x.y", "b", "w"]))

    def equals() -> Any:
        return chance.choice(["NL", "abc", "YWJj", 5, 1.5, '{"x":5}', "[5]", "true"])

    kept: list[dict[str, Any]] = [
        {"kind": "filter", "field": path(), "equals": equals(), "negated": True},
        {"kind": "filter", "field": path(), "one_of": [equals(), equals()], "negated": True},
        {"kind": "filter", "field": path(), "matches": "[a-m].*", "negated": True},
        {"kind": "filter", "field": path(), "exists": True, "negated": chance.random() < 0.5},
        {"kind": "route", "field": path(), "topics": ["NL", "5", "abc", "YWJj"]},
    ]
    changes: list[dict[str, Any]] = [
        {"kind": "mask", "field": path(), "value": "***"},
        {"kind": "mask", "field": path(), "salt": "salt of this topic"},
        {"kind": "drop", "field": path()},
        {"kind": "rename", "field": path(), "to": chance.choice("abwxy")},
        {"kind": "rename", "field": path(), "to": chance.choice("abwxy")},
    ]
    pool = [*kept, *(changes * 2 if changing else [])]
    steps: dict[str, Any] = {"transforms": chance.sample(pool, chance.randrange(4))}
    if sum(step["kind"] == "route" for step in steps["transforms"]) > 1:
        steps["transforms"] = []
    template = chance.choice(["{%s}", "p={%s}/{%s}", "x"])
    steps["layout"] = template % tuple(path() for _ in range(template.count("%")))
    if chance.random() < 0.3:
        steps["time_field"] = path()
        steps["time_format"] = chance.choice(["auto", "s", "ms", "us", "ns", "iso8601", "%Y-%m-%d"])
        steps["layout"] += "/{time:%Y-%m-%d-%H-%M-%S}"
    return steps


@pytest.mark.parametrize("decoder", DECODERS)
@STEADY
@given(seed=st.integers(0, 1 << 30))
def test_where_a_message_goes_as_it_came(
    decoder: str, sources: dict[str, Source], seed: int
) -> None:
    chance = random.Random(seed)
    source = sources[decoder]
    values = damaged(chance, source.messages(chance))
    for _ in range(2):
        steps = steps_of(chance, decoder, changing=False)
        agree(outcomes, pipeline(source, steps, typed=False), values)


@pytest.mark.parametrize("decoder", DECODERS)
@STEADY
@given(seed=st.integers(0, 1 << 30))
@pytest.mark.slow
def test_what_transforms_make_of_a_message_and_where_it_goes(
    decoder: str, sources: dict[str, Source], seed: int
) -> None:
    chance = random.Random(seed)
    source = sources[decoder]
    values = damaged(chance, source.messages(chance))
    for _ in range(2):
        steps = steps_of(chance, decoder, changing=True)
        agree(outcomes, pipeline(source, steps, schema=schema_of(chance, decoder)), values)
        agree(lines, pipeline(source, steps, schema=RowSchema()), values)
