"""The archive: what the store holds of a group's topics, read, checked, parsed again and repaired.

In: objects that a group has put.  Out: messages (``objects``), signed
hashes of what was verified (``evidence``), marks of complete hours (``finalize``), messages of
quarantine parsed again (``quarantine``), ranges parsed again (``backfill``), ledger entries that a
person moves, accepts or rebuilds (``repair``).

Objects describe themselves by their metadata; names alone say where a range begins.  Nothing here
changes an object: what replaces objects makes new ones of a higher generation, verifies them, and
only then removes the old ones.

Failures: ``CorruptFile`` names the object and the place in it; ``NotFound`` and ``Unavailable`` are
the store's.

Read ``objects``, ``kept_schemas``, then the folder of the task.
"""
