"""Agreement of a group's members about ledger and store: pure, and its bytes on the wire.

Kafka gives each topic partition to one member, but which messages are stored already the ledger
knows.  Members with two ledgers would store the same messages twice, each of them sure.  So each
member says with its JoinGroup which ledger and store it uses, behind the user data of its
assignor; the member that shares the partitions out gives none to those that differ, and sends
every member its finding with the assignment.  A process of an earlier version says nothing
and counts as agreeing; one that leads the group sends no finding.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from secor.core.errors import ConfigurationError

MARK = b"\x00secor-uses\x00"
"""Begins what is behind an assignor's own user data."""


@dataclass(frozen=True, slots=True)
class Uses:
    """Ledger and store of a process: the members of a group must not differ in them.

    ``ledger`` is its kind and path.  ``ledger_id`` is the id that it keeps itself, whatever its
    address; None where it is in Kafka (all members of a group are in one cluster) and from
    earlier versions.  Then ``servers`` are compared, the addresses of the ledger's own servers:
    two lists are of one ensemble if they share an address.  ``store`` is its kind and bucket.
    ``address`` is where it is reached (None: not said); it may differ, for a server has other names
    and mirrors.
    ``objects`` may differ while an upgrade goes on.
    """

    process: str
    ledger: str
    servers: tuple[str, ...]
    store: str
    objects: str
    ledger_id: str | None = None
    address: str | None = None

    def differences(self, other: Uses) -> list[str]:
        """Return in which keys of the configuration the other one must not differ, and does."""
        differing = []
        if self.ledger != other.ledger:
            differing.append(f"ledger: {self.ledger}, not {other.ledger}")
        elif self._servers_differ(other):
            own, others = ", ".join(self.servers), ", ".join(other.servers)
            if set(self.servers) & set(other.servers):
                others += f", but another ledger there (its id is {other.ledger_id})"
            differing.append(f"ledger.zookeeper.hosts: {own}, not {others}")
        if self.store != other.store:
            differing.append(f"store: {self.store}, not {other.store}")
        return differing

    def _servers_differ(self, other: Uses) -> bool:
        # The id decides where both know it: one ensemble has several addresses, and a name may lead
        # to another one.
        if self.ledger_id is not None and other.ledger_id is not None:
            return self.ledger_id != other.ledger_id
        return self.servers != other.servers and not set(self.servers) & set(other.servers)


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement of a member that joins the group.

    ``accepted`` is the generation in which the group first agreed with it, None before that.
    ``repeated`` counts how often it was said in vain: a broker asks the group anew only when a
    static member says something else than before.
    """

    uses: Uses
    accepted: int | None = None
    repeated: int = 0

    def encode(self) -> bytes:
        """Return the bytes that follow the user data of an assignor."""
        return MARK + json.dumps(asdict(self), sort_keys=True).encode()


@dataclass(frozen=True, slots=True)
class AgreementAnswer:
    """Answer to a member, by the one that shares the partitions out.

    ``objects`` are all kinds of them, ``addresses`` all addresses of the store.

    ``agreed`` is what the group uses; None where it cannot be known: nobody has read yet, and
    the members differ without a majority.  ``about`` is what the member had said; None where
    one of an earlier version answers.
    """

    agreed: Uses | None
    refused: bool
    objects: tuple[str, ...] = ()
    about: Uses | None = None
    addresses: tuple[str, ...] = ()

    def is_about(self, uses: Uses) -> bool:
        """Return whether the verdict answers a member with these ``uses``.

        A static member that comes back gets the assignment, and the verdict, of the process that
        had its ``group_instance_id`` before: the broker asks nobody.
        """
        return self.about is None or not uses.differences(self.about)

    def encode(self) -> bytes:
        """Return the user data of an assignment."""
        return MARK + json.dumps(asdict(self), sort_keys=True).encode()


def decide(statements: Collection[Statement]) -> Uses | None:
    """Return what the group uses, of at least one statement; None where that is in doubt.

    The member that was accepted first decides: it has read and committed since.  Where all are
    new, and have read nothing, more than half of them must agree.
    """
    accepted = [statement for statement in statements if statement.accepted is not None]
    if accepted:
        # The least generation, not the largest number of members: processes that differ and come in
        # numbers must not outvote those that have committed.
        return min(
            accepted, key=lambda statement: (statement.accepted or 0, statement.uses.process)
        ).uses
    candidates = sorted((statement.uses for statement in statements), key=lambda uses: uses.process)
    for uses in candidates:
        agreeing = sum(not uses.differences(other) for other in candidates)
        # More than half: of two equal halves neither may read, for each would take the other for
        # the one that differs.
        if agreeing * 2 > len(candidates):
            return uses
    return None


def verdicts(statements: Mapping[str, Statement]) -> dict[str, AgreementAnswer]:
    """Return the verdict for each member that made a statement, by member id."""
    if not statements:
        return {}
    agreed = decide(statements.values())
    objects = tuple(sorted({statement.uses.objects for statement in statements.values()}))
    known = {statement.uses.address for statement in statements.values()} - {None}
    addresses = tuple(sorted(map(str, known)))
    return {
        member: AgreementAnswer(
            agreed,
            agreed is None or bool(agreed.differences(statement.uses)),
            objects,
            statement.uses,
            addresses,
        )
        for member, statement in statements.items()
    }


def split(user_data: bytes) -> tuple[bytes, bytes | None]:
    """Return an assignor's own user data, and what is said behind it; None if nothing is."""
    # Behind the assignor's own user data, which it finds as if nothing were added.
    own, mark, said = bytes(user_data).partition(MARK)
    return own, said if mark else None


