"""Google Cloud Storage and Azure Blob Storage, through the obstore library."""

from secor.adapters.clouds.clients import azure_store, gcs_store
from secor.adapters.clouds.store import CloudStore

__all__ = ["CloudStore", "azure_store", "gcs_store"]
