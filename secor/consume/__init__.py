"""The consumer loop: assignment, positions, state of each topic partition, backpressure.

In: events of a ``MessageSource`` (assigned, revoked, fetched, failed).  Out: sealed batches,
handed to threads that commit them, and their outcomes brought back.

Words
    *Round*: one call of ``Consumer.run_once``; it bounds how long it appends, so that results and
    due batches never wait for a flood.
    *Position*: where reading begins: the ledger's ``committed``; up to which offset, and by which
    plan, where an intent is open (``positioning``).
    *Retired*: a partition that reads no more and still uploads.  A restart retires the partition
    and begins with a new one, so that nothing of the old reading remains.

Invariants
    All of it runs in one thread, that of the caller.  The loop never waits for store or ledger:
    what blocks goes through ``blocking_tasks``.
    The life of a partition is two tables (``partition_states``): ``lifecycle`` carries out what
    they command and decides nothing.
    A batch that follows an open intent is sealed exactly at its end, whatever the policy says.
    A revoked partition is released only when nothing of it is in work.

Failures (``secor.core.errors``) mean the same everywhere: ``RestartPartition`` drops the open
batch and reads again from the ledger, ``StopPartition`` stops one topic partition until a person
has looked while the others go on, ``LocalFilesExhausted`` drops the batch and waits.  Anything
else ends the process: a confused daemon stops.

Read ``consumer``, ``partition_states``, ``lifecycle``, ``positioning``.
"""
