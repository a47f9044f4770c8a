"""Marking hours and days: only what every kafka partition has passed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c

from secor.archive.finalize.commands import PartitionCommandLine, literal, names_and_values, split
from secor.archive.finalize.finalizer import Action, FinalizedTopic, Finalizer, Leaf
from secor.archive.finalize.periods import Period, Periods
from secor.archive.finalize.stored_time import StoredTime, progress_of
from secor.core.errors import ActionFailed, ConfigurationError, SecorError
from secor.core.model import Entry, Intent, LogRange, TopicPartition
from secor.core.naming import ObjectName
from secor.parsing.layout import Layout
from secor.parsing.zones import Zone
from secor.wiring.plans import plan_for
from tests.fakes.archive import MemoryLog, OperatorLedger, messages
from tests.fakes.store import FakeStore
from tests.unit.archive.parsed_world import config

HERE, THERE = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
HOURS = "dt={time:%Y-%m-%d}/hr={time:%H}"


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def periods(template: str, zone: str = "UTC") -> Periods:
    return Periods(Layout(template, Zone(zone)))


# ------------------------------------------------------------------------ periods


@pytest.mark.parametrize(
    ("template", "path", "expected"),
    [
        (HOURS, "dt=2026-11-21/hr=04", ("2026-11-21T04:00", "2026-11-21T05:00")),
        ("dt={time:%Y-%m-%d}", "dt=2026-02-28", ("2026-02-28", "2026-03-01")),
        ("{time:%Y/%m}", "2026/12", ("2026-12-01", "2027-01-01")),
        ("y={time:%Y}", "y=2026", ("2026-01-01", "2027-01-01")),
        ("d={time:%y%j}", "d=24366", ("2024-12-31", "2025-01-01")),
        (
            HOURS + "/min={time:%M}",
            "dt=2026-11-21/hr=04/min=59",
            ("2026-11-21T04:59", "2026-11-21T05:00"),
        ),
    ],
)
def test_a_directory_tells_what_time_it_is_about(
    template: str, path: str, expected: tuple[str, str]
) -> None:
    start, end = map(at, expected)
    assert periods(template).of(path) == Period(path, start, end)


@pytest.mark.parametrize(
    ("template", "path"),
    [("{time:%Y}", "9999"), ("{time:%Y-%m}", "9999-12"), ("dt={time:%Y-%m-%d}", "dt=9999-12-31")],
)
def test_the_last_day_there_is_is_told_from_another_layout(template: str, path: str) -> None:
    found = periods(template, "Asia/Tokyo").of(path)
    assert found is not None
    assert found.end > at("9999-12-31T14:59:59")
    assert periods(template).of("nothing") is None


def test_fields_before_the_time_belong_to_the_directory_and_those_behind_it_do_not() -> None:
    found = periods("{country}/dt={time:%Y-%m-%d}/{kind}").of("NL/dt=2026-11-21/click")
    assert found is not None
    assert found.path == "NL/dt=2026-11-21"


def test_line_19_a_day_where_clocks_change_has_as_many_hours_as_it_has() -> None:
    days = periods("dt={time:%Y-%m-%d}", "Europe/Amsterdam")
    lengths = [
        period.end - period.start
        for path in ("dt=2026-03-29", "dt=2026-06-01", "dt=2026-10-25")
        if (period := days.of(path))
    ]
    assert lengths == [23 * 3600, 24 * 3600, 25 * 3600]


def test_line_19_a_time_that_occurs_twice_is_over_when_it_is_over_for_the_second_time() -> None:
    minutes = periods(HOURS + "/min={time:%M}", "Europe/Amsterdam")
    found = minutes.of("dt=2026-10-25/hr=02/min=30")
    assert found is not None
    assert (found.start, found.end) == (at("2026-10-25T00:30"), at("2026-10-25T01:31"))
    hour = periods(HOURS, "Europe/Amsterdam").of("dt=2026-10-25/hr=01")
    assert hour is not None
    assert hour.end == at("2026-10-25T00:00")


@pytest.mark.parametrize(
    "path", ["dt=2026-02-30/hr=01", "hr=04", "dt=2026-11-21/hr=4", "dt=x/hr=01"]
)
def test_directories_of_other_layouts_are_about_no_time(path: str) -> None:
    assert periods(HOURS).of(path) is None


@pytest.mark.parametrize("template", ["hr={time:%H}", "{country}", "d={time:%Y-%d}"])
def test_a_layout_without_whole_days_cannot_be_finalized(template: str) -> None:
    with pytest.raises(ConfigurationError, match="whole"):
        periods(template)


# ----------------------------------------------------------------------- progress

FIRST = 1_700_000_000  # 2023-11-14T22:13:20, in messages of tests/fakes


def progress(ledger: OperatorLedger, log: MemoryLog, **parser: object) -> StoredTime:
    given = {"time_field": "time", **parser}
    return progress_of(
        HERE,
        "today's",
        ledger=ledger,
        log=log,
        parser=plan_for(config(given), "clicks", limited=False).parser,
        periods=periods("dt={time:%Y-%m-%d}"),
        now=lambda: at("2026-11-21"),
    )


def log_of(times: list[int]) -> MemoryLog:
    log = MemoryLog()
    values = [b'{"time": %d}' % time for time in times]
    log.put(HERE, messages(range(len(times)), values.__getitem__), len(times))
    return log


def test_line_22_a_partition_that_never_committed_holds_everything_back() -> None:
    """Scenario 22."""
    found = progress(OperatorLedger(), log_of([FIRST]))
    assert (found.through, found.why) == (None, "has never committed")


def test_line_22_an_idle_partition_holds_nothing_back() -> None:
    """Scenario 22."""
    found = progress(OperatorLedger({HERE: Entry(1)}), log_of([FIRST]))
    assert found.through == at("2026-11-21")


def test_a_partition_behind_has_come_as_far_as_its_next_messages() -> None:
    found = progress(OperatorLedger({HERE: Entry(1)}), log_of([FIRST] * 3))
    assert found.through == at("2023-11-14")
    assert "2 behind" in found.why


def test_messages_of_older_days_hold_those_days_back() -> None:
    old = int(at("2020-01-05T10:00"))
    found = progress(OperatorLedger({HERE: Entry(1)}), log_of([FIRST, old, FIRST]))
    assert found.through == at("2020-01-05")


def test_a_message_from_the_future_does_not_hide_the_ones_behind_it() -> None:
    future = int(at("2100-01-01"))
    log = log_of([future] * 9 + [FIRST])
    records = log.records[HERE]
    times = pa.array([*[future * 1000] * 9, FIRST * 1000], pa.int64())
    log.records[HERE] = records.set_column(1, records.schema.field(1), times)
    found = progress(OperatorLedger({HERE: Entry(0)}), log)
    assert found.through == at("2023-11-14")
    log.put(HERE, log.records[HERE].slice(0, 9), 9)
    found = progress(OperatorLedger({HERE: Entry(0)}), log)
    assert found.through == at("2026-11-21")
    assert "from the future" in found.why


def test_messages_behind_an_open_transaction_hold_back_their_hours_and_no_earlier_ones() -> None:
    log = log_of([FIRST, FIRST, FIRST])
    log.ranges[HERE] = LogRange(0, 1, high_watermark=3)
    found = progress(OperatorLedger({HERE: Entry(1)}), log)
    assert found.through == at("2023-11-14")
    assert found.why == "waits at offset 1, 0 behind, and 2 behind an open transaction"
    found = progress(OperatorLedger({HERE: Entry(0)}), log)
    assert found.through == at("2023-11-14")
    assert found.why == "waits at offset 0, 1 behind, and 2 behind an open transaction"


def test_a_partition_committed_beyond_the_last_stable_offset_waits_at_its_offset() -> None:
    """Java Secor and Kafka's own tools commit high watermarks."""
    log = log_of([FIRST, FIRST, int(at("2023-12-01"))])
    log.ranges[HERE] = LogRange(0, 1, high_watermark=3)
    found = progress(OperatorLedger({HERE: Entry(2)}), log)
    assert found.through == at("2023-11-14T22:13:20.002")
    assert found.why == "waits at offset 2, 0 behind, and 2 behind an open transaction"


