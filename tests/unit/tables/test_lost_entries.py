from pathlib import Path

import pytest

from secor.archive.objects import Archive
from secor.archive.repair.recover_ledger import RecoveredEntry
from secor.core.errors import ConfigurationError, LedgerLost
from secor.core.model import OffsetRange
from secor.core.small_objects import put_bytes
from secor.formats import make_format
from secor.tables.repair.entry_recovery import plan_table_recovery
from secor.tables.repair.lost_entries import FirstEntryGuard, Proof, ProofReader, quarantined_after
from tests.fakes.archive import Shelf, messages
from tests.unit.tables.world import CLICKS, CLUSTER, EVENTS, GROUP, PREFIX, TableWorld

TABLES = (EVENTS, "db.other", "db.none")


@pytest.fixture
def world() -> TableWorld:
    made = TableWorld()
    made.server.make(EVENTS)
    made.server.make("db.other")
    return made


def reader(world: TableWorld) -> ProofReader:
    return ProofReader(
        world.catalog, world.staging, group=GROUP, tables=lambda: TABLES, cluster=lambda: CLUSTER
    )


def proof(world: TableWorld, topic_id: str | None = "topic-id") -> Proof:
    proofs = reader(world)
    return proofs.read(proofs.read_group(), CLICKS, topic_id)


def written(world: TableWorld, start: int, end: int, *tables: str) -> None:
    """Stage a batch and commit it to its tables; its manifest is deleted."""
    key = world.stage(world.manifest(start, end, tables))
    for table in tables:
        world.commit(table)
    world.store.delete(key)


def test_the_table_that_has_most_says_how_far_the_entry_was(world: TableWorld) -> None:
    written(world, 0, 5, EVENTS, "db.other")
    written(world, 5, 9, "db.other")
    assert quarantined_after(proof(world), []) == (9, None)
    assert proof(world).reached == (9, "the table db.other")


def test_a_manifest_counts_though_its_batch_was_never_committed(world: TableWorld) -> None:
    written(world, 0, 5, EVENTS)
    world.put(world.manifest(5, 12))
    assert quarantined_after(proof(world), []) == (12, None)


def test_a_batch_in_quarantine_shows_that_all_before_it_was_committed(world: TableWorld) -> None:
    written(world, 0, 5, EVENTS)
    later = [OffsetRange(20, 30), OffsetRange(7, 9), OffsetRange(3, 5)]
    assert quarantined_after(proof(world), later) == (20, OffsetRange(20, 30))
    assert quarantined_after(proof(world), [OffsetRange(3, 5)]) == (5, None)


def test_a_group_that_has_stored_nothing_proves_nothing(world: TableWorld) -> None:
    assert quarantined_after(proof(world), []) is None


@pytest.mark.parametrize(("cluster", "topic_id"), [("another", "topic-id"), (CLUSTER, "another")])
def test_what_is_of_another_topic_or_cluster_proves_nothing(
    world: TableWorld, cluster: str, topic_id: str
) -> None:
    world.stage(world.manifest(0, 5, cluster=cluster, topic_id=topic_id))
    world.commit()
    assert proof(world).reached is None


def test_a_topic_without_an_id_is_taken_for_the_same(world: TableWorld) -> None:
    written(world, 0, 5, EVENTS)
    assert proof(world, topic_id=None).topic_id == "topic-id"


@pytest.mark.parametrize(
    "quarantined", [[OffsetRange(3, 9)], [OffsetRange(5, 9), OffsetRange(5, 7)]]
)
def test_batches_in_quarantine_that_overlap_are_for_a_person(
    world: TableWorld, quarantined: list[OffsetRange]
) -> None:
    written(world, 0, 5, EVENTS)
    with pytest.raises(ConfigurationError, match="overlaps"):
        quarantined_after(proof(world), quarantined)


def test_manifests_that_overlap_are_for_a_person(world: TableWorld) -> None:
    world.put(world.manifest(0, 5))
    world.put(world.manifest(0, 7))
    with pytest.raises(ConfigurationError, match="overlap: delete the one that was never"):
        quarantined_after(proof(world), [])


