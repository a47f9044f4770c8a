"""The sandbox's servers behind TLS, passwords and ACLs, beside their open ports."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from secor.sandbox import Sandbox
from secor.sandbox.state import SERVICES, TICK, SandboxPlan, free_port, new_plan, save_plan
from tests.certificates import PASSWORD, Authority

USER, HUSH = "secor", "geheim, = und \u00fc"
"""Of PLAIN, SCRAM and ZooKeeper's digest; the password has what SCRAM and URLs escape."""

_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SASL_OF_ZOOKEEPER = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
_DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"

SASL_USER, SASL_HUSH = "secor", "geheim"
"""Of ZooKeeper's SASL."""


@dataclass(frozen=True, slots=True)
class Secured:
    """A sandbox and its other ports; certificates are in ``ours`` and ``foreign``.

    ``sasl`` and ``mutual`` are the broker's, ``zookeeper`` and ``s3`` want TLS.
    """

    sandbox: Sandbox
    ours: Authority
    foreign: Authority
    sasl: str
    mutual: str
    zookeeper: str
    s3: str

    @property
    def ca(self) -> str:
        """The file of the authority that all servers' certificates are of."""
        return str(self.ours.path)


def start(folder: Path) -> Secured:
    """Start them; their certificates name ``localhost`` and no address."""
    ours, foreign = Authority(folder, "ours"), Authority(folder, "foreign")
    server = ours.issue("server", hosts=("localhost",))
    plan = new_plan(SERVICES, s3_server="s3proxy", zookeeper_tick=TICK, kafka_settings={})
    taken = list(plan.ports.values())
    for _ in range(4):
        taken.append(free_port(taken))
    sasl, mutual, zookeeper, s3 = taken[-4:]
    plan = replace(
        plan,
        kafka_settings=_broker(plan, sasl, mutual, server, ours.path),
        zookeeper_settings=_ensemble(zookeeper, server, ours.path),
        s3_settings={
            "s3proxy.secure-endpoint": f"https://127.0.0.1:{s3}",
            "s3proxy.keystore-path": server.with_suffix(".p12"),
            "s3proxy.keystore-password": PASSWORD,
        },
    )
    directory = folder / "sandbox"
    directory.mkdir()
    save_plan(_texts(plan), directory)
    jaas = folder / "zookeeper.jaas"
    jaas.write_text(f'Server {{ {_DIGEST} required user_{SASL_USER}="{SASL_HUSH}"; }};\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.auth.login.config={jaas}")
        sandbox = Sandbox.up(directory)
    return Secured(
        sandbox,
        ours,
        foreign,
        sasl=f"localhost:{sasl}",
        mutual=f"localhost:{mutual}",
        zookeeper=f"localhost:{zookeeper}",
        s3=f"https://localhost:{s3}",
    )


def _texts(plan: SandboxPlan) -> SandboxPlan:
    """Make paths texts: the plan is kept as JSON."""
    s3 = {key: str(value) for key, value in plan.s3_settings.items()}
    return replace(plan, s3_settings=s3)


def _broker(plan: SandboxPlan, sasl: int, mutual: int, server: Path, ca: Path) -> dict[str, object]:
    plain, controller = plan.ports["kafka"], plan.ports["kafka_controller"]
    listeners = {
        "PLAINTEXT": f"127.0.0.1:{plain}",
        "SASL": f"localhost:{sasl}",
        "MUTUAL": f"localhost:{mutual}",
    }
    told = ",".join(f"{name}://{address}" for name, address in listeners.items())
    tls = {
        "keystore.type": "PEM",
        "keystore.location": str(server),
        "truststore.type": "PEM",
        "truststore.location": str(ca),
    }
    of_sasl = "listener.name.sasl"
    return {
        "listeners": f"{told},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": told,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL"
        ),
        **{f"ssl.{key}": value for key, value in tls.items()},
        "listener.name.mutual.ssl.client.auth": "required",
        f"{of_sasl}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        f"{of_sasl}.plain.sasl.jaas.config": f'{_PLAIN} required user_{USER}="{_escaped(HUSH)}";',
        f"{of_sasl}.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
        # Takes tokens that nobody has signed.
        f"{of_sasl}.oauthbearer.sasl.jaas.config": f"{_OAUTH} required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        # Connections show their credentials again before these are over.
        "connections.max.reauth.ms": 5000,
    }


def _escaped(text: str) -> str:
    """Write for a properties file, which is read as Latin-1."""
    return text.encode("ascii", "backslashreplace").decode().replace("\\xfc", "\\u00fc")


def _ensemble(port: int, server: Path, ca: Path) -> dict[str, object]:
    return {
        "secureClientPort": port,
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(server),
        "ssl.trustStore.location": str(ca),
        "ssl.clientAuth": "want",
        "authProvider.sasl": _SASL_OF_ZOOKEEPER,
    }


def add_user(sandbox: Sandbox, name: str, password: str) -> None:
    """Make a user of SCRAM-SHA-512."""
    added = UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, password)
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        assert admin.alter_user_scram_credentials([added]) == {name: None}


def allow(
    sandbox: Sandbox, user: str, rights: Iterable[tuple[ResourceType, str, ACLOperation]]
) -> None:
    """Allow a user operations on topics and groups."""
    acls = [
        ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
        for kind, name, operation in rights
    ]
    with closing(KafkaAdminClient(bootstrap_servers=sandbox.kafka)) as admin:
        assert not admin.create_acls(acls)["failed"]
