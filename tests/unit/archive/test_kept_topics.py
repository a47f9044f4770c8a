"""Topics' configurations beside their objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from secor.adapters.local import DirectoryStore
from secor.archive.kept_topics import KeptTopic, KeptTopics
from secor.core.errors import CorruptFile
from secor.core.naming import parse_key
from secor.formats import make_format
from tests.fakes.archive import Shelf

CLICKS = KeptTopic("clicks", "id-1", 4, 3, {"cleanup.policy": "compact"})
NOW = "2026-11-21T10:00:00+00:00"


def kept(directory: Path) -> KeptTopics:
    return KeptTopics(DirectoryStore(directory), "backup/clicks")


def test_an_older_archive_has_none(tmp_path: Path) -> None:
    assert kept(tmp_path).newest() is None


def test_a_topic_is_kept_once_until_it_changes_and_versions_never_change(tmp_path: Path) -> None:
    topics = kept(tmp_path)
    assert topics.keep(CLICKS, NOW)
    first = (tmp_path / "backup/clicks/_topic/000001.json").read_bytes()
    assert not topics.keep(CLICKS, "later")
    assert kept(tmp_path).newest() == CLICKS
    grown = replace(CLICKS, partitions=8, settings=None)
    assert topics.keep(grown, NOW)
    assert kept(tmp_path).newest() == grown
    assert (tmp_path / "backup/clicks/_topic/000001.json").read_bytes() == first
    assert topics.keep(CLICKS, NOW)
    assert kept(tmp_path).newest() == CLICKS


def test_another_process_that_was_faster_is_not_overwritten(tmp_path: Path) -> None:
    other = replace(CLICKS, partitions=9)

    class Raced(DirectoryStore):
        raced = False

        def put(self, *args: object, **more: object) -> None:
            if not self.raced:
                self.raced = True
                kept(tmp_path).keep(other, NOW)
            super().put(*args, **more)  # type: ignore[arg-type]

    assert KeptTopics(Raced(tmp_path), "backup/clicks").keep(CLICKS, NOW)
    names = sorted(path.name for path in (tmp_path / "backup/clicks/_topic").glob("0*"))
    assert names == ["000001.json", "000002.json"]
    assert kept(tmp_path).newest() == CLICKS


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"topic": "clicks"}', b"\xff"])
def test_one_that_cannot_be_read_is_named(tmp_path: Path, body: bytes) -> None:
    shelf = Shelf(tmp_path, make_format("text"))
    shelf.put_bytes("backup/clicks/_topic/000003.json", body, {})
    with pytest.raises(CorruptFile, match=r"_topic/000003\.json"):
        kept(tmp_path).newest()


def test_it_is_no_object_of_messages() -> None:
    assert parse_key("backup/clicks", "backup/clicks/_topic/000001.json") is None
