"""Ranges of the archive written again, into the place of what they were: now, joined.

In: the objects of a topic.  Out: fewer and larger ones with the same messages, named
``….rewrite-<n>-to-<end>``, which take the place of the others in one put (``archive.objects``).

``planning`` chooses ranges and is pure; ``carrying_out`` agrees on a plan with all who run at the
same time; ``one_range`` joins, compares, puts, and only then deletes.  A plan is an object that is
put if absent and never changes; the next one follows when it is done.  So a crash, a second run
and a process that slept all end in the same objects.

Failures: ``CorruptFile`` and ``ConfigurationError`` name the object; its range stays as it is.
"""
