"""Each safety step of a restore's writer and engine, and the text that takes it out."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RESTORE_TESTS = ("tests/unit/restore", "tests/simulation/test_restore.py")
WITHOUT_TRANSACTIONS = ("tests/simulation/test_restore_without_transactions.py",)
COPIES_TESTS = ("tests/unit/restore/test_copies.py", "tests/unit/wiring/test_restore_offsets.py")

OPENING = "secor/restore/opening.py"
TASK = "secor/restore/task.py"
WRITER = "secor/restore/writer/writer.py"
RESTORE_OFFSETS = "secor/restore/offsets.py"

RESTORE_MUTANTS = (
    Mutant(
        "restore: offsets are read before the ids are initialised",
        OPENING,
        """        writers = self._initialised(sources, opened.failed)
        if not writers:
            return opened
        # After all ids are initialised, never before: an offset that was read while an old owner
        # could still commit would have its messages written twice.
        table = read_offsets(self.log, offsets, self.settings.spec.job)
""",
        """        table = read_offsets(self.log, offsets, self.settings.spec.job)
        writers = self._initialised(sources, opened.failed)
        if not writers:
            return opened
""",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: nobody looks for transactions whose markers are lost",
        OPENING,
        "        self._end_lost(offsets, writers)\n",
        "",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: what a lost marker left open is aborted, also what was committed",
        OPENING,
        "if ((source, place, first) in committed) is commit",
        "if not commit",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: the end of the offsets is asked read-committed",
        RESTORE_OFFSETS,
        "end = log.end(topic_partition, committed=committed)",
        "end = log.end(topic_partition, committed=True)",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: each owner has a transactional id of its own",
        OPENING,
        "self.make_writer(transactional_id(self.settings.spec.job, source))",
        'self.make_writer(f"{transactional_id(self.settings.spec.job, source)}:{id(writers)}")',
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: nothing is looked at after initialising",
        OPENING,
        """        # daemons would fence each other in turns.
        if not self._mine(offsets, assignment):
            return Opened()
""",
        "",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: the offset is committed behind the records",
        TASK,
        "        stored = StoredOffset(next_offset, settings.spec.hash).encode()\n",
        """        stored = StoredOffset(next_offset, settings.spec.hash).encode()
        self._writer.commit()
        self._writer.begin()
""",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a commit is taken for done",
        WRITER,
        "        self._end(WriterEvent.COMMIT_SENT, commit=True)\n",
        """        with suppress(SecorError):
            self._end(WriterEvent.COMMIT_SENT, commit=True)
        self.state = WriterState.READY
""",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a commit does not wait for the batches",
        WRITER,
        "        self.flush()\n        self._end(WriterEvent.COMMIT_SENT",
        "        self._sent = None\n        self._end(WriterEvent.COMMIT_SENT",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: sequences go on under a new identity",
        WRITER,
        "            self._sequences.clear()\n",
        "",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a fenced writer is fenced no more",
        "secor/restore/writer/decisions.py",
        "    _C.PRODUCER_FENCED: WriterAction.FENCED,\n",
        "    _C.PRODUCER_FENCED: WriterAction.GO_ON,\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: an abort forgets the offsets of what is skipped",
        TASK,
        """        self._writer.begin()
        self._commit(next_offset)
""",
        "        self.next_offset = next_offset\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a transaction of the source is cut where the source is silent",
        TASK,
        "if written.last.boundary is None:",
        "if False:",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: any boundary lets a source abort what else is in the transaction",
        TASK,
        """            if written.last.boundary is Boundary.ABORT:
                self._skip(written.last.next_offset)
                return Turn.WROTE
""",
        """        if written.last.boundary is Boundary.ABORT:
            self._skip(written.last.next_offset)
            return Turn.WROTE
""",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: what did not fit into a transaction is forgotten",
        TASK,
        "        return reader.next(wait) if rest is None else rest\n",
        "        return reader.next(wait)\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a cut piece claims the offset behind all of it",
        "secor/restore/boundaries.py",
        "    return Piece(piece.records.slice(0, row), following)\n",
        "    return Piece(piece.records.slice(0, row), piece.next_offset)\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a transaction takes a whole piece beyond its cap",
        "secor/restore/boundaries.py",
        '        if self.kind == "source":\n            return piece, None\n',
        "        return piece, None\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a transaction stays open behind a plug-in that failed",
        TASK,
        """        except SecorError:
            self._abandon()
            if self._end_at""",
        """        except SecorError:
            if self._end_at""",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: an aborted transaction goes on behind its records",
        TASK,
        """            # The same records again, from what is committed.
            self.close()
