"""Verification: each message that should be there is there once and unchanged, or is a finding.

In: what an archive, tables, a restored topic or a backfill hold, and what they came from: the log
of Kafka, the ledger, the archive, the source database.  Out: findings, each with its place; a
report with what was compared and how much of it.  Nothing here changes what it looks at.

    finding         findings, reports, and how both are written
    archive/        objects against the log, or against themselves where no log is read
    tables          offsets of rows against the log, the routes and the quarantine
    keys            rows against the last state of each key (Spark does the work)
    metadata        what a table records of its files against the files
    source/         values of rows against the database that their changes came from
    engine_filters  rows that another engine finds by filters, for each column's values
    backfill        a batch's new objects against the old ones, before they replace them
    restore         messages of the target against those of the archive
    evidence        what a verification compared, as a record that can be signed

Words
    *Finding*: something at one place that is not as it has to be.  It is a result, not an
    exception: verification goes on to its end, and the command ends with exit code 5.
    *Remark*: something that could not be compared, or needs no action.
    *Hole*: a range of offsets without a message, with its cause.

Invariants
    What was not compared is counted as not compared, never as equal.
    Memory is bounded: columns are compared window by window, rows by hashes.

    Nothing compared is right only where there is nothing to compare.

Example, a finding as people and scripts read it:

    >>> from secor.verify.finding import Finding, FindingKind
    >>> str(Finding(FindingKind.MISSING, "clicks/0", "missing offsets [4, 9) (5 messages)"))
    'clicks/0: missing offsets [4, 9) (5 messages)'

Failures: ``Unavailable`` and ``AccessDenied`` end a verification; ``CorruptFile`` becomes a
finding that names the object.

Read ``finding``, ``archive``, then the module of what you verify.
"""
