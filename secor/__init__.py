"""Secor: Kafka topics to object storage, exactly once."""

__version__ = "1.0.0rc1"
