"""One line for people about a whole process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from secor.consume.partition_status import State, Status
from secor.core.text import how_many
from secor.service.monitoring.lag import lag_offsets


def status_line(statuses: Sequence[Status]) -> str:
    """Return one line for people: what this process does, or why it does nothing."""
    if not statuses:
        return "no topic partitions assigned"
    states = Counter(status.state for status in statuses)
    parts = [f"{states[state]} {state}" for state in State if states[state]]
    lag = sum(lag_offsets(status) or 0 for status in statuses)
    partitions = f"{how_many(len(statuses), 'topic partition')} ({', '.join(parts)})"
    withheld = sum(status.withheld.offsets for status in statuses if status.withheld is not None)
    more = f", {withheld:,} more behind open transactions" if withheld else ""
    return f"{partitions}, {how_many(lag, 'message')} behind{more}"
