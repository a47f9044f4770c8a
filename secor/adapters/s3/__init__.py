"""Buckets of S3, and of servers that speak its protocol."""

from secor.adapters.s3.store import S3Store

__all__ = ["S3Store"]
