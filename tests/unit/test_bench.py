from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from secor.bench.cases import CASES, Case, settings_of, write_config
from secor.bench.fill import Filled, batches, encode_batch, values
from secor.bench.pieces import Piece
from secor.bench.report import as_json, line_of, piece_line, result_of
from secor.bench.running import Usage
from secor.config.load import load
from secor.model import TopicPartition
from secor.sandbox import S3Access
from secor.wire import decode_chunks
from secor.wiring.plans import plan_for

BENCH = TopicPartition("bench", 0)


def test_batches_are_what_kafka_has() -> None:
    payloads = values(300, seed=4)
    (chunk,) = decode_chunks(BENCH, [encode_batch(payloads).data], 0)
    assert chunk.records["value"].to_pylist() == payloads
    assert chunk.records["offset"].to_pylist() == list(range(300))
    assert chunk.records["key"].null_count == 300


def test_messages_are_json_of_about_two_hundred_bytes_and_repeatable() -> None:
    payloads = values(200, seed=1)
    assert payloads == values(200, seed=1)
    assert payloads != values(200, seed=2)
    assert 190 <= sum(map(len, payloads)) / len(payloads) <= 210
    assert {type(json.loads(payload)["timestamp"]) for payload in payloads} == {int}


@pytest.mark.parametrize("messages", [0, 1, 499, 500, 1234])
def test_as_many_messages_are_sent_as_asked_for(messages: int) -> None:
    sent = list(batches(messages))
    assert sum(batch.messages for batch in sent) == messages
    decoded = [chunk for batch in sent for chunk in decode_chunks(BENCH, [batch.data], 0)]
    assert sum(chunk.records.num_rows for chunk in decoded) == messages
    sizes = sum(sum(map(len, chunk.records["value"].to_pylist())) for chunk in decoded)
    assert sizes == sum(batch.value_bytes for batch in sent)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_configuration_of_every_case_is_valid(case: Case, tmp_path: Path) -> None:
    sandbox = SimpleNamespace(
        kafka="127.0.0.1:9092", zookeeper="127.0.0.1:2181", s3=S3Access("http://127.0.0.1:9000")
    )
    settings = settings_of(
        case, cast("Any", sandbox), group="g", topic="bench", directory=tmp_path, port=None
    )
    config = load(write_config(settings, tmp_path / "case.toml"), {})
    plan = plan_for(config, "bench")
    assert config.output.format == case.output["format"]
    assert config.metrics.port is None
    assert plan.root == "bench/g/bench"


def test_a_result_leaves_out_what_an_idle_process_needs() -> None:
    filled = Filled("bench", 4, 1_000_000, 200_000_000, 90_000_000)
    used = Usage(cpu=2.5, ready=100.0, ended=110.0, peak=123_000_000)
    result = result_of(CASES[0], filled, used=used, idle=replace(used, cpu=1.0), last=104.0)
    assert (result.cpu_us, result.cpu_us_with_start) == (1.5, 2.5)
    assert (result.messages_per_second, result.megabytes_per_second) == (250_000, 50.0)
    line = line_of(result)
    assert "1.50 µs" in line
    assert "2.50 with the start, goal 1.2" in line
    assert "peak 123 MB" in line
    piece = Piece("decode", 0.25)
    assert piece_line(piece).endswith(" 0.25 µs CPU a message")
    found = json.loads(as_json([result], [piece]))
    assert found["cases"][0]["cpu_us"] == 1.5
    assert found["pieces"] == [{"name": "decode", "cpu_us": 0.25}]
