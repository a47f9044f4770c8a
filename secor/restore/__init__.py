"""The restore group: archives back into Kafka, each message once, in transactions.

In: an archive (``sources``: what a backup, a partition group or Java Secor has stored).  Out: the
same messages in topics of a target cluster, and the offsets of consumer groups translated to them.

Words
    *Source partition*: (archive, topic, partition), the unit of work.  *Source offset*: the next
    archived offset to write.  *Job*: one restore, described by a spec that does not change.

Invariants
    One transactional id for each source partition.  Records and the source offset behind them are
    in one transaction: both or neither.
    Initialise first, then read the offset (``opening``): the last writer to initialise reads an
    offset that nobody can move any more.  The assignment only decides which daemon works.
    Identity is the archived offset, never file and line: overlapping or rewritten archives resume
    exactly.

Failures: ``WriterFenced``, ``TransactionBroken``: initialise again and read the offset, never
assume. ``TargetRefused``, ``SpecChanged``, ``ArchiveIncomplete``: a person must look; other source
partitions go on.

Read ``engine``, ``opening``, ``task``, ``schedule``; ``writer`` for the transactions themselves.
"""