def test_messages_for_quarantine_are_as_old_as_kafka_says() -> None:
    found = progress(OperatorLedger({HERE: Entry(0)}), log_of([FIRST]), time_field="none_such")
    assert found.through == FIRST


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (Entry(9), "the log ends at 1"),
        (Entry(1, topic_id="another"), "deleted and created again"),
        (Entry(1, Intent(0, 1, "f", "o", 0.0, "p/clicks")), "open intent begins at 0"),
    ],
)
def test_line_22_a_partition_whose_daemon_stops_is_not_up_to_date(entry: Entry, why: str) -> None:
    """The topic was made again, say: nothing of what it has now is stored."""
    found = progress(OperatorLedger({HERE: entry}), log_of([FIRST]))
    assert found.through is None
    assert why in found.why


def test_an_entry_that_cannot_be_read_holds_its_topic_back_and_no_other() -> None:
    found = progress(OperatorLedger(corrupt={HERE}), log_of([FIRST]))
    assert found.through is None
    assert "no offset" in found.why


# ---------------------------------------------------------------------- finalizer


@dataclass
class Directory:
    """The directory of a topic in a store whose clock is set by hand."""

    clock: float = field(default_factory=lambda: at("2026-11-21T04:30"))
    template: str = HOURS
    scratch: Path = Path()

    def __post_init__(self) -> None:
        self.store = FakeStore(now=lambda: self.clock)

    def put(self, output_partition: str, offset: int, partition: int = 0) -> str:
        name = ObjectName("p/clicks", output_partition, 1, partition, offset, ".seq")
        path = self.scratch / "object"
        path.write_bytes(b"x")
        self.store.put(name.key, path, crc32c(b"x"), {})
        return name.key

    def run(
        self, *through: float | None, actions: tuple[Action, ...] = (), dry_run: bool = False
    ) -> FinalizedTopic:
        found = [
            StoredTime(TopicPartition("clicks", number), 10 * (number + 1), one, "waits")
            for number, one in enumerate(through)
        ]
        finalizer = Finalizer(
            self.store,
            "p/clicks",
            "clicks",
            periods(self.template),
            delay=3600.0,
            now=lambda: self.clock,
            by="secor test",
            actions=actions,
        )
        return finalizer.run(found, dry_run=dry_run)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    made = Directory(scratch=tmp_path)
    for hour, offset in (("03", 0), ("03", 4), ("04", 8)):
        made.put(f"dt=2026-11-21/hr={hour}", offset)
    return made


