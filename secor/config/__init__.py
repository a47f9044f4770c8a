"""The configuration: sections and their keys, loading, checking and showing."""
