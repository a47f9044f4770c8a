"""Checks of ``secor doctor`` in the store, and of its clock."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Protocol, runtime_checkable

from crc32c import crc32c

from secor import __version__
from secor.cli.doctor.checks import CONTENT, SCRATCH, CheckResult, examine
from secor.config.model import S3, Config
from secor.config.stores import Cloud
from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    NotFound,
    StopPartition,
    Unavailable,
)
from secor.core.naming import topic_root
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes

SKEW = 30.0
"""Seconds of difference between clocks that are worth a word; S3 refuses requests at 900."""


PATIENCE = 10.0
"""Seconds that an answer may take: a person waits, not a service."""


@runtime_checkable
class TimedStore(Protocol):
    """A store that knows what time it is at its server."""

    def server_time(self) -> float | None:
        """Return seconds since the epoch, None where the server does not say."""


def of_store(config: Config, now: Callable[[], float]) -> Iterator[CheckResult]:
    """Check that objects can be put once, read, listed and deleted, and its server's clock."""
    from secor.wiring.clients import open_store

    with ExitStack() as opened:
        stores: list[ObjectStore] = []

        def reach() -> str:
            stores.append(opened.enter_context(open_store(with_short_timeouts(config))))
            return f"{config.store.kind} {config.store.place} is there"

        yield examine("store", reach)
        for store in stores:
            yield examine("clock", partial(clock, store, now))
            for root in scratch_roots(config):
                yield from rights(store, root)


def with_short_timeouts(config: Config) -> Config:
    """Return the configuration with short timeouts: a store that is down is reported soon."""
    store = config.store
    s3, gcs, azure = store.s3, store.gcs, store.azure
    shortened = {
        "s3": s3.model_copy(
            update={**_short_timeouts(s3), "read_timeout": min(s3.read_timeout, PATIENCE)}
        ),
        "gcs": gcs.model_copy(update=_short_timeouts(gcs)),
        "azure": azure.model_copy(update=_short_timeouts(azure)),
    }
    store = store.model_copy(update=shortened)
    return config.model_copy(update={"store": store})


def _short_timeouts(section: S3 | Cloud) -> dict[str, float]:
    shortened = {
        "max_attempts": min(section.max_attempts, 2),
        "connect_timeout": min(section.connect_timeout, PATIENCE),
    }
    if isinstance(section, Cloud):
        shortened["request_timeout"] = min(section.request_timeout, PATIENCE)
    return shortened


def scratch_roots(config: Config) -> list[str]:
    """Return a scratch directory below each prefix: rights may differ between them."""
    outputs = [config.output, *(rule.output for rule in config.topics)]
    roots = [topic_root(output.prefix, SCRATCH, hashed=output.hash_prefix) for output in outputs]
    return list(dict.fromkeys(roots))


def clock(store: ObjectStore, now: Callable[[], float]) -> str:
    """Compare this machine's clock with the store's."""
    server_time = store.server_time() if isinstance(store, TimedStore) else None
    if server_time is None:
        return "nothing to compare this machine's clock with"
    off = now() - server_time
    if abs(off) > SKEW:
        ahead = "ahead of" if off > 0 else "behind"
        raise ConfigurationError(
            f"this machine's clock is {abs(off):.0f} s {ahead} the store's: run a time service "
            "(chrony, systemd-timesyncd); S3 refuses requests that are 15 minutes off"
        )
    return f"{abs(off):.0f} s from the store's"


def rights(store: ObjectStore, root: str) -> Iterator[CheckResult]:
    """Put, get, list, put again and delete a small object below ``root``."""
    key = f"{root}/{uuid.uuid4().hex}"
    put = examine("put", lambda: _put(store, key))
    yield put
    if put.ok:
        yield examine("get", lambda: _get(store, key))
        yield examine("list", lambda: _list(store, root, key))
        yield examine("put once", lambda: _put_again(store, key))
        yield examine("delete", lambda: _delete(store, key))


def _put(store: ObjectStore, key: str) -> str:
    try:
        store.put(key, CONTENT, crc32c(CONTENT), {"by": f"secor {__version__}, {os.getpid()}"})
    except StopPartition as error:
        raise ConfigurationError(str(error)) from error
    return key


def _get(store: ObjectStore, key: str) -> str:
    with store.open(key) as file:
        body = file.read()
    if body != CONTENT:
        raise Unavailable(f"{key} came back as {body[:40]!r}: look at proxies and gateways")
    return "the same bytes"


def _list(store: ObjectStore, root: str, key: str) -> str:
    if key not in {stored_object.key for stored_object in store.list(f"{root}/")}:
        raise Unavailable(
            f"{key} was put and is not listed: the store must list what it has, or nothing left "
            "behind by a crash is found"
        )
    return "what was put is there"


def _put_again(store: ObjectStore, key: str) -> str:
    if not put_bytes(store, key, CONTENT):
        return "an object that exists is not overwritten"
    raise ConfigurationError(
        "the store overwrote an object though the request forbade it: use a store that knows "
        "conditional puts; for S3 without If-None-Match, set store.s3.conditional_puts = false"
    )


def _delete(store: ObjectStore, key: str) -> str:
    store.delete(key)
    try:
        store.head(key)
    except NotFound:
        return "nothing is left"
    raise AccessDenied(
        f"{key} is still there: allow s3:DeleteObject, or what another cloud calls it; look at "
        "object locks"
    )
