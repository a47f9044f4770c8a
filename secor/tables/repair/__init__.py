"""Repair of tables by a person: refused files set aside, rollbacks settled, quarantine replayed.

Also the ledger entries of a group that has lost them: below the vector and below the end of each
manifest nothing is missing, so the greatest of these offsets loses and doubles no row.
"""
