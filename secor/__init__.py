"""Secor: Kafka topics to object storage, exactly once."""

__version__ = "0.1.0"
