"""What a commit needs, over ports in memory: used by the tests of the upload and of recovery."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Policy, Reason
from secor.batch.sealed import SealedBatch
from secor.batch.workspace import Workspace
from secor.commit.uploader import Outcome, Retryable, Uploader
from secor.core.errors import SecorError
from secor.core.model import Chunk, Entry, Intent, Superseded, TopicPartition, next_offset
from secor.core.object_info import ObjectInfo
from secor.parsing.offset_layout import OffsetBuckets
from tests.fakes.clock import FakeClock
from tests.fakes.format import PlainFormat, chunk_of
from tests.fakes.ledger import FakeLedger, Kind, LedgerServer
from tests.fakes.observer import SilentObserver
from tests.fakes.store import FakeStore

KEY = TopicPartition("clicks", 0)
FIRST = "root/clicks/offset=0/1_0_00000000000000000000.plain"
SECOND = "root/clicks/offset=10/1_0_00000000000000000000.plain"


LIFETIME = 100.0
"""Seconds that a request may live."""


class Observed(SilentObserver):
    """Remembers what was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def superseded(self, topic_partition: TopicPartition) -> None:
        self.told.append("superseded")

    def waits(self, topic_partition: TopicPartition, seconds: float) -> None:
        self.told.append(f"waits {seconds:g}")

    def adopted(self, topic_partition: TopicPartition, objects: int) -> None:
        self.told.append(f"adopted {objects}")

    def retried(self, topic_partition: TopicPartition, error: SecorError) -> None:
        self.told.append(f"retried after {type(error).__name__}")


class CommitWorld:
    """A ledger, a store and an uploader; ``calls`` is what reached both, in order.

    ``fail`` makes the next such call raise: ``fail("after", "put", OutcomeUnknown("lost"))``.
    """

    def __init__(self, directory: Path, kind: Kind = "zookeeper", committed: int = 0) -> None:
        self.clock = FakeClock()
        self.server = LedgerServer(kind)
        self.ledger: FakeLedger = self.server.client(
            "me",
            before=lambda call, _: self._call("before", call),
            after=lambda call, _: self._call("after", call),
        )
        self.server.assign([KEY] if kind == "kafka" else [], self.ledger)
        self.server.put(KEY, b"%d" % committed, topic_id="id")
        self.store = FakeStore(
            before=lambda call, _: self._call("before", call),
            after=lambda call, _: self._call("after", call),
        )
        self.workspace = Workspace(directory, "me")
        self.observer = Observed()
        self.uploader = self.restarted()
        self.calls: list[str] = []
        self._faults: dict[tuple[str, str], list[Callable[[], None]]] = {}

    def _call(self, phase: str, call: str) -> None:
        if phase == "before":
            self.calls.append(call)
        planned = self._faults.get((phase, call))
        if planned:
            planned.pop(0)()

    def on(self, phase: str, call: str, *actions: Callable[[], None]) -> None:
        """Do ``actions``, one at each of the next such calls."""
        self._faults.setdefault((phase, call), []).extend(actions)

    def fail(self, phase: str, call: str, *errors: Exception) -> None:
        """Raise ``errors``, one at each of the next such calls."""

        def raiser(error: Exception) -> Callable[[], None]:
            def act() -> None:
                raise error

            return act

        self.on(phase, call, *(raiser(error) for error in errors))

    def restarted(self) -> Uploader:
        """Return an uploader that knows nothing of what was before."""
        return Uploader(
            ledger=self.ledger,
            store=self.store,
            clock=self.clock,
            owner="me",
            observer=self.observer,
            rng=random.Random(1),
            request_lifetime=LIFETIME,
        )

    def plan(self, identity: str = "plain", root: str = "root/clicks") -> TopicPlan:
        return TopicPlan("g", root, 1, OffsetBuckets(10), PlainFormat(identity), Policy())

    def batch(
        self,
        offsets: Sequence[int],
        end: int | None = None,
        *,
        start: int = 0,
        topic_id: str | None = "id",
        plan: TopicPlan | None = None,
    ) -> SealedBatch:
        """Seal a batch of ``[start, end)`` that holds ``offsets``."""
        batch = Batch(
            KEY,
            start,
            plan=plan or self.plan(),
            workspace=self.workspace,
            clock=self.clock,
            topic_id=topic_id,
        )
        last = next_offset(offsets[-1]) if offsets else start
        batch.append(Chunk(KEY, chunk_of(list(offsets)), last if end is None else end))
        return batch.seal(Reason.MESSAGES)

    def upload(self, batch: SealedBatch, wanted: Callable[[], bool] = lambda: True) -> Outcome:
        return self.uploader.upload(batch, wanted)

    def settle(self, batch: SealedBatch) -> Outcome:
        """Upload what supersedes another intent: after the wait."""
        first = self.upload(batch)
        assert isinstance(first, Retryable), first
        assert self.entry.intent is not None
        self.clock.advance(LIFETIME)
        return self.upload(batch)

    def place(
        self,
        batch: SealedBatch,
        keys: Sequence[str] = (),
        changed: Mapping[str, object] | None = None,
    ) -> None:
        """Put the batch's objects as another process would have; metadata may differ."""
        for file in batch.files:
            if not keys or file.key in keys:
                told = file.info.metadata()
                told |= {name: str(value) for name, value in (changed or {}).items()}
                FakeStore(objects=self.store.objects, audit=self.store.audit).put(
                    file.key, file.local.path, file.local.crc32c, told
                )

    def intend(
        self, batch: SealedBatch, *tried: Superseded, fingerprint: str | None = None, end: int = 0
    ) -> None:
        """Leave an open intent, as another process would have."""
        intent = Intent(
            batch.range.start,
            end or batch.range.end,
            fingerprint or batch.fingerprint,
            "other",
            0.0,
            batch.plan.root,
            tried,
        )
        self.server.put(KEY, b"%d" % batch.range.start, intent, "id")

    @property
    def entry(self) -> Entry:
        return self.server.entry(KEY)

    @property
    def keys(self) -> list[str]:
        return sorted(self.store.objects)

    def info(self, key: str) -> ObjectInfo:
        return ObjectInfo.of(self.store.objects[key].metadata, key)
