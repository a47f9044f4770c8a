"""The state diagrams in DESIGN.md, drawn from the tables that the program goes by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from secor.batch.batch import TRANSITIONS, BatchState
from secor.consume.partition_states import READING, UPLOADING, Reading, Table, Uploading

DESIGN = Path(__file__).parents[2] / "DESIGN.md"
MARKS = ("<!-- states of {} -->\n", "<!-- end of states of {} -->")

Edges = Mapping[tuple[str, str], list[str]]
"""What leads from one state to another, in the order of the table; nothing is no label."""


def diagrams() -> dict[str, str]:
    """Return each diagram in Markdown, by what it is of."""
    batches: Edges = {
        (str(a.value), str(b.value)): [] for a, after in TRANSITIONS.items() for b in after
    }
    return {
        "reading": _draw(Reading.WAITING, _edges(READING), {Reading.RETIRED}),
        "uploading": _draw(Uploading.IDLE, _edges(UPLOADING), set()),
        "a batch": _draw(
            BatchState.OPEN.value, dict(sorted(batches.items())), {BatchState.DROPPED.value}
        ),
    }


def _edges(table: Table[Reading] | Table[Uploading]) -> Edges:
    edges: dict[tuple[str, str], list[str]] = {}
    for (state, event), (after, commands) in table.items():
        if state is not after or commands:
            edges.setdefault((state, after), []).append(event)
    return edges


def _draw(first: str, edges: Edges, last: Iterable[str]) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {_name(first)}"]
    spaced = sorted({state for ends in edges for state in ends if " " in state})
    lines += [f'    state "{state}" as {_name(state)}' for state in spaced]
    for (state, after), events in edges.items():
        label = f": {', '.join(events)}" if events else ""
        lines.append(f"    {_name(state)} --> {_name(after)}{label}")
    lines += [f"    {_name(state)} --> [*]" for state in sorted(last)]
    return "\n".join([*lines, "```"]) + "\n"


def _name(state: str) -> str:
    return state.replace(" ", "_")


def written(subject: str) -> str:
    """Return the diagram that stands in DESIGN.md."""
    begin, end = (mark.format(subject) for mark in MARKS)
    return DESIGN.read_text().partition(begin)[2].partition(end)[0]


def rewrite() -> None:
    """Put the diagrams of now into DESIGN.md."""
    for subject, diagram in diagrams().items():
        begin, end = (mark.format(subject) for mark in MARKS)
        text = DESIGN.read_text()
        DESIGN.write_text(text.replace(begin + written(subject) + end, begin + diagram + end))
