from __future__ import annotations


class FakeClock:
    """A ``Clock`` that stands until it is moved; a sleep moves it, and is remembered.

    The wall clock can be set by itself, as people and time servers do.
    """

    def __init__(self, now: float = 1_790_000_000.0, monotonic: float = 1_000.0) -> None:
        self.wall = now
        self.steady = monotonic
        self.slept: list[float] = []

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        assert seconds >= 0
        self.wall += seconds
        self.steady += seconds
