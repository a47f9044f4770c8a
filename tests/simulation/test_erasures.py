"""A storm over one archive: batches, erasures, compactions, crashes, late puts, runs in runs.

At every moment a reader gets each message once, all that nobody has erased, and none that an
erasure which ended well has taken; in the end no object at all holds one of these.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from secor.archive.erasures import Secret
from secor.archive.objects import Archive
from secor.archive.rewrite.carrying_out import Rewriter
from secor.archive.rewrite.erasing import Eraser
from secor.archive.rewrite.planning import RewriteLimits, plan_of
from secor.batch.workspace import Workspace
from secor.core.errors import AlreadyExists, Unavailable
from secor.core.model import Entry, OffsetRange
from secor.formats import make_format
from tests.fakes.store import FakeStore, nothing
from tests.unit.archive.test_erase import KEYS, rows
from tests.unit.archive.test_rewrite import put

SECRET = Secret(b"the secret of the group")
STEPS = 25
SEEDS = range(12)


@dataclass
class World:
    """One topic partition: what daemons have stored of it, and what was erased up to where."""

    rng: random.Random
    workspace: Workspace
    store: FakeStore = field(default_factory=FakeStore)
    committed: int = 0
    begun: dict[bytes | None, int] = field(default_factory=dict)
    ended: dict[bytes | None, int] = field(default_factory=dict)
    ever: dict[str, Any] = field(default_factory=dict)

    def batch(self) -> None:
        """Put a batch as a daemon does, in one or two places."""
        end = self.committed + self.rng.randint(2, 8)
        batch = OffsetRange(self.committed, end)
        log_format = make_format(self.rng.choice(["sequencefile", "parquet"]))
        offsets = [it for it in range(self.committed, end) if self.rng.random() < 0.9] or [end - 1]
        for place in ("dt=1", "dt=2"):
            chosen = [it for it in offsets if (it % 3 == 0) == (place == "dt=2")]
            if chosen:
                put(self.store, log_format, rows(chosen), batch, place)
        self.committed = end

    def erase_one(self) -> None:
        """Erase any key."""
        self.erase(self.rng.choice(KEYS))

    def erase(self, key: bytes | None) -> None:
        """Erase a key, from all that is committed now."""
        end = self.committed
        self.begun[key] = end
        archive = Archive(self.store, "p")
        eraser = Eraser(archive, "clicks", SECRET, lambda _: Entry(end), "now", "secor")
        eraser.run([key], self.workspace, tombstones=False)
        self.ended[key] = end

    def compact(self) -> None:
        """Join what may be joined."""
        limits = RewriteLimits(9.0, self.rng.choice([2_000, 1 << 20]))
        choose = partial(plan_of, "clicks", limits=limits)
        Rewriter(Archive(self.store, "p"), "clicks", self.workspace, choose, SECRET).run()

    def late_put(self) -> None:
        """Let an object come back that another has replaced, as a put that comes late does."""
        gone = sorted(self.ever.keys() - self.store.objects.keys())
        if gone:
            key = self.rng.choice(gone)
            self.store.objects[key] = self.ever[key]
            self.look()

    def interrupted(self, step: Callable[[], None], other: Callable[[], None] | None) -> None:
        """Do a step that is killed somewhere, or in which another one is done."""
        left = self.rng.randint(1, 40)

        def before(call: str, key: str) -> None:
            nonlocal left
            del key
            left -= call in ("put", "delete", "list")
            if left == 0 and other is not None:
                self.store.before = nothing
                other()
            elif left <= 0 and other is None:
                raise Unavailable("the process is killed")
            if call in ("put", "delete"):
                self.look()

        self.store.before = before
        with suppress(Unavailable, AlreadyExists):
            step()
        self.store.before = nothing
        self.look()

    def look(self) -> None:
        """Read as everybody does."""
        self.ever |= {key: it for key, it in self.store.objects.items() if "/dt=" in key}
        archive, before = Archive(self.store, "p"), self.store.before
        self.store.before = nothing
        found = [
            offset
            for archived in archive.objects("clicks")
            for offset in self._offsets_of(archived.key, self.store.objects[archived.key])
        ]
        self.store.before = before
        assert len(found) == len(set(found))
        assert set(found) >= {it for it in self.offsets if not self.is_of(self.begun, it)}
        assert not [it for it in found if self.is_of(self.ended, it)]

    @property
    def offsets(self) -> set[int]:
        """The offsets that any object ever had."""
        return self._offsets_in(self.ever)

    def held(self) -> set[int]:
        """Return the offsets that objects hold, whether anybody reads them or not."""
        return self._offsets_in(self.store.objects)

    def _offsets_in(self, objects: Mapping[str, Any]) -> set[int]:
        return {
            offset
            for key, stored in objects.items()
            if "/dt=" in key
            for offset in self._offsets_of(key, stored)
        }

    _known: dict[int, tuple[Any, list[int]]] = field(default_factory=dict)

    def _offsets_of(self, key: str, stored: Any) -> list[int]:
        """Read an object, each once: they are looked at after every step and never change.

        It is kept with them: the identity of one that nobody keeps may become another's.
        """
        if id(stored) not in self._known:
            holder = FakeStore(objects={key: stored})
            with holder.open(key) as file:
                read = Archive(holder, "p").formats(key, file).read(file, key)
                every = [offset for records in read for offset in records["offset"].to_pylist()]
            self._known[id(stored)] = (stored, every)
        return self._known[id(stored)][1]

    def is_of(self, erased: dict[bytes | None, int], offset: int) -> bool:
        """Tell whether a message is of an erased key, and below where that counts."""
        return offset < erased.get(KEYS[offset % len(KEYS)], 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_erased_is_gone_and_all_else_is_there_once(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    workspace = Workspace(tmp_path, "storm")
    world = World(rng, workspace)
    for _ in range(4):
        world.batch()
    steps = [world.erase_one, world.compact]
    for _ in range(STEPS):
        kind = rng.choice(["batch", "killed", "meanwhile", "whole", "late"])
        step, other = rng.choice(steps), rng.choice([*steps, world.batch])
        if kind == "batch":
            world.batch()
        elif kind == "late":
            world.late_put()
        elif kind == "whole":
            step()
            world.look()
        else:
            world.interrupted(step, other if kind == "meanwhile" else None)
    for key in list(world.begun):
        world.erase(key)
        world.begun = dict(world.ended)
    world.look()
    assert not [it for it in world.held() if world.is_of(world.ended, it)]
    workspace.close()
