"""Functions that Spark's tasks call to write Hudi tables.

It imports little: Spark ends idle Python workers after a minute, so in each cycle a new one does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from secor.config.model import Config
from secor.core.ports import ObjectStore
from secor.tables.hudi import Guard
from secor.wiring.table_storage import open_own_store, store_of_tables


def open_staged_and_tables(config: Config) -> ObjectStore:
    """Open the group's store with those of its tables: where Spark's tasks run."""
    return store_of_tables(config, open_own_store(config)())


def stores_of_tasks(config: Config) -> Callable[[], ObjectStore]:
    """Return what opens the stores in another process."""
    return partial(open_staged_and_tables, config)


def guard_of_tables(config: Config) -> Guard:
    """Return what a task asks before it writes."""
    return partial(_require_unmoved, config)


def _require_unmoved(
    config: Config, location: str, group: str, expected: str | None, taken_back: frozenset[str]
) -> None:
    from secor.adapters.hudi.fence import require_unmoved

    require_unmoved(open_staged_and_tables(config), location, group, expected, taken_back)
