"""Batches: the local files of a topic partition from the first message to the seal.

In: chunks, split by a ``MessageParser`` into parts, each with output partition and output stream.
Out: a ``SealedBatch``: the range ``[start, end)`` and one file for each output partition, with its
name, CRC32C and metadata.

Invariants
    A sealed batch never changes.
    What a file holds is a function of topic partition, range and fingerprint: files are cut by
    rules on records, never by poll boundaries or time.
    Local files are a cache: never synced, deleted after a crash, and read again from Kafka.
    ``policy`` is pure: whether to seal is a function of the facts of a batch and the time given.

    >>> from secor.batch.policy import BatchFacts, Policy, due
    >>> batch = BatchFacts(size=2_000, messages=10, opened=100.0, youngest=100.0, opened_at=0.0)
    >>> due(Policy(max_age=600.0), batch, monotonic=700.0, now=600.0)
    <Reason.AGE: 'age'>

Failures: ``LocalFilesExhausted`` (disk, descriptors, the directory itself): drop the batch, wait,
read again.  ``SchemaGrew``: the message at this offset needs a wider schema; nothing of it was
appended, so the batch is sealed before it.
"""
