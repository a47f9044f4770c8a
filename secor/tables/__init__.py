"""The table group: rows become data files of tables, visible by one commit a table and cycle.

In: messages of many topics, in many daemons.  Out: rows of Iceberg and Hudi tables.

    worker        parses, routes rows to tables, stages data files and, last, a manifest; commits
                  its ledger entry as every group does (``secor.commit``)
    coordinator   reads what is staged and commits it: one commit for each table and cycle

Words
    *Manifest*: the last object of a batch: the data files of exactly ``[start, end)``, by table.
    *Vector*: in the table's own metadata, for each source topic partition, the next offset that
    the table does not have.
    *Cycle*: ask the workers, wait for the set of topic partitions to be covered, commit
    (``cycle``).

Invariants
    The vector changes in the same atomic commit as the files, and a commit requires the snapshot
    at which the vector was read: of two coordinators one is refused, and looks again.
    The ledger is read before manifests are listed: below its offset no manifest can be missing.
    Announcements only say when to look.  Losing all of them costs a cycle, never a row.
    Nobody guesses: what lies across the vector, or overlaps, stops that partition of that table.

Failures: ``TableStopped`` stops one table until a person has looked (``settle``: accept or
replay); ``TableUnusable`` stops the topic partitions with messages for it; other tables go on.

Rooms, each imports those above it: ``rows`` (messages to rows), ``staging`` (files and
manifests), ``commit`` (files into tables), ``repair`` (what a person settles).  Here, at the
door: the port ``catalog``, the ``cycle``, its ``coordinator``.

Read ``cycle``, ``coordinator``.
"""
