"""A restore: ``plan``, ``planned_topics`` and ``job_findings`` before it, ``run`` one daemon, ``status``, ``verify``.

``offsets`` and ``progress`` read what an earlier run has written, ``control`` changes it,
``groups`` translates consumer groups' offsets (``group_offsets`` says from where), ``estimate``
measures the least time.
"""
