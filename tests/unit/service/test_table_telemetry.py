import structlog

from secor.cli.tables.run import CycleReport
from secor.core.errors import TableStopped, Unavailable
from secor.core.model import TopicPartition
from secor.service.metrics import Metrics
from secor.service.monitoring.table_telemetry import TableTelemetry
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.commit.refused_files import FileState, RefusedFile
from secor.tables.observer import Backlog
from tests.fakes.clock import FakeClock

STOPPED = TableResult("db.t", Result.STOPPED, error=TableStopped("db.t: is gone", "gone"))


def series(metrics: Metrics) -> list[str]:
    return [line for line in metrics.text().decode().splitlines() if "db.t" in line]


def test_a_commit_shows_rows_files_and_time() -> None:
    metrics = Metrics()
    telemetry = TableTelemetry(metrics, FakeClock(5000.0))
    telemetry.table_committed(
        TableResult("db.t", Result.COMMITTED, files=2, records=30, valid_through=4_000_500)
    )
    shown = series(metrics)
    assert 'secor_table_rows_total{table="db.t"} 30.0' in shown
    assert 'secor_table_committed_timestamp_seconds{table="db.t"} 5000.0' in shown
    assert 'secor_table_valid_through_timestamp_seconds{table="db.t"} 4000.5' in shown


def test_a_stopped_table_is_told_once_and_cleared() -> None:
    metrics = Metrics()
    telemetry = TableTelemetry(metrics, FakeClock())
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            telemetry.table_committed(STOPPED)
        assert 'secor_table_stopped{reason="gone",table="db.t"} 1.0' in series(metrics)
        telemetry.table_committed(TableResult("db.t", Result.NOTHING))
        telemetry.table_committed(TableResult("db.t", Result.NOTHING))
    assert [line["event"] for line in lines] == ["table_stopped", "table_goes_on"]
    assert not [line for line in series(metrics) if line.startswith("secor_table_stopped{")]


def test_a_stopped_partition_and_a_failure_are_told() -> None:
    metrics = Metrics()
    telemetry = TableTelemetry(metrics, FakeClock())
    stopped = {TopicPartition("clicks", 0): "a manifest lies across"}
    with structlog.testing.capture_logs() as lines:
        telemetry.table_committed(TableResult("db.t", Result.NOTHING, stopped=stopped))
        telemetry.table_committed(TableResult("db.t", Result.FAILED, error=Unavailable("out")))
    assert [line["event"] for line in lines] == ["table_partition_stopped", "table_failed"]
    assert 'secor_table_stopped_partitions{table="db.t"} 0.0' in series(metrics)


def test_failing_cycles_are_told_once() -> None:
    metrics = Metrics()
    telemetry = TableTelemetry(metrics, FakeClock())
    with structlog.testing.capture_logs() as lines:
        telemetry.cycle_failed(Unavailable("the store is out"))
        telemetry.cycle_failed(Unavailable("the store is out"))
        telemetry.cycle_ended(1.0, 0)
        telemetry.cycle_ended(1.0, 2)
    assert [line["event"] for line in lines] == ["cycle_failed", "cycles_go_on", "partial_commit"]
    text = metrics.text().decode()
    assert 'secor_cycles_total{result="failed"} 2.0' in text
    assert 'secor_cycles_total{result="partial"} 1.0' in text


def test_the_backlog_leading_and_events() -> None:
    metrics = Metrics()
    telemetry = TableTelemetry(metrics, FakeClock())
    telemetry.staged(Backlog(2, 5, 900, 4000.0))
    telemetry.leading(True, 17)
    telemetry.event("received", "START_COMMIT")
    text = metrics.text().decode()
    assert "secor_staged_oldest_timestamp_seconds 4000.0" in text
    assert "secor_coordinating 1.0" in text
    assert "secor_coordinator_epoch 17.0" in text
    assert 'secor_control_events_total{direction="received",kind="START_COMMIT"} 1.0' in text
    telemetry.leading(False, 17)
    telemetry.staged(Backlog(0, 0, 0, None))
    assert "secor_coordinating 0.0" in metrics.text().decode()


def refused(*reasons: str) -> TableResult:
    """Return the result of a table that has passed over a file for each reason."""
    notes = tuple(
        RefusedFile(f"m{number}", f"s3://b/{number}.parquet", why, 1000 * number)
        for number, why in enumerate(reasons)
    )
    return TableResult("db.t", Result.COMMITTED, refused=notes)


def test_files_of_one_reason_are_one_sentence_and_the_log_repeats_nothing() -> None:
    telemetry = TableTelemetry(Metrics(), FakeClock())
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            telemetry.table_committed(refused("no spec 0", "beyond int", "no spec 0"))
    [line] = [line for line in lines if line["log_level"] == "warning"]
    assert line["event"] == "table_file_refused"
    assert line["why"].split("; ")[:2] == [
        (
            "2 files cannot be committed since 1970-01-01T00:00:00+00:00: no spec 0"
            " (the first is s3://b/0.parquet)"
        ),
        "s3://b/1.parquet cannot be committed since 1970-01-01T00:00:01+00:00: beyond int",
    ]
    assert "'secor tables set-aside CONFIG db.t'" in line["why"]


def test_a_file_that_is_half_set_aside_is_named_with_its_command() -> None:
    note = RefusedFile("m", "s3://b/0.parquet", "no spec 0", 0, FileState.LEAVING)
    telemetry = TableTelemetry(Metrics(), FakeClock())
    with structlog.testing.capture_logs() as lines:
        telemetry.table_committed(TableResult("db.t", Result.NOTHING, refused=(note,)))
    assert "repeat 'secor tables set-aside CONFIG db.t s3://b/0.parquet'" in lines[0]["why"]


def test_a_process_that_no_longer_coordinates_says_nothing_of_tables() -> None:
    metrics = Metrics()
    telemetry = TableTelemetry(metrics, FakeClock())
    telemetry.leading(True, 17)
    telemetry.table_committed(refused("no spec 0"))
    assert 'secor_table_refused_files{table="db.t"} 1.0' in series(metrics)
    telemetry.table_committed(STOPPED)
    telemetry.leading(False, 17)
    states = ("secor_table_stopped", "secor_table_refused_files")
    assert not [line for line in series(metrics) if line.startswith(states)]


def test_a_cycle_by_hand_names_refused_files_and_is_not_right() -> None:
    report = CycleReport()
    report.table_committed(refused("no spec 0"))
    assert report.wrong
    assert any("no spec 0" in line for line in report.lines())
