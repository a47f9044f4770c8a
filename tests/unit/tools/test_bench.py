from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from secor.adapters.local import DirectoryStore
from secor.archive.objects import Archive
from secor.config.load import load
from secor.core.model import TopicPartition
from secor.sandbox import S3Access
from secor.wire import decode_chunks, walk_batches
from secor.wiring.plans import plan_for
from secor.wiring.table_routes import check_new_table
from tools.bench import commits, object_life
from tools.bench import floor as floors
from tools.bench.archive import TOPIC, group, store
from tools.bench.cases import CASES, Case, settings_of, write_config
from tools.bench.change_costs import ChangeCost, Cost, costs_in
from tools.bench.changes import MOST, SIZES, sizes_up_to
from tools.bench.fill import COMPRESSORS, HEADERS, Filled, batches, encode_batch, values
from tools.bench.floor import Floor, floor_of
from tools.bench.pieces import BATCH_SIZES, Piece, fetch_of, measure_small_batches
from tools.bench.report import as_json, floor_line, line_of, piece_line, result_of, scan_lines
from tools.bench.running import Usage, compile_modules
from tools.bench.spark import Scan

BENCH = TopicPartition("bench", 0)


def test_batches_are_what_kafka_has() -> None:
    payloads = values(300, seed=4)
    (chunk,) = decode_chunks(BENCH, [encode_batch(payloads).data], 0)
    assert chunk.records["value"].to_pylist() == payloads
    assert chunk.records["offset"].to_pylist() == list(range(300))
    assert chunk.records["key"].null_count == 300


@pytest.mark.parametrize("count", [1, 4, 5])
def test_messages_have_as_many_headers_as_asked_for(count: int) -> None:
    payloads = values(20, seed=4)
    (chunk,) = decode_chunks(BENCH, [encode_batch(payloads, count).data], 0)
    assert chunk.records["value"].to_pylist() == payloads
    for headers in chunk.records["headers"].to_pylist():
        sizes = [(header["key"].encode(), len(header["value"])) for header in headers]
        assert sizes == [HEADERS[which % len(HEADERS)] for which in range(count)]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_case_has_a_floor(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floors, "REPEATS", 1)
    floor = floor_of(case, tmp_path)
    wanted = {"receive", "CRC32C", "decompress", "write to disk", "send to the store"}
    assert wanted <= set(floor.steps)
    assert any(name.startswith("compress") for name in floor.steps) == (
        case.output.get("codec") != "none"
    )
    assert ("read JSON" in floor.steps) == (case.kind != "backup")
    assert 0.01 < floor.total < 50
    assert not list(tmp_path.iterdir())


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
    assert config.group.kind == case.kind
    assert config.metrics.port is None
    assert config.output.prefix == "bench/g"
    if case.kind == "table":
        (route,) = config.tables
        assert route.table == "bench.g"
        check_new_table(route)
    else:
        assert config.output.format == case.output["format"]
        assert plan_for(config, "bench").root == "bench/g/bench"


def test_a_result_leaves_out_what_an_idle_process_needs() -> None:
    filled = Filled("bench", 4, 1_000_000, 200_000_000, 90_000_000)
    floor = Floor({"receive": 0.2, "decompress": 0.3}, 3.0)
    used = Usage(cpu=2.5, ready=100.0, ended=110.0, peak=123_000_000)
    result = result_of(
        CASES[0],
        filled,
        used=used,
        idle=replace(used, cpu=1.0),
        last=104.0,
        objects=12,
        floor=floor,
    )
    assert (result.cpu_us, result.cpu_us_with_start) == (1.5, 2.5)
    assert (result.messages_per_second, result.megabytes_per_second) == (250_000, 50.0)
    line = line_of(result)
    assert "1.50 µs" in line
    assert "2.50 with the start, goal 1.2" in line
    assert "12 objects, peak 123 MB" in line
    assert "floor 0.50 µs, 3.0 times it (goal 3.0)" in line
    assert floor_line(floor).endswith("floor: receive 0.200, decompress 0.300 µs")
    piece = Piece("decode", 0.25)
    assert piece_line(piece).endswith(" 0.25 µs CPU a message")
    found = json.loads(as_json([result], [piece]))
    assert found["cases"][0]["cpu_us"] == 1.5
    assert found["pieces"] == [{"name": "decode", "cpu_us": 0.25}]


@pytest.mark.parametrize("messages", [3, 1201])
def test_an_archive_is_what_the_daemon_leaves(tmp_path: Path, messages: int) -> None:
    config = group("backup", tmp_path / "bucket", {"format": "sequencefile", "codec": "lz4"})
    stored = store(config, tmp_path / "bucket", tmp_path / "local", partitions=2, messages=messages)
    archive = Archive(DirectoryStore(tmp_path / "bucket"), "backup")
    found = list(archive.objects(TOPIC, with_info=True))
    assert [one.info.batch.end if one.info else 0 for one in found] == [
        stored.messages_of(0),
        stored.messages_of(1),
    ]
    read = [value for one in found for part in archive.read(one) for value in part["value"]]
    assert len(read) == messages
    assert sum(len(value.as_py()) for value in read) == stored.value_bytes


