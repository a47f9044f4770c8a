from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from secor.consume.partition_status import ReadingState, Status
from secor.core.errors import (
    AccessDenied,
    DiskFull,
    LeaseLost,
    LedgerLost,
    MessagesUnwritable,
    OutcomeUnknown,
    SchemaGrew,
    SecorError,
    Unavailable,
)
from secor.core.model import OffsetRange, OpenTransaction, TopicPartition, Withheld
from secor.service.metrics import Metrics
from secor.service.monitoring.commit_log import LINES, status_line
from secor.service.monitoring.health import Health
from secor.service.monitoring.lag import lag_seconds
from secor.service.monitoring.telemetry import MOST_LOGGED, Telemetry, snake
from tests.fakes.clock import FakeClock

HERE = TopicPartition("clicks", 3)
STATUS = Status(
    topic_partition=HERE,
    state=ReadingState.READING,
    error=None,
    committed=100,
    next_offset=150,
    known_end=160,
    intent_end=None,
    last_timestamp=995_000,
    oldest_batch=40.0,
    committed_at=30.0,
    buffered=1000,
    local=3000,
)


class Setup:
    def __init__(self) -> None:
        self.clock = FakeClock(now=1000.0, monotonic=50.0)
        self.metrics = Metrics()
        self.health = Health(self.clock, limit=30.0)
        self.telemetry = Telemetry(self.metrics, self.health, self.clock)

    def value(self, name: str, **labels: str) -> float | None:
        where = {"topic": "clicks", "partition": "3"}
        return self.metrics.registry.get_sample_value(name, where | labels)

    def plain(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name)


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_what_is_measured_is_of_when_it_is_read(setup: Setup) -> None:
    setup.telemetry.report([STATUS], ledger_up=True)
    setup.clock.sleep(3)
    assert setup.value("secor_commit_age_seconds") == 23
    setup.telemetry.left(STATUS.topic_partition)
    for name in ("secor_commit_age_seconds", "secor_messages_lost_total"):
        assert setup.value(name) is None
    setup.telemetry.report([STATUS], ledger_up=True)
    assert setup.value("secor_commit_age_seconds") == 23


def test_the_report_measures_every_partition(setup: Setup) -> None:
    setup.telemetry.report([STATUS], ledger_up=True)
    assert setup.value("secor_lag_offsets") == 60
    assert setup.value("secor_lag_seconds") == 5
    assert setup.value("secor_oldest_uncommitted_seconds") == 10
    assert setup.value("secor_commit_age_seconds") == 20
    assert setup.value("secor_intent_open_seconds") == 0
    assert setup.value("secor_messages_lost_total") == 0
    assert setup.plain("secor_assigned_partitions") == 1
    assert setup.plain("secor_memory_bytes") == 1000
    assert setup.plain("secor_local_bytes") == 3000
    assert setup.plain("secor_ledger_up") == 1
    assert setup.plain("secor_reported_timestamp_seconds") == 1000


def test_what_alerts_count_begins_at_nothing_before_it_happens(setup: Setup) -> None:
    setup.telemetry.report([STATUS], ledger_up=True)
    assert setup.value("secor_messages_lost_total") == 0
    assert setup.value("secor_uploads_total", outcome="committed") == 0


def test_the_age_of_an_open_intent_counts_from_when_it_was_first_seen(setup: Setup) -> None:
    waiting = replace(STATUS, intent_end=200)
    setup.telemetry.report([waiting], ledger_up=True)
    setup.clock.sleep(7)
    setup.telemetry.report([waiting], ledger_up=True)
    assert setup.value("secor_intent_open_seconds") == 7
    setup.telemetry.report([STATUS], ledger_up=True)
    assert setup.value("secor_intent_open_seconds") == 0


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        (STATUS, 5.0),
        (replace(STATUS, next_offset=160), 0.0),
        (replace(STATUS, known_end=None), 5.0),
        (replace(STATUS, last_timestamp=None), 0.0),
        (replace(STATUS, next_offset=None), 0.0),
        (replace(STATUS, last_timestamp=2_000_000), 0.0),
    ],
)
def test_lag_in_seconds_is_nothing_at_the_end_and_never_negative(
    status: Status, seconds: float
) -> None:
    assert lag_seconds(status, 1000.0, 50.0) == seconds


