"""The probe of fencing, against the simulated coordinator."""

from __future__ import annotations

import pytest

from secor.core.errors import Unavailable
from secor.core.transactions import BrokerCode, IdentityAnswer
from secor.restore.fencing_probe import probe_fencing, probe_id
from secor.restore.preflight import JobFinding, Severity
from tests.fakes.transactions import FakeCluster


class NotFencing(FakeCluster):
    """Takes requests of identities that were replaced."""

    def end_transaction(self, *_args: object, **_more: object) -> IdentityAnswer:
        return IdentityAnswer(BrokerCode.NONE)


VERSIONS = pytest.mark.parametrize("version", [1, 2])


def probe(cluster: FakeCluster) -> list[JobFinding]:
    return probe_fencing(
        cluster, "job", transaction_timeout=60.0, request_timeout=1.0, clock=cluster.clock
    )


@VERSIONS
def test_a_cluster_that_fences_is_not_talked_about(version: int) -> None:
    assert probe(FakeCluster({}, version=version)) == []


def test_one_that_does_not_is_refused() -> None:
    (finding,) = probe(NotFencing({}))
    assert finding.severity is Severity.REFUSE
    assert finding.topic == probe_id("job")
    assert "is not fenced" in finding.what


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (BrokerCode.INVALID_TRANSACTION_TIMEOUT, "transaction.max.timeout.ms; lower it"),
        (
            BrokerCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "allow this user Write on transactional ids that begin with secor:job:",
        ),
    ],
)
def test_what_the_coordinator_refuses_is_told_with_what_to_do(
    code: BrokerCode, advice: str
) -> None:
    cluster = FakeCluster({})
    cluster.refuse["init_producer_id"] = [code]
    (finding,) = probe(cluster)
    assert finding.what.endswith(advice)


def test_a_coordinator_that_is_not_there_is_no_fault_of_the_job() -> None:
    cluster = FakeCluster({})
    cluster.refuse["init_producer_id"] = [BrokerCode.COORDINATOR_LOAD_IN_PROGRESS] * 10_000
    with pytest.raises(Unavailable, match="the coordinator of transactions"):
        probe(cluster)
