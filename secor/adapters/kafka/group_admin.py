"""Consumer groups of a cluster and what they have committed; through the admin client."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.structs import OffsetAndMetadata

from secor.adapters.kafka.client import from_client, to_client
from secor.adapters.kafka.failures import translated
from secor.core.errors import AccessDenied, SecorError
from secor.core.model import Committed, TopicPartition

_NO_EPOCH = -1
_PAUSE = 0.5
_COORDINATOR_ERRORS = (
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.NotCoordinatorError,
)

A = TypeVar("A")


class GroupAdmin:
    """Lists groups, reads and writes their offsets.  Raises ``Unavailable``, ``AccessDenied``.

    ``timeout`` in seconds bounds each request; ``cluster`` names the cluster in errors.
    """

    def __init__(
        self, options: Mapping[str, Any], *, cluster: str = "the cluster", timeout: float = 30.0
    ) -> None:
        self._timeout = timeout
        try:
            self._admin = KafkaAdminClient(**options, request_timeout_ms=int(timeout * 1000))
        except kafka_errors.KafkaError as error:
            raise translated(error, cluster) from error

    def close(self) -> None:
        """End the connection."""
        self._admin.close()

    def states(self) -> dict[str, str]:
        """Return the state of each consumer group, in small letters, such as ``empty``."""
        listed = self._ask(self._admin.list_groups, "listing the groups")
        return {
            group["group_id"]: str(group.get("group_state") or "").lower()
            for group in listed
            # Empty: of groups that were only committed for, without members.  Kafka Connect's
            # workers have a type of their own and no offsets.
            if group["protocol_type"] in ("consumer", "")
        }

    def may_join(self, group: str) -> bool:
        """Return whether this user has Read on a group, which need not exist; nothing changes.

        Brokers look at the right before they look for the member that is to leave.
        """
        nobody = MemberToRemove(member_id="secor-has-no-such-member")
        try:
            answers = self._ask(
                lambda: self._admin.remove_group_members(group, [nobody]), f"the group {group}"
            )
        except AccessDenied:
            return False
        return kafka_errors.GroupAuthorizationFailedError not in answers.values()

    def offsets(self, group: str) -> dict[TopicPartition, Committed]:
        """Return everything that a group has committed."""
        committed = self._ask(
            lambda: self._admin.list_group_offsets(group), f"the offsets of group {group}"
        )
        return _committed(committed.get(group, {}))

    def offsets_of(
        self, groups: Sequence[str]
    ) -> tuple[dict[str, dict[TopicPartition, Committed]], list[str]]:
        """Return what groups have committed, and which groups this user may not see.

        Coordinators are asked once for all of their groups (from Kafka 3.0 on).
        """
        try:
            answers = self._ask(
                lambda: self._admin.list_group_offsets(list(groups)),
                f"the offsets of {len(groups)} groups",
            )
        except AccessDenied:
            if len(groups) == 1:
                return {}, list(groups)
            # The client raises for all groups of a request and does not say which one is denied:
            # halves find it in few requests.
            halves = (groups[: len(groups) // 2], groups[len(groups) // 2 :])
            known: dict[str, dict[TopicPartition, Committed]] = {}
            denied: list[str] = []
            for half in halves:
                offsets, refused = self.offsets_of(half)
                known |= offsets
                denied += refused
            return known, denied
        return {group: _committed(places) for group, places in answers.items()}, []

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, SecorError]:
        """Commit offsets for a group without members; return what was refused, and why."""
        wanted = {
            to_client(place): OffsetAndMetadata(committed.offset, committed.metadata, _NO_EPOCH)
            for place, committed in offsets.items()
        }

        def ask() -> Mapping[Any, type[kafka_errors.KafkaError]]:
            answers = self._admin.alter_group_offsets(group, wanted)
            # A coordinator that is loading says so by partition, and raises nothing.
            for kind in answers.values():
                if issubclass(kind, _COORDINATOR_ERRORS):
                    raise kind
            return answers

        answers = self._ask(ask, f"committing for group {group}")
        return {
            from_client(place): _refusal(group, place, kind)
            for place, kind in answers.items()
            if kind is not kafka_errors.NoError
        }

    def _ask(self, ask: Callable[[], A], what: str) -> A:
        """Ask again while a coordinator is being found: a new cluster has none at first."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return ask()
            except kafka_errors.KafkaError as error:
                if not error.retriable or time.monotonic() >= deadline:
                    raise translated(error, what) from error
            time.sleep(_PAUSE)


def _committed(places: Mapping[Any, Any]) -> dict[TopicPartition, Committed]:
    return {
        from_client(place): Committed(committed.offset, committed.metadata or "")
        for place, committed in places.items()
        # -1 means that nothing is committed.
        if committed.offset >= 0
    }


def _refusal(group: str, place: Any, kind: type[kafka_errors.KafkaError]) -> SecorError:
    if issubclass(kind, kafka_errors.UnknownMemberIdError | kafka_errors.RebalanceInProgressError):
        return AccessDenied(
            f"the brokers take no offset of {place.topic}/{place.partition} for group {group}"
            " while it has members: stop them first"
        )
    return translated(kind(), f"{place.topic}/{place.partition} of group {group}")
