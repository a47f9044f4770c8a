"""Every decoder with every time, layout and format, on real bytes.

What must come out is computed from the fields with Python's own ``datetime``; objects are read
with the libraries of their formats.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import fastavro
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.workspace import Workspace
from secor.config.load import validate
from secor.config.output import TYPED_FORMATS
from secor.core.model import Chunk, TopicPartition
from secor.core.naming import HIVE_NULL, parse_key
from secor.formats import make_format
from secor.wiring.plans import plan_for
from tests.fakes.archive import messages
from tests.fakes.clock import FakeClock
from tests.unit.parsing.encodings import ENCODINGS

HERE = TopicPartition("clicks", 3)
ZONE = ZoneInfo("Europe/Amsterdam")
DAMAGED = 4
COUNTRIES = {"NL": "NL", "../é": "..%2Fé", "": HIVE_NULL}
INSTANTS = [
    datetime(2026, 3, 28, 22, 59, 59, tzinfo=UTC),  # 23:59:59 there, the day before clocks change
    datetime(2026, 3, 29, 1, 0, 0, tzinfo=UTC),
    datetime(2024, 2, 29, 23, 30, 0, tzinfo=UTC),
    datetime(2026, 12, 31, 23, 0, 0, tzinfo=UTC),
]
TIMES: Mapping[str, Mapping[str, str]] = {
    "s": {"time_field": "s", "time_format": "s"},
    "ms": {"time_field": "ms"},
    "us": {"time_field": "us", "time_format": "us"},
    "ns": {"time_field": "ns"},
    "iso": {"time_field": "iso", "time_format": "iso8601"},
    "strptime": {"time_field": "log", "time_format": "%d/%b/%Y:%H:%M:%S %z"},
    "java": {"time_field": "java", "time_format": "yyyy-MM-dd HH:mm:ss"},
    "kafka": {},
}
LAYOUTS = (
    "dt={time:%Y-%m-%d}",
    "c={country}/dt={time:%Y-%m-%d}/hr={time:%H}",
    "{topic}/n={number}/{time:%y%j}/{time:%H%M%S}",
    "offset={offset:2}",
)
FORMATS = ("text", "sequencefile", *sorted(TYPED_FORMATS))
SCHEMA = {"fields": [{"name": "number", "type": "int64"}, {"name": "country", "type": "string"}]}


def fields(offset: int) -> dict[str, Any]:
    at = INSTANTS[offset % len(INSTANTS)]
    seconds = int(at.timestamp())
    return {
        "number": offset * 1000,
        "country": list(COUNTRIES)[offset % len(COUNTRIES)],
        "s": seconds,
        "ms": seconds * 1000,
        "us": seconds * 10**6,
        "ns": seconds * 10**9,
        "iso": at.isoformat(),
        "log": f"{at:%d/%b/%Y:%H:%M:%S %z}",
        "java": f"{at.astimezone(ZONE):%Y-%m-%d %H:%M:%S}",
    }


def expected(layout: str, time: str, offset: int) -> str:
    """The directory of a message."""
    kafka = datetime.fromtimestamp(1_700_000_000, UTC)
    at = (kafka if time == "kafka" else INSTANTS[offset % len(INSTANTS)]).astimezone(ZONE)
    it = fields(offset)
    return {
        LAYOUTS[0]: f"{at:dt=%Y-%m-%d}",
        LAYOUTS[1]: f"c={COUNTRIES[it['country']]}/{at:dt=%Y-%m-%d/hr=%H}",
        LAYOUTS[2]: f"clicks/n={it['number']}/{at:%y%j/%H%M%S}",
        LAYOUTS[3]: f"offset={offset // 2 * 2}",
    }[layout]


def plan(folder: Path, parser: Mapping[str, Any], format: str) -> TopicPlan:
    output: dict[str, Any] = {"prefix": "p", "format": format, "codec": "none"}
    if format in TYPED_FORMATS:
        schema = folder / "schema.json"
        schema.write_text(json.dumps(SCHEMA))
        output |= {"schema_file": str(schema), "metadata_columns": ["_offset"]}
    made, faults = validate(
        {
            "group": {"name": "g", "kind": "partition"},
            "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
            "store": {"kind": "local", "local": {"directory": str(folder)}},
            "output": output,
            "parser": {"time_zone": str(ZONE), "max_bad_ratio": "none", **parser},
        }
    )
    assert made is not None, faults
    return plan_for(made, "clicks")


def stored(folder: Path, plan: TopicPlan, values: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Do what the daemon does with messages; give keys and objects."""
    workspace = Workspace(folder, "me")
    try:
        batch = Batch(HERE, 0, plan=plan, workspace=workspace, clock=FakeClock())
        for first in (0, 3):
            some = range(first, min(first + 3, len(values)) if first == 0 else len(values))
            chunk = messages(list(some), values.__getitem__)
            batch.append(Chunk(HERE, chunk, some.stop))
        for file in batch.seal(Reason.AGE).files:
            yield file.key, file.local.path.read_bytes()
    finally:
        workspace.close()


