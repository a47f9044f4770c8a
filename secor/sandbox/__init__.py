"""A Kafka broker, ZooKeeper and an S3 server on this machine, from ordinary packages."""

from secor.sandbox.sandbox import S3Access, Sandbox

__all__ = ["Sandbox", "S3Access"]
