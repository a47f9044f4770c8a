"""The archive of a configuration."""

from __future__ import annotations

from functools import partial

from secor.archive import Archive
from secor.config.model import Config
from secor.formats import format_of_key
from secor.ports import ObjectStore


def archive_of(config: Config, topic: str, store: ObjectStore) -> Archive:
    """Return the archive that holds ``topic``; its text is read with the topic's delimiter."""
    output = config.for_topic(topic).output
    formats = partial(
        format_of_key, delimiter=output.delimiter.encode(), null_values=output.null_values
    )
    return Archive(
        store,
        output.prefix,
        hashed=output.hash_prefix,
        formats=formats,
        targets=config.for_topic(topic).parser.targets,
    )
