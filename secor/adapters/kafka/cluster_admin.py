"""ACLs and client quotas of a cluster, read and set.

Sources: KIP-140 and KIP-290 (ACLs), KIP-546 (quotas), Kafka protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from secor.adapters.kafka.client import Client
from secor.adapters.kafka.failures import translated
from secor.adapters.kafka.insides import AlterClientQuotasRequest, DescribeClientQuotasRequest

_ACLS = "the ACLs (allow this user Describe on the cluster)"
_QUOTAS = "the client quotas (allow this user DescribeConfigs on the cluster)"
_DEFAULT = "<default>"
MOST_ACLS = 1000
"""ACLs that one request makes."""


@dataclass(frozen=True, slots=True, order=True)
class AccessRule:
    """An ACL, in the words of ``kafka-acls.sh``: ``TOPIC``, ``orders``, ``LITERAL``, ``READ``."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of an entity: types such as ``user`` with a name, None for the default."""

    entity: tuple[tuple[str, str | None], ...]
    values: Mapping[str, float]

    @property
    def name(self) -> str:
        """The entity for people, such as ``client-id=app,user=<default>``."""
        return ",".join(
            f"{kind}={_DEFAULT if entity_name is None else entity_name}"
            for kind, entity_name in self.entity
        )


def read_access_rules(options: Mapping[str, Any], timeout: float = 30.0) -> list[AccessRule]:
    """Return all ACLs; none where the brokers have no authorizer.

    Raises ``Unavailable``, ``AccessDenied``.
    """
    everything = ACLFilter(
        principal=None,
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
    try:
        with closing(_admin(options, timeout)) as admin:
            listed, _ = admin.describe_acls(everything)
    # Brokers without an authorizer answer so: there are no rules, which is no fault.
    except kafka_errors.SecurityDisabledError:
        return []
    except kafka_errors.KafkaError as error:
        raise translated(error, _ACLS) from error
    return sorted(map(_rule, listed))


def create_access_rules(
    options: Mapping[str, Any], rules: Sequence[AccessRule], timeout: float = 30.0
) -> list[str]:
    """Make ACLs; return why some were refused.  Raises ``Unavailable``, ``AccessDenied``."""
    refused: list[str] = []
    try:
        with closing(_admin(options, timeout)) as admin:
            for begin in range(0, len(rules), MOST_ACLS):
                made = admin.create_acls([_acl(rule) for rule in rules[begin : begin + MOST_ACLS]])
                refused += [kind.__name__ for kind in made["failed"]]
    except kafka_errors.KafkaError as error:
        raise translated(error, "making ACLs (allow this user Alter on the cluster)") from error
    return refused


def _admin(options: Mapping[str, Any], timeout: float) -> Any:
    return KafkaAdminClient(**options, request_timeout_ms=int(timeout * 1000))


def _rule(acl: Any) -> AccessRule:
    pattern = acl.resource_pattern
    return AccessRule(
        pattern.resource_type.name,
        pattern.resource_name,
        pattern.pattern_type.name,
        acl.principal,
        acl.host,
        acl.operation.name,
        acl.permission_type.name,
    )


def _acl(rule: AccessRule) -> Any:
    return _in_words_of_the_client(rule, ACL, ResourcePattern)


def filter_of(rule: AccessRule) -> Any:
    """Return the client's filter that only this ACL passes."""
    return _in_words_of_the_client(rule, ACLFilter, ResourcePatternFilter)


def _in_words_of_the_client(rule: AccessRule, kind: Any, pattern: Any) -> Any:
    """Return an ACL or its filter: the client's classes differ in their names alone."""
    return kind(
        principal=rule.principal,
        host=rule.host,
        operation=ACLOperation[rule.operation],
        permission_type=ACLPermissionType[rule.permission],
        resource_pattern=pattern(
            ResourceType[rule.resource], rule.name, ACLResourcePatternType[rule.pattern]
        ),
    )


def read_quotas(options: Mapping[str, Any], timeout: float = 30.0) -> list[Quota]:
    """Return all client quotas.  Raises ``Unavailable``, ``AccessDenied``."""
    request = DescribeClientQuotasRequest(components=[], strict=False)
    answer = _send(options, request, timeout, _QUOTAS)
    if answer.error_code:
        raise translated(kafka_errors.for_code(answer.error_code)(answer.error_message), _QUOTAS)
    return sorted(map(_quota, answer.entries or ()), key=lambda quota: quota.name)


def _quota(entry: Any) -> Quota:
    entity = sorted((part.entity_type, part.entity_name) for part in entry.entity)
    return Quota(tuple(entity), {value.key: value.value for value in entry.values})


def set_quotas(
    options: Mapping[str, Any],
    quotas: Iterable[Quota],
    timeout: float = 30.0,
    *,
    remove: bool = False,
) -> list[str]:
    """Set or remove quotas; return why some were refused.

    Raises ``Unavailable``, ``AccessDenied``.
    """
    what = "setting quotas (allow this user AlterConfigs on the cluster)"
    entry = AlterClientQuotasRequest.EntryData
    entries = [
        entry(
            entity=[
                entry.EntityData(entity_type=kind, entity_name=name) for kind, name in quota.entity
            ],
            ops=[
                entry.OpData(key=key, value=value, remove=remove)
                for key, value in sorted(quota.values.items())
            ],
        )
        for quota in quotas
    ]
    if not entries:
        return []
    request = AlterClientQuotasRequest(entries=entries, validate_only=False)
    answer = _send(options, request, timeout, what)
    faults = [answered for answered in answer.entries if answered.error_code]
    return [
        f"{kafka_errors.for_code(fault.error_code).__name__}: {fault.error_message}"
        for fault in faults
    ]


def _send(options: Mapping[str, Any], request: Any, timeout: float, what: str) -> Any:
    client = Client(options, timeout=timeout, group_id=None)

    async def send() -> Any:
        node = client.manager.least_loaded_node()
        return await client.manager.wait_for(
            client.manager.send(request, node_id=node), timeout * 1000
        )

    with closing(client):
        return client.call(send, timeout=timeout + 1, what=what)
