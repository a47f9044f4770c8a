"""Other programs beside ours: how they are compared, and what is said where one is missing."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from secor.core.errors import Unavailable
from secor.sandbox import S3Access
from tools.bench import kafka_backup, peers
from tools.bench.cases import CASES
from tools.bench.fill import Filled
from tools.bench.peers import ELSEWHERE, compare, install
from tools.bench.report import PEERS_OF, Result, as_json, beside_line, peer_line
from tools.bench.running import ProgramProcess, Usage

OURS = Result(PEERS_OF, 1000, 2.0, 1.5, 2.0, 500, 1.0, 200.0, 4, None, "", 0.5, 3.0, 3.0)


def test_what_a_program_takes_to_start_and_wait_is_not_of_its_messages() -> None:
    start = Usage(cpu=1.0, ready=100.0, ended=107.0, peak=10)
    used = Usage(cpu=1.006, ready=200.0, ended=210.0, peak=400_000_000)
    result = compare("it", 1000, start=start, used=used, ours=OURS)
    assert (result.cpu_us, result.seconds, result.peak_megabytes) == (6.0, 6.0, 400.0)
    assert (result.times_cpu, result.times_seconds, result.times_memory) == (4.0, 3.0, 2.0)
    assert "CPU 4.0, wall time 3.0, memory 2.0" in peer_line(result)
    assert json.loads(as_json([OURS], [], peers=[result]))["peers"][0]["name"] == "it"


def test_another_shape_of_the_same_work_is_compared_with_it() -> None:
    cases = {case.name: case for case in CASES}
    hour = replace(OURS, case="json-text-1-hour", cpu_us=2.0)
    day = replace(OURS, case="json-text-24-hours", cpu_us=2.4)
    line = beside_line(cases["json-text-24-hours"], [hour, day])
    assert line is not None
    assert line.strip() == "1.20 times json-text-1-hour (goal 1.25)"
    assert beside_line(cases["json-text-24-hours"], [day]) is None
    assert {case.beside for case in CASES if case.beside} <= cases.keys()


def test_figures_of_programs_that_cannot_be_run_say_so() -> None:
    assert ELSEWHERE.startswith("Taken elsewhere, not in this run")
    assert peer_line("Quix: not measured: no network") == "Quix: not measured: no network"


def test_a_package_is_installed_once_into_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        calls.append(command)
        Path(command[command.index("--target") + 1]).mkdir(parents=True)

    monkeypatch.setattr(peers, "CHECKOUT", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    site = install("thing==1.0")
    assert (site, install("thing==1.0")) == (tmp_path / ".cache/thing-1.0", site)
    assert len(calls) == 1
    assert calls[0][-1] == "thing==1.0"


def test_it_says_why_a_package_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: Any) -> None:
        raise subprocess.CalledProcessError(1, command, stderr="...\nERROR: no network\n")

    monkeypatch.setattr(peers, "CHECKOUT", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(Unavailable, match=r"cannot install thing==1\.0: ERROR: no network"):
        install("thing==1.0")


def test_a_program_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:

    program = ["-c", "import sys; print(1, flush=True); sys.exit('it broke')"]
    process = ProgramProcess(program, log=tmp_path / "log", environment={"PATH": ""})
    with pytest.raises(Unavailable, match=r"ended with 1: it broke$"):
        process.run()
    used = ProgramProcess(["-c", "x = 1"], log=tmp_path / "log", environment={"PATH": ""}).run()
    assert used.cpu > 0


def test_a_binary_that_fails_is_named_with_its_last_line_and_was_told_where_all_is(
    tmp_path: Path,
) -> None:
    binary = tmp_path / "kafka-backup"
    binary.write_text('#!/bin/sh\ncat "$3"\necho "no bucket" >&2\nexit 1\n')
    binary.chmod(0o755)
    servers: Any = SimpleNamespace(kafka="host:1", s3=S3Access("http://host:2"))
    filled = Filled("bench", 4, 1000, 1, 1)
    (said,) = kafka_backup.measure(
        binary, servers, filled, OURS, prefix="bench/x", directory=tmp_path
    )
    assert isinstance(said, str)
    assert said.startswith("kafka-backup: not measured: backup --config ended with 1")
    assert said.endswith("no bucket")
    told = json.loads((tmp_path / "kafka-backup-backup.yaml").read_text())
    assert told["mode"] == "backup"
    assert told["source"] == {"bootstrap_servers": ["host:1"], "topics": {"include": ["bench"]}}
    assert told["storage"]["endpoint"] == "http://host:2"


def test_a_start_of_nothing_leaves_all_of_a_run() -> None:
    used = Usage(cpu=0.5, ready=200.0, ended=204.0, peak=100_000_000)
    restored = kafka_backup.OurRestore(
        cpu_us=250.0, seconds=2.0, seconds_with_start=3.0, peak_megabytes=50.0
    )
    result = compare(
        "kafka-backup, restore",
        1000,
        start=kafka_backup.NO_START,
        used=used,
        ours=restored,
        beside="restore",
    )
    assert (result.times_cpu, result.times_seconds, result.times_memory) == (2.0, 2.0, 2.0)
    assert "times Secor's restore: CPU 2.0" in peer_line(result)