def statement_of(said: bytes) -> Statement | None:
    """Read a statement; None for one of a version that says it in another way."""
    try:
        content = json.loads(said)
        return Statement(_uses(content["uses"]), content["accepted"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def verdict_of(said: bytes) -> AgreementAnswer | None:
    """Read a verdict; None for one of a version that says it in another way."""
    try:
        content = json.loads(said)
        agreed, about = content["agreed"], content.get("about")
        return AgreementAnswer(
            None if agreed is None else _uses(agreed),
            bool(content["refused"]),
            tuple(map(str, content["objects"])),
            None if about is None else _uses(about),
            tuple(map(str, content.get("addresses", ()))),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _uses(content: Mapping[str, object]) -> Uses:
    servers = content["servers"]
    if not isinstance(servers, list):
        raise TypeError(f"servers: {servers!r}")
    texts = {name: str(content[name]) for name in ("process", "ledger", "store", "objects")}
    ledger_id, address = content.get("ledger_id"), content.get("address")
    return Uses(
        servers=tuple(map(str, servers)),
        ledger_id=None if ledger_id is None else str(ledger_id),
        address=None if address is None else str(address),
        **texts,
    )


def refusal(group: str, uses: Uses, verdict: AgreementAnswer) -> ConfigurationError:
    """Return why a member that is refused ends: what differs, from whom, and what to do."""
    if verdict.agreed is None:
        return ConfigurationError(
            f"group {group}: processes that started together differ in ledger or store, and none"
            " of them has read yet, so that none of them reads: give all of them one [ledger] and"
            f" one [store]; this one ({uses.process}) uses ledger {uses.ledger}, store {uses.store}"
        )
    differences = "; ".join(uses.differences(verdict.agreed))
    return ConfigurationError(
        f"group {group}: this process ({uses.process}) must not read, for it differs from the"
        f" running members ({verdict.agreed.process}) in {differences}. Two ledgers would store"
        " messages twice: configure what they use, or another group.name and output.prefix; to"
        ' change the group\'s ledger or store, see "Another ledger" in docs/upgrade.md'
    )
