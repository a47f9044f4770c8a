"""Which instants the rollbacks on a timeline name: from the moment in which they are planned.

Whoever rolls an instant back first puts a plan (``.rollback.requested``, Avro), then deletes what
the instant has written, then the instant itself.  Another process may die in between, and the
writer of the instant may complete it all the same.  Whoever begins to write next carries the plan
out.  Sources: ``HoodieRollbackPlan.avsc``, ``HoodieRollbackMetadata.avsc`` of Hudi.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import fastavro

from secor.core.errors import CorruptFile
from secor.core.foreign_avro import UNREADABLE
from secor.core.text import error_text

ROLLBACK = "rollback"

MAX_PLAN = 64 * 1024 * 1024
"""Bytes: a plan names each file that a write has begun, some 200 bytes each."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """One rollback: when it was planned (Hudi's time), and the file that names its instant."""

    planned: str
    key: str
    size: int


def instants_of_rollback(body: bytes, key: str) -> tuple[str, ...]:
    """Return the times of the instants that a plan, or a completed rollback, names.

    An empty plan names none: Hudi deletes a plan that it cannot read, and nothing is rolled back.
    Raises ``CorruptFile`` naming ``key``.
    """
    if not body:
        return ()
    try:
        data: Any = next(fastavro.reader(io.BytesIO(body)))
        if "instantToRollback" not in data:
            return tuple(map(str, data["commitsRollback"]))
        planned = data["instantToRollback"]
        return () if planned is None else (str(planned["commitTime"]),)
    except UNREADABLE as error:
        raise CorruptFile(
            f"{key}: no rollback of Hudi's ({error_text(error)}); if it is a plan that nobody can"
            " read, delete it: Hudi would do the same"
        ) from error
