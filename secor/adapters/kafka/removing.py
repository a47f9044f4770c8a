"""Removal of everything that a drill has made on a cluster of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient

from secor.adapters.kafka.cluster_admin import (
    filter_of,
    read_access_rules,
    read_quotas,
    set_quotas,
)
from secor.adapters.kafka.failures import translated

_WHAT = "removing what the drill has made (allow this user Delete on it, Alter on the cluster)"
_INTERNAL = "__"


class Cleaner:
    """Removes what a cluster has and had not when this was made.

    Raises ``Unavailable``, ``AccessDenied``; then it may be tried again.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        # Looked at before the drill begins: what is there now is never removed.
        self.topics = frozenset(self._topics())
        self._groups = frozenset(self._listed_groups())
        self._rules = frozenset(read_access_rules(options))
        self._quotas = {quota.entity: quota for quota in read_quotas(options)}

    def remove(self) -> list[str]:
        """Remove all of it; return what was not removed, a sentence each."""
        left = []
        try:
            with closing(self._admin()) as admin:
                groups = sorted(set(self._listed_groups()) - self._groups)
                topics = sorted(set(self._topics()) - self.topics)
                rules = sorted(set(read_access_rules(self._options)) - self._rules)
                if groups:
                    admin.delete_groups(groups)
                if topics:
                    admin.delete_topics(topics)
                if rules:
                    admin.delete_acls([filter_of(rule) for rule in rules])
        except kafka_errors.KafkaError as error:
            raise translated(error, _WHAT) from error
        left += self._remove_quotas()
        there = set(self._listed_groups()) - self._groups
        left += [f"group {group} stays" for group in sorted(there)]
        return left

    def _remove_quotas(self) -> list[str]:
        now = read_quotas(self._options)
        made = [quota for quota in now if quota.entity not in self._quotas]
        return set_quotas(self._options, made, remove=True)

    def _topics(self) -> list[str]:
        return [name for name in self._ask("list_topics") if not name.startswith(_INTERNAL)]

    def _listed_groups(self) -> list[str]:
        return [group["group_id"] for group in self._ask("list_groups")]

    def _ask(self, method: str) -> Sequence[Any]:
        try:
            with closing(self._admin()) as admin:
                return list(getattr(admin, method)())
        except kafka_errors.KafkaError as error:
            raise translated(error, "the cluster of the drill") from error

    def _admin(self) -> Any:
        return KafkaAdminClient(**self._options, request_timeout_ms=30_000)