def rows(format: str, content: bytes) -> list[tuple[int, Any]]:
    """Offsets and numbers of an object with fields, offsets and values of others."""
    body = io.BytesIO(content)
    match format:
        case "parquet":
            found = pq.read_table(body).to_pylist()
        case "orc":
            found = orc.read_table(body).to_pylist()
        case "avro":
            found = list(fastavro.reader(body))
        case "jsonlines":
            null = {"country": None}  # which has no place in a line
            found = [null | json.loads(line) for line in content.splitlines()]
        case _:
            batches = make_format("sequencefile").read(body, "it")
            found = [row for batch in batches for row in batch.to_pylist()]
            return [(row["offset"], row["value"]) for row in found]
    assert all(set(row) == {"_offset", "number", "country"} for row in found)
    return [(row["_offset"], (row["number"], row["country"])) for row in found]


def compare(folder: Path, parser: Mapping[str, Any], format: str, time: str) -> None:
    """Store eight messages, the fifth damaged, and see where each has come and as what."""
    encoding = ENCODINGS[parser["name"]]
    made = plan(folder, {k: v for k, v in parser.items() if k != "name"}, format)
    values = [encoding.encode(fields(offset)) for offset in range(8)]
    values[DAMAGED] = values[DAMAGED][:-1]
    places: dict[str, list[int]] = {}
    for offset in range(8):
        if offset != DAMAGED:
            place = expected(parser["layout"], time, offset)
            places.setdefault(place, []).append(offset)
    quarantine = 0
    for key, content in stored(folder, made, values):
        if key.startswith("p/_quarantine/clicks/"):
            assert rows("sequencefile", content) == [(DAMAGED, values[DAMAGED])]
            quarantine += 1
            continue
        name = parse_key("p/clicks", key)
        assert name is not None
        offsets = places.pop(name.output_partition)
        assert (name.partition, name.start_offset) == (3, 0)
        if format == "text":
            assert content == b"".join(values[offset] + b"\n" for offset in offsets)
        elif format == "sequencefile":
            assert rows(format, content) == [(offset, values[offset]) for offset in offsets]
        else:
            null = None if parser["name"] == "regex" else ""  # a group that matched nothing
            plain = [(it["number"], it["country"] or null) for it in map(fields, offsets)]
            assert rows(format, content) == list(zip(offsets, plain, strict=True))
    assert places == {}
    assert quarantine == 1


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.slow
def test_every_decoder_time_layout_and_format_agree(name: str, format: str, tmp_path: Path) -> None:
    settings = {"name": name, **ENCODINGS[name].settings(tmp_path)}
    for time, layout in [*product(TIMES, LAYOUTS[:3]), ("kafka", LAYOUTS[3])]:
        folder = tmp_path / f"{time} {LAYOUTS.index(layout)}"
        folder.mkdir()
        compare(folder, settings | dict(TIMES[time]) | {"layout": layout}, format, time)


@pytest.mark.parametrize("format", ["text", "sequencefile"])
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[3]])
def test_no_decoder_with_every_layout_and_format_without_fields(
    layout: str, format: str, tmp_path: Path
) -> None:
    made = plan(tmp_path, {"decoder": "none", "layout": layout}, format)
    values = [b"%d\xff" % offset for offset in range(8)]
    found = dict(stored(tmp_path, made, values))
    for key, content in found.items():
        name = parse_key("p/clicks", key)
        assert name is not None
        held = [at for at in range(8) if expected(layout, "kafka", at) == name.output_partition]
        assert name.start_offset == 0
        if format == "text":
            assert content == b"".join(values[offset] + b"\n" for offset in held)
        else:
            assert rows(format, content) == [(offset, values[offset]) for offset in held]
    assert len(found) == len({expected(layout, "kafka", offset) for offset in range(8)})
