"""JSON lines as Kafka Connect's JSON converter writes them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.config.load import validate
from secor.core.errors import ConfigurationError
from secor.formats import make_format
from secor.formats.typed.jsonlines import JsonLinesFormat
from secor.parsing.decoders.json import JsonDecoder
from secor.wiring.plans import plan_for
from tests.unit.formats.typed_rows import batch, messages, with_rows, written

VECTORS = Path(__file__).parents[2] / "vectors" / "kafka-connect" / "converted.jsonl"
"""Messages with Connect's schemas, and the lines that the converter of Kafka 4.3 makes of them
without.
"""


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return value


@pytest.mark.parametrize("types", ["connect", "connect-numeric"])
def test_values_are_those_of_connects_converter(types: str) -> None:
    vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    values = [json.dumps(vector["message"]).encode() for vector in vectors]
    [(_, found)] = JsonDecoder().decode_apart(messages(values), None)
    records = with_rows(messages(values), found.rows)
    lines = written(make_format("jsonlines", types=types), records).splitlines()
    assert len(lines) == len(vectors) == 4
    for line, vector in zip(lines, vectors, strict=True):
        theirs = json.loads(vector[types], parse_float=Decimal)
        assert json.loads(line, parse_float=Decimal) == without_nulls(theirs)


def test_decimals_are_the_bytes_of_javas_integers() -> None:
    numbers = [Decimal(it) for it in ("0", "1.27", "1.28", "-1.28", "-1.29", "327.68", "-0.01")]
    rows = batch([{"d": it} for it in numbers], kind=pa.struct({"d": pa.decimal128(9, 2)}))
    lines = written(make_format("jsonlines", types="connect"), rows).splitlines()
    # 0, 7f, 0080, 80, ff7f, 008000, ff: as BigInteger.toByteArray has them
    expected = ["AA==", "fw==", "AIA=", "gA==", "/38=", "AIAA", "/w=="]
    assert [json.loads(line)["d"] for line in lines] == expected


def test_times_of_protobuf_are_cut_to_milliseconds() -> None:
    """``Timestamps.toMillis`` of Google's library gives those below, before 1970, too."""
    numbers = [0, 1_790_000_000_123_999, -1, -1_000, None]
    rows = batch([{"at": it} for it in numbers], kind=pa.struct({"at": pa.timestamp("us", "UTC")}))
    fine = make_format("jsonlines", types="connect")
    cut = make_format("jsonlines", types="connect", milliseconds=True)
    found = [
        [json.loads(it).get("at") for it in written(to, rows).splitlines()] for to in (fine, cut)
    ]
    assert found == [numbers, [0, 1_790_000_000_123, -1, -1, None]]
    assert fine.identity != cut.identity


@pytest.mark.parametrize(
    ("decoder", "types", "milliseconds"),
    [("protobuf", "connect", True), ("avro", "connect", False), ("protobuf", "text", False)],
)
def test_the_decoder_says_which_times_are_cut(decoder: str, types: str, milliseconds: bool) -> None:
    tree = {
        "group": {"name": "g", "kind": "partition"},
        "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
        "store": {"kind": "local", "local": {"directory": "/nowhere"}},
        "output": {"format": "jsonlines", "json_types": types},
        "parser": {
            "decoder": decoder,
            "framing": "confluent",
            "registry_url": "http://127.0.0.1:1",
        },
    }
    config, faults = validate(tree)
    assert config is not None, faults
    log_format = plan_for(config, "clicks", limited=False).log_format
    assert isinstance(log_format, JsonLinesFormat)
    assert log_format.milliseconds is milliseconds


def test_other_types_are_other_objects() -> None:
    formats = [make_format("jsonlines", types=it) for it in ("text", "connect", "connect-numeric")]
    assert len({it.identity for it in formats}) == 3
    assert formats[0].identity == make_format("jsonlines").identity
    with pytest.raises(ConfigurationError, match="no types"):
        make_format("jsonlines", types="iso")