TRANSACTION = OpenTransaction(160, 7, "writer", 300.0)
WITHHELD = replace(STATUS, withheld=Withheld(500, 400.0, TRANSACTION))


def test_what_waits_behind_an_open_transaction_is_measured_beside_the_lag(setup: Setup) -> None:
    setup.telemetry.report([WITHHELD], ledger_up=True)
    assert setup.value("secor_lag_offsets") == 60
    assert setup.value("secor_withheld_offsets") == 500
    assert setup.value("secor_withheld_seconds") == 700, "since the transaction began"
    setup.telemetry.report([replace(STATUS, withheld=Withheld(3, 990.0))], ledger_up=True)
    assert setup.value("secor_withheld_offsets") == 3
    assert setup.value("secor_withheld_seconds") == 10, "since the end has not moved"
    hanging = OpenTransaction(160, 7, hanging=True, last_written=350.0)
    setup.telemetry.report([replace(STATUS, withheld=Withheld(3, 990.0, hanging))], ledger_up=True)
    assert setup.value("secor_withheld_seconds") == 650, "since it was last written to"
    replayed = OpenTransaction(160, 7, last_written=-5.0)
    setup.telemetry.report([replace(STATUS, withheld=Withheld(3, 990.0, replayed))], ledger_up=True)
    assert setup.value("secor_withheld_seconds") == 10, "times of messages may be any"
    setup.telemetry.report([STATUS], ledger_up=True)
    assert setup.value("secor_withheld_offsets") == setup.value("secor_withheld_seconds") == 0
    assert status_line([WITHHELD]).endswith("60 messages behind, 500 more behind open transactions")


def test_a_long_open_transaction_is_a_remark_of_a_process_that_is_ready(setup: Setup) -> None:
    short = replace(STATUS, withheld=Withheld(3, 990.0))
    setup.telemetry.report([short], ledger_up=True)
    assert setup.health.ready().body == b"ready\n"
    setup.telemetry.report([WITHHELD, short], ledger_up=True)
    answer = setup.health.ready()
    assert answer.status == 200
    assert answer.body == b"ready\n500 offsets wait behind open transactions, for up to 700 s\n"


def test_a_person_is_told_once_that_messages_wait_too_long(setup: Setup) -> None:
    with capture_logs() as logged:
        for _ in range(3):
            setup.telemetry.report([WITHHELD, STATUS], ledger_up=True)
            setup.clock.sleep(100)
        for _ in range(2):
            setup.telemetry.report([STATUS], ledger_up=True)
    said = [line for line in logged if str(line["event"]).startswith("messages_withheld")]
    assert [(line["log_level"], line["event"]) for line in said] == [
        ("warning", "messages_withheld"),
        ("info", "messages_withheld_no_more"),
    ]
    assert (said[0]["topic"], said[0]["partition"], said[0]["seconds"]) == ("clicks", 3, 900)
    assert "transactional id 'writer', producer id 7" in str(said[0]["behind"])


def test_every_call_is_counted_where_the_table_says(setup: Setup) -> None:
    telemetry = setup.telemetry
    telemetry.consumed(HERE, 10, 2000)
    telemetry.put(HERE, 500, 0.3)
    telemetry.uploaded(HERE, "committed", 12.0)
    telemetry.uploaded(HERE, "later", 12.0)
    telemetry.ready(HERE, 90.0)
    telemetry.ready(HERE, -5.0)
    telemetry.retried(HERE, Unavailable("x"))
    telemetry.adopted(HERE, 2)
    telemetry.superseded(HERE)
    telemetry.lost(HERE, 10, 15)
    telemetry.restarted(HERE, LeaseLost("x"))
    assert setup.value("secor_messages_total") == 10
    assert setup.value("secor_bytes_total") == 2000
    assert setup.value("secor_uploaded_objects_total") == 1
    assert setup.value("secor_uploaded_bytes_total") == 500
    assert setup.value("secor_uploads_total", outcome="committed") == 1
    assert setup.value("secor_uploads_total", outcome="later") == 1
    assert setup.plain("secor_batch_age_seconds_sum") == 12
    assert setup.plain("secor_delay_seconds_sum") == 90
    assert setup.plain("secor_delay_seconds_count") == 2
    assert setup.plain("secor_upload_duration_seconds_count") == 1
    assert setup.value("secor_adopted_objects_total") == 2
    assert setup.value("secor_superseded_total") == 1
    assert setup.value("secor_messages_lost_total") == 5
    assert setup.value("secor_restarts_total", reason="lease_lost") == 1
    retries = setup.metrics.registry.get_sample_value(
        "secor_retries_total", {"error": "unavailable"}
    )
    assert retries == 1


