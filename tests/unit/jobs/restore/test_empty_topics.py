"""Archived topics without messages: the backup has only their descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from secor.adapters.kafka.topic_admin import TopicDescription
from secor.adapters.local import DirectoryStore
from secor.archive.kept_topics import KeptTopic, KeptTopics
from secor.jobs.restore.plan import plan, prepare
from secor.restore.model import SourcePartition
from secor.wiring.restore import Job
from secor.wiring.restore_sources import described_topics, kept_topic
from tests.unit.jobs.restore.test_new_topics import CLICKS, Brokers, Source
from tests.unit.jobs.restore.test_offsets import World


@pytest.fixture(autouse=True)
def no_questions_to_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("job_findings", "room"):
        monkeypatch.setattr(f"secor.jobs.restore.plan.{name}", lambda *_arguments: ())


class OnlyClicks(Source):
    def partitions(self) -> list[SourcePartition]:
        return [CLICKS]


class Existing(Brokers):
    exist: tuple[str, ...] = ()

    def describe(self, names: Sequence[str]) -> dict[str, Any]:
        rights = frozenset({"WRITE"})
        return {
            name: TopicDescription(name, "id", 3, 1, {}, {}, rights)
            for name in names
            if name in self.exist
        }


def job_with_an_empty_topic(
    directory: Path, target: dict[str, Any] | None = None, **source: object
) -> tuple[Job, Existing]:
    """Return a job over an archive with messages of clicks and a description of ``quiet`` alone."""
    store = DirectoryStore(directory)
    quiet = KeptTopic("quiet", "id", 3, 1, {"cleanup.policy": "compact"})
    KeptTopics(store, "backup/quiet").keep(quiet, "2026-11-21T10:00:00Z")
    KeptTopics(store, "backup/other").keep(replace(quiet, topic="other"), "2026-11-21T10:00:00Z")
    brokers: Any = Existing({})
    source = source or {"topics": [], "topics_pattern": "clicks|quiet"}
    job = World().job(target={"topic": "new-{topic}", **(target or {})}, prefix="backup", **source)
    job = replace(
        job,
        source=OnlyClicks(),
        admin=brokers,
        kept_topic=partial(kept_topic, store, job.config),
        described_topics=partial(described_topics, store, job.config),
    )
    return job, brokers


def test_it_is_planned_and_made_as_it_was(tmp_path: Path) -> None:
    job, brokers = job_with_an_empty_topic(tmp_path)
    planned = {topic.topic: topic for topic in plan(job).topics}
    assert planned.keys() == {"clicks", "quiet"}
    new = planned["quiet"].new
    assert new is not None
    assert (new.partitions, planned["quiet"].extents) == (3, ())
    prepare(job)
    assert brokers.topics == {"new-clicks": 2, "new-quiet": 3, "secor-restore-job": 3}


def test_a_topic_that_is_named_is_not_called_unknown(tmp_path: Path) -> None:
    job, _ = job_with_an_empty_topic(tmp_path, topics=["clicks", "quiet", "clocks"])
    planned = plan(job)
    assert [topic.topic for topic in planned.topics] == ["clicks", "quiet"]
    unknown = [it.what for it in planned.findings if it.topic == "source.topics"]
    assert unknown == ["names clocks, and the source has nothing of it that the job selects"]


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ({"archived_settings": False}, {}),
        ({"topic": "all", "partitioning": "key"}, {}),
        ({}, {"topics": ["clicks", "quiet"], "partitions": [1]}),
    ],
)
def test_one_that_is_not_the_jobs_to_make_is_left_out(
    tmp_path: Path, target: dict[str, Any], source: dict[str, Any]
) -> None:
    job, _ = job_with_an_empty_topic(tmp_path, target, **source)
    assert [topic.topic for topic in plan(job).topics] == ["clicks"]


def test_without_the_right_to_make_topics_a_person_is_warned(tmp_path: Path) -> None:
    job, brokers = job_with_an_empty_topic(tmp_path, {"create": False})
    found = [it for it in plan(job).findings if it.topic == "new-quiet"]
    assert [(it.severity.value, it.what) for it in found] == [
        ("warn", "has no messages, and does not exist: make it, or set target.create = true")
    ]
    brokers.exist = ("new-quiet",)
    assert [topic.topic for topic in plan(job).topics] == ["clicks"]


def test_a_description_that_cannot_be_read_makes_nothing_and_is_told(tmp_path: Path) -> None:
    job, _ = job_with_an_empty_topic(tmp_path)
    (tmp_path / "backup/quiet/_topic/000001.json").write_bytes(b"[]")
    planned = plan(job)
    assert planned.may_begin
    assert [topic.new for topic in planned.topics if topic.topic == "quiet"] == [None]
    assert [it.what for it in planned.findings if it.topic == "new-quiet"] == [
        "has no messages, and is not made: make it, or set target.partitions"
    ]
