"""The rights that a restore needs, each given and each missing once."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

from tests.integration import secured
from tests.integration.secured import HUSH, Secured

JOB, TARGET, OFFSETS = "rights", "rights-flights", "secor-restore-rights"
ALL = "restorer"
"""The user that has all of them."""


@dataclass(frozen=True, slots=True)
class Right:
    """One right; ``told`` is what names it where it is missing, in the plan of a new job or not.

    ``beginning`` is for a name that others only begin with.
    """

    kind: ResourceType
    name: str
    operation: ACLOperation
    told: str
    new: bool = False
    beginning: bool = False

    @property
    def without(self) -> str:
        """Return the user that has all rights but this."""
        return f"no-{self.operation.name}-{self.kind.name}-{self.name}".replace(":", "-")


_TOPIC = ResourceType.TOPIC
RIGHTS = (
    Right(
        ResourceType.TRANSACTIONAL_ID,
        f"secor:{JOB}:",
        ACLOperation.WRITE,
        f"Write on transactional ids that begin with secor:{JOB}:",
        beginning=True,
    ),
    Right(_TOPIC, OFFSETS, ACLOperation.CREATE, "Create on the topic", new=True),
    Right(_TOPIC, OFFSETS, ACLOperation.READ, "allow this user Read"),
    Right(_TOPIC, OFFSETS, ACLOperation.WRITE, "allow this user Write on the topic"),
    Right(ResourceType.GROUP, OFFSETS, ACLOperation.READ, "allow this user Read on the group"),
    Right(_TOPIC, TARGET, ACLOperation.CREATE, "Create on the topic", new=True),
    Right(_TOPIC, TARGET, ACLOperation.WRITE, "allow this user Write on the topic"),
    Right(_TOPIC, TARGET, ACLOperation.DESCRIBE_CONFIGS, "allow this user DescribeConfigs"),
)
"""What docs/restore.md lists; Describe comes with Read and with Write."""


def give(servers: Secured) -> None:
    """Make one user that has all rights, and one for each right that has all others."""
    acls = [_acl(ALL, right) for right in RIGHTS]
    for missing in RIGHTS:
        acls += [_acl(missing.without, right) for right in RIGHTS if right is not missing]
        if missing.name == TARGET and missing.operation is ACLOperation.WRITE:
            acls.append(_acl(missing.without, _describing(missing)))
    for user in (ALL, *(right.without for right in RIGHTS)):
        secured.add_user(servers.sandbox, user, HUSH)
    with closing(KafkaAdminClient(bootstrap_servers=servers.sandbox.kafka)) as admin:
        assert not admin.create_acls(acls)["failed"]


def take(servers: Secured, right: Right) -> None:
    """Take a right away from the user that had all."""
    with closing(KafkaAdminClient(bootstrap_servers=servers.sandbox.kafka)) as admin:
        admin.delete_acls([_acl(ALL, right)])


def _describing(right: Right) -> Right:
    return Right(right.kind, right.name, ACLOperation.DESCRIBE, "")


def _acl(user: str, right: Right) -> ACL:
    pattern = ACLResourcePatternType.PREFIXED if right.beginning else ACLResourcePatternType.LITERAL
    resource = ResourcePattern(right.kind, right.name, pattern)
    return ACL(f"User:{user}", "*", right.operation, ACLPermissionType.ALLOW, resource)


def write_job(folder: Path, servers: Secured, user: str, archive: Path, **writing: object) -> Path:
    """Write the job's file for a user."""
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in writing.items())
    path = folder / f"{user}.toml"
    path.write_text(
        f"""
[group]
name = "{JOB}"
kind = "restore"
[kafka]
bootstrap_servers = ["{servers.sasl}"]
security_protocol = "SASL_SSL"
ssl_cafile = "{servers.ca}"
sasl_mechanism = "SCRAM-SHA-512"
sasl_plain_username = "{user}"
sasl_plain_password = "{HUSH}"
[store]
kind = "local"
[store.local]
directory = "{archive}"
[source]
prefix = "backup"
topics = ["flights"]
[target]
topic = "{JOB}-{{topic}}"
[writing]
{lines}
[logs]
format = "json"
"""
    )
    return path
