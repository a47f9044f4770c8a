"""botocore's descriptions of services, read in a fraction of the time that botocore takes.

To learn whether S3 is a service, botocore looks into the folder of each of four hundred services.
It also makes ordered dictionaries of three megabytes of JSON, although every dictionary keeps
its order.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from botocore.loaders import JSONFileLoader, Loader, create_loader
from botocore.session import Session


def _unpack(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


_READERS: Mapping[str, Callable[[Path], bytes]] = {".json": Path.read_bytes, ".json.gz": _unpack}


def _is_there(look: Callable[[], bool]) -> bool:
    """Return what ``look`` says; False within a folder that this user may not enter."""
    try:
        return look()
    except PermissionError:
        return False


class _ModelFiles(JSONFileLoader):
    """Reads JSON files, plain or compressed; paths have no suffix."""

    def load_file(self, file_path: str) -> Any:
        """Return what the file says, None where there is none."""
        for suffix, read in _READERS.items():
            file = Path(file_path + suffix)
            if _is_there(file.is_file):
                return json.loads(read(file))
        return None


class ModelLoader(Loader):
    """A loader of service models that takes every folder for a service."""

    FILE_LOADER_CLASS = _ModelFiles

    def list_available_services(self, type_name: str) -> list[str]:
        """Return the names of all services, without checking that they have such a model."""
        folders = [path for path in map(Path, self.search_paths) if _is_there(path.is_dir)]
        return sorted({service.name for folder in folders for service in folder.iterdir()})


def use_quick_models(session: Session) -> None:
    """Let the session read its models with ``ModelLoader``, from the same folders."""
    paths = create_loader(session.get_config_variable("data_path")).search_paths
    loader = ModelLoader(extra_search_paths=list(paths), include_default_search_paths=False)
    session.register_component("data_loader", loader)
