"""Typed formats: decoded fields of messages as columns of Parquet, ORC, Avro or JSON lines.

In: decoded rows, and a schema: declared by the user, kept with the topic's objects, or shown by
the messages themselves.  Out: file bytes with exactly that schema; rows that do not fit are named,
with the reason, and go into quarantine.

Three questions, three groups of modules
    *Which types do these rows show?*  ``inference``, ``observed_types``, ``dominance``.
    *Does a row ask for more than the schema has, and what does it become?*  ``growth``.
    *Does a row fit?*  ``fitting``, with ``columns`` and ``scalar_casts``: exactly, or not at all.

Invariants: no value changes on its way (no rounding, no cut, no overflow); row groups have an
exact number of rows whatever pieces they come in, so bytes repeat.
"""