def test_a_stopped_partition_shows_its_reason_until_it_runs(setup: Setup) -> None:
    with capture_logs() as lines:
        setup.telemetry.stopped(HERE, LedgerLost("gone: do this"))
    assert setup.value("secor_partition_stopped", reason="ledger_lost") == 1
    assert lines[0]["event"] == "stopped"
    assert lines[0]["log_level"] == "error"
    assert lines[0]["error"] == "gone: do this"
    setup.telemetry.running(HERE)
    assert setup.value("secor_partition_stopped", reason="ledger_lost") is None


def test_loss_is_logged_as_an_error_with_its_offsets(setup: Setup) -> None:
    with capture_logs() as lines:
        setup.telemetry.lost(HERE, 10, 15)
    assert lines == [
        {
            "event": "messages_lost",
            "log_level": "error",
            "topic": "clicks",
            "partition": 3,
            "start": 10,
            "end": 15,
        }
    ]


def test_a_fetch_that_begins_anew_is_counted_and_told_with_its_cause(setup: Setup) -> None:
    with capture_logs() as lines:
        setup.telemetry.fetch_restarted(HERE, 10, 15, 15.4, "it has no leader")
    assert setup.value("secor_fetch_restarts_total") == 1
    assert lines == [
        {
            "event": "fetch_restarted",
            "log_level": "warning",
            "topic": "clicks",
            "partition": 3,
            "offset": 10,
            "end": 15,
            "seconds": 15,
            "cause": "it has no leader",
        }
    ]


def test_an_upload_that_ends_after_its_partition_left_leaves_no_series(setup: Setup) -> None:
    setup.telemetry.report([STATUS], ledger_up=True)
    setup.telemetry.left(HERE)
    setup.telemetry.put(HERE, 500, 0.3)
    setup.telemetry.uploaded(HERE, "committed", 12.0)
    setup.telemetry.report([], ledger_up=True)
    assert 'topic="clicks"' not in setup.metrics.text().decode()


def test_a_partition_that_comes_back_keeps_what_it_counts(setup: Setup) -> None:
    setup.telemetry.left(HERE)
    setup.telemetry.lost(HERE, 10, 15)
    setup.telemetry.report([STATUS], ledger_up=True)
    setup.telemetry.report([STATUS], ledger_up=True)
    assert setup.value("secor_messages_lost_total") == 5


def test_rebalances_are_counted_when_the_assignment_changes(setup: Setup) -> None:
    for statuses in ([], [STATUS], [STATUS], []):
        setup.telemetry.report(statuses, ledger_up=True)
    assert setup.plain("secor_rebalances_total") == 2


def test_the_process_is_ready_with_partitions_and_a_ledger(setup: Setup) -> None:
    assert b"starting" in setup.health.ready().body
    setup.telemetry.report([], ledger_up=False)
    body = setup.health.ready().body.decode()
    assert "no partitions assigned" in body
    assert "ledger does not answer" in body
    setup.telemetry.report([STATUS], ledger_up=True)
    assert setup.health.ready().status == 200


