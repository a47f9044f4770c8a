"""The uploader: lease, reconcile, intent, puts and commit of one sealed batch, with retries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from secor.batch.sealed import BatchFile, OutputPlace, SealedBatch
from secor.commit.lease_proof import LeaseProof, intent_of, record_intent
from secor.commit.reconcile import Action, reconcile
from secor.commit.recovery import conflict, recover, stored_info
from secor.commit.superseding import SupersededRequests
from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    LedgerEdited,
    LedgerLost,
    OutcomeUnknown,
    RestartPartition,
    SecorError,
    StopPartition,
    Unavailable,
)
from secor.core.model import Entry
from secor.core.observer import Observer
from secor.core.ports import Clock, Lease, ObjectStore, OffsetLedger
from secor.core.retry import retry

ATTEMPTS = 5
"""Attempts before an upload gives its thread back, so that others are not starved."""

SETTLING = 3
"""Puts of one object in an attempt, while the outcome of the one before is unknown."""


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """The batch is in the store and in the ledger."""


@dataclass(frozen=True, slots=True)
class Retryable:
    """Nothing is lost; try the same batch again later."""

    error: SecorError


@dataclass(frozen=True, slots=True)
class AbandonedBatch:
    """The batch must not be tried again: ``RestartPartition`` or ``StopPartition``."""

    error: SecorError


Outcome = CommittedBatch | Retryable | AbandonedBatch

Parallel = Callable[[Callable[[BatchFile], None], Iterable[BatchFile]], None]
"""Calls the function for each file, perhaps in parallel; raises what a call raised."""


def one_by_one(function: Callable[[BatchFile], None], files: Iterable[BatchFile]) -> None:
    """Call ``function`` for each file, in order."""
    for file in files:
        function(file)


@dataclass(frozen=True, slots=True)
class _Ports:
    ledger: OffsetLedger
    store: ObjectStore
    clock: Clock
    owner: str
    observer: Observer
    rng: random.Random
    superseded: SupersededRequests


class Uploader:
    """Uploads and commits sealed batches, each exactly once."""

    def __init__(
        self,
        *,
        ledger: OffsetLedger,
        store: ObjectStore,
        clock: Clock,
        owner: str,
        observer: Observer,
        rng: random.Random,
        request_lifetime: float,
        lease_timeout: float = 30.0,
        parallel: Parallel = one_by_one,
    ) -> None:
        """``owner`` names this process in intents.

        ``request_lifetime`` is how many seconds after its sender last proved its lease a put or
        a deletion may still land: so long a batch waits that supersedes another intent.
        """
        superseded = SupersededRequests(request_lifetime, owner, clock)
        self._ports = _Ports(ledger, store, clock, owner, observer, rng, superseded)
        self._superseded = superseded
        self._lease_timeout = lease_timeout
        self._parallel = parallel

    def upload(self, batch: SealedBatch, wanted: Callable[[], bool]) -> Outcome:
        """Store and commit the batch; blocks, called off the loop.

        ``wanted`` is asked before each further attempt: False gives up (a revoked partition).
        """
        topic_partition = batch.topic_partition
        remaining = self._superseded.remaining(topic_partition, batch.range)
        # Answered without a question to a server: a wait of minutes must hold no thread.
        if remaining:
            return Retryable(_waits(batch, remaining))
        outcome = self._upload(batch, wanted)
        # After a retryable outcome the wait goes on: the next attempt counts from the same won
        # write.
        if not isinstance(outcome, Retryable):
            self._superseded.forget(topic_partition, batch.range)
        return outcome

    def _upload(self, batch: SealedBatch, wanted: Callable[[], bool]) -> Outcome:
        attempts = _CommitAttempts(self._ports, batch)
        try:
            committed = retry(
                lambda: attempts.attempt(self._lease_timeout, self._parallel),
                (Unavailable, OutcomeUnknown, AccessDenied),
                attempts=ATTEMPTS,
                sleep=self._ports.clock.sleep,
                rng=self._ports.rng,
                failed=lambda error: self._ports.observer.retried(batch.topic_partition, error),
                wanted=wanted,
            )
        except (RestartPartition, StopPartition) as error:
            return AbandonedBatch(error)
        except (Unavailable, OutcomeUnknown, AccessDenied) as error:
            return Retryable(error)
        if committed:
            return CommittedBatch()
        remaining = self._superseded.remaining(batch.topic_partition, batch.range)
        return Retryable(_waits(batch, remaining))


def _waits(batch: SealedBatch, seconds: float) -> Unavailable:
    return Unavailable(
        f"{batch.topic_partition} {batch.range}: stored in {seconds:.0f} s, when no request of the"
        " superseded configuration can be under way any more"
    )


class _CommitAttempts:
    """One batch on its way; lives through all attempts of one ``upload``."""

    def __init__(self, ports: _Ports, batch: SealedBatch) -> None:
        self._ports = ports
        self._batch = batch
        self._commit_sent = False

    def attempt(self, lease_timeout: float, parallel: Parallel) -> bool:
        """Take the steps of the commit protocol; the first, the seal, is the batch itself.

        Return True when it is committed; False when superseded requests are waited for.
        """
        batch = self._batch
        # 2. Lease, read, decide.  What was read before the lease may be old: somebody else may
        #    have committed since.
        lease = self._ports.ledger.lease(batch.topic_partition, lease_timeout)
        try:
            entry = lease.read()
            if self._was_committed(entry):
                return True
            self._decide(entry)
            # 3. Record the intent, even if the ledger already has the same one: only a won
            #    write proves that the lease is still ours.  From here on the range is fixed.
            proof = self._record_intent(lease, entry)
            # Asked before the look: only a look after the wait sees all that has landed.
            waited = not self._must_wait()
            if batch.last is not None and not waited:
                return False  # the other configuration's last file may land yet, and be right
            # 4. Put what is missing.  Look first: an earlier attempt, ours or another process's,
            #    may have put some of it.  The last file lists the others, so it comes last.
            adopted = self._recover(proof, entry)
            if not waited or self._must_wait():
                return False
            todo = [file for file in batch.files if file.place not in adopted]
            parallel(lambda file: self._put(file, proof), todo)
            if batch.last is not None and batch.last.place not in adopted:
                self._put(batch.last, proof)
            # 5. Commit: one atomic step moves the offset, removes the intent, proves the lease.
            #    Noted before it is sent, so that a lost answer can be settled by reading.
            self._commit_sent = True
            lease.finish(proof.entry, batch.range.end, batch.topic_id, batch.leader_epoch)
            return True
        finally:
            # 6. Give the lease back.  The loop deletes the local files when it hears of the
            #    commit: until then another attempt may need them.
            lease.release()

    def _was_committed(self, entry: Entry) -> bool:
        """Settle a commit whose answer was lost: it is done, by us or by another process."""
        # Asked only after a commit of ours was sent.  Without that, an entry at our end means that
        # another process has stored the range, which reconcile answers with a restart.
        return (
            self._commit_sent and entry.committed == self._batch.range.end and entry.intent is None
        )

    def _decide(self, entry: Entry) -> None:
        """Raise ``StopPartition`` or ``RestartPartition`` unless the batch may be uploaded."""
        batch = self._batch
        decision = reconcile(batch.range, batch.fingerprint, entry)
        match decision.action:
            case Action.LEDGER_LOST:
                raise LedgerLost(
                    f"{batch.topic_partition}: {decision.why}; rebuild it from the objects with"
                    " 'secor offsets recover'"
                )
            case Action.LEDGER_EDITED:
                raise LedgerEdited(
                    f"{batch.topic_partition}: {decision.why}; settle it with 'secor offsets set'"
                    " (and --drop-intent)"
                )
            case Action.RESTART:
                raise RestartPartition(f"{batch.topic_partition}: {decision.why}")
            case Action.SUPERSEDE:
                self._ports.observer.superseded(batch.topic_partition)
            case Action.UPLOAD | Action.RESUME:
                pass
        # After the table: an intent that fits the batch may have been written by another process
        # while we waited to supersede.
        self._ports.superseded.check_intent(batch.topic_partition, batch.range, entry.intent)

    def _record_intent(self, lease: Lease, entry: Entry) -> LeaseProof:
        """Fix the range before the first byte goes out; begin to wait where it supersedes."""
        batch = self._batch
        intent = intent_of(batch, entry.intent, self._ports.owner, self._ports.clock.now())
        proof = record_intent(lease, entry, intent, self._ports.clock)
        if self._ports.superseded.begin_wait(batch.topic_partition, proof.intent):
            seconds = self._ports.superseded.remaining(batch.topic_partition, batch.range)
            self._ports.observer.waits(batch.topic_partition, seconds)
        return proof

    def _must_wait(self) -> bool:
        return self._ports.superseded.remaining(self._batch.topic_partition, self._batch.range) > 0

    def _recover(self, proof: LeaseProof, before: Entry) -> frozenset[OutputPlace]:
        """Look what an earlier try, ours or another's, has put already."""
        # No intent before ours: nobody can have put an object of this range.  That saves the
        # listing for nearly every batch.
        if before.intent is None:
            return frozenset()

        def restart_wait() -> None:
            self._ports.superseded.restart_wait(self._batch.topic_partition, proof.intent)

        adopted = recover(self._ports.store, self._batch, proof.intent, proof.renew, restart_wait)
        if adopted:
            self._ports.observer.adopted(self._batch.topic_partition, len(adopted))
        return adopted

    def _put(self, file: BatchFile, proof: LeaseProof) -> None:
        """Put until the outcome is known, in a few tries.

        A put with a known outcome, while the lease is held, cannot land later, together with what a
        successor puts under another configuration.
        """
        began = self._ports.clock.monotonic()
        # Only an unknown outcome is tried again here, under the same lease.  All other errors end
        # the attempt and give the lease back.
        retry(
            lambda: self._put_once(file, proof),
            (OutcomeUnknown,),
            attempts=SETTLING,
            sleep=self._ports.clock.sleep,
            rng=self._ports.rng,
            failed=lambda error: self._ports.observer.retried(self._batch.topic_partition, error),
        )
        seconds = self._ports.clock.monotonic() - began
        self._ports.observer.put(self._batch.topic_partition, file.local.size, seconds)

    def _put_once(self, file: BatchFile, proof: LeaseProof) -> None:
        # Before each put, not once for all: the process may sleep in between, past its session.
        proof.renew()
        content = file.local.content()
        try:
            self._ports.store.put(file.key, content, file.local.crc32c, file.info.metadata())
        except AlreadyExists:
            self._compare(file, proof)

    def _compare(self, file: BatchFile, proof: LeaseProof) -> None:
        """The object is there: an earlier try of ours, a leftover, or somebody else's."""
        info = stored_info(self._ports.store, file.key)
        if info is None:
            raise Unavailable(f"{file.key}: it was there and is gone; looking again")
        if info.same_content(file.info):
            return
        if file is self._batch.last and info.same_range(file.info):
            return  # whichever came first is right
        replaced = {old.fingerprint for old in proof.intent.supersedes}
        if info.batch == file.info.batch and info.fingerprint in replaced:
            raise Unavailable(f"{file.key}: a superseded try came late; looking again")
        raise conflict(file.key, self._batch, info)
