"""Recovery of an open intent: adopts its objects in the store, deletes superseded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from secor.batch.sealed import BatchFile, OutputPlace, SealedBatch
from secor.core.errors import CorruptFile, NotFound, ObjectConflict
from secor.core.model import Intent
from secor.core.naming import ObjectName, parse_key, quarantine_root
from secor.core.object_info import ObjectInfo
from secor.core.ports import ObjectStore


def recover(
    store: ObjectStore,
    batch: SealedBatch,
    intent: Intent,
    prove: Callable[[], None],
    deleted: Callable[[], None],
) -> frozenset[OutputPlace]:
    """Return the places of ``batch`` that are done; delete superseded leftovers.

    An object with the intent's range and fingerprint is adopted, even if ours would have
    fewer records: compaction may have removed some since.  If the batch's last file exists,
    all files exist: it is put last.  A leftover names this very range under a fingerprint
    that the intent supersedes.  Anything else of the range in our places is somebody else's.
    ``prove`` is called before each deletion and raises when the lease is lost: a successor of
    the old configuration may have adopted the object and committed it.  ``deleted`` is called
    after each deletion, whatever came of it.  Raises ``ObjectConflict``, ``Unavailable``,
    ``AccessDenied``.
    """
    # The last file is put after all others and lists them: if it exists, so do they.
    if batch.last is not None and _is_there(store, batch.last, batch):
        return frozenset(file.place for file in (*batch.files, batch.last))
    # Listed after our intent was recorded. A process of the same configuration that is still at its
    # puts has our names, and put-if-absent meets it; for other configurations there is the wait.
    adopted: set[OutputPlace] = set()
    replaced = {old.fingerprint for old in intent.supersedes}
    places = {file.place for file in batch.files}
    for key, place, info in _candidates(store, batch, intent):
        is_this_batch = info.topic_partition == batch.topic_partition and info.batch == batch.range
        # The number of records is not compared. The first reader may have found more messages than
        # we did, before compaction, and its object is the right one.
        if is_this_batch and info.fingerprint == batch.fingerprint and _same_topic(batch, info):
            adopted.add(place)
        elif is_this_batch and info.fingerprint in replaced:
            # The lease is proved right before: without it, somebody else may have adopted and
            # committed this object, and a deletion would lose it.  One that failed may still be
            # carried out, so ``deleted`` is called after it, too.
            prove()
            try:
                store.delete(key)
            finally:
                deleted()
        # Only where one of ours has to be: elsewhere nothing of ours collides with it.
        elif place in places:
            raise conflict(key, batch, info)
    return frozenset(adopted)


def _is_there(store: ObjectStore, last: BatchFile, batch: SealedBatch) -> bool:
    """Return whether the last file of the range exists, of any configuration."""
    info = stored_info(store, last.key)
    if info is None:
        return False
    # Not the fingerprint: of two configurations the one whose last file came first is right, with
    # the files that it lists. The files of the other one are orphans.
    if not info.same_range(last.info):
        raise conflict(last.key, batch, info)
    return True


def _same_topic(batch: SealedBatch, info: ObjectInfo) -> bool:
    # Unknown on either side proves nothing: old brokers give no ids, nor did earlier versions.
    return batch.topic_id is None or info.topic_id is None or batch.topic_id == info.topic_id


def conflict(key: str, batch: SealedBatch, info: ObjectInfo) -> ObjectConflict:
    """Return the error for an object that has the place of one of ``batch``."""
    by = f" by group {info.group}" if info.group else ""
    return ObjectConflict(
        f"{key} holds {info.topic_partition} {info.batch} made under {info.fingerprint}{by}"
        f" (topic id {info.topic_id}), in the way of {batch.topic_partition} {batch.range} under"
        f" {batch.fingerprint} (topic id {batch.topic_id}); nothing was overwritten. Give this"
        " group a prefix or a generation of its own, or remove the object if it is not needed"
    )


def _candidates(
    store: ObjectStore, batch: SealedBatch, intent: Intent
) -> Iterator[tuple[str, OutputPlace, ObjectInfo]]:
    """Yield key, place and metadata of objects that may be of the range by their names.

    Objects of earlier versions are named by their first message, anywhere in it.
    """
    # The directories overlap: ours is within the whole topic that superseded intents look at.
    seen: set[str] = set()
    for root, prefix in _places(batch, intent):
        for listed in store.list(prefix):
            name = parse_key(root, listed.key)
            if name is None or name.partition != batch.topic_partition.partition:
                continue
            # Not "equals the start": objects of earlier versions begin at their first message, and
            # those of a superseded attempt may be of such a version.
            if name.start_offset not in batch.range or listed.key in seen:
                continue
            seen.add(listed.key)
            info = stored_info(store, listed.key)
            if info is None or (
                # Objects of another generation are other people's, unless the intent names their
                # settings.
                name.generation != batch.plan.generation and not _is_superseded(info, intent)
            ):
                continue
            yield listed.key, OutputPlace(root, name.output_partition), info


def _is_superseded(info: ObjectInfo, intent: Intent) -> bool:
    return any(info.fingerprint == old.fingerprint for old in intent.supersedes)


def stored_info(store: ObjectStore, key: str) -> ObjectInfo | None:
    """Return what an object says of itself; None where there is none.

    Raises ``ObjectConflict`` for an object that no Secor made, where one of ours belongs.  It
    looks twice: an answer that was cut within its headers looks the same.
    """
    try:
        return _info(store, key)
    except CorruptFile:
        try:
            return _info(store, key)
        except CorruptFile as error:
            raise ObjectConflict(
                f"{error}; nothing was overwritten. Give this group a prefix of its own"
            ) from error


def _info(store: ObjectStore, key: str) -> ObjectInfo | None:
    try:
        return ObjectInfo.of(store.head(key).metadata or {}, key)
    except NotFound:
        return None


def _places(batch: SealedBatch, intent: Intent) -> Iterator[tuple[str, str]]:
    """Yield (directory, listing prefix): narrow for ours, whole topics for superseded.

    Under another configuration the output partitions are not known; that is rare, and
    worth a listing of the topic.
    """
    # Files with unique names are in no listing's way: nobody else makes such a name, and the last
    # file says which of them count.
    names = (file.name for file in batch.files if isinstance(file.name, ObjectName))
    yield from {(name.root, name.stem) for name in names}
    if intent.supersedes:
        roots = set(batch.plan.roots)
        for old in intent.supersedes:
            # The other configuration may have routed messages, or put them into quarantine, where
            # this one does not. A leftover there would be a message that is stored twice.
            roots |= {old.root, quarantine_root(old.root), *old.also}
        for root in sorted(roots):
            yield root, f"{root}/"
