"""Publishing and rolling back, with a crash at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from secor.archive.backfill.existing_objects import present_keys
from secor.archive.backfill.model import BackfillPlan
from secor.archive.backfill.publishing import BackfillPublisher
from secor.archive.backfill.run_journal import CLEANED, DONE
from secor.archive.backfill.running import run_batch
from secor.core.errors import ConfigurationError, ObjectConflict
from secor.wiring.archives import archive_of
from tests.fakes.store import FakeStore, nothing
from tests.unit.archive.backfill_world import TOPIC, World

Objects = dict[str, tuple[bytes, dict[str, str]]]
MARKED = ("dt=2023-11-15", "dt=2023-11-16")


class Crash(Exception):
    """The process ends here."""


class Scene:
    """A verified backfill in a store that can be set back to this state."""

    def __init__(self, world: World) -> None:
        assert isinstance(world.store, FakeStore)
        self.world, self.store = world, world.store
        self._mark(f"partition/{TOPIC}/{MARKED[0]}/_SUCCESS", b"rows: 7")
        self._mark(f"partition/{TOPIC}/{MARKED[1]}/_SUCCESS", b"")
        self._mark(f"partition/{TOPIC}/_SUCCESS", b"above")
        self._mark(f"partition/{TOPIC}/dt=2001-01-01/_SUCCESS", b"elsewhere")
        self.before = self.visible()
        self.plan: BackfillPlan = world.plan()
        for batch in self.plan.batches:
            run_batch(world.job(self.plan), batch)
        self.staged = dict(self.store.objects)
        self.publisher().record_verified()
        self.verified = dict(self.store.objects)

    def _mark(self, key: str, body: bytes) -> None:
        local = self.world.workspace.create()
        local.write(body)
        local.finish()
        self.store.put(key, local.path, local.crc32c, {"finalized": "yes"})

    def publisher(self, workers: int = 1) -> BackfillPublisher:
        archive = archive_of(self.world.mended, TOPIC, self.store)
        return BackfillPublisher(
            self.plan,
            self.store,
            self.world.workspace,
            present=lambda: present_keys(archive, self.plan),
            workers=workers,
        )

    def reset(self, objects: Mapping[str, object]) -> None:
        self.store.before = self.store.after = nothing
        self.store.objects.clear()
        self.store.objects.update(objects)  # type: ignore[arg-type]

    def visible(self, *, whole: bool = False) -> Objects:
        """What readers see; with ``whole`` all of the group's prefix."""
        hidden = () if whole else ("partition/_backfill/", "partition/_replaced/")
        return {
            key: (one.content, one.metadata)
            for key, one in self.store.objects.items()
            if key.startswith("partition/") and not key.startswith(hidden)
        }


@pytest.fixture(params=[False, True], ids=["with-metadata", "names-alone"])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(World.made(FakeStore(), tmp_path, names_alone=request.param))
    yield made
    made.world.workspace.close()


def crash_at(scene: Scene, number: int, when: str) -> None:
    """Let the ``number``-th change of the store fail, before or after its effect."""
    count = 0

    def hook(call: str, key: str) -> None:
        nonlocal count
        if call in ("put", "delete"):
            count += 1
            if count == number:
                raise Crash(key)

    setattr(scene.store, when, hook)


def crashing(
    scene: Scene, start: Mapping[str, object], act: Callable[[], None], when: str
) -> Iterator[int]:
    """Crash ``act`` at each of its changes in turn; ends when it got through."""
    for number in range(1, 1000):
        scene.reset(start)
        crash_at(scene, number, when)
        try:
            act()
        except Crash:
            scene.store.before = scene.store.after = nothing
            yield number
        else:
            return
    raise AssertionError("it never ends")


def published(scene: Scene) -> Objects:
    scene.publisher().publish()
    return scene.visible(whole=True)


def test_publishing_puts_new_objects_in_place_of_old_ones(scene: Scene) -> None:
    scene.publisher(workers=3).publish()
    after = scene.visible()
    old = {one.key for one in scene.plan.replaced}
    assert old
    assert not old & set(after)
    new = {key for key in after if "/2_" in key}
    assert {f"dt=2023-11-{day}" for day in (15, 16, 17)} <= {key.split("/")[2] for key in new}
    assert set(after) - new == {key for key in scene.before if key not in old}
    mark = f"partition/{TOPIC}/{MARKED[0]}/_SUCCESS"
    assert after[mark] == scene.before[mark]
    kept = scene.visible(whole=True)
    for key in old:
        copy = kept[scene.publisher().places.replaced(key)]
        assert copy[0] == scene.before[key][0]


@pytest.mark.parametrize("when", ["before", "after"])
def test_publishing_again_after_a_crash_at_any_step_ends_the_same(scene: Scene, when: str) -> None:
    wanted = published(scene)
    steps = 0
    act = lambda: scene.publisher().publish()  # noqa: E731
    for _ in crashing(scene, dict(scene.verified), act, when):
        steps += 1
        assert published(scene) == wanted
    assert steps > 40


