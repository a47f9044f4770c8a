"""The commit protocol: uploads a sealed batch to store and ledger, exactly once.

In: a ``SealedBatch`` (local files of the offsets ``[start, end)`` of one topic partition, and the
fingerprint of all settings that shaped them).  Out: its objects in the store, and ``committed =
end`` in the ledger; or an ``Outcome`` that says how to go on.

Words
    *Entry*: what the ledger holds of a topic partition: ``committed`` and perhaps an intent.
    *Intent*: "the objects of exactly ``[start, end)`` are being put", recorded before the first
    byte.
    *Lease*: the right to write the entry.  *Proof*: how long the last won write shows that no
    other process can have the lease (``lease_proof``).
    *Adopt*: take an object that an earlier attempt has put for ours.  *Supersede*: follow an
    intent that was recorded under another configuration (``superseding``).

Invariants
    No put begins before a won compare-and-set has recorded the range.  Two processes cannot both
    win it for different ranges, so the loser follows the winner's.
    Names depend on topic partition, range and output partition only, and every put is
    put-if-absent: a late put meets "already there" and changes nothing.
    ``committed`` moves to ``end`` in the same atomic step that removes the intent, after all puts.
    Nothing is deleted but objects of this very range under a fingerprint that the intent
    supersedes.

Failures
    ``Retryable``: nothing is lost, the same batch is tried again later.
    ``AbandonedBatch``: never the same batch again.  ``RestartPartition`` in it means "read again
    from the ledger's entry", ``StopPartition`` "a person must look".
    A write without an answer (``OutcomeUnknown``) is settled by reading, never by assuming.

The whole decision of what an entry means for a batch is one pure function:

    >>> from secor.commit.reconcile import reconcile
    >>> from secor.core.model import Entry, Intent, OffsetRange
    >>> reconcile(OffsetRange(0, 3), "f1", Entry(committed=0)).action
    <Action.UPLOAD: 'upload'>
    >>> intent = Intent(0, 5, "f1", owner="host-1", at=0.0, root="logs/clicks")
    >>> reconcile(OffsetRange(0, 3), "f1", Entry(committed=0, intent=intent)).why
    'the open intent ends at 5, the batch at 3'

Read ``uploader`` (the six steps), then ``reconcile``, ``recovery``, ``superseding``.
"""
