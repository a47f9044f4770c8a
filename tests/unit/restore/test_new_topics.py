"""What missing targets are made with."""

from __future__ import annotations

import pytest

from secor.restore.new_topics import (
    NO_LIMIT,
    changed_since,
    held_back,
    new_topic,
    without_time_limits,
)
from secor.restore.preflight import Severity, making

ARCHIVED = {
    "max.message.bytes": "9000000",
    "cleanup.policy": "compact",
    "retention.ms": "1000",
    "message.timestamp.before.max.ms": "5",
    "min.insync.replicas": "2",
}


def test_nothing_is_deleted_though_the_archive_says_nothing() -> None:
    new = new_topic(3, None, {}, None, {})
    assert (new.partitions, dict(new.settings), new.later) == (3, {"retention.ms": "-1"}, {})
    assert list(making("clicks", new, None)) == []


def test_archived_settings_come_back_but_for_those_that_would_delete_or_refuse() -> None:
    new = new_topic(3, 8, ARCHIVED, None, {})
    assert new.partitions == 8
    assert dict(new.settings) == {
        "max.message.bytes": "9000000",
        "cleanup.policy": "delete",
        "retention.ms": "-1",
    }
    assert dict(new.later) == {
        "cleanup.policy": "compact",
        "retention.ms": "1000",
        "message.timestamp.before.max.ms": "5",
    }
    assert dict(new.left_out) == {"min.insync.replicas": "2"}
    later, left_out = making("clicks", new, None)
    assert later.severity is Severity.WARN
    assert "made without cleanup.policy=compact, message.timestamp" in later.what
    assert "min.insync.replicas=2" in left_out.what


def test_what_the_job_says_goes_before_what_the_archive_knows() -> None:
    wanted = {"cleanup.policy": "compact", "retention.ms": "7", "min.insync.replicas": "1"}
    new = new_topic(3, 8, ARCHIVED, 4, wanted)
    assert new.partitions == 4
    assert dict(new.settings) == {"max.message.bytes": "9000000", **wanted}
    assert dict(new.later) == {"message.timestamp.before.max.ms": "5"}
    assert dict(new.left_out) == {}


@pytest.mark.parametrize("name", ["cleanup.policy", "retention.bytes", "message.timestamp.type"])
def test_settings_that_keep_everything_come_back_as_they_were(name: str) -> None:
    keeps = {"cleanup.policy": "delete", "retention.bytes": "-1"}
    value = keeps.get(name, "CreateTime")
    new = new_topic(1, 1, {name: value}, None, {})
    assert new.settings[name] == value
    assert new.later == {}


def test_a_topic_that_the_brokers_would_not_make_is_told_before_anything_is_written() -> None:
    (finding,) = making("clicks", new_topic(1, 1, {}, None, {}), "allow this user Create")
    assert finding.severity is Severity.REFUSE
    assert finding.what.endswith("cannot be made: allow this user Create")


def test_limits_of_times_are_lifted_where_the_brokers_have_any() -> None:
    after, before = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"
    new = new_topic(1, 1, {after: NO_LIMIT, before: "5"}, None, {})
    assert dict(new.later) == {before: "5"}
    made = without_time_limits(new, {after: "3600000", before: NO_LIMIT}, {})
    assert dict(made.settings) == {"retention.ms": "-1", after: NO_LIMIT}
    # Brokers that do not know a limit refuse to set it; what the job says is left alone.
    assert without_time_limits(new, {}, {}) == new
    assert without_time_limits(new, {after: "7"}, {after: "7"}) == new


def test_what_was_held_back_is_set_at_the_end_and_what_was_added_is_taken_away() -> None:
    new = new_topic(1, None, ARCHIVED, None, {})
    made = {**new.settings, "message.timestamp.before.max.ms": NO_LIMIT}
    expected = {
        "cleanup.policy": "compact",
        "retention.ms": "1000",
        "message.timestamp.before.max.ms": "5",
    }
    assert held_back(ARCHIVED, {}, made) == expected
    assert held_back(ARCHIVED, {}, None) == {
        **expected,
        "message.timestamp.after.max.ms": None,
        "message.timestamp.difference.max.ms": None,
    }
    assert held_back(ARCHIVED, {}, {**made, **expected}) == {}
    plain = new_topic(1, None, {}, None, {})
    assert held_back({}, {}, plain.settings) == {"retention.ms": None}
    assert held_back({}, {}, {}) == {}


def test_a_setting_that_somebody_has_changed_since_stays() -> None:
    made = dict(new_topic(1, None, ARCHIVED, None, {}).settings)
    changed = {**made, "retention.ms": "77", "message.timestamp.before.max.ms": "5"}
    assert held_back(ARCHIVED, {}, changed) == {"cleanup.policy": "compact"}
    assert changed_since(ARCHIVED, {}, changed) == ["retention.ms"]
    wanted = {"retention.ms": "9"}
    assert "retention.ms" not in held_back(ARCHIVED, wanted, made)
