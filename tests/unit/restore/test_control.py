from __future__ import annotations

import pytest

from secor.core.errors import (
    ConfigurationError,
    LedgerCorrupt,
    OffsetsTopicGone,
    SpecChanged,
    Unavailable,
)
from secor.core.model import TopicPartition
from secor.restore.control import JobControl, JobRecord, RequestedState
from secor.restore.job_preflight import record_findings
from secor.restore.offsets import job_key, record
from secor.restore.preflight import Severity
from tests.simulation.restore_world import World

WHERE = TopicPartition("secor-restore-job", 1)


def control_of(world: World) -> JobControl:
    return JobControl("job", WHERE, world.cluster, world.make_writer, world.cluster.clock)


def test_the_first_start_writes_the_record_and_later_ones_find_it() -> None:
    world = World()
    control = control_of(world)
    assert control.read() is None
    first = control.start("spec", 2)
    assert first == JobRecord(RequestedState.RUNNING, 1, "spec", 2)
    assert control_of(world).start("spec", 2) == first


def test_the_ids_of_targets_are_kept_from_their_first_start_until_offsets_are_reset() -> None:
    control = control_of(World())
    control.start("spec", 2, targets={"a": "1"})
    assert control.start("spec", 2, targets={"a": "2", "b": "3"}).targets == {"a": "1", "b": "3"}
    assert control.request(RequestedState.STOPPED).targets == {"a": "1", "b": "3"}
    known = control.read()
    assert known is not None
    assert known.targets == {"a": "1", "b": "3"}
    assert control.adopt("spec").targets == {}


def test_a_record_without_ids_of_targets_is_read() -> None:
    world = World()
    control = control_of(world)
    control.start("spec", 2)
    writer = world.make_writer("older")
    writer.initialise()
    writer.begin()
    value = b'{"generation":7,"partitions":2,"spec":"spec","state":"paused"}'
    writer.write(WHERE, record(job_key("job"), value, 0))
    writer.commit()
    assert control.read() == JobRecord(RequestedState.PAUSED, 7, "spec", 2)


def test_another_spec_and_another_number_of_partitions_are_refused() -> None:
    control = control_of(World())
    control.start("spec", 2)
    with pytest.raises(SpecChanged, match="begun under spec spec"):
        control.start("other", 2)
    with pytest.raises(ConfigurationError, match="has 3 partitions, and had 2"):
        control.start("spec", 3)


def test_another_store_is_refused_by_name_until_a_person_says_that_the_archive_moved() -> None:
    control = control_of(World())
    control.start("spec", 2, archive="s3://logs")
    with pytest.raises(SpecChanged, match=r"began to read s3://logs, and \[store\] is s3://other"):
        control.start("spec", 2, archive="s3://other")
    control.request(RequestedState.STOPPED)
    refused, _ = record_findings(control.read(), "job", "spec", 2, "s3://other")
    assert refused.severity is Severity.REFUSE
    assert "resume --moved" in refused.what
    control.request(RequestedState.RUNNING, "s3://other")
    assert control.start("spec", 2, archive="s3://other").archive == "s3://other"
    assert control.adopt("spec", "s3://third").archive == "s3://third"


def test_a_job_of_before_learns_its_store_at_the_next_start_and_keeps_it() -> None:
    control = control_of(World())
    assert control.start("spec", 2).archive is None
    assert not list(record_findings(control.read(), "job", "spec", 2, "s3://logs"))
    assert control.start("spec", 2, archive="s3://logs").archive == "s3://logs"
    assert control.request(RequestedState.PAUSED).archive == "s3://logs"
    known = control.start("spec", 2, archive="s3://logs", targets={"a": "1"})
    assert control.read() == known
    assert known.generation == 2, "a person has paused it once, and learning is no change"


@pytest.mark.parametrize("gone", [True, False])
def test_an_offsets_topic_that_is_gone_is_told_apart_from_brokers_that_are_away(
    gone: bool,
) -> None:
    world = World()
    control = control_of(world)
    control.start("spec", 2)

    def fail(_name: str) -> None:
        raise Unavailable("nobody answers")

    world.cluster.hook = fail
    if gone:
        world.cluster.forget_topic(WHERE.topic)
    with pytest.raises(Unavailable) as told:
        control.read()
    assert isinstance(told.value, OffsetsTopicGone) == gone


def test_every_change_counts_a_generation() -> None:
    control = control_of(World())
    control.start("spec", 2)
    assert control.request(RequestedState.PAUSED) == JobRecord(RequestedState.PAUSED, 2, "spec", 2)
    assert control.adopt("new").generation == 3
    assert control.read() == JobRecord(RequestedState.PAUSED, 3, "new", 2)


def test_a_job_that_never_began_cannot_be_changed() -> None:
    with pytest.raises(ConfigurationError, match="was not started"):
        control_of(World()).request(RequestedState.STOPPED)


def test_of_two_that_change_at_a_time_the_first_begins_anew() -> None:
    world = World()
    control = control_of(world)
    control.start("spec", 2)
    done: list[JobRecord] = []

    def hook(name: str) -> None:
        if name == "before produce" and not done:
            done.append(JobRecord(RequestedState.PAUSED, 0, "", 0))
            done.append(control_of(world).request(RequestedState.PAUSED))

    world.cluster.hook = hook
    assert control.request(RequestedState.STOPPED) == JobRecord(
        RequestedState.STOPPED, 3, "spec", 2
    )
    assert done[1].generation == 2


def test_a_record_that_cannot_be_read_is_told() -> None:
    world = World()
    writer = world.make_writer("anybody")
    writer.initialise()
    writer.begin()
    writer.write(WHERE, record(job_key("job"), b'{"state": "dancing"}', 0))
    writer.commit()
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        control_of(world).read()


def test_a_daemon_that_begins_second_with_another_file_is_refused() -> None:
    world = World()
    control = control_of(world)
    others: list[JobRecord] = []

    def hook(name: str) -> None:
        if name == "before init_producer_id" and not others:
            others.append(JobRecord(RequestedState.RUNNING, 0, "", 0))
            others.append(control_of(world).start("theirs", 2))

    world.cluster.hook = hook
    with pytest.raises(SpecChanged, match="begun under spec theirs"):
        control.start("mine", 2)
    assert control.read() == others[1]


def test_the_plan_compares_the_spec_and_says_that_the_job_does_not_run() -> None:
    control = control_of(World())
    assert not list(record_findings(control.read(), "job", "spec", 2, None))
    control.start("spec", 2)
    assert not list(record_findings(control.read(), "job", "spec", 2, None))
    control.request(RequestedState.STOPPED)
    (stopped,) = record_findings(control.read(), "job", "spec", 2, None)
    assert (stopped.severity, stopped.what.split(",")[0]) == (Severity.WARN, "the job is stopped")
    refused, _ = record_findings(control.read(), "job", "other", 2, None)
    assert refused.severity is Severity.REFUSE
    assert "was begun under spec spec" in refused.what