MARKER = "p/clicks/dt=2026-11-21/hr=03/_SUCCESS"


def paths(outcome: FinalizedTopic) -> list[str]:
    return [standing.period.path for standing in outcome.marked]


def test_an_hour_is_marked_when_every_partition_has_passed_it_and_the_delay(
    directory: Directory,
) -> None:
    early = directory.run(at("2026-11-21T09:00"), at("2026-11-21T04:59"))
    assert paths(early) == []
    assert early.slowest_partition is not None
    assert early.slowest_partition.topic_partition == THERE
    outcome = directory.run(at("2026-11-21T09:00"), at("2026-11-21T05:00"))
    assert paths(outcome) == ["dt=2026-11-21/hr=03"]
    assert [standing.period.path for standing in outcome.waiting] == ["dt=2026-11-21/hr=04"]
    body = json.loads(directory.store.content(MARKER))
    assert body["offsets"] == {"clicks": {"0": 10, "1": 20}}
    assert (body["at"], body["by"], body["objects"]) == (
        "2026-11-21T04:30:00+00:00",
        "secor test",
        2,
    )


def test_a_partition_that_nobody_can_tell_of_holds_the_mark_back(directory: Directory) -> None:
    """Scenario 22: also if the others are years ahead."""
    outcome = directory.run(at("2030-01-01"), None)
    assert paths(outcome) == []
    assert outcome.slowest_partition is not None
    assert outcome.slowest_partition.topic_partition == THERE


