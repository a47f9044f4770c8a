"""Following a bucket to its region, but not where the question for the region is redirected."""

from __future__ import annotations

import threading
from typing import Any

import botocore.client
from botocore.utils import S3RegionRedirectorv2


class RegionRedirector(S3RegionRedirectorv2):
    """Botocore's, for servers that redirect every request.

    To learn the region, botocore asks about the bucket.  If that is redirected too, as by a
    proxy's maintenance page, botocore asks again for that request, until Python's stack ends.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._asking = threading.local()

    def get_bucket_region(self, bucket: str, response: Any) -> Any:
        """Return the bucket's region, None where it is not known."""
        if getattr(self._asking, "is_set", False):
            return None
        self._asking.is_set = True
        try:
            return super().get_bucket_region(bucket, response)
        finally:
            self._asking.is_set = False


def use_our_redirector() -> None:
    """Let the clients that botocore makes from now on have it."""
    vars(botocore.client)["S3RegionRedirectorv2"] = RegionRedirector
