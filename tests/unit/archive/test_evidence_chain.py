"""Earlier evidence of an archive that was rewritten since: explained, link by link, or broken."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from secor.archive.erasures import Secret
from secor.archive.evidence.chain import DIRECTORY, read_chain
from secor.archive.evidence.checking import Change, Check, CheckJournal, ObjectChange
from secor.archive.evidence.record import Evidence, Making, tree_hash, tree_of_partitions
from secor.archive.objects import Archive, ArchivedObject
from secor.archive.rewrite.carrying_out import Rewriter
from secor.archive.rewrite.erasing import Eraser
from secor.archive.rewrite.planning import Plan, RewriteLimits, plan_of
from secor.batch.workspace import Workspace
from secor.core.errors import CorruptFile, Unavailable
from secor.core.model import Entry, OffsetRange
from secor.formats import make_format
from secor.verify.archive.verifier import verify_archive_only
from secor.verify.evidence import partition_record
from tests.fakes.archive import CLICKS, OperatorLedger, Shelf, messages

TOPIC, PREFIX = "clicks", "backup"
ROOT = f"{PREFIX}/{TOPIC}"
SECRET = Secret(b"the secret of these tests")


class ChainWorld:
    """Five batches of ten messages, of which the first four are joined to two and then to one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shelf = Shelf(directory / "bucket", make_format("sequencefile"))
        self.keys = [
            self.shelf.put(messages(range(start, start + 10)), OffsetRange(start, start + 10))
            for start in range(0, 50, 10)
        ]
        self.archive = Archive(self.shelf.store, PREFIX)
        self.evidence = self._evidence()

    def _evidence(self) -> Evidence:
        [report] = verify_archive_only(self.archive, TOPIC, inventories=True)
        record = partition_record(report, self.shelf.store, None, lambda _: None)
        making = Making("then", "here", "secor", "g", "", log_read=False)
        root = tree_of_partitions([record])
        return Evidence(making, {}, {TOPIC: (ROOT,)}, "", (record,), root)

    def rewrite(self, end: int) -> None:
        """Join what begins below an offset."""

        def choose(objects: list[ArchivedObject], waiting: list[ArchivedObject]) -> Plan:
            some = [it for it in objects if it.name.start_offset < end]
            return plan_of(TOPIC, some, waiting, RewriteLimits(before=1e12, target_size=1 << 20))

        self._with(lambda workspace: Rewriter(self.archive, TOPIC, workspace, choose).run())

    def erase(self, *keys: bytes) -> None:
        ledger = OperatorLedger({CLICKS: Entry(50)})
        eraser = Eraser(self.archive, TOPIC, SECRET, ledger.read, "now", "a test")
        self._with(lambda workspace: eraser.run(keys, workspace, tombstones=False))

    def _with(self, act: Callable[[Workspace], object]) -> None:
        workspace = Workspace(self.directory / "local", "a")
        try:
            act(workspace)
        finally:
            workspace.close()

    def check(self) -> list[ObjectChange]:
        journal = CheckJournal(self.directory / "journal", self.evidence.root)
        try:
            return list(Check(self.evidence, self.shelf.store, journal).run())
        finally:
            journal.finish()


@pytest.fixture
def world(tmp_path: Path) -> ChainWorld:
    return ChainWorld(tmp_path)


def changes(findings: list[ObjectChange]) -> dict[str, Change]:
    return {finding.key: finding.change for finding in findings}


def test_a_check_follows_objects_over_several_rewrites(world: ChainWorld) -> None:
    world.rewrite(30)
    assert changes(world.check()) == dict.fromkeys(world.keys[:2], Change.REWRITTEN)
    world.rewrite(50)
    world.erase(b"k")
    findings = world.check()
    assert changes(findings) == dict.fromkeys(world.keys, Change.REWRITTEN)
    texts = {finding.key: finding.text for finding in findings}
    assert "by secor archive compact (secor " in texts[world.keys[0]]
    assert "by secor archive erase, list 1 (secor " in texts[world.keys[4]]


def test_a_link_has_the_trees_of_what_was_read_and_of_what_was_written(world: ChainWorld) -> None:
    old = {key: (world.shelf.directory / key).read_bytes() for key in world.keys[:2]}
    world.rewrite(30)
    [link] = set(read_chain(world.shelf.store, ROOT).links.values())
    assert (link.start, link.end, link.why, link.erasure) == (0, 20, "compact", None)
    hashes = {record.key: record.sha256 for record in link.old}
    assert hashes == {key: hashlib.sha256(data).hexdigest() for key, data in old.items()}
    [new] = link.new
    data = (world.shelf.directory / new.key).read_bytes()
    assert new.sha256 == hashlib.sha256(data).hexdigest()
    records = {record.key: record for record in world.evidence.partitions[0].objects}
    assert link.old_root == tree_hash(records[key].leaf for key in world.keys[:2])


def test_a_successor_that_changed_or_is_gone_breaks_the_chain(world: ChainWorld) -> None:
    world.rewrite(30)
    [link] = set(read_chain(world.shelf.store, ROOT).links.values())
    world.shelf.change(link.new[0].key, lambda data: data + b"\0")
    findings = world.check()
    gone = dict.fromkeys(world.keys[:2], Change.MISSING)
    assert changes(findings) == {**gone, link.new[0].key: Change.ADDED}
    assert f"{link.new[0].key}, which took its place, has SHA-256" in findings[0].text
    world.shelf.store.delete(link.new[0].key)
    assert all("which took its place, is gone" in found.text for found in world.check())


def test_an_object_that_was_changed_before_it_was_rewritten_is_not_explained(
    world: ChainWorld,
) -> None:
    world.shelf.store.delete(world.keys[0])
    other = messages([*range(9)])
    assert world.shelf.put(other, OffsetRange(0, 10)) == world.keys[0]
    world.rewrite(30)
    assert changes(world.check()) == {
        world.keys[0]: Change.MISSING,
        world.keys[1]: Change.REWRITTEN,
    }


def test_a_record_that_was_changed_is_refused(world: ChainWorld) -> None:
    world.rewrite(30)
    [path] = (world.shelf.directory / PREFIX / "_backfill").rglob(f"{DIRECTORY}/*.json")
    path.write_bytes(path.read_bytes().replace(b'"end": 20', b'"end": 21'))
    with pytest.raises(CorruptFile, match="was changed: its roots"):
        world.check()


def test_no_object_goes_before_the_record_is_there(
    world: ChainWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.shelf.store
    put = store.put

    def refusing(key: str, *rest: object) -> None:
        if f"/{DIRECTORY}/" in key:
            raise Unavailable("no")
        put(key, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(type(store), "put", lambda self, *arguments: refusing(*arguments))
    with pytest.raises(Unavailable):
        world.rewrite(30)
    monkeypatch.undo()
    assert {stored.key for stored in store.list(ROOT)} >= set(world.keys)
    world.rewrite(30)
    assert changes(world.check()) == dict.fromkeys(world.keys[:2], Change.REWRITTEN)
