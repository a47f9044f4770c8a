"""Objects made from archived ones by a backfill or a replay: put once, known by a label."""

from __future__ import annotations

from secor.batch.sealed import BatchFile
from secor.core.errors import AlreadyExists, CorruptFile, ObjectConflict
from secor.core.model import StoredObject
from secor.core.object_info import ObjectInfo
from secor.core.ports import ObjectStore


def put_derived(
    store: ObjectStore, key: str, file: BatchFile, label: tuple[str, str], conflict: str
) -> None:
    """Put ``file`` under ``key`` with the metadata ``label`` (name, value), unless it is there.

    Raises ``ObjectConflict`` with the text ``conflict`` when another object is there, and
    as ``ObjectStore.put``.
    """
    metadata = {**file.info.metadata(), label[0]: label[1]}
    try:
        store.put(key, file.local.content(), file.local.crc32c, metadata)
    except AlreadyExists as error:
        if not _is_same(store.head(key), file, label):
            raise ObjectConflict(conflict) from error


def _is_same(stored: StoredObject, file: BatchFile, label: tuple[str, str]) -> bool:
    metadata = stored.metadata or {}
    try:
        info = ObjectInfo.of(metadata, stored.key)
    except CorruptFile:
        return False
    same = info.same_content(file.info) and metadata.get(label[0]) == label[1]
    return same and stored.size == file.local.size
