"""What a person is told of an import."""

from __future__ import annotations

from collections.abc import Iterator

from secor.config.java_secor.draft import Draft, Fate


def needs_a_person(draft: Draft) -> bool:
    """Tell whether something was left that only a person can settle."""
    left = (Fate.UNSUPPORTED, Fate.UNKNOWN)
    return any(fate in left for fate, _ in draft.fates.values())


def report(draft: Draft) -> Iterator[str]:
    """Give the lines: the most pressing ones last, where a terminal shows them."""
    for fate in (Fate.MAPPED, Fate.UNNEEDED, Fate.UNKNOWN, Fate.UNSUPPORTED):
        names = [name for name in draft.given if draft.fates[name][0] is fate]
        if not names:
            continue
        yield f"{fate.value} ({len(names)})"
        yield from _grouped(draft, names) if fate is Fate.UNNEEDED else _each(draft, names)
    empty = sum(fate is Fate.EMPTY for fate, _ in draft.fates.values())
    if empty:
        yield f"empty, so as good as not there ({empty})"
    yield from _oddities(draft)
    if draft.todos:
        yield "still to be done"
        yield from (f"  - {todo}" for todo in dict.fromkeys(draft.todos))


def _each(draft: Draft, names: list[str]) -> Iterator[str]:
    for name in names:
        why = draft.fates[name][1]
        yield f"  {name} ({draft.given.place(name)})" + (f": {why}" if why else "")


def _grouped(draft: Draft, names: list[str]) -> Iterator[str]:
    reasons = dict.fromkeys(draft.fates[name][1] for name in names)
    for why in reasons:
        those = ", ".join(name for name in names if draft.fates[name][1] == why)
        yield f"  {why}: {those}"


def _oddities(draft: Draft) -> Iterator[str]:
    again = list(draft.given.without_effect())
    if again:
        yield (
            "written more than once: Java Secor takes the first, also where an included file has"
            " it, and so does this"
        )
        for name, one in again:
            first = draft.given.place(name)
            yield f"  {name}: {one.place} never counted, {first} does ({_shown(draft, name)})"
    if draft.given.ignored:
        yield "lines that Java Secor passes over"
        yield from (f"  {line}" for line in draft.given.ignored)


def _shown(draft: Draft, name: str) -> str:
    if any(word in name for word in ("secret", "password", "token", "jaas", ".key")):
        return "not shown"
    return draft.given.text(name) or "empty"