def test_a_schema_that_grew_is_told_and_is_no_fault(setup: Setup) -> None:
    heard: list[object] = []

    class Hearing:
        def failed(self, topic_partition: TopicPartition, error: SecorError) -> None:
            heard.append(error)

        def committed(self, topic_partition: TopicPartition, seconds: float) -> None:
            pass

    telemetry = Telemetry(setup.metrics, setup.health, setup.clock, Hearing())
    with capture_logs() as lines:
        telemetry.restarted(HERE, SchemaGrew(7))
        telemetry.schema_grew("clicks", 2, [f"f{at}" for at in range(30)], [])
        telemetry.schema_grew("clicks", 3, ["actor (json)"], ["actor (4 of 1,000 are texts)"])
    assert not heard
    assert setup.value("secor_restarts_total", reason="schema_grew") == 1
    [restarted, grew, outvoted] = lines
    assert (restarted["event"], restarted["kind"]) == ("restarted", "schema_grew")
    assert (grew["event"], grew["topic"], grew["version"]) == ("schema_grew", "clicks", 2)
    assert grew["fields"] == [*(f"f{at}" for at in range(20)), "..."]
    assert (grew["log_level"], outvoted["log_level"]) == ("info", "warning")
    assert outvoted["quarantined"] == ["actor (4 of 1,000 are texts)"]
    assert "schema_file" in outvoted["remedy"]


def test_a_witness_hears_of_errors_and_commits(setup: Setup) -> None:
    heard: list[tuple[TopicPartition, object]] = []

    class Witness:
        def failed(self, topic_partition: TopicPartition, error: SecorError) -> None:
            heard.append((topic_partition, str(error)))

        def committed(self, topic_partition: TopicPartition, seconds: float) -> None:
            heard.append((topic_partition, seconds))

    telemetry = Telemetry(setup.metrics, setup.health, setup.clock, Witness())
    telemetry.retried(HERE, Unavailable("a"))
    telemetry.restarted(HERE, LeaseLost("b"))
    telemetry.stopped(HERE, LedgerLost("c"))
    telemetry.uploaded(HERE, "later", 1.0)
    telemetry.uploaded(HERE, "committed", 12.0)
    assert heard == [(HERE, "a"), (HERE, "b"), (HERE, "c"), (HERE, 12.0)]


@pytest.mark.parametrize(
    ("error", "label"), [(LeaseLost, "lease_lost"), (SecorError, "secor_error")]
)
def test_errors_have_labels_in_small_letters(error: type[SecorError], label: str) -> None:
    assert snake(error) == label


def test_the_status_line_says_what_is_done_or_why_nothing_is() -> None:
    other = replace(STATUS, state=ReadingState.STOPPED, known_end=None)
    assert status_line([]) == "no topic partitions assigned"
    assert status_line([STATUS, other]) == (
        "2 topic partitions (1 reading, 1 stopped), 60 messages behind"
    )


def test_messages_that_parsing_leaves_out_are_counted(setup: Setup) -> None:
    setup.telemetry.quarantined(HERE, "decode", 3)
    setup.telemetry.filtered(HERE, 2)
    setup.telemetry.erased(HERE, 4)
    setup.telemetry.other_events(HERE, "heartbeat", 2)
    assert setup.value("secor_other_events_total", kind="heartbeat") == 2
    assert setup.value("secor_quarantined_total", reason="decode") == 3
    assert setup.value("secor_filtered_total") == 2
    assert setup.value("secor_erased_total") == 4


def test_values_without_a_column_are_counted_and_each_field_is_logged_once(setup: Setup) -> None:
    with capture_logs() as logs:
        setup.telemetry.undeclared(HERE, "db.flights: a.b", 2)
        setup.telemetry.undeclared(HERE, "db.flights: a.b", 1)
        setup.telemetry.undeclared(HERE, "db.flights: c", 4)
    assert setup.value("secor_undeclared_values_total") == 7
    assert [line["field"] for line in logs] == ["db.flights: a.b", "db.flights: c"]
    assert {line["log_level"] for line in logs} == {"warning"}


def test_infinite_values_are_counted_and_each_topic_is_logged_once(setup: Setup) -> None:
    with capture_logs() as logs:
        setup.telemetry.infinite_values(HERE, 2)
        setup.telemetry.infinite_values(HERE, 3)
    assert setup.value("secor_infinite_values_total") == 5
    assert [line["event"] for line in logs] == ["infinite_values"]


