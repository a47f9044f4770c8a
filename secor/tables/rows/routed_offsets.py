"""The offsets that the routes send to each table: for ``secor verify``, which writes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from secor.core.model import Offsets, Part
from secor.parsing.placement import Work
from secor.tables.rows.routing import Route, route_rows


class RoutedOffsets:
    """The last stage of a parser that makes no rows: it notes which table each message is for."""

    def __init__(self, routes: Sequence[Route], *, skip_unrouted: bool) -> None:
        self._routes = tuple(routes)
        self._skip_unrouted = skip_unrouted
        self._tables: dict[str, list[Offsets]] = {}

    @property
    def identity(self) -> str:
        """Nothing that is stored depends on it."""
        return "routed-offsets"

    @property
    def takes_tombstones(self) -> bool:
        """Messages without a value come to it where some route deletes rows by them."""
        return any(route.deletes_rows for route in self._routes)

    def parts(self, works: Sequence[Work]) -> list[Part]:
        """Note the offsets of live rows; there are no parts."""
        for work in works:
            offsets = work.chunk.records.column("offset").to_numpy()
            routed = route_rows(self._routes, work, skip_unrouted=self._skip_unrouted)
            for name, (_, rows) in routed.items():
                self._tables.setdefault(name, []).append(offsets[rows[work.live[rows]]])
        return []

    def take(self) -> dict[str, Offsets]:
        """Return the offsets for each table since the last call, sorted."""
        tables, self._tables = self._tables, {}
        return {name: np.unique(np.concatenate(parts)) for name, parts in tables.items()}
