"""When a batch is due."""

import pytest

from secor.batch.policy import HOUR, Age, BatchFacts, Policy, Reason, due, next_mark

NOON = 1_700_000_000.0 - 1_700_000_000.0 % HOUR


def facts(**changes: float) -> BatchFacts:
    defaults = {"size": 10, "messages": 1, "opened": 100.0, "youngest": 100.0, "opened_at": NOON}
    return BatchFacts(**{**defaults, **changes})  # type: ignore[arg-type]


def test_a_policy_without_rules_is_never_due() -> None:
    assert due(Policy(), facts(size=1 << 60), monotonic=1e9, now=NOON + 1e9) is None


def test_size_is_due_at_the_limit() -> None:
    policy = Policy(max_bytes=100)
    assert due(policy, facts(size=99), monotonic=100, now=NOON) is None
    assert due(policy, facts(size=100), monotonic=100, now=NOON) is Reason.BYTES


def test_messages_are_due_at_the_limit() -> None:
    policy = Policy(max_messages=3)
    assert due(policy, facts(messages=2), monotonic=100, now=NOON) is None
    assert due(policy, facts(messages=3), monotonic=100, now=NOON) is Reason.MESSAGES


def test_the_age_counts_from_the_first_message_on_the_monotonic_clock() -> None:
    policy = Policy(max_age=60)
    assert due(policy, facts(), monotonic=159.9, now=NOON + 1e6) is None
    assert due(policy, facts(), monotonic=160, now=NOON - 1e6) is Reason.AGE


def test_the_youngest_file_puts_the_age_off_but_not_for_ever() -> None:
    policy = Policy(max_age=60, age=Age.YOUNGEST)
    assert due(policy, facts(youngest=150), monotonic=170, now=NOON) is None
    assert due(policy, facts(youngest=150), monotonic=210, now=NOON) is Reason.AGE
    assert due(policy, facts(youngest=339), monotonic=340, now=NOON) is Reason.AGE


@pytest.mark.parametrize(
    ("after", "mark"),
    [(0, 300), (299, 300), (300, HOUR + 300), (301, HOUR + 300), (HOUR - 1, HOUR + 300)],
)
def test_the_next_mark_is_strictly_later(after: float, mark: float) -> None:
    assert next_mark(5, NOON + after) == NOON + mark


def test_a_minute_mark_fires_once_and_is_not_missed() -> None:
    policy = Policy(minute_mark=5)
    opened = facts(opened_at=NOON + 299)
    assert due(policy, opened, monotonic=100, now=NOON + 299.9) is None
    assert due(policy, opened, monotonic=101, now=NOON + 300) is Reason.MINUTE_MARK
    assert due(policy, opened, monotonic=400, now=NOON + 320) is Reason.MINUTE_MARK
    after = facts(opened_at=NOON + 300)
    assert due(policy, after, monotonic=101, now=NOON + 301) is None


def test_a_clock_that_steps_back_does_not_stop_the_minute_mark() -> None:
    policy = Policy(minute_mark=5)
    opened = facts(opened_at=NOON + 86_400)
    assert due(policy, opened, monotonic=100 + HOUR - 1, now=NOON) is None
    assert due(policy, opened, monotonic=100 + HOUR, now=NOON) is Reason.MINUTE_MARK
