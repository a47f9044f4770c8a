"""How the daemon joins the group: what the source is told of the ledger beside it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from secor.config.load import validate
from secor.wiring import membership

LEDGERS = {
    "kafka": {"kind": "kafka"},
    "zookeeper": {"kind": "zookeeper", "zookeeper": {"hosts": ["127.0.0.1:1"]}},
}


class Made:
    """Stands for a source or a ledger: remembers what it was made with."""

    def __init__(self, *arguments: object, **settings: object) -> None:
        self.arguments = arguments
        self.settings = settings
        self.closed = False

    id = "0123"

    def check(self) -> None:
        assert not self.closed

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def without_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KafkaSource", "KafkaLedger", "zookeeper_ledger"):
        monkeypatch.setattr(membership, name, Made)


def joined(ledger: str, **tables: Any) -> tuple[Made, Made]:
    """Join and leave; return the source and the ledger."""
    made, faults = validate(
        {
            "group": {"name": "g"},
            "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
            "store": {"kind": "local", "local": {"directory": "/nowhere"}},
            "ledger": LEDGERS[ledger],
            **tables,
        }
    )
    assert made is not None, faults
    with membership.join(made, lambda _: None) as member:
        source, books = cast(object, member.source), cast(object, member.ledger)
    assert isinstance(source, Made)
    assert isinstance(books, Made)
    assert source.closed
    return source, books


def test_a_kafka_ledger_waits_at_a_revocation_for_uploads_in_work() -> None:
    """Membership is no lock: what is in flight must end before the next owner begins."""
    source, ledger = joined("kafka")
    assert source.settings["release_wait"] == membership.RELEASE_WAIT > 0
    assert ledger.arguments == (source,)


def test_a_lock_in_zookeeper_needs_no_waiting() -> None:
    source, ledger = joined("zookeeper")
    assert source.settings["release_wait"] == 0.0
    assert ledger.closed
    assert cast(Any, source.settings["uses"]).ledger_id == "0123"


@pytest.mark.parametrize("where", ["policy", "topics"])
def test_uploads_at_a_revocation_are_waited_for(where: str) -> None:
    policy = {"upload_on_revoke": True}
    of_topic = [{"match": "clicks", "policy": policy}]
    tables: dict[str, Any] = {"policy": policy} if where == "policy" else {"topics": of_topic}
    source, _ = joined("zookeeper", **tables)
    assert source.settings["release_wait"] == membership.RELEASE_WAIT


@pytest.mark.parametrize(
    ("ledger", "uses"),
    [
        ({"kind": "kafka"}, ("kafka", ())),
        (
            {"kind": "zookeeper", "zookeeper": {"hosts": ["a:1", "b:1"], "chroot": "/x/y"}},
            ("zookeeper at /x/y", ("a:1", "b:1")),
        ),
        (
            {"kind": "zookeeper", "zookeeper": {"hosts": ["a:1"], "chroot": "/x", "root": "/y"}},
            ("zookeeper at /x/y", ("a:1",)),
        ),
    ],
)
def test_the_group_is_told_which_ledger_and_store_are_used(
    ledger: dict[str, Any], uses: tuple[str, tuple[str, ...]]
) -> None:
    made, faults = validate(
        {
            "group": {"name": "g"},
            "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
            "store": {"kind": "local", "local": {"directory": "/nowhere"}},
            "ledger": ledger,
        }
    )
    assert made is not None, faults
    said = membership.uses_of(made)
    assert (said.ledger, said.servers) == uses
    assert said.store == "local:///nowhere"


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        (None, ""),
        ("https://s3.eu-west-1.amazonaws.com", ""),
        ("https://bucket.vpce-1a2b.s3.eu-west-1.vpce.amazonaws.com", ""),
        ("https://s3.cn-north-1.amazonaws.com.cn/", ""),
        ("https://MinIO.example:443/", "minio.example"),
        ("https://minio.example", "minio.example"),
        ("http://minio.example:80", "minio.example"),
        ("http://minio.example:9000/", "minio.example:9000"),
        ("https://amazonaws.com.example", "amazonaws.com.example"),
    ],
)
def test_the_address_of_a_store_has_one_form(endpoint: str | None, address: str) -> None:
    s3: dict[str, Any] = {"bucket": "b", "region": "eu-west-1"}
    made, faults = validate(
        {
            "group": {"name": "g"},
            "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
            "store": {"s3": s3 if endpoint is None else {**s3, "endpoint_url": endpoint}},
        }
    )
    assert made is not None, faults
    assert membership.uses_of(made).address == address
