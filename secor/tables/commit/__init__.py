"""The commit of staged files: selection by a table's vector, append and new vector in one step.

In: manifests, and tables with their vectors (next offset of each topic partition).  Out: one
snapshot a table and cycle; its properties hold the new vector and the commit's id.

``selection`` decides what a table lacks and is pure.  ``table_commit`` appends and moves the
vector in one compare-and-set.  A lost answer is settled by reading the table, never by guessing.
A file that the library or catalog refuses is noted in the table, and others do not wait for it.
"""