def test_timestamps_from_the_future_are_counted_and_each_topic_is_logged_once(
    setup: Setup,
) -> None:
    with capture_logs() as logs:
        setup.telemetry.from_future(HERE, 3, 1_763_694_245_123_456)
        setup.telemetry.from_future(HERE, 2, 1_763_694_245_123_457)
        setup.telemetry.from_future(replace(HERE, topic="views"), 1, 5_000_000_000_000)
    assert setup.value("secor_future_timestamps_total") == 5
    assert [(line["topic"], line["message_timestamp"]) for line in logs] == [
        ("clicks", 1_763_694_245_123_456),
        ("views", 5_000_000_000_000),
    ]


def test_what_names_of_fields_add_to_the_log_is_bounded(setup: Setup) -> None:
    with capture_logs() as logs:
        for number in range(2 * MOST_LOGGED):
            setup.telemetry.undeclared(HERE, f"db.flights: {number}", 1)
    assert len(logs) == MOST_LOGGED
    assert setup.value("secor_undeclared_values_total") == 2 * MOST_LOGGED


def commit(setup: Setup, where: TopicPartition = HERE, **losses: int) -> None:
    setup.telemetry.committed(where, OffsetRange(10, 30), 2, 5000, losses, 12.34)


def test_what_a_person_must_end_is_a_warning_once_and_told_when_it_is_over(setup: Setup) -> None:
    telemetry = setup.telemetry
    with capture_logs() as lines:
        telemetry.restarted(HERE, DiskFull("/var: no space"))
        setup.clock.sleep(20)
        telemetry.restarted(HERE, DiskFull("/var: no space"))
        telemetry.retried(HERE, AccessDenied("put: 403"))
        telemetry.retried(HERE, AccessDenied("put: 403"))
        telemetry.retried(HERE, Unavailable("no answer"))
    assert [(line["event"], line["log_level"], line["kind"]) for line in lines] == [
        ("restarted", "warning", "disk_full"),
        ("restarted", "debug", "disk_full"),
        ("retried", "warning", "access_denied"),
        ("retried", "debug", "access_denied"),
        ("retried", "info", "unavailable"),
    ]
    setup.clock.sleep(10)
    with capture_logs() as lines:
        commit(setup)
        commit(setup)
    assert [line for line in lines if line["event"] == "over"] == [
        {"event": "over", "log_level": "info", "kind": "disk_full", "seconds": 30, "times": 2},
        {"event": "over", "log_level": "info", "kind": "access_denied", "seconds": 10, "times": 2},
        {"event": "over", "log_level": "info", "kind": "unavailable", "seconds": 10, "times": 1},
    ]
    with capture_logs() as lines:
        telemetry.restarted(HERE, DiskFull("/var: no space"))
    assert lines[0]["log_level"] == "warning"


def test_a_trouble_ends_with_the_last_partition_that_had_it(setup: Setup) -> None:
    other = TopicPartition("clicks", 4)
    setup.telemetry.retried(HERE, AccessDenied("403"))
    setup.telemetry.retried(other, AccessDenied("403"))
    with capture_logs() as lines:
        commit(setup)
        setup.telemetry.report([STATUS], ledger_up=True)  # the other one has left
    assert [line["event"] for line in lines] == ["committed", "over"]


def test_a_trouble_of_a_partition_that_reads_on_without_messages_is_over_after_a_while(
    setup: Setup,
) -> None:
    setup.telemetry.retried(HERE, AccessDenied("403"))
    positioning = replace(STATUS, state=ReadingState.POSITIONING)
    uploading = replace(STATUS, sealed=OffsetRange(0, 5))
    with capture_logs() as lines:
        for status in (positioning, uploading, STATUS):
            setup.clock.sleep(29)
            setup.telemetry.report([status], ledger_up=True)
    assert [line["event"] for line in lines] == ["over"]


