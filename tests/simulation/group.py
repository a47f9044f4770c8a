"""The coordinator of a consumer group, eager or cooperative, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from secor.core.model import TopicPartition
from tests.simulation.scheduler import Hub


class Member:
    """What the coordinator knows of one member id."""

    def __init__(self, name: str, fence: Callable[[], None]) -> None:
        """``fence`` ends its right to commit, where commits are the ledger."""
        self.name = name
        self.fence = fence
        self.joined = False
        self.expelled = False
        self.claims: frozenset[TopicPartition] = frozenset()
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.generation = -1


class Group:
    """Joins, generations and assignments; ``session`` and ``patience`` are in seconds.

    ``patience`` is how long a rebalance waits for a member to join again.
    """

    def __init__(
        self,
        hub: Hub,
        partitions: Callable[[], Iterable[TopicPartition]],
        *,
        cooperative: bool,
        session: float = 10.0,
        patience: float = 60.0,
    ) -> None:
        self._hub = hub
        self._partitions = partitions
        self.cooperative = cooperative
        self.session = session
        self._patience = patience
        self.members: list[Member] = []
        self.generation = 0
        self.joining = False
        self._names = count()

    def join(self, process: str, fence: Callable[[], None]) -> Member:
        """Take a new member in; it has joined."""
        member = Member(f"{process}-{next(self._names)}", fence)
        self.members.append(member)
        self.rebalance()
        self.rejoin(member, frozenset())
        return member

    def leave(self, member: Member) -> None:
        """Take a member out, because it says so or is not heard of any more."""
        if member in self.members:
            member.expelled = True
            member.fence()
            self.members.remove(member)
            self.rebalance()
            self._settle()

    def rebalance(self) -> None:
        """Ask everybody to join again."""
        if self.joining:
            return
        self.joining = True
        for member in self.members:
            member.joined = False
        generation = self.generation
        self._hub.at(self._hub.now + self._patience, lambda: self._lose_patience(generation))

    def _lose_patience(self, generation: int) -> None:
        if self.joining and self.generation == generation:
            for member in [member for member in self.members if not member.joined]:
                self.leave(member)

    def rejoin(self, member: Member, claims: frozenset[TopicPartition]) -> None:
        """A member is ready for the next generation and says what it keeps."""
        member.joined = True
        member.claims = claims
        self._settle()

    def _settle(self) -> None:
        if not self.joining or not all(member.joined for member in self.members):
            return
        self.joining = False
        self.generation += 1
        targets = self._targets()
        for member in self.members:
            kept = frozenset(
                key for key in targets[member.name] if not self._claimed_by_other(member, key)
            )
            member.assignment = kept if self.cooperative else targets[member.name]
            member.generation = self.generation

    def _claimed_by_other(self, member: Member, key: TopicPartition) -> bool:
        return any(key in other.claims for other in self.members if other is not member)

    def _targets(self) -> dict[str, frozenset[TopicPartition]]:
        """Spread the partitions evenly; a cooperative group moves as few as it can."""
        if not self.members:
            return {}
        keys = sorted(self._partitions())
        targets: dict[str, set[TopicPartition]] = {member.name: set() for member in self.members}
        most = -(-len(keys) // len(self.members))
        left = []
        for key in keys:
            owner = next((m for m in self.members if key in m.claims), None)
            if self.cooperative and owner is not None and len(targets[owner.name]) < most:
                targets[owner.name].add(key)
            else:
                left.append(key)
        names = sorted(targets)
        turn = self.generation % len(names)
        order = names[turn:] + names[:turn]
        for key in left:
            targets[min(order, key=lambda name: len(targets[name]))].add(key)
        return {name: frozenset(mine) for name, mine in targets.items()}
