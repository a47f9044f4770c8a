"""Schemas of rows: declared, inferred from messages, grown, and messages fitted to them.

In: decoded fields as Arrow columns, and a declared or kept schema.  Out: columns of exactly that
schema, reasons for the rows that do not fit, and the wider schema that new fields ask for.

``inference`` finds the types of values, ``dominance`` and ``new_columns`` what a new field
becomes, ``growth`` what an existing one becomes, ``fitting`` converts.  A schema only grows.  The
same messages give the same schema on every process, for fingerprints depend on it.

Failures: ``ConfigurationError`` for a declaration that cannot be read; a message that does not
fit is never an error, its row gets a reason for quarantine.
"""