@pytest.mark.parametrize(
    ("error", "word"), [(DiskFull("x: full"), "disk full"), (AccessDenied("s3://b"), "credentials")]
)
def test_a_process_that_cannot_persist_is_not_ready(
    setup: Setup, error: SecorError, word: str
) -> None:
    setup.telemetry.retried(HERE, error)
    setup.telemetry.report([STATUS], ledger_up=True)
    answer = setup.health.ready()
    assert answer.status == 503
    assert word in answer.body.decode()
    assert str(error) not in answer.body.decode()
    other = TopicPartition("clicks", 4)
    both = [STATUS, replace(STATUS, topic_partition=other)]
    commit(setup, other)  # others go on
    setup.clock.sleep(1)
    setup.telemetry.retried(HERE, error)
    setup.telemetry.report(both, ledger_up=True)
    assert setup.health.ready().status == 200
    setup.clock.sleep(61)
    setup.health.beat()
    setup.telemetry.retried(HERE, error)
    setup.telemetry.report(both, ledger_up=True)
    assert word in setup.health.ready().body.decode()
    commit(setup)
    setup.telemetry.report(both, ledger_up=True)
    assert setup.health.ready().status == 200


def fail(
    setup: Setup, seconds: int, *, state: ReadingState = ReadingState.POSITIONING
) -> list[str]:
    """Let a server be out for so long, and the partition try; return the levels of its lines."""
    with capture_logs() as lines:
        for _ in range(seconds // 5):
            setup.clock.sleep(5)
            setup.health.beat()
            error = (Unavailable("no answer"), OutcomeUnknown("lost"))[seconds % 2]
            setup.telemetry.retried(HERE, error)
            setup.telemetry.report([replace(STATUS, state=state)], ledger_up=True)
    return [line["log_level"] for line in lines if line["event"] == "retried"]


@pytest.mark.parametrize("odd", [0, 1], ids=["no answer", "outcome unknown"])
def test_a_server_that_is_out_is_told_after_a_minute_and_again_later(
    setup: Setup, odd: int
) -> None:
    commit(setup)
    setup.clock.sleep(1)
    assert fail(setup, 60 + odd) == ["info"] + 11 * ["debug"]
    assert setup.health.ready().status == 200
    assert fail(setup, 5 + odd) == ["warning"]
    assert "the object store, the ledger or another" in setup.health.ready().body.decode()
    assert set(fail(setup, 295 + odd)) == {"debug"}
    assert fail(setup, 5 + odd) == ["warning"]
    with capture_logs() as lines:
        commit(setup)
    (over,) = [line for line in lines if line["event"] == "over"]
    assert (over["kind"], over["seconds"]) == ("unavailable", 360)
    setup.telemetry.report([STATUS], ledger_up=True)
    assert setup.health.ready().status == 200


def test_hiccups_are_no_warning_while_others_commit(setup: Setup) -> None:
    other = TopicPartition("clicks", 4)
    for turn in range(10):
        commit(setup, other)
        assert fail(setup, 30) == ["debug" if turn else "info", *5 * ["debug"]]
        assert setup.health.ready().status == 200
    with capture_logs() as lines:
        commit(setup)
    assert [line["event"] for line in lines] == ["committed", "over"]


def test_retries_are_one_line_when_they_begin_and_one_with_their_number_when_they_are_over(
    setup: Setup,
) -> None:
    partitions = [TopicPartition("clicks", number) for number in range(4)]
    with capture_logs() as lines:
        for _ in range(50):
            setup.clock.sleep(0.2)
            for where in partitions:
                setup.telemetry.retried(where, Unavailable("ZooKeeper does not answer"))
        for where in partitions:
            commit(setup, where)
    shown = [line for line in lines if line["log_level"] != "debug"]
    assert [line["event"] for line in shown] == ["retried", *4 * ["committed"], "over"]
    assert (shown[-1]["seconds"], shown[-1]["times"]) == (10, 200)


def test_the_warning_of_a_server_that_is_out_says_what_is_done(setup: Setup) -> None:
    setup.telemetry.retried(HERE, Unavailable("no answer"))
    setup.clock.sleep(60)
    with capture_logs() as lines:
        setup.telemetry.retried(HERE, Unavailable("no answer"))
    assert "secor doctor" in lines[0]["next"]


def test_a_committed_batch_is_one_line_with_all_that_it_is(setup: Setup) -> None:
    with capture_logs() as lines:
        commit(setup)
    assert lines == [
        {
            "event": "committed",
            "log_level": "info",
            "topic": "clicks",
            "partition": 3,
            "start": 10,
            "end": 30,
            "objects": 2,
            "bytes": 5000,
            "seconds": 12.3,
        }
    ]


def test_many_committed_batches_are_summed_up(setup: Setup) -> None:
    with capture_logs() as lines:
        for _ in range(25):
            commit(setup)
        setup.clock.sleep(9)
        setup.telemetry.report([], ledger_up=True)
        assert len(lines) == LINES
        setup.clock.sleep(1)
        setup.telemetry.report([], ledger_up=True)
        setup.clock.sleep(20)
        setup.telemetry.report([], ledger_up=True)
        commit(setup)
    assert [line["event"] for line in lines[LINES:]] == ["committed_more", "committed"]
    more = lines[LINES]
    assert (more["batches"], more["objects"], more["bytes"]) == (15, 30, 75_000)
    assert more["seconds"] == 10.0


def test_what_text_loses_is_counted(setup: Setup) -> None:
    commit(setup, no_value=3, delimiter_in_value=0)
    commit(setup, no_value=1)
    assert setup.value("secor_text_losses_total", reason="no_value") == 4
    assert setup.value("secor_text_losses_total", reason="delimiter_in_value") is None


STOPPED = replace(
    STATUS, state=ReadingState.STOPPED, next_offset=None, oldest_batch=None, stopped_at=150.0
)


def test_a_stopped_partition_goes_on_falling_behind(setup: Setup) -> None:
    for state in (ReadingState.STOPPED, ReadingState.POSITIONING, ReadingState.STOPPED):
        setup.clock.sleep(100)
        setup.telemetry.report([replace(STOPPED, state=state, known_end=1160)], ledger_up=True)
    assert setup.value("secor_lag_offsets") == 1060
    assert setup.value("secor_lag_seconds") == 950.0 + 350 - 995
    assert setup.value("secor_oldest_uncommitted_seconds") == 200
    assert setup.value("secor_commit_age_seconds") == 320


def test_a_partition_that_is_stopped_from_the_beginning_has_the_age_of_its_stop(
    setup: Setup,
) -> None:
    setup.clock.sleep(240)
    fresh = replace(STOPPED, committed=None, last_timestamp=None, committed_at=None)
    setup.telemetry.report([fresh], ledger_up=True)
    assert setup.value("secor_lag_offsets") is None
    assert setup.value("secor_lag_seconds") == 140


def test_the_lag_of_a_topic_that_was_made_again_is_not_nothing(setup: Setup) -> None:
    setup.telemetry.report([STATUS], ledger_up=True)
    assert setup.value("secor_lag_offsets") == 60
    setup.clock.sleep(130)
    setup.telemetry.report([replace(STOPPED, known_end=7)], ledger_up=True)
    assert setup.value("secor_lag_offsets") is None
    assert setup.value("secor_oldest_uncommitted_seconds") == 30


def test_a_stopped_partition_with_nothing_to_read_is_not_behind(setup: Setup) -> None:
    setup.clock.sleep(130)
    setup.telemetry.report([replace(STOPPED, committed=160)], ledger_up=True)
    assert setup.value("secor_lag_offsets") == 0
    assert setup.value("secor_lag_seconds") == 0
    assert setup.value("secor_oldest_uncommitted_seconds") == 0


def test_the_lag_goes_by_the_end_of_the_log_as_it_is_now(setup: Setup) -> None:
    for end, lag in ((160, 60), (400, 300), (150, 50)):
        setup.telemetry.report([replace(STATUS, known_end=end)], ledger_up=True)
        assert setup.value("secor_lag_offsets") == lag


def test_what_failed_over_messages_is_logged_with_its_traceback_and_offsets(setup: Setup) -> None:
    cause = TypeError("a defect")
    failed = MessagesUnwritable("TypeError: a defect", 10, 20)
    failed.__cause__ = cause
    with capture_logs() as lines:
        setup.telemetry.restarted(HERE, failed)
        setup.telemetry.restarted(HERE, MessagesUnwritable("offset 12: a defect", 10, 20, {12: ""}))
    assert [line["event"] for line in lines] == ["failed_over_messages", "restarted", "restarted"]
    assert lines[0]["exc_info"] is cause
    assert lines[1]["error"] == "messages in [10, 20): TypeError: a defect"
    assert setup.value("secor_restarts_total", reason="messages_unwritable") == 2