def test_a_mark_is_put_once(directory: Directory) -> None:
    directory.run(at("2026-11-21T05:00"))
    before = directory.store.content(MARKER)
    directory.clock += 600
    assert paths(directory.run(at("2026-11-21T05:30"))) == []
    assert directory.store.content(MARKER) == before


def test_a_dry_run_marks_nothing(directory: Directory) -> None:
    outcome = directory.run(at("2026-11-21T05:00"), dry_run=True)
    assert paths(outcome) == ["dt=2026-11-21/hr=03"]
    assert MARKER not in directory.store.objects


def test_line_22_objects_that_come_after_the_mark_are_reported(directory: Directory) -> None:
    """Scenario 22: late data for a closed hour is in its own file, and is told of."""
    directory.run(at("2026-11-21T05:00"))
    directory.clock += 60
    late = directory.put("dt=2026-11-21/hr=03", 12)
    earlier_offset = directory.put("dt=2026-11-21/hr=03", 2)
    [found] = directory.run(at("2026-11-21T05:01")).late
    assert found.path == "dt=2026-11-21/hr=03"
    assert set(found.keys) == {late, earlier_offset}


def test_line_22_an_object_beyond_the_marks_offsets_is_late_even_within_the_same_second(
    directory: Directory,
) -> None:
    directory.run(at("2026-11-21T05:00"))
    beyond = directory.put("dt=2026-11-21/hr=03", 10)
    directory.put("dt=2026-11-21/hr=03", 9)
    [found] = directory.run(at("2026-11-21T05:00")).late
    assert found.keys == (beyond,)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"\xff", b'{"offsets": [1]}'])
def test_a_marker_that_is_none_of_ours_is_told_of_and_others_are_set(
    directory: Directory, tmp_path: Path, body: bytes
) -> None:
    path = tmp_path / "marker"
    path.write_bytes(body)
    directory.store.put(MARKER, path, crc32c(body), {})
    directory.put("dt=2026-11-21/hr=02", 8)
    outcome = directory.run(at("2026-11-21T05:00"))
    [(failed, why)] = outcome.failed
    assert failed == "dt=2026-11-21/hr=03"
    assert "delete it to mark anew" in why
    assert "dt=2026-11-21/hr=02" in [it.period.path for it in outcome.marked]


def test_objects_of_another_layout_are_passed_over_and_counted(directory: Directory) -> None:
    directory.put("offset=0", 20)
    directory.put("from=views/dt=2026-11-21/hr=03", 21)
    assert directory.run(at("2026-11-21T05:00")).strange == 1


def test_actions_come_before_the_mark_for_each_directory_with_objects(tmp_path: Path) -> None:
    directory = Directory(template="dt={time:%Y-%m-%d}/{kind}", scratch=tmp_path)
    directory.put("dt=2026-11-20/a", 0)
    directory.put("dt=2026-11-20/b", 1)
    seen: list[Leaf] = []

    def action(leaf: Leaf) -> None:
        assert "p/clicks/dt=2026-11-20/_SUCCESS" not in directory.store.objects
        seen.append(leaf)

    directory.run(at("2026-11-21T05:00"), actions=(action,))
    assert [leaf.key for leaf in seen] == ["p/clicks/dt=2026-11-20/a", "p/clicks/dt=2026-11-20/b"]
    assert "p/clicks/dt=2026-11-20/_SUCCESS" in directory.store.objects


