"""Staging: files of rows that are written but not committed, and the manifests that list them.

In: rows of a batch.  Out: data files in the table's place and one manifest, put after them by the
commit protocol.  A manifest stays until all its tables have its offsets in their vectors, so what
is staged is in a table exactly once.

``fitted_changes`` and ``changes_of_table`` stage changes of rows, which an engine merges later.
"""
