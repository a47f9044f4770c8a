"""Nested Arrow types: arrays taken apart and rebuilt, exact casts, Python objects, JSON text.

In: Arrow arrays of any type.  Out: arrays of the same length, with a mask of the rows that could
not be converted.  Nothing here knows messages, schemas or files.

Nulls stay nulls, and an array that is a slice gives the same as a copy of it.  A cast is exact or
refused: no digit, second or character is lost without the row being named.
"""
