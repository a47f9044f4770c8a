"""Iceberg tables, by the Iceberg library for Python."""
