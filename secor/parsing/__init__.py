"""Parsing: messages to decoded fields, timestamps, output partitions and quarantine."""
