"""One safety step, and the text that takes it out."""

from __future__ import annotations

from dataclasses import dataclass

CORE = (
    "tests/unit/commit/test_reconcile.py",
    "tests/unit/commit/test_uploader.py",
    "tests/unit/commit/test_recovery.py",
    "tests/unit/consume/test_positioning.py",
    "tests/unit/consume/test_consumer.py",
    "tests/unit/consume/test_consumer_failures.py",
    "tests/unit/batch/test_batch.py",
    "tests/simulation/test_scenarios.py",
    "tests/simulation/test_late_requests.py",
    "tests/simulation/test_partition_states.py",
    "tests/simulation/test_every_crash_point.py",
    "tests/simulation/test_partition_group.py",
    "tests/simulation/test_random_schedules.py",
    "tests/simulation/test_state_machine.py",
)


@dataclass(frozen=True)
class Mutant:
    """``before`` occurs once in ``file``; ``tests`` are those that should notice its loss."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...] = CORE
