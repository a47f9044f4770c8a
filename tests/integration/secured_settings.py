"""Configurations over the secured servers: the usual one, and what may be wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.integration.secured import HUSH, USER, Secured

Change = Mapping[str, Mapping[str, object]]


def usual(servers: Secured) -> dict[str, dict[str, object]]:
    return {
        "kafka": {
            "bootstrap_servers": [servers.sasl],
            "security_protocol": "SASL_SSL",
            "ssl_cafile": servers.ca,
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": USER,
            "sasl_plain_password": HUSH,
        },
        "ledger.zookeeper": {
            "hosts": [servers.zookeeper],
            "chroot": "/logs",
            "use_tls": True,
            "tls_ca": servers.ca,
            "username": USER,
            "password": HUSH,
            "acl": "creator",
        },
        "store.s3": {"endpoint_url": servers.s3, "ca_bundle": servers.ca},
    }


def mutual(servers: Secured, pair: Path | None) -> Change:
    """Settings of a client that shows a certificate instead of a password."""
    names = ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
    return {
        "kafka": {
            **dict.fromkeys(names),
            "bootstrap_servers": [servers.mutual],
            "security_protocol": "SSL",
            "ssl_certfile": None if pair is None else str(pair),
        }
    }


def bearer(provider: str = "Unsigned") -> Change:
    return {
        "kafka": {
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_plain_username": None,
            "sasl_plain_password": None,
            "sasl_oauth_token_provider": f"tests.integration.tokens_for_tests:{provider}",
        }
    }


def kafka(**keys: object) -> Change:
    return {"kafka": keys}


def zookeeper(**keys: object) -> Change:
    return {"ledger.zookeeper": keys}


def s3(**keys: object) -> Change:
    return {"store.s3": keys}


def by_address(name: str) -> str:
    """Return an address that no certificate names."""
    return name.replace("localhost", "127.0.0.1")


def in_plain_text() -> Change:
    """Settings of a client that knows neither TLS nor passwords."""
    names = ("ssl_cafile", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
    return kafka(security_protocol="PLAINTEXT", **dict.fromkeys(names))


ABSENT = "/absent.pem"

WRONG: dict[str, tuple[Callable[[Secured], Change], int, str]] = {
    "scram": (lambda _: kafka(sasl_plain_password="no"), 3, "sasl_plain_password"),
    "plain": (
        lambda _: kafka(sasl_mechanism="PLAIN", sasl_plain_password="no"),
        3,
        "sasl_plain_password",
    ),
    "no password": (lambda _: kafka(sasl_plain_password=None), 2, "KAFKA__SASL_PLAIN_PASSWORD"),
    "mechanism": (lambda _: kafka(sasl_mechanism="SCRAM-SHA-256"), 2, "kafka.sasl_mechanism"),
    "token": (lambda _: bearer("Out"), 4, "tokens_for_tests:Out: TimeoutError: no answer of login"),
    "no token": (lambda _: bearer("Nothing"), 2, "tokens_for_tests:Nothing: NoneType"),
    "no TLS": (lambda _: in_plain_text(), 2, "speaks TLS"),
    "authority": (lambda it: kafka(ssl_cafile=str(it.foreign.path)), 3, "set kafka.ssl_cafile"),
    "name": (lambda it: kafka(bootstrap_servers=[by_address(it.sasl)]), 3, "ssl_check_hostname"),
    "file": (lambda _: kafka(ssl_cafile=ABSENT), 2, ABSENT),
    "certificate": (lambda it: mutual(it, None), 3, "kafka.ssl_certfile"),
    "foreign certificate": (
        lambda it: mutual(it, it.foreign.issue("client")),
        3,
        "kafka.ssl_certfile",
    ),
    "expired certificate": (
        lambda it: mutual(it, it.ours.issue("late", days=-1)),
        3,
        "kafka.ssl_certfile",
    ),
    "zookeeper digest": (lambda _: zookeeper(password="no"), 3, "NoAuth"),
    "zookeeper sasl": (lambda _: zookeeper(sasl_mechanism="DIGEST-MD5"), 3, "AuthFailed"),
    "zookeeper authority": (
        lambda it: zookeeper(tls_ca=str(it.foreign.path)),
        3,
        "set ledger.zookeeper.tls_ca",
    ),
    "zookeeper name": (lambda it: zookeeper(hosts=[by_address(it.zookeeper)]), 3, "tls_verify"),
    "zookeeper file": (lambda _: zookeeper(tls_ca=ABSENT), 2, ABSENT),
    "zookeeper certificate": (
        lambda it: zookeeper(tls_certfile=str(it.foreign.issue("other"))),
        3,
        "ledger.zookeeper.tls_certfile",
    ),
    "s3 authority": (lambda it: s3(ca_bundle=str(it.foreign.path)), 3, "set ca_bundle"),
    "s3 name": (lambda it: s3(endpoint_url=by_address(it.s3)), 3, "made out for"),
    "s3 file": (lambda _: s3(ca_bundle=ABSENT), 2, ABSENT),
    "s3 plain": (
        lambda it: s3(endpoint_url=it.sandbox.s3.endpoint_url.replace("http", "https")),
        3,
        "with http:",
    ),
}
"""What is changed, the exit code, and what the line names."""