def test_a_manifest_that_cannot_be_read_is_for_a_person(world: TableWorld) -> None:
    put_bytes(world.store, world.manifest(0, 5).key(PREFIX), b"rubbish")
    with pytest.raises(ConfigurationError, match="delete it if it is none of this group's"):
        quarantined_after(proof(world), [])


def test_a_manifest_of_another_group_is_not_to_be_deleted(world: TableWorld) -> None:
    """It is that group's only record of files that no table has yet."""
    world.put(world.manifest(0, 5, group="another"))
    with pytest.raises(ConfigurationError, match=r"is of group 'another'; .* its own prefix$"):
        quarantined_after(proof(world), [])


def test_a_partition_that_another_group_stages_in_the_same_place_gets_no_first_entry(
    world: TableWorld,
) -> None:
    world.put(world.manifest(0, 5, group="another"))
    proofs = reader(world)
    guard = FirstEntryGuard(proofs, lambda since: proofs.read_group())
    with pytest.raises(LedgerLost, match="is of group 'another'; give each group its own") as error:
        guard(CLICKS, "topic-id", 0.0)
    assert "offsets recover" not in str(error.value)  # which would find nothing to recover


def test_a_partition_that_tables_know_gets_no_first_entry(world: TableWorld) -> None:
    written(world, 0, 5, EVENTS)
    proofs = reader(world)
    guard = FirstEntryGuard(proofs, lambda since: proofs.read_group())
    with pytest.raises(LedgerLost, match=r"table db.events has messages up to 5.*offsets recover"):
        guard(CLICKS, "topic-id", 0.0)
    guard(CLICKS, "another", 0.0)  # made again since: that the tables stop is told there


def test_what_cannot_be_read_is_no_sign_of_a_new_partition(world: TableWorld) -> None:
    written(world, 0, 5, EVENTS)
    world.server.tables[EVENTS].properties[f"secor.{GROUP}.vector"] = "rubbish"
    proofs = reader(world)
    guard = FirstEntryGuard(proofs, lambda since: proofs.read_group())
    with pytest.raises(LedgerLost, match="cannot be seen"):
        guard(CLICKS, "topic-id", 0.0)


class Quarantine(Shelf):
    """Objects in quarantine, as a worker puts them."""

    def keep(self, start: int, end: int, topic_id: str | None = "topic-id") -> None:
        batch = OffsetRange(start, end)
        self.put(messages([start]), batch, output_partition="", topic_id=topic_id)


@pytest.fixture
def quarantine(tmp_path: Path) -> Quarantine:
    return Quarantine(tmp_path / "bucket", make_format("sequencefile"), f"{PREFIX}/_quarantine")


def planned(world: TableWorld, quarantine: Quarantine, log_end: int = 100) -> RecoveredEntry | None:
    return plan_table_recovery(
        proof(world),
        Archive(quarantine.store, PREFIX),
        generation=1,
        log_end=log_end,
        owner="me",
        now=1.0,
    )


def test_the_entry_is_made_as_tables_and_manifests_say(
    world: TableWorld, quarantine: Quarantine
) -> None:
    assert planned(world, quarantine) is None
    written(world, 0, 5, EVENTS)
    quarantine.keep(3, 5)
    recovery = planned(world, quarantine)
    assert recovery == RecoveredEntry(
        CLICKS, 5, "topic-id", remarks=("as the table db.events says",)
    )


def test_a_last_batch_of_which_only_quarantine_tells_is_completed_by_the_service(
    world: TableWorld, quarantine: Quarantine
) -> None:
    written(world, 0, 5, EVENTS)
    quarantine.keep(5, 8)
    quarantine.keep(9, 12)
    quarantine.keep(12, 40, topic_id="another")
    recovery = planned(world, quarantine)
    assert recovery is not None
    assert (recovery.committed, recovery.topic_id) == (9, "topic-id")
    assert recovery.intent is not None
    intent = recovery.intent
    assert (intent.start, intent.end, intent.fingerprint, intent.owner) == (9, 12, "f" * 16, "me")


def test_a_log_that_ends_before_what_is_stored_is_for_a_person(
    world: TableWorld, quarantine: Quarantine
) -> None:
    written(world, 0, 5, EVENTS)
    with pytest.raises(ConfigurationError, match="the log ends at 4"):
        planned(world, quarantine, log_end=4)
