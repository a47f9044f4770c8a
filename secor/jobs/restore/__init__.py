"""A restore: ``plan`` and ``job_findings`` before it, ``run`` one daemon, ``status``, ``verify``.

``planned_topics`` are the targets of a plan, as they are or would be made.
``offsets`` and ``progress`` read what an earlier run has written, ``control`` changes it,
``groups`` translates consumer groups' offsets (``group_offsets`` says from where), ``estimate``
measures the least time.
"""
