"""ACLs, quotas and settings that a lost cluster had: a short look whether they are back."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from secor.adapters.kafka.cluster_admin import Quota, read_quotas, set_quotas
from tests.soak.ledgers import NUMBERED

_PATIENCE = 30.0


def grant(kafka: str, number: int) -> tuple[set[AclBinding], Quota]:
    """Make a further rule and a quota; return all rules that there are now, and the quota."""
    admin = AdminClient({"bootstrap.servers": kafka})
    rule = AclBinding(
        *(ResourceType.TOPIC, "soak.plain", ResourcePatternType.LITERAL, f"User:u{number}", "*"),
        *(AclOperation.READ, AclPermissionType.DENY),
    )
    for made in admin.create_acls([rule]).values():
        made.result(_PATIENCE)
    quota = Quota((("client-id", "loader"),), {"producer_byte_rate": 1e6 + number})
    set_quotas({"bootstrap_servers": kafka}, [quota])
    return _rules(admin) | {rule}, quota  # a broker may not have heard of it yet


def settings_that_are_gone(kafka: str, granted: tuple[set[AclBinding], Quota]) -> list[str]:
    """Return what is not as it was."""
    admin = AdminClient({"bootstrap.servers": kafka})
    rules, quota = granted
    faults = []
    if _rules(admin) != rules:
        faults.append(f"rules: {_rules(admin)} instead of {rules}")
    if read_quotas({"bootstrap_servers": kafka}) != [quota]:
        faults.append(f"quotas: {read_quotas({'bootstrap_servers': kafka})} instead of {quota}")
    for topic in NUMBERED:
        (asked,) = admin.describe_configs([ConfigResource("TOPIC", topic.name)]).values()
        present = {name: entry.value for name, entry in asked.result(_PATIENCE).items()}
        if not present.items() >= topic.settings.items():
            faults.append(f"{topic.name} has other settings than {topic.settings}")
    return faults


def _rules(admin: AdminClient) -> set[AclBinding]:
    every = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    return set(admin.describe_acls(every).result(timeout=_PATIENCE))
