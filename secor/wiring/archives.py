"""The archive of a configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType

from secor.archive.erasures import Erasures, Secret, read_erasures
from secor.archive.objects import Archive
from secor.config.model import Config
from secor.config.restore import RestoreConfig
from secor.core.ports import ObjectStore
from secor.formats import format_of_key

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
    formats = partial(
        format_of_key, delimiter=output.delimiter.encode(), null_values=output.null_values
    )
    return Archive(
        store,
        output.prefix,
        hashed=output.hash_prefix,
        formats=formats,
        targets=(*config.for_topic(topic).parser.targets, *sorted(routes.get(topic, ()))),
    )


def erasures_of(config: Config | RestoreConfig, archive: Archive, topic: str) -> Erasures:
    """Return what was erased from a topic's archive.

    Raises ``ConfigurationError`` where something was, and the secret is absent or another.
    """
    return read_erasures(archive.store, archive.root(topic), secret_of(config)).require()


def secret_of(config: Config | RestoreConfig) -> Secret | None:
    """Return the secret with which erased keys are looked up; None where none is set."""
    secret = config.erase.secret
    return None if secret is None else Secret(secret.get_secret_value().encode())
