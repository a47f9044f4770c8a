"""Formats of decoded rows: the fields of messages as columns that analysts read."""
