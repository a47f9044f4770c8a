"""Moving an offset of a table group: not below what a table has, and no dropped manifest stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.archive.repair.move_offset import Move
from secor.cli.offsets.table_moves import refuse_below_vectors, with_dropped_manifests
from secor.core.errors import ConfigurationError
from secor.core.model import Entry, Intent, OffsetRange, TopicPartition
from secor.core.small_objects import put_bytes
from secor.tables.staging.manifest import manifest_key
from secor.wiring import table_catalogs as wiring
from tests.fakes.store import FakeStore
from tests.unit.tables.committing_world import CommittingWorld
from tests.unit.tables.worker_world import WorkerWorld

FLIGHTS = TopicPartition("flights", 0)
ROUTE = {"table": "db.events", "auto_create": True}


def move(offset: int, intent: Intent | None = None) -> Move:
    return Move(FLIGHTS, Entry(3, intent), offset, None)


def test_an_offset_below_what_a_table_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = WorkerWorld(tmp_path, [ROUTE, {"table": "other.{topic}", "auto_create": True}])
    monkeypatch.setattr(wiring, "open_tables", lambda _: (world.catalog, None))
    refuse_below_vectors([move(0)], world.config, "topic-id")  # there is no table yet
    committing = CommittingWorld(world)
    committing.write()
    with pytest.raises(ConfigurationError, match=r"db.events has it up to 3: give that offset"):
        refuse_below_vectors([move(2)], world.config, "topic-id")
    refuse_below_vectors([move(3)], world.config, "topic-id")
    refuse_below_vectors([move(0)], world.config, "the id of one that was made again")


def test_the_manifest_of_a_dropped_intent_goes_with_it() -> None:
    store = FakeStore()
    intent = Intent(3, 9, "f" * 16, "somebody", 0.0, "table/flights")
    dropped, other = (manifest_key("table", FLIGHTS, OffsetRange(3, end)) for end in (9, 8))
    assert with_dropped_manifests([move(3, intent)], store, "table")[0].delete == ()
    put_bytes(store, dropped, b"")
    put_bytes(store, other, b"")
    planned = with_dropped_manifests([move(3, intent), move(3)], store, "table")
    assert [it.delete for it in planned] == [(dropped,), ()]
