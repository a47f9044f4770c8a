"""Jobs of a person: a restore and a recovery, planned, run, looked at and compared.

In: a restore's file.  ``wiring.restore`` connects it to an archive and a target cluster (``Job``).
Out: topics, offsets of groups, ACLs, quotas and schemas of the target; reports for ``secor
restore``, ``secor recover`` and ``secor drill``, which print them.

``restore`` writes topics, and translates groups' offsets to them.  ``recover`` runs such a job and
then brings back what else the archive has kept of a lost cluster.

``verify_tables`` compares a group's tables with its topics, for ``secor verify``.

Invariants
    A plan writes nothing.  Each step looks at the target before it writes, and again afterwards:
    so a job that was stopped anywhere is begun again by the same command.
    What the target has already, and the archive does not say, is somebody's choice: it stays, and
    is an obstacle that the plan names.

Failures: ``ConfigurationError``: the file, or an option, has to be changed.  ``TargetRefused``,
``SpecChanged``: a person must look at the target.  Everything else may be tried again.

    with open_job(config) as job:
        for topic in plan(job).topics: ...
"""
