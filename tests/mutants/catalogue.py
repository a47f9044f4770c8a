"""Each safety step, and the text that takes it out.

A mutant that the tests do not notice is a missing test.
"""

from __future__ import annotations

from tests.mutants.erasing import ERASING_MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.restore import RESTORE_MUTANTS
from tests.mutants.tables import TABLE_MUTANTS

# Real servers; the adapters' own unit tests first, because they are quick.
ZOOKEEPER_TESTS = ("tests/contracts/test_zookeeper.py", "tests/contracts/test_ledger.py")
KAFKA_TESTS = (
    "tests/unit/adapters/test_kafka_commits.py",
    "tests/contracts/test_kafka_ledger.py",
    "tests/contracts/test_ledger.py",
)
MOVE_TESTS = ("tests/contracts/test_movable_ledger.py",)
RELOCATION_TESTS = ("tests/unit/archive/test_relocation.py",)
RANGE_TESTS = (
    "tests/unit/commit",
    "tests/unit/core/test_naming.py",
    "tests/unit/batch/test_batch.py",
    "tests/simulation/test_late_requests.py",
)
SCHEMA_TESTS = (
    "tests/unit/consume/test_positioning.py",
    "tests/unit/archive/test_kept_schemas.py",
    "tests/unit/consume/test_consumer_growth.py",
    "tests/simulation/test_partition_group.py",
)
BATCH_TESTS = ("tests/unit/batch/test_batch.py",)
STATE_TESTS = ("tests/simulation/test_partition_states.py", "tests/unit/consume/test_assignment.py")
STORE_TESTS = ("tests/unit/adapters/test_local_store.py", "tests/contracts/test_store.py")


REWRITING_TESTS = ("tests/unit/archive/test_rewrite.py",)
REWRITING = "secor/archive/rewrite/carrying_out.py"
ONE_RANGE = "secor/archive/rewrite/one_range.py"
REWRITE_TESTS = ("tests/simulation/test_rewrites.py", "tests/unit/archive/test_superseded.py")
ARCHIVE = "secor/archive/objects.py"
CURSOR = "secor/spark/cursor.py"
UPLOADER = "secor/commit/uploader.py"
LEASE_PROOF = "secor/commit/lease_proof.py"
SUPERSEDING = "secor/commit/superseding.py"
RECOVERY = "secor/commit/recovery.py"
POSITIONING = "secor/consume/positioning.py"
RECONCILE = "secor/commit/reconcile.py"
CONSUMER = "secor/consume/consumer.py"
ASSIGNMENT = "secor/consume/lifecycle.py"
LIFECYCLE = "secor/consume/lifecycle.py"
STATES = "secor/consume/partition_states.py"
BATCH = "secor/batch/batch.py"
OBJECT_INFO = "secor/core/object_info.py"
PIPELINE = "secor/parsing/pipeline.py"
SCHEMAS = "secor/archive/kept_schemas.py"
ZOOKEEPER = "secor/adapters/zookeeper/ledger.py"
RELOCATION = "secor/archive/repair/relocation.py"
ZOOKEEPER_WRITES = "secor/adapters/zookeeper/writes.py"

