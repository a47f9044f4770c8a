"""What differs between the clouds, for messages, metadata and listings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """One cloud's words and habits.

    ``section`` is the configuration's, ``container`` what holds objects, ``credentials`` the
    settings to look at when they are refused, ``rights`` what to allow.  ``sorted_listings``
    tells that listings come by key in every kind of account.  ``underscores`` tells that names
    of metadata have underscores where ours have hyphens.
    """

    section: str
    container: str
    credentials: str
    rights: str
    sorted_listings: bool
    underscores: bool

    def encode(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """Return metadata as this cloud takes it."""
        if not self.underscores:
            return {name.lower(): value for name, value in metadata.items()}
        return {name.lower().replace("-", "_"): value for name, value in metadata.items()}

    def decode(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """Return metadata with our names."""
        if not self.underscores:
            return {name.lower(): value for name, value in metadata.items()}
        return {name.lower().replace("_", "-"): value for name, value in metadata.items()}


GCS = Provider(
    section="[store.gcs]",
    container="bucket",
    credentials="service_account, service_account_key or token",
    rights="storage.objects.create, get, list and delete (the role Storage Object User)",
    sorted_listings=True,
    underscores=False,
)

AZURE = Provider(
    section="[store.azure]",
    container="container",
    credentials="account_key, sas_token, or tenant_id, client_id and client_secret",
    rights="reading, creating, listing and deleting blobs (the role Storage Blob Data Contributor)",
    # With hierarchical namespaces a directory's blobs come before a neighbour's "name-...".
    sorted_listings=False,
    # Names have to be identifiers of C#.
    underscores=True,
)
