"""Rows of messages: routed to tables, with columns, keys, and the changes that they make.

In: decoded messages.  Out: rows and changes of rows in the types of their table, and what they
need of it: columns, or the table itself.  Nothing here writes.

A message that makes no row has a reason, and waits in quarantine with it.
"""