MUTANTS = (
    Mutant(
        "superseded ranges are read again",
        ARCHIVE,
        "    return [archived for archived in listed if archived.key not in hidden]\n",
        "    return listed\n",
        REWRITE_TESTS,
    ),
    Mutant(
        "a rewritten range counts before all its places have a new object",
        ARCHIVE,
        "            counts = {name.place for name in old} <= {name.place for name in new}\n",
        "            counts = bool(new)\n",
        REWRITE_TESTS,
    ),
    Mutant(
        "joined objects are put before they are compared",
        ONE_RANGE,
        "        self._compare(new, local, erased)\n",
        "",
        REWRITING_TESTS,
    ),
    Mutant(
        "each run carries out a plan of its own",
        REWRITING,
        "                plan = self._read(number)  # what was put first holds\n",
        "",
        REWRITING_TESTS,
    ),
    Mutant(
        "old objects are deleted before all new ones are put",
        ONE_RANGE,
        "        self._put_all(new_objects, read)\n",
        """        for new in part.objects:
            self._put_all([] if self._is_there(new) else [new], read)
            for key in new.inputs:
                self.archive.store.delete(key)
""",
        REWRITING_TESTS,
    ),
    Mutant(
        "old objects are deleted before evidence is carried on",
        ONE_RANGE,
        """        self._carry_evidence_on(part, read)
        # Last. Until here readers were already switched by the names; what a crash leaves behind is
        # superseded and nobody reads it.
        self._delete(part.inputs)
""",
        """        self._delete(part.inputs)
        self._carry_evidence_on(part, read)
""",
        ("tests/unit/archive/test_evidence_chain.py",),
    ),
    Mutant(
        "the newest batch is joined, too",
        "secor/archive/rewrite/planning.py",
        "            or batch.range == newest[batch.generation]\n",
        "",
        REWRITING_TESTS,
    ),
    Mutant(
        "a stream reads all of a rewritten object",
        CURSOR,
        "    low = max(whole.start, _reached(start, archived, whole))\n",
        "    low = whole.start\n",
        REWRITE_TESTS,
    ),
    Mutant(
        "a stream takes an open batch for one that it has not given",
        CURSOR,
        "    return reached\n",
        '    return position["settled"]\n',
        REWRITE_TESTS,
    ),
    Mutant(
        "the intent is not written before the puts",
        LEASE_PROOF,
        "    recorded = lease.record(before, intent)\n",
        "    recorded = before\n",
    ),
    Mutant(
        "an intent that stands is not written again to prove the lease",
        LEASE_PROOF,
        "    recorded = lease.record(before, intent)\n",
        "    recorded = before if before.intent else lease.record(before, intent)\n",
    ),
    Mutant(
        "nothing is asked before a put",
        UPLOADER,
        "        proof.renew()\n",
        "",
    ),
    Mutant(
        "a put without an answer is left to whoever comes next",
        UPLOADER,
        "            attempts=SETTLING,\n",
        "            attempts=1,\n",
    ),
    Mutant(
        "the lease is not looked at before a put",
        LEASE_PROOF,
        "                if not self._lease.held():\n",
        "                if False:\n",
    ),
    Mutant(
        "a proof never gets old",
        LEASE_PROOF,
        "                if began - self._won_at < self._lease.trust:\n",
        "                if True:\n",
    ),
    Mutant(
        "a renewed proof counts from after its write",
        LEASE_PROOF,
        "                self._won_at = began\n",
        "                self._won_at = self._clock.monotonic()\n",
    ),
    Mutant(
        "a renewed proof is not looked at again",
        LEASE_PROOF,
        "                self._won_at = began\n",
        "                self._won_at = began\n                return\n",
    ),
    Mutant(
        "a proof counts from after its write",
        LEASE_PROOF,
        "    won_at = clock.monotonic()\n    recorded = lease.record(before, intent)\n",
        "    recorded = lease.record(before, intent)\n    won_at = clock.monotonic()\n",
    ),
    Mutant(
        "an object that is there is taken for ours without a look",
        UPLOADER,
        "        except AlreadyExists:\n            self._compare(file, proof)\n",
        "        except AlreadyExists:\n            pass\n",
    ),
    Mutant(
        "a lost answer of a commit counts as done",
        UPLOADER,
        "            lease.finish(proof.entry, batch.range.end, batch.topic_id,"
        " batch.leader_epoch)\n",
        "            try:\n"
        "                lease.finish(proof.entry, batch.range.end, batch.topic_id)\n"
        "            except OutcomeUnknown:\n"
        "                pass\n",
    ),
    Mutant(
        "a lost answer of a put counts as done",
        UPLOADER,
        "        except AlreadyExists:\n            self._compare(file, proof)\n",
        "        except OutcomeUnknown:\n"
        "            pass\n"
        "        except AlreadyExists:\n"
        "            self._compare(file, proof)\n",
    ),
    Mutant(
        "a lost answer of an intent counts as done",
        LEASE_PROOF,
        "    recorded = lease.record(before, intent)\n",
        "    from secor.core.errors import OutcomeUnknown\n"
        "    try:\n"
        "        recorded = lease.record(before, intent)\n"
        "    except OutcomeUnknown:\n"
        "        recorded = lease.read()\n",
    ),
    Mutant(
        "a lost answer of a commit is not read back",
        UPLOADER,
        "            if self._was_committed(entry):\n                return True\n",
        "",
    ),
    Mutant(
        "whatever stands at the end is taken for a commit of ours",
        UPLOADER,
        "            self._commit_sent and entry.committed == self._batch.range.end"
        " and entry.intent is None\n",
        "            entry.committed is not None\n",
    ),
    Mutant(
        "local files are deleted before the commit",
        UPLOADER,
        "            self._commit_sent = True\n",
        "            self._commit_sent = True\n            batch.delete()\n",
    ),
    Mutant(
        "the fingerprints tried before are forgotten",
        LEASE_PROOF,
        "    tried = (*intent.supersedes, ",
        "    tried = (*(), ",
    ),
    Mutant(
        "the fingerprint of the open intent is forgotten",
        LEASE_PROOF,
        ", Superseded(intent.fingerprint, intent.root, intent.also))\n",
        ",)\n",
    ),
    Mutant(
        "objects are named by their first message",
        BATCH,
        "self._plan.object_name(self.topic_partition, self.start, part)\n",
        "self._plan.object_name(\n"
        "                self.topic_partition, part.records.column('offset')[0].as_py(), part\n"
        "            )\n",
        RANGE_TESTS,
    ),
    Mutant(
        "what is there is ours only with the same first message",
        OBJECT_INFO,
        "        return self.fingerprint == other.fingerprint and self.same_range(other)",
        "        return (\n"
        "            self.fingerprint == other.fingerprint\n"
        "            and self.first_offset == other.first_offset\n"
        "            and self.same_range(other)\n"
        "        )",
        RANGE_TESTS,
    ),
    Mutant(
        "how objects are named is not in the fingerprint",
        "secor/batch/plan.py",
        "        return _digest((*self._settings, self._naming))\n",
        "        return _digest(self._settings)\n",
        ("tests/unit/batch/test_batch.py",),
    ),
    Mutant(
        "the schema of an earlier version's intent is not looked for",
        SCHEMAS,
        "                if fingerprint in (plan.fingerprint, plan.earlier_fingerprint):\n",
        "                if fingerprint == plan.fingerprint:\n",
        ("tests/unit/archive/test_kept_schemas.py",),
    ),
    Mutant(
        "nobody waits for superseded requests",
        SUPERSEDING,
        "        if wait is None:\n            return 0.0\n",
        "        if True:\n            return 0.0\n",
        RANGE_TESTS,
    ),
    Mutant(
        "nobody looks again after waiting for superseded requests",
        UPLOADER,
        "        if before.intent is None:\n            return frozenset()\n",
        "        if before.intent is None or (\n"
        "            before.intent.owner == self._ports.owner and proof.intent.supersedes\n"
        "        ):\n"
        "            return frozenset()\n",
        RANGE_TESTS,
    ),
    Mutant(
        "a look that began before the end of the wait counts",
        UPLOADER,
        "            waited = not self._must_wait()\n",
        "            waited = True\n",
        ("tests/unit/commit/test_superseding.py",),
    ),
    Mutant(
        "what is superseded is deleted while the other last file may still land",
        UPLOADER,
        "            if batch.last is not None and not waited:\n",
        "            if False:\n",
        ("tests/unit/commit/test_superseding.py",),
    ),
    Mutant(
        "a deletion does not begin the wait anew",
        UPLOADER,
        "self._ports.superseded.restart_wait(self._batch.topic_partition, proof.intent)",
        "pass",
        ("tests/unit/commit/test_superseding.py",),
    ),
    Mutant(
        "a deletion without an answer does not begin the wait anew",
        RECOVERY,
        "            try:\n                store.delete(key)\n            finally:\n"
        "                deleted()\n",
        "            store.delete(key)\n            deleted()\n",
        ("tests/unit/commit/test_superseding.py",),
    ),
    Mutant(
        "the wait goes on though somebody else has written",
        SUPERSEDING,
        "            if wait is None or self._is_ours(wait, recorded):\n",
        "            if True:\n",
        ("tests/unit/commit/test_superseding.py",),
    ),
    Mutant(
        "who is taken over while it waits takes over again",
        SUPERSEDING,
        "        if recorded is not None:\n            raise",
        "        if False:\n            raise",
        ("tests/unit/commit/test_superseding.py",),
    ),
    Mutant(
        "recovery does not look before it puts",
        UPLOADER,
        "        if before.intent is None:\n            return frozenset()\n",
        "        if True:\n            return frozenset()\n",
    ),
    Mutant(
        "recovery adopts nothing",
        RECOVERY,
        "            adopted.add(place)\n",
        "            pass\n",
    ),
    Mutant(
        "recovery adopts what another configuration made",
        RECOVERY,
        "        if is_this_batch and info.fingerprint == batch.fingerprint"
        " and _same_topic(batch, info):\n",
        "        if is_this_batch and _same_topic(batch, info):\n",
    ),
    Mutant(
        "recovery adopts what another topic of this name left",
        RECOVERY,
        "        if is_this_batch and info.fingerprint == batch.fingerprint"
        " and _same_topic(batch, info):\n",
        "        if is_this_batch and info.fingerprint == batch.fingerprint:\n",
    ),
    Mutant(
        "recovery leaves superseded objects",
        RECOVERY,
        "            store.delete(key)\n",
        "            pass\n",
    ),
    Mutant(
        "nothing is asked before a deletion",
        RECOVERY,
        "            prove()\n",
        "",
    ),
    Mutant(
        "recovery does not see objects under another first offset",
        RECOVERY,
        "            if name.start_offset not in batch.range or listed.key in seen:\n",
        "            if listed.key not in {f.key for f in batch.files} or listed.key in seen:\n",
    ),
    Mutant(
        "recovery does not look where a superseded configuration put",
        RECOVERY,
        "            roots |= {old.root, quarantine_root(old.root), *old.also}\n",
        "            roots |= set()\n",
    ),
    Mutant(
        "recovery does not look where a superseded configuration's routes led",
        RECOVERY,
        "            roots |= {old.root, quarantine_root(old.root), *old.also}\n",
        "            roots |= {old.root, quarantine_root(old.root)}\n",
    ),
    Mutant(
        "recovery does not look into a superseded configuration's quarantine",
        RECOVERY,
        "            roots |= {old.root, quarantine_root(old.root), *old.also}\n",
        "            roots |= {old.root, *old.also}\n",
    ),
    Mutant(
        "recovery takes a stranger's object in our place for nothing",
        RECOVERY,
        "        elif place in places:\n            raise conflict(key, batch, info)\n",
        "",
    ),
    Mutant(
        "recovery deletes what is not of this very range",
        RECOVERY,
        "        elif is_this_batch and info.fingerprint in replaced:\n",
        "        elif info.fingerprint in replaced:\n",
    ),
    Mutant(
        "recovery takes strangers for superseded",
        RECOVERY,
        "        elif is_this_batch and info.fingerprint in replaced:\n",
        "        elif is_this_batch:\n",
    ),
    Mutant(
        "a batch goes on though committed is elsewhere",
        RECONCILE,
        "    if committed != batch.start:\n",
        "    if False:\n",
    ),
    Mutant(
        "a batch goes on though the open intent ends elsewhere",
        RECONCILE,
        "    if intent.end != batch.end:\n",
        "    if False:\n",
    ),
    Mutant(
        "fingerprints are not compared",
        RECONCILE,
        "    if intent.fingerprint != fingerprint:\n",
        "    if False:\n",
    ),
    Mutant(
        "an edited ledger is not noticed",
        RECONCILE,
        "    if intent is not None and intent.start != committed:\n",
        "    if False:\n",
    ),
    Mutant(
        "an open intent does not say where to seal",
        POSITIONING,
        "            end=entry.intent.end if entry.intent is not None else None,\n",
        "            end=None,\n",
    ),
    Mutant(
        "reading begins at the log, not at the ledger",
        POSITIONING,
        "            read_from=max(committed, log.start),\n",
        "            read_from=log.start,\n",
    ),
    Mutant(
        "reading goes on at the log's end",
        POSITIONING,
        "            read_from=max(committed, log.start),\n",
        "            read_from=log.end,\n",
    ),
    Mutant(
        "a range of the log that is older than the entry is believed",
        POSITIONING,
        "            log = self._source.log_range(topic_partition)\n",
        "            pass\n",
    ),
    Mutant(
        "the first entry is not written before reading",
        POSITIONING,
        "            return lease.finish(entry, offset, topic_id)\n",
        "            return Entry(offset, None, topic_id)\n",
    ),
    Mutant(
        "a lost ledger begins anew over the objects",
        POSITIONING,
        "            self._guard.refuse_any(topic_partition, plan, topic_id, since)\n",
        "",
    ),
    Mutant(
        "what Java Secor uploaded and never committed is stored again",
        POSITIONING,
        "            self._guard.refuse_uncommitted(topic_partition, plan, committed, since)\n",
        "            pass\n",
    ),
    Mutant(
        "a partition is served by what was asked before it came",
        "secor/consume/ttl_cache.py",
        "        if known is None or known[0] <= since or now - known[0] > self._lifetime:\n",
        "        if known is None or now - known[0] > self._lifetime:\n",
    ),
    Mutant(
        "what was asked of a topic long ago still counts",
        "secor/consume/ttl_cache.py",
        "        if known is None or known[0] <= since or now - known[0] > self._lifetime:\n",
        "        if known is None or known[0] <= since:\n",
    ),
    Mutant(
        "a topic made again is not noticed by its id",
        POSITIONING,
        "    if len(known) > 1:\n",
        "    if False:\n",
    ),
    Mutant(
        "a log that ends below committed is not noticed",
        POSITIONING,
        "    if committed > log.last:\n",
        "    if False:\n",
    ),
    Mutant(
        "lost messages are not told of",
        POSITIONING,
        "        if committed < log.start:\n",
        "        if False:\n",
    ),
    Mutant(
        "an edited ledger is not noticed on assignment",
        POSITIONING,
        "    if entry.intent is not None and entry.intent.start != committed:\n",
        "    if False:\n",
    ),
    Mutant(
        "a batch reads on beyond the open intent's end",
        BATCH,
        "        if self.end is not None and chunk.next_offset > self.end:\n",
        "        if False:\n",
    ),
    Mutant(
        "a batch that was dropped may be sealed",
        BATCH,
        "    BatchState.DROPPED: frozenset[BatchState](),\n",
        "    BatchState.DROPPED: frozenset({BatchState.SEALED}),\n",
        BATCH_TESTS,
    ),
    Mutant(
        "the policy cuts inside of an open intent",
        BATCH,
        "        if self.end is not None:\n            return Reason.INTENT",
        "        if self.complete:\n            return Reason.INTENT",
    ),
    Mutant(
        "a revocation is not heard",
        CONSUMER,
        "                    self._lifecycle.revoke(topic_partition)\n"
        "            case Fetched():\n",
        "                    pass\n            case Fetched():\n",
    ),
    Mutant(
        "a revoked partition is tried for ever",
        UPLOADER,
        "                wanted=wanted,\n",
        "",
    ),
    Mutant(
        "what arrived before a new start is read after it",
        CONSUMER,
        "        self._arrived.pop(partition.topic_partition, None)\n",
        "",
    ),
    Mutant(
        "a failed batch is not read again",
        CONSUMER,
        "                if partition.states.is_reading:\n"
        "                    self._lifecycle.fail(partition, error, keep=False)\n",
        "",
    ),
    Mutant(
        "a batch whose upload may be tried again is forgotten",
        STATES,
        "    (_U.UPLOADING, _E.UPLOAD_RETRYABLE): (_U.BACKING_OFF, ()),\n",
        "    (_U.UPLOADING, _E.UPLOAD_RETRYABLE): (_U.IDLE, (_C.DROP_SEALED,)),\n",
    ),
    Mutant(
        "a restart keeps what was read before it failed",
        CONSUMER,
        "        except SecorError as error:\n"
        "            self._lifecycle.fail(partition, error, keep=False)\n",
        "        except SecorError as error:\n"
        "            self._lifecycle.fail(partition, error, keep=True)\n",
    ),
    Mutant(
        "a batch that follows an intent may be cut anywhere",
        LIFECYCLE,
        "        if batch.empty or (batch.end is not None and not batch.complete):\n",
        "        if batch.empty:\n",
    ),
    Mutant(
        "pressure cuts a batch that follows an intent",
        "secor/consume/partition_status.py",
        "    may_seal = partition.states.may_seal and batch.end is None and not batch.empty\n",
        "    may_seal = partition.states.may_seal and not batch.empty\n",
    ),
    Mutant(
        "a partition whose open batch has messages is left alone as if it were at rest",
        "secor/consume/partition_status.py",
        "        and batch.next_offset == batch.start\n",
        "",
    ),
    Mutant(
        "the next reading does not wait for the one before",
        CONSUMER,
        "waits_for_time(partition.states) and not self._assignment.must_wait(partition):\n",
        "waits_for_time(partition.states):\n",
    ),
    Mutant(
        "a batch whose upload is to be tried again gets no turn for it",
        "secor/consume/partition_status.py",
        "        or states.uploading is Uploading.BACKING_OFF\n",
        "",
    ),
    Mutant(
        "a stopped partition is put off by whatever happens to its uploads",
        STATES,
        "        if reading is Reading.STOPPED and self.reading is not Reading.STOPPED:\n",
        "        if reading is Reading.STOPPED:\n",
        STATE_TESTS,
    ),
    Mutant(
        "a stopped partition begins again beside its uploads",
        STATES,
        "        if waiting and now >= self.wake_at and self.uploading is Uploading.IDLE:\n",
        "        if waiting and now >= self.wake_at:\n",
        STATE_TESTS,
    ),
    Mutant(
        "a retired partition goes on being fetched",
        STATES,
        "(state, (_C.PAUSE, *rest))",
        "(state, rest)",
        STATE_TESTS,
    ),
    Mutant(
        "an upload that nobody wants is tried for ever",
        STATES,
        "    (_U.GIVING_UP, _E.UPLOAD_RETRYABLE): (_U.IDLE, (_C.DROP_SEALED,)),\n",
        "    (_U.GIVING_UP, _E.UPLOAD_RETRYABLE): (_U.BACKING_OFF, ()),\n",
        STATE_TESTS,
    ),
    Mutant(
        "a second upload begins beside the first",
        STATES,
        "    (_U.UPLOADING, _E.SEALED): (_U.UPLOADING, ()),\n",
        "    (_U.UPLOADING, _E.SEALED): (_U.UPLOADING, (_C.UPLOAD,)),\n",
        STATE_TESTS,
    ),
    Mutant(
        "a revoked partition is released while it is in work",
        ASSIGNMENT,
        "        release = sorted(self._revoked - in_work)\n",
        "        release = sorted(self._revoked)\n",
    ),
    Mutant(
        "ZooKeeper: a write does not check the lock's own node",
        ZOOKEEPER_WRITES,
        "        self._transaction.check(lock, -1)\n",
        '        self._transaction.check("/", -1)\n',
        ZOOKEEPER_TESTS,
    ),
    Mutant(
        "ZooKeeper: a write does not compare versions",
        ZOOKEEPER_WRITES,
        "        self._transaction.set_data(path, text.encode(), version)\n",
        "        self._transaction.set_data(path, text.encode(), -1)\n",
        ZOOKEEPER_TESTS,
    ),
    Mutant(
        "ZooKeeper: the errors that a transaction returns are not looked at",
        ZOOKEEPER_WRITES,
        "        if failures:\n            raise _failure(what, failures)\n",
        "",
        ZOOKEEPER_TESTS,
    ),
    Mutant(
        "ZooKeeper: an entry that was read before the lock was free serves after it",
        "secor/adapters/zookeeper/lock.py",
        "        return None\n\n    def _ahead",
        "        return nodes\n\n    def _ahead",
        ZOOKEEPER_TESTS,
    ),
    Mutant(
        "ZooKeeper: an entry that was read along serves after a write",
        ZOOKEEPER,
        "        self._nodes = None\n        seen = before.version\n",
        "        seen = before.version\n",
        ZOOKEEPER_TESTS,
    ),
    Mutant(
        "ZooKeeper: a last commit without an answer is taken to have given the lock back",
        ZOOKEEPER,
        "        entry = self._write(before, after, last=True)\n"
        "        self._lock.gone()\n"
        "        return entry\n",
        "        try:\n"
        "            return self._write(before, after, last=True)\n"
        "        finally:\n"
        "            self._lock.gone()\n",
        ZOOKEEPER_TESTS,
    ),
    Mutant(
        "ZooKeeper: a lost connection leaves the right to act",
        ZOOKEEPER,
        "        return self._lock.alive() and self._session.connected\n",
        "        return self._lock.alive()\n",
        ZOOKEEPER_TESTS,
    ),
    Mutant(
        "ZooKeeper: a process that still runs writes into a ledger that was moved",
        ZOOKEEPER_WRITES,
        "            self._transaction.check(record.path, record.version)\n",
        '            self._transaction.check("/", -1)\n',
        MOVE_TESTS,
    ),
    Mutant(
        "Kafka: a process that has joined does not look for the record of a move",
        "secor/adapters/kafka/ledger.py",
        "        if self._looked_at != rebalances:\n",
        "        if False:\n",
        MOVE_TESTS,
    ),
    Mutant(
        "moving a ledger: the new one is open while entries are copied into it",
        RELOCATION,
        "            target.keep(topic_partition, kept, entry, arriving)\n",
        "            target.keep(topic_partition, kept, entry, None)\n",
        RELOCATION_TESTS,
    ),
    Mutant(
        "moving a ledger: the new one has no record before its first entry",
        RELOCATION,
        "            target.write_record(arriving)\n",
        "            pass\n",
        RELOCATION_TESTS,
    ),
    Mutant(
        "moving a ledger: the copy is not read back before the old one is closed",
        RELOCATION,
        "        _compare(target, plan.entries)\n        # 4.",
        "        # 4.",
        RELOCATION_TESTS,
    ),
    Mutant(
        "moving a ledger: the old one stays open",
        RELOCATION,
        "            source.write_record(gone)\n",
        "            pass\n",
        RELOCATION_TESTS,
    ),
    Mutant(
        "moving a ledger: entries of the old one stay open for earlier versions",
        RELOCATION,
        "            source.keep(topic_partition, kept, kept.entry, gone)\n",
        "            pass\n",
        RELOCATION_TESTS,
    ),
    Mutant(
        "Kafka: a write does not compare the entry",
        "secor/adapters/kafka/ledger.py",
        "            if raw_entry != before.version:\n",
        "            if False:\n",
        KAFKA_TESTS,
    ),
    Mutant(
        "Kafka: a commit goes under the member's present generation",
        "secor/adapters/kafka/commits.py",
        "        generation_id_or_member_epoch=pin.generation,\n",
        "        generation_id_or_member_epoch=client.coordinator._generation.generation_id,\n",
        KAFKA_TESTS,
    ),
    Mutant(
        "Kafka: a revoked pin may still commit",
        "secor/adapters/kafka/commits.py",
        "    if not pin.alive:\n",
        "    if False:\n",
        KAFKA_TESTS,
    ),
    Mutant(
        "S3: a put is not conditional",
        "secor/adapters/s3/store.py",
        '        self._condition = {"IfNoneMatch": "*"} if conditional_puts else {}\n',
        "        self._condition: dict[str, str] = {}\n",
        STORE_TESTS,
    ),
    Mutant(
        "S3: later puts keep the first one's metadata",
        "secor/adapters/s3/put_template.py",
        "                if not name.startswith(_PER_PUT_HEADERS)\n",
        "",
        ("tests/unit/adapters/test_s3_small_puts.py",),
    ),
    Mutant(
        "S3: a body is not compared with its checksum",
        "secor/adapters/s3/store.py",
        "            if actual_crc32c != crc32c:\n",
        "            if False:\n",
        STORE_TESTS,
    ),
    Mutant(
        "local: an object that appeared meanwhile is written over",
        "secor/adapters/local.py",
        "                with self._locked():\n                    _refuse_existing(target)\n",
        "                with self._locked():\n"
        "                    target.unlink(missing_ok=True)\n",
        STORE_TESTS,
    ),
    Mutant(
        "a batch under way is stored by the newest schema",
        POSITIONING,
        "        plan = self._plans(topic_partition.topic, fingerprint)\n",
        "        plan = self._plans(topic_partition.topic, None)\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "a schema is used that is not kept",
        SCHEMAS,
        "            self._kept.add(following)\n",
        "            pass\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "who comes second with a version goes by its own",
        SCHEMAS,
        "            return latest\n",
        "            return following\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "the messages behind one that grows the schema are left out",
        CONSUMER,
        "                self._lifecycle.fail(partition, grew, keep=True)\n",
        "                pass\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "a message that needs a wider schema is parsed under the old one",
        PIPELINE,
        "            reasons = look_for_growth(self._growth, works, fits)\n",
        "            pass\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "servers are asked again after the start was given up",
        "secor/service/startup.py",
        "            if self._abandoned.wait(delay(attempt, rng=self._rng)):\n",
        "            if self._abandoned.wait(delay(attempt, rng=self._rng)) and False:\n",
        ("tests/unit/service/test_startup.py",),
    ),
    Mutant(
        "a command without --metrics-file writes one into the folder that it runs in",
        "secor/service/monitoring/last_run.py",
        "        if self._path is None:\n            return\n",
        '        if self._path is None:\n            self._path = Path("secor.prom")\n',
        ("tests/unit/service/test_last_run.py",),
    ),
    Mutant(
        "nothing goes wrong at any crash point, because no call is numbered",
        "tests/simulation/world.py",
        "        self.calls.append(call)\n",
        "",
        ("tests/simulation/test_every_crash_point.py",),
    ),
    Mutant(
        "the beginning is agreed after the objects are deleted",
        "secor/archive/expire.py",
        "            if log.count:\n                self.agree(log)\n"
        "            self._delete(log, progress)\n",
        "            self._delete(log, progress)\n"
        "            if log.count:\n                self.agree(log)\n",
        ("tests/unit/archive/test_expire.py",),
    ),
    Mutant(
        "what has expired is read until it is deleted",
        "secor/archive/beginning.py",
        "            if from_another or not self.is_expired(archived.name):\n",
        "            if True:\n",
        ("tests/unit/archive/test_expire.py",),
    ),
    *ERASING_MUTANTS,
    *RESTORE_MUTANTS,
    *TABLE_MUTANTS,
)
