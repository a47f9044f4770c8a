"""Verification of tables: each message once, statistics that hide no row, values of the source.

In: tables as a library or another engine reads them, and logs or a source database.  Out: findings
with the place of each.  Memory is bounded: rows are compared by hashes in chunks.
"""
