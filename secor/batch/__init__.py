"""Batches: the local files of a topic partition from the first message to the seal."""