@pytest.mark.parametrize("kind", [ActionFailed, ConfigurationError])
def test_what_fails_is_not_marked_and_tried_again(
    directory: Directory, kind: type[SecorError]
) -> None:
    """Also where Glue has no such table for this topic: the others go on."""

    def action(leaf: Leaf) -> None:
        raise kind("no table")

    outcome = directory.run(at("2026-11-21T05:00"), actions=(action,))
    assert outcome.failed == [("dt=2026-11-21/hr=03", "no table")]
    assert MARKER not in directory.store.objects
    assert paths(directory.run(at("2026-11-21T05:00"))) == ["dt=2026-11-21/hr=03"]


# ----------------------------------------------------------------------- commands

LEAF = Leaf(
    "clicks", "country=O%27Brien; rm/dt=2026-11-21", "p/clicks/country=O%27Brien; rm/dt=2026-11-21"
)


def test_a_command_gets_values_as_single_arguments_and_as_literals(tmp_path: Path) -> None:
    out = tmp_path / "out"
    template = (
        """sh -c 'printf "%s\\n" "$@" >"$0"' """
        f"{out} 'ADD IF NOT EXISTS PARTITION ({{partition}}) LOCATION {{location}}' {{url}}"
    )
    PartitionCommandLine(template, base="s3://logs", timeout=60)(LEAF)
    assert out.read_text().splitlines() == [
        (
            r"ADD IF NOT EXISTS PARTITION (`country`='O\'Brien\u003b rm', `dt`='2026-11-21')"
            r" LOCATION 's3://logs/p/clicks/country=O%27Brien\u003b rm/dt=2026-11-21'"
        ),
        "s3://logs/p/clicks/country=O%27Brien; rm/dt=2026-11-21",
    ]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("sh -c 'echo no table >&2; exit 3'", "ended with 3: no table"),
        ("/nowhere/hive {path}", "cannot be started"),
    ],
)
def test_a_command_that_fails_says_why(template: str, expected: str) -> None:
    with pytest.raises(ActionFailed, match=expected):
        PartitionCommandLine(template, base="s3://logs", timeout=60)(LEAF)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("sh -c 'printf \\\\377 >&2; exit 3'", "ended with 3: \ufffd"),
        ("sh -c 'read line' {path}", "ended with 1"),
    ],
)
def test_a_command_gets_no_input_and_may_say_anything(template: str, expected: str) -> None:
    with pytest.raises(ActionFailed, match=expected):
        PartitionCommandLine(template, base="s3://logs", timeout=60)(LEAF)


def test_line_21_a_value_with_a_null_byte_does_not_end_the_finalizer(tmp_path: Path) -> None:
    """Scenario 21: anybody who may produce could keep every hour from being marked."""
    out = tmp_path / "out"
    leaf = Leaf("clicks", "user=a%00b%0Ac", "p/clicks/user=a%00b%0Ac")
    PartitionCommandLine(
        f"""sh -c 'printf %s "$1" >"$0"' {out} {{partition}}""", base="", timeout=60
    )(leaf)
    assert out.read_text() == r"`user`='a\u0000b\u000ac'"


def test_line_21_what_a_value_says_is_no_second_statement_and_no_variable() -> None:
    """Scenario 21: Hive's shells cut at semicolons and fill in variables within literals, too."""
    assert literal("x'; DROP TABLE t; --${env:HOME}`id`") == (
        r"'x\'\u003b DROP TABLE t\u003b --\u0024{env:HOME}\u0060id\u0060'"
    )


@pytest.mark.parametrize("template", ["hive {tabel}", "hive 'x", " "])
def test_a_template_that_cannot_work_is_refused(template: str) -> None:
    with pytest.raises(ConfigurationError):
        split(template)


def test_a_directory_without_names_is_no_partition_of_a_table() -> None:
    with pytest.raises(ConfigurationError, match="name=value"):
        names_and_values("2026/11")


def test_a_literal_cannot_be_left() -> None:
    assert literal("a'b\\") == r"'a\'b\\'"
