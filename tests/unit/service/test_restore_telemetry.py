"""What a daemon of a restore tells: metrics, health, status page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus

from structlog.testing import capture_logs

from secor.core.errors import ArchiveIncomplete, WriterFenced
from secor.core.model import TopicPartition
from secor.restore.control import RequestedState
from secor.restore.model import SourcePartition
from secor.restore.schedule import After, AssignedSource, Phase
from secor.service.monitoring.health import Health
from secor.service.monitoring.restore_telemetry import RestoreTelemetry
from secor.service.restore_metrics import RestoreMetrics
from secor.service.status.restore_page import restore_page
from tests.fakes.clock import FakeClock

OFFSETS = TopicPartition("secor-restore-job", 0)
SOURCES = [SourcePartition("archive", "<clicks>", number) for number in range(3)]
HERE = SOURCES[0]


class Setup:
    def __init__(self) -> None:
        self.clock = FakeClock(now=1000.0, monotonic=50.0)
        self.metrics = RestoreMetrics()
        self.health = Health(self.clock, limit=30.0)
        self.telemetry = RestoreTelemetry(self.metrics, self.health, self.clock)
        self.telemetry.ends = dict.fromkeys(SOURCES, 100)
        self.held = [AssignedSource(source, OFFSETS, Phase.WORKING) for source in SOURCES]

    def report(self, held: Sequence[AssignedSource] | None = None) -> str:
        self.telemetry.report(self.held if held is None else held)
        return self.metrics.text().decode()


def test_a_commit_is_counted_and_what_is_left_gets_less() -> None:
    setup = Setup()
    telemetry = setup.telemetry
    telemetry.began(HERE)
    setup.clock.advance(2.0)
    assert "secor_restore_open_transaction_seconds 2.0" in setup.report()
    telemetry.committed(HERE, 40, 30, 3000, 2.0)
    setup.held[1].phase = Phase.EXHAUSTED
    text = setup.report()
    assert 'secor_restore_messages_total{topic="<clicks>"} 30.0' in text
    assert 'secor_restore_bytes_total{topic="<clicks>"} 3000.0' in text
    assert 'secor_restore_transactions_total{result="committed"} 1.0' in text
    assert "secor_restore_open_transaction_seconds 0.0" in text
    assert 'secor_restore_left_offsets{partition="0",topic="<clicks>"} 60.0' in text
    assert 'secor_restore_left_offsets{partition="1",topic="<clicks>"} 0.0' in text
    assert 'secor_restore_source_partitions{phase="working"} 2.0' in text
    assert telemetry.done == (140, 300)


def test_what_is_left_goes_by_the_archive_as_it_has_grown() -> None:
    setup = Setup()
    setup.telemetry.committed(HERE, 100, 100, 3000, 2.0)
    grown = {HERE: 250}
    setup.telemetry.known_end = lambda source: grown.get(source, 0)
    text = setup.report()
    assert 'secor_restore_left_offsets{partition="0",topic="<clicks>"} 150.0' in text
    assert 'secor_restore_left_offsets{partition="1",topic="<clicks>"} 100.0' in text
    assert [(row.end, row.left) for row in setup.telemetry.status("job").rows] == [
        *((250, 150), (100, 100), (100, 100))
    ]
    assert setup.telemetry.done == (100, 450)


def test_the_archive_goes_at_least_as_far_as_was_written() -> None:
    setup = Setup()
    setup.telemetry.committed(HERE, 130, 30, 3000, 2.0)
    setup.report()
    (row, *_) = setup.telemetry.status("job").rows
    assert (row.next_offset, row.end, row.left) == (130, 130, 0)


def test_a_transaction_that_the_broker_wanted_aborted_is_counted_and_not_open() -> None:
    setup = Setup()
    setup.telemetry.began(HERE)
    setup.clock.advance(2.0)
    setup.telemetry.aborted(HERE)
    text = setup.report()
    assert 'secor_restore_transactions_total{result="aborted"} 1.0' in text
    assert "secor_restore_open_transaction_seconds 0.0" in text


def test_a_transaction_that_was_dropped_without_a_word_is_not_open_for_ever() -> None:
    setup = Setup()
    setup.telemetry.began(HERE)
    setup.clock.advance(500.0)
    setup.held[0].phase = Phase.READY
    assert "secor_restore_open_transaction_seconds 0.0" in setup.report()


def test_what_waits_for_a_person_is_named_until_it_commits_or_leaves() -> None:
    setup = Setup()
    failing = 'secor_restore_failing{partition="0",reason="archive_incomplete",topic="<clicks>"}'
    setup.telemetry.failed(HERE, ArchiveIncomplete("gone"), After.TRY_LATER)
    text = setup.report()
    assert f"{failing} 1.0" in text
    assert 'secor_restore_errors_total{error="archive_incomplete"} 1.0' in text
    setup.telemetry.committed(HERE, 40, 30, 3000, 2.0)
    assert failing not in setup.report()
    setup.telemetry.failed(HERE, ArchiveIncomplete("gone"), After.TRY_LATER)
    text = setup.report(setup.held[1:])
    assert failing not in text
    assert 'secor_restore_left_offsets{partition="0"' not in text


def test_errors_that_pass_are_counted_and_nobody_is_called() -> None:
    setup = Setup()
    setup.telemetry.failed(HERE, WriterFenced("later one"), After.OPEN_AGAIN)
    text = setup.report()
    assert 'secor_restore_errors_total{error="writer_fenced"} 1.0' in text
    assert "secor_restore_failing{" not in text


def test_an_error_that_comes_again_is_one_warning_and_its_end_one_line() -> None:
    setup = Setup()
    error = ArchiveIncomplete("gone")
    setup.held[0].error = error
    with capture_logs() as lines:
        for _ in range(5):
            setup.telemetry.failed(HERE, error, After.TRY_LATER)
            setup.telemetry.not_copied("shared", error)
            setup.telemetry.not_listed(error)
            setup.clock.advance(2.0)
            setup.report()
        setup.held[0].error = None
        setup.report()
        setup.telemetry.copied("shared")
        setup.telemetry.listed()
    shown = [line for line in lines if line["log_level"] != "debug"]
    assert [line["event"] for line in shown if line["log_level"] == "warning"] == [
        *("failed", "offsets not copied", "archive not listed")
    ]
    over = [line for line in shown if line["event"] == "over"]
    assert [(line["what"], line["seconds"], line["times"]) for line in over] == [
        *(("failed", 10, 5), ("offsets not copied", 10, 5), ("archive not listed", 10, 5))
    ]


def test_a_paused_job_is_not_ready_and_one_that_stands_still_is_not_alive() -> None:
    setup = Setup()
    setup.report()
    assert setup.health.ready().status is HTTPStatus.OK
    setup.telemetry.requested_state_changed(RequestedState.PAUSED)
    text = setup.report()
    assert 'secor_restore_state{state="paused"} 1.0' in text
    assert 'secor_restore_state{state="running"} 0.0' in text
    assert b"the job is paused" in setup.health.ready().body
    setup.clock.advance(31.0)
    assert not setup.telemetry.status("job").alive


def test_the_page_shows_each_source_partition_and_what_to_do_about_its_error() -> None:
    setup = Setup()
    setup.telemetry.committed(HERE, 40, 30, 3000, 2.0)
    setup.held[1].error = ArchiveIncomplete("no object has the offsets <b>")
    setup.held[1].again_at = setup.clock.monotonic() + 20
    setup.report()
    setup.clock.advance(10.0)
    status = setup.telemetry.status("<job>")
    page = restore_page(status)
    assert "<job>" not in page
    assert "<clicks>" not in page
    assert "&lt;clicks&gt;/0" in page
    assert "no object has the offsets &lt;b&gt;." in page
    assert "It is tried again in 20 s." in page
    plain = json.loads(json.dumps(status.as_json()))
    assert (plain["left"], plain["rate"], plain["messages"]) == (260, 3.0, 30)
    assert [row["next_offset"] for row in plain["rows"]] == [40, None, None]


def test_a_daemon_without_source_partitions_says_so() -> None:
    setup = Setup()
    setup.report([])
    assert "None are assigned." in restore_page(setup.telemetry.status("job"))
