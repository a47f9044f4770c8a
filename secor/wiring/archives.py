"""The archive of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

from secor.archive.erasures import Erasures, Secret, read_erasures
from secor.archive.objects import Archive
from secor.core.ports import LogFormat, ObjectStore
from secor.formats import format_of_key, make_format
from secor.formats.text import TextFormat

if TYPE_CHECKING:
    from secor.archive.applied_erasures import AppliedErasures
    from secor.config.model import Config
    from secor.config.output import Output
    from secor.config.restore import RestoreConfig
    from secor.parsing.pipeline import Count

Routes = Mapping[str, Collection[str]]
"""By topic, other topics that messages of it were routed to."""


def places_of(config: Config, store: ObjectStore) -> list[Archive]:
    """Return an archive for each prefix at which the configuration puts objects."""
    outputs = [config.output, *(rule.output for rule in config.topics)]
    places = {(output.prefix, output.hash_prefix) for output in outputs}
    return [Archive(store, prefix, hashed=hashed) for prefix, hashed in sorted(places)]


def earlier_routes(config: Config, store: ObjectStore) -> Routes:
    """Return the routes in keys, also those that are configured no more.

    Lists every key of a partition group; the other groups have no routes.
    """
    if config.group.kind != "partition":
        return {}
    targets: dict[str, set[str]] = {}
    for archive in places_of(config, store):
        for topic, others in archive.routes().items():
            targets.setdefault(topic, set()).update(others)
    return targets


def archive_of(
    config: Config, topic: str, store: ObjectStore, routes: Routes = MappingProxyType({})
) -> Archive:
    """Return the archive that holds ``topic``; its text is read with the topic's delimiter.

    ``routes`` are known in addition to those of the configuration.
    """
    output = config.for_topic(topic).output
    return Archive(
        store,
        output.prefix,
        hashed=output.hash_prefix,
        formats=_formats(output),
        targets=(*config.for_topic(topic).parser.targets, *sorted(routes.get(topic, ()))),
    )


def _formats(output: Output) -> Callable[[str, BinaryIO | None], LogFormat]:
    """Return what finds the format of an object.

    Names as a connector's need not say that they are JSON lines: their lines would pass for
    messages of text.
    """
    by_name = partial(
        format_of_key, delimiter=output.delimiter.encode(), null_values=output.null_values
    )
    if output.format != "jsonlines" or output.naming in ("secor", "confluent"):
        return by_name

    def with_lines(key: str, file: BinaryIO | None = None) -> LogFormat:
        log_format = by_name(key, file)
        is_named_text = key.endswith((".txt", ".txt.gz", ".txt.zst"))
        if is_named_text or not isinstance(log_format, TextFormat):
            return log_format
        return make_format("jsonlines", codec=log_format.codec)

    return with_lines


def erasures_of(config: Config | RestoreConfig, archive: Archive, topic: str) -> Erasures:
    """Return what was erased from a topic's archive.

    Raises ``ConfigurationError`` where something was, and the secret is absent or another.
    """
    return read_erasures(archive.store, archive.root(topic), secret_of(config)).require()


def applied_erasures(config: Config, store: ObjectStore, count: Count) -> AppliedErasures | None:
    """Begin to apply lists of erased keys to what is stored; None where that is not wanted.

    ``count`` is called with messages that are left out.
    """
    secret = secret_of(config)
    if not config.erase.apply or secret is None:
        return None
    from secor.archive.applied_erasures import AppliedErasures

    return AppliedErasures(store, secret, count)


def secret_of(config: Config | RestoreConfig) -> Secret | None:
    """Return the secret with which erased keys are looked up; None where none is set."""
    secret = config.erase.secret
    return None if secret is None else Secret(secret.get_secret_value().encode())