def test_no_message_is_missing_and_no_mark_stands_at_any_step(scene: Scene) -> None:
    old = {one.key: batch.name for batch in scene.plan.batches for one in batch.replaces}
    receipts = {
        batch.name: {file.key for file in run_batch(scene.world.job(scene.plan), batch).files}
        for batch in scene.plan.batches
    }
    act = lambda: scene.publisher().publish()  # noqa: E731
    twice = 0
    for _ in crashing(scene, dict(scene.verified), act, "after"):
        seen = scene.visible()
        for batch in scene.plan.batches:
            gone = [key for key, name in old.items() if name == batch.name and key not in seen]
            new = receipts[batch.name]
            assert not gone or new <= set(seen)
        mixed = [
            b.name
            for b in scene.plan.batches
            if receipts[b.name] & set(seen) and any(one.key in seen for one in b.replaces)
        ]
        twice = max(twice, len(mixed))
        if any("/2_" in key for key in seen) and any(key in seen for key in old):
            marks = [key for key in seen if key.endswith("_SUCCESS")]
            assert marks == [f"partition/{TOPIC}/dt=2001-01-01/_SUCCESS"]
    assert twice == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_rolling_back_after_a_crash_of_publishing_restores_what_was(
    scene: Scene, when: str
) -> None:
    act = lambda: scene.publisher().publish()  # noqa: E731
    for _ in crashing(scene, dict(scene.verified), act, when):
        scene.publisher().rollback()
        assert scene.visible(whole=True) == scene.before


@pytest.mark.parametrize("when", ["before", "after"])
def test_rolling_back_again_after_a_crash_at_any_step_restores_what_was(
    scene: Scene, when: str
) -> None:
    scene.publisher().publish()
    start = dict(scene.store.objects)
    steps = 0

    def act() -> None:
        assert scene.publisher().rollback()

    for _ in crashing(scene, start, act, when):
        steps += 1
        scene.publisher().rollback()
        assert scene.visible(whole=True) == scene.before
    assert steps > 40


def test_what_was_rolled_back_can_be_run_and_published_again(scene: Scene) -> None:
    wanted = published(scene)
    scene.publisher().rollback()
    for batch in scene.plan.batches:
        run_batch(scene.world.job(scene.plan), batch)
    scene.publisher().record_verified()
    assert published(scene) == wanted


def test_what_is_not_verified_is_not_published(scene: Scene) -> None:
    scene.reset(dict(scene.staged))
    with pytest.raises(ConfigurationError, match="not verified"):
        scene.publisher().publish()


def test_what_is_not_published_can_be_given_up(scene: Scene) -> None:
    scene.publisher().rollback()
    assert scene.visible(whole=True) == scene.before


def test_publishing_refuses_when_the_old_objects_have_changed(scene: Scene) -> None:
    key = scene.plan.replaced[0].key
    scene.store.delete(key)
    with pytest.raises(ConfigurationError, match="plan again"):
        scene.publisher().publish()
    assert len(scene.visible()) == len(scene.before) - 1


def test_publishing_overwrites_no_foreign_object(scene: Scene) -> None:
    receipt = run_batch(scene.world.job(scene.plan), scene.plan.batches[0])
    scene._mark(receipt.files[0].key, b"somebody else's")
    with pytest.raises((ObjectConflict, ConfigurationError)):
        scene.publisher().publish()
    assert scene.store.content(receipt.files[0].key) == b"somebody else's"


@pytest.mark.parametrize("when", ["before", "after"])
def test_deleting_the_old_objects_can_be_repeated_and_ends_rollback(
    scene: Scene, when: str
) -> None:
    scene.publisher().publish()
    after = scene.visible()
    start = dict(scene.store.objects)
    act = lambda: scene.publisher().clean()  # noqa: E731
    for _ in crashing(scene, start, act, when):
        scene.publisher().clean()
        assert scene.visible() == after
    assert scene.publisher().journal.state() == CLEANED
    hidden = set(scene.visible(whole=True)) - set(after)
    assert all("/_journal/" in key for key in hidden)
    with pytest.raises(ConfigurationError, match="cannot be rolled back"):
        scene.publisher().rollback()


def test_old_objects_are_not_deleted_before_the_new_ones_are_published(scene: Scene) -> None:
    with pytest.raises(ConfigurationError, match="not published"):
        scene.publisher().clean()


def test_publishing_twice_does_nothing_the_second_time(scene: Scene) -> None:
    wanted = published(scene)
    assert scene.publisher().journal.state() == DONE
    assert published(scene) == wanted


def test_nothing_goes_on_in_the_middle_of_a_rollback(scene: Scene) -> None:
    scene.publisher().publish()
    crash_at(scene, 5, "before")
    with pytest.raises(Crash):
        scene.publisher().rollback()
    scene.store.before = nothing
    for act in (scene.publisher().publish, scene.publisher().journal.finished):
        with pytest.raises(ConfigurationError, match="finish that first"):
            act()
