"""Parsing: messages to decoded fields, timestamps, output partitions and quarantine.

In: a chunk of messages (bytes).  Out: parts: rows with decoded fields, each part with its output
partition (``dt=2026-11-21/hr=04``) and output stream (data, quarantine, another topic's
directory).

The steps, in order (``pipeline``): decode, transform, read the time, lay out, split.  Each takes
columns and returns columns; a row that a step cannot place carries a reason and goes into
quarantine, in the same batch and commit as its neighbours.

Invariants
    Pure: the result depends on the message and the settings alone; never on the clock, chance,
    other messages, or how the chunks were cut.  So a successor, a backfill and Spark make the same
    objects from the same range (``determinism`` checks plug-ins for it).
    No message is dropped without being counted, and none gets an invented time.
    Values of messages are hostile: bounded before they are built into objects, escaped in paths.

Failures: a bad message is a value (a reason), not an exception.  ``Unavailable`` (a registry that
does not answer) waits; ``TooManyBad`` stops the topic partition (``quarantine_limits``).
"""
