"""Compares the archive with the topics, offset by offset."""
