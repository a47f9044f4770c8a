"""The soak's own eyes: what must not be is seen, what may be is not."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from crc32c import crc32c

from secor.model import TopicPartition
from tests.soak.audit import Audit, checksum
from tests.soak.fleet import events
from tests.soak.story import Happening
from tests.soak.watch import Held, Sample, growth, recovery, went_back

TP = TopicPartition("soak-plain", 0)


def header(data: bytes) -> str:
    return base64.b64encode(crc32c(data).to_bytes(4, "big")).decode()


class Watched:
    """An audit of the bucket ``b`` and what it found."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.audit = Audit("b", self.found.append)

    def ask(
        self, method: str, target: str, status: int = 200, data: bytes = b"x", body: bytes = b""
    ) -> None:
        headers = {"if-none-match": "*", "x-amz-checksum-crc32c": header(data)}
        self.audit.answered(method, f"/b/{target}", headers, status, body)


def test_a_second_successful_put_is_seen() -> None:
    watched = Watched()
    watched.ask("PUT", "one%3D1")
    watched.ask("PUT", "one%3D1", status=412)
    assert watched.found == []
    watched.ask("PUT", "one%3D1")
    assert ["one=1 was put twice" in text for text in watched.found] == [True]


def test_parts_and_repeated_completions_are_no_second_put() -> None:
    watched = Watched()
    for part in (1, 2):
        watched.ask("PUT", f"k?uploadId=u&partNumber={part}")
    for _ in range(2):
        watched.ask("POST", "k?uploadId=u")
    watched.ask("POST", "k?uploadId=v", body=b"<Error>PreconditionFailed</Error>")
    watched.ask("DELETE", "k?uploadId=v", status=204)
    assert watched.found == []
    watched.ask("POST", "k?uploadId=v")
    assert len(watched.found) == 1


def test_a_put_without_its_condition_and_a_deletion_are_seen() -> None:
    watched = Watched()
    watched.audit.answered("PUT", "/b/k", {}, 200, b"")
    watched.ask("DELETE", "k", status=204)
    assert watched.found == ["k was put without If-None-Match", "k was deleted"]


def test_an_object_that_changed_vanished_or_came_by_itself_is_seen() -> None:
    watched = Watched()
    for key in ("same", "changed", "gone"):
        watched.ask("PUT", key, data=b"first")
    watched.audit.compare([("same", crc32c(b"first")), ("changed", crc32c(b"second"))])
    watched.audit.compare([("foreign", 0)])
    assert "gone was put and is not there any more" in watched.found
    assert any(text.startswith("changed has CRC32C") for text in watched.found)
    assert "foreign is there and was never put" in watched.found
    assert not any(text.startswith("same has") for text in watched.found)


def test_a_checksum_header_is_big_endian() -> None:
    assert checksum(header(b"abc")) == crc32c(b"abc")
    assert checksum(None) is None


def held(*amounts: tuple[int, int]) -> list[Held]:
    return [Held(10.0 * i, mib << 20, files) for i, (mib, files) in enumerate(amounts)]


def test_only_clear_growth_counts() -> None:
    flat = [(200, 20)] * 40
    grows = [(200 + 5 * i, 20) for i in range(40)]
    leaks = [(200, 20 + 2 * i) for i in range(40)]
    waves = [(200 + 100 * (i % 2), 20 + 40 * (i % 2)) for i in range(40)]
    assert growth(held(*flat)) is None
    assert growth(held(*waves)) is None
    assert "memory grew" in (growth(held(*grows)) or "")
    assert "open files grew" in (growth(held(*leaks)) or "")


def test_a_short_life_proves_no_growth() -> None:
    assert growth(held(*[(200 + 50 * i, 20) for i in range(8)])) is None


def test_recovery_counts_from_the_end_of_a_fault_to_the_commit_of_what_was_there() -> None:
    samples = [
        Sample(at, {TP: committed}, {TP: end})
        for at, committed, end in [(0, 0, 10), (10, 5, 20), (20, 15, 30), (30, 20, 40)]
    ]
    assert recovery(Happening("killed", "", 1, 5), samples) == 25
    assert recovery(Happening("killed", "", 1, 25), samples) is None
    assert recovery(Happening("killed", "", 1, None), samples) is None


def test_a_committed_offset_that_goes_back_is_seen() -> None:
    before = Sample(0, {TP: 7}, {TP: 9})
    assert went_back([before], Sample(1, {TP: 7}, {TP: 9})) == []
    assert went_back([], Sample(1, {TP: 0}, {TP: 9})) == []
    assert len(went_back([before], Sample(1, {TP: 6}, {TP: 9}))) == 1


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("Traceback (most recent call last):", "a traceback"),
        ('{"event": "stopped", "reason": "error"}', "stopped"),
        ('{"event": "messages_lost"}', "messages_lost"),
    ],
)
def test_logs_are_searched_for_what_must_not_be_in_them(
    line: str, fault: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text(f'{{"event": "retried", "kind": "unavailable"}}\n{line}\n')
    counts, faults = events([log])
    assert counts["retried unavailable"] == 1
    assert len(faults) == 1
    assert fault in faults[0]