""",
        "            # The same records again, from what is committed.\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: what a person mended stays failed",
        "secor/restore/schedule.py",
        "    (TargetRefused, After.TRY_LATER),\n",
        "    (TargetRefused, After.FAIL),\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a store that is away ends a daemon that follows an archive",
        "secor/restore/engine.py",
        """        except _UNKNOWN_FOR_NOW as error:
            # What""",
        """        except LookupError as error:
            # What""",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a batch is sent again under other sequences",
        WRITER,
        "        self._sequences[topic_partition] = sequence_after(sequence, rows.num_rows)\n",
        "        self._sequences[topic_partition] = sequence\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: an abort does not wait for the batch on its way",
        WRITER,
        """            with suppress(SecorError):
                sent.answer()
""",
        "            pass\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: partitions are added once in a writer's life",
        WRITER,
        "        self._added.clear()\n",
        "",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a commit without an answer is asked about no more",
        "secor/restore/writer/requesting.py",
        "                action = WriterAction.FIND_LEADER if produce"
        " else WriterAction.FIND_COORDINATOR\n",
        "                return ProduceAnswer(BrokerCode.NONE)  # type: ignore[return-value]\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: an error that nobody knows is taken for an answer",
        "secor/restore/writer/decisions.py",
        "    return _BY_REQUEST[request].get(code, WriterAction.REBUILD)\n",
        "    return _BY_REQUEST[request].get(code, WriterAction.GO_ON)\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a dead writer may begin again",
        "secor/restore/writer/model.py",
        "        (WriterState.READY, WriterEvent.BEGUN): WriterState.IN_TRANSACTION,\n",
        """        (WriterState.READY, WriterEvent.BEGUN): WriterState.IN_TRANSACTION,
        (WriterState.DEAD, WriterEvent.BEGUN): WriterState.IN_TRANSACTION,
""",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: another spec goes on with the offsets",
        RESTORE_OFFSETS,
        "        if stored.spec != spec:\n",
        "        if False:\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a partition is given up while something of it is in work",
        "secor/restore/engine.py",
        "free = {offsets for offsets in self._leaving if not self._schedule.busy(offsets)}",
        "free = set(self._leaving)",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: two who change a job at a time both win",
        "secor/restore/control.py",
        'writer = self._make_writer(f"secor:{self._job}::")',
        'writer = self._make_writer(f"secor:{self._job}::{id(change)}")',
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a daemon ends while others have something left",
        "secor/restore/engine.py",
        "            return not others or self._written(others)\n",
        "            return True\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: holes of the archive are read over",
        "secor/restore/sources/archive.py",
        "        if not self.holes:\n",
        "        if False:\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: what is before a damaged object waits with it",
        TASK,
        "            self._end_at = written.whole\n",
        "            self._end_at = None\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: a part of a damaged object is committed",
        TASK,
        "            if piece.boundary is not None:\n",
        "            if True:\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: an object that lost its end is taken for whole",
        "secor/restore/sources/archive.py",
        "        if count == expected or (perhaps_left_out and self.holes):\n",
        "        if True:\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: objects that overlap are all read",
        "secor/restore/sources/archive.py",
        "            last = int(offsets.searchsorted(part.end))\n",
        "            last = len(offsets)\n",
        RESTORE_TESTS,
    ),
    Mutant(
        "restore: without transactions offsets are written before their messages",
        TASK,
        "        self._writer.begin()\n        written = _Written(first)\n",
        """        self._writer.begin()
        early = StoredOffset(first.next_offset, self._settings.spec.hash).encode()
        key = offset_key(self._settings.spec.job, self.source)
        self._writer.write(self._offsets, record(key, early, 0))
        self._writer.flush()
        written = _Written(first)
""",
        WITHOUT_TRANSACTIONS,
    ),
    Mutant(
        "restore: without transactions batches still claim one",
        WRITER,
        "transactional=self._limits.transactional",
        "transactional=True",
        WITHOUT_TRANSACTIONS,
    ),
    Mutant(
        "restore: a source that says nothing is taken for exact",
        "secor/restore/job_preflight.py",
        "if required and answer is not True:",
        "if required and answer is False:",
        ("tests/unit/restore/test_job_preflight.py",),
    ),
    Mutant(
        "restore: a copy is written before its commit",
        TASK,
        """        self._commit(written.last.next_offset)
        seconds = self._settings.clock.monotonic() - began
        self._settings.observer.committed(
            self.source, self.next_offset, written.records, written.size, seconds
        )
""",
        """        seconds = self._settings.clock.monotonic() - began
        self._settings.observer.committed(
            self.source, written.last.next_offset, written.records, written.size, seconds
        )
        self._commit(written.last.next_offset)
""",
        COPIES_TESTS,
    ),
    Mutant(
        "restore: an older offset replaces a newer copy",
        "secor/restore/copies.py",
        "{**pending, **self._pending}",
        "{**self._pending, **pending}",
        COPIES_TESTS,
    ),
    Mutant(
        "restore: of two copies the higher counts",
        "secor/restore/copies.py",
        "min(known, stored,",
        "max(known, stored,",
        COPIES_TESTS,
    ),
    Mutant(
        "restore: copies go before the job's own offsets",
        "secor/jobs/restore/control.py",
        "sorted(copies.offsets.keys() - known.keys())",
        "sorted(copies.offsets)",
        COPIES_TESTS,
    ),
    Mutant(
        "restore: copies are taken while the job runs",
        "secor/jobs/restore/control.py",
        "if known is not None and known.requested is not RequestedState.STOPPED:",
        "if False:",
        COPIES_TESTS,
    ),
    Mutant(
        "restore: a reset leaves the copies",
        "secor/jobs/restore/control.py",
        "    if copies is not None and offsets:\n",
        "    if copies is not None and None not in offsets.values():\n",
        COPIES_TESTS,
    ),
)
