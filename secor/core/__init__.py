"""The words that every room uses: messages, errors, ports, names.

``model``: topic partitions, half-open offset ranges, chunks of messages as Arrow columns, ledger
entries.  An offset is always that of the *next* message, and only ``next_offset`` adds one:

    >>> from secor.core.model import OffsetRange, next_offset
    >>> last_read = 41
    >>> str(OffsetRange(40, next_offset(last_read)))
    '[40, 42)'

``errors``: one tree, ordered by what the caller does: try again, settle by reading, restart the
topic partition, stop it, or end with a message for a person.

``ports``: what the core asks of the outside (source, ledger, store, formats, parser, clock), with
the contract of each call.  Adapters implement them; ``tests/fakes`` too, held to the same
contracts.

``naming``: the one scheme of object names.  A name says where a batch's range begins:

    >>> from secor.core.naming import ObjectName
    >>> ObjectName("logs/clicks", "offset=0", 1, 3, 12345, ".seq").key
    'logs/clicks/offset=0/1_3_00000000000000012345.seq'

Nothing here imports another room of the program, opens a file or reads a clock, but ``clock``.
"""
