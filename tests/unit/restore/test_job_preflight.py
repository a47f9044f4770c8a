from __future__ import annotations

from dataclasses import dataclass

import pytest

from secor.restore.job_preflight import promise_findings, source_findings, space_findings
from secor.restore.preflight import Severity
from tests.simulation.restore_world import ListSource


@dataclass
class AnsweringSource(ListSource):
    """Says of itself what the test wants."""

    exact: bool | None = True
    transactions: bool = True

    def exactly_once(self) -> bool | None:  # type: ignore[override]
        return self.exact

    def defines_transactions(self) -> bool:
        return self.transactions


@pytest.mark.parametrize(
    ("exact", "what"),
    [(None, "does not say whether it gives the same"), (False, "does not give the same records")],
)
def test_a_source_that_does_not_say_yes_is_refused_where_each_message_is_wanted_once(
    exact: bool | None, what: str
) -> None:
    source = AnsweringSource(exact=exact)
    (finding,) = source_findings(source, required=True, boundary="interval")
    assert finding.severity is Severity.REFUSE
    assert what in finding.what
    assert not list(source_findings(source, required=False, boundary="interval"))


def test_a_source_that_says_yes_may_begin() -> None:
    assert not list(source_findings(AnsweringSource(), required=True, boundary="source"))


def test_a_source_without_transactions_cannot_end_them() -> None:
    source = AnsweringSource(transactions=False)
    (finding,) = source_findings(source, required=True, boundary="source")
    assert finding.severity is Severity.REFUSE
    assert 'writing.boundary = "interval"' in finding.what
    assert not list(source_findings(source, required=True, boundary="poll"))


def test_a_job_without_transactions_is_told_what_that_means() -> None:
    (finding,) = promise_findings(transactional=False, interval=5.0)
    assert finding.severity is Severity.WARN
    assert "since the last offset (writing.interval = 5 s) are written again" in finding.what
    assert not list(promise_findings(transactional=True, interval=5.0))


def test_too_little_room_on_the_disks_is_told_where_it_is_known() -> None:
    (finding,) = space_findings(2_000, 1_999)
    assert finding.severity is Severity.WARN
    assert "1,999 bytes free" in finding.what
    assert not list(space_findings(2_000, 2_000))
    assert not list(space_findings(2_000, None))
