"""Ids of schemas that are asked for by several threads at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from secor.core.errors import NotFound
from secor.parsing.registry import SchemaRegistry


class EmptyRegistry:
    url = "http://registry"

    def fetch(self, schema_id: object) -> Any:
        raise NotFound(f"{schema_id} is not here")


def test_unknown_ids_are_noted_by_one_thread_at_a_time() -> None:
    registry = SchemaRegistry(EmptyRegistry(), most_unknown=4)
    looks: list[bool] = []

    class Watched(dict[Any, Any]):
        def __iter__(self) -> Iterator[Any]:
            looks.append(registry._lock.locked())
            return super().__iter__()

    registry._unknown = Watched()
    registry.prefetch(range(20))
    assert len(registry._unknown) == 4
    assert looks == [True] * 16