def test_reading_in_spark_is_told_beside_what_it_is_measured_against() -> None:
    scans = [
        Scan("secor", "lz4", 60.0, 120.0),
        Scan("sc.sequenceFile", "lz4", 20.0, 30.0),
        Scan("sc.sequenceFile", "gzip", 1.0, 1.0),
        Scan("spark.read.text", "none", 120.0, 480.0),
        Scan("secor backfill", "none", 30.0, 40.0),
    ]
    ours, hadoop, _, text, backfill = scan_lines(scans)
    assert ours.endswith(
        "60.0 MB/s per core,  120.0 MB a second of CPU;"
        " 3.00 times sc.sequenceFile (CPU 4.00, goal 2);"
        " 0.50 times spark.read.text (CPU 0.25, goal 1)"
    )
    assert not any("times" in line for line in (hadoop, text, backfill))
    assert json.loads(as_json([], [], scans))["spark"][4]["per_core"] == 30.0


def test_commit_cycles_are_measured_by_what_they_may_grow_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, sizes in (("SNAPSHOTS", (3,)), ("TABLES", (2,)), ("PARTITIONS", (4,)), ("KEPT", ())):
        monkeypatch.setattr(commits, name, sizes)
    monkeypatch.setattr(commits, "REPEATS", 1)
    measured = list(commits.measure(tmp_path))
    assert [(it.varied, it.size) for it in measured] == [
        ("snapshots", 3),
        ("tables", 2),
        ("topic partitions", 4),
    ]
    assert all(it.seconds > 0 and it.cpu_seconds > 0 for it in measured)
    assert "commit cycle with      3 snapshots" in measured[0].line()


def test_commits_of_changed_rows_are_compared_with_spark_alone() -> None:
    cost = ChangeCost("hudi", 100_000, 1_000, Cost(3.0, 4.2), Cost(2.5, 3.5), 900 << 20)
    assert cost.line() == (
        "hudi                1,000 changes into   100,000 rows:   3.00 s,   4.2 s of CPU;"
        " Spark alone   2.50 s,   3.5 s of CPU: 1.20 and 1.20 times (goal 1.2); 900 MiB"
    )
    [change] = json.loads(as_json([], [], changes=[cost]))["changes"]
    assert change["secor"] == {"seconds": 3.0, "cpu_seconds": 4.2}


def test_what_java_prints_between_figures_of_changes_is_no_figure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cost = ChangeCost("hudi", 100_000, 1_000, Cost(3.0, 4.2), Cost(2.5, 3.5), 900 << 20)
    lines = ["# WARNING: Unable to attach\n", json.dumps(asdict(cost)) + "\n", "{a\n"]
    assert list(costs_in(lines)) == [cost]
    assert capsys.readouterr().err == "# WARNING: Unable to attach\n{a\n"


def test_large_sizes_of_changes_are_measured_when_they_are_asked_for() -> None:
    small = [(1_000, 10_000), (100_000, 1_000), (100_000, 10_000), (100_000, 100_000)]
    assert sizes_up_to(MOST) == small
    assert sizes_up_to(1_000_000) == list(SIZES)


def test_small_batches_are_measured_over_messages_that_are_all_there() -> None:
    for count, codec in product(BATCH_SIZES, COMPRESSORS):
        data, messages = fetch_of(count, 50_000, codec=codec)
        run = walk_batches(data)
        assert run is not None
        chunks = list(decode_chunks(BENCH, run, 0))
        offsets = [offset for chunk in chunks for offset in chunk.records["offset"].to_pylist()]
        assert offsets == list(range(messages))
        assert len(data) >= 50_000
    pieces = list(measure_small_batches(5_000))
    named = [piece.name.removeprefix("take apart and decode, ") for piece in pieces]
    assert named == [
        f"{count} messages a batch, {codec}"
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
        for count in (1, 10, 500)
    ]
    assert all(piece.cpu_us > 0 for piece in pieces)


def test_what_is_measured_is_compiled_even_where_python_would_not_keep_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "daemon.py").write_text("x = 1\n")
    compile_modules(tmp_path)
    assert [file.name.split(".")[0] for file in tmp_path.rglob("*.pyc")] == ["daemon"]


def test_every_step_of_an_object_is_a_method_of_the_daemon() -> None:
    for place in object_life.STEPS.values():
        module, kind, method = place.split()
        assert callable(getattr(getattr(importlib.import_module(module), kind), method))


def test_steps_are_counted_also_where_they_fail_and_printed(tmp_path: Path) -> None:
    clocks = object_life.Clocks()
    divide = clocks.around("upload, whole", lambda a, b: a // b)
    assert divide(6, b=3) == 2
    with pytest.raises(ZeroDivisionError):
        divide(1, 0)
    assert clocks.calls["upload, whole"] == 2
    path = tmp_path / "life"
    steps = {"upload, whole": (2, 0.003), "put: metadata": (0, 0.0)}
    path.write_text(json.dumps({"threads": {"a": 0.01, "commit": 2.5}, "steps": steps}))
    threads, *lines = object_life.life_of(path)
    assert threads.strip() == "CPU s by thread: commit 2.50"
    assert [line.split() for line in lines] == [
        ["upload,", "whole", "2", "calls", "1500", "us", "0.00", "s"]
    ]
