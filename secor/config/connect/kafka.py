"""Group, topics and brokers of a sink connector."""

from __future__ import annotations

import re

from secor.config.connect.settings import FETCHING
from secor.config.translation.draft import Draft, copy_jaas

CONSUMER = "consumer.override."

_OF_KAFKA = {
    "security.protocol": "kafka.security_protocol",
    "sasl.mechanism": "kafka.sasl_mechanism",
    "sasl.kerberos.service.name": "kafka.sasl_kerberos_service_name",
    "client.id": "kafka.client_id",
}
_STORES = {"truststore": "cafile", "keystore": "certfile"}


def convert_group(draft: Draft) -> None:
    """Continue the consumer group of a sink that has only its offsets: Kafka is the ledger."""
    name = draft.value("name") or "sink"
    group = f"connect-{name}"
    # Names of connectors may have blanks and slashes, those of our groups become directories.
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", group)
    note = "Connect's own group of this connector: its offsets are continued."
    draft.set("group.name", safe, "name", note=note if safe == group else "")
    draft.set("group.kind", "partition", "connector.class")
    # The connector has its offsets nowhere else, and goes on from ours when it is handed back.
    draft.set("ledger.kind", "kafka")
    if not draft.value("name"):
        draft.todo("set group.name to connect-NAME: the file does not say the connector's name")
    elif safe != group:
        draft.todo(f"take over the offsets: secor offsets import CONFIG --from-group '{group}'")


def convert_kafka(draft: Draft, prefix: str) -> None:
    """Set brokers, topics and access; ``prefix`` is that of the sink's settings of Kafka."""
    servers = f"{prefix}bootstrap.servers"
    if text := draft.value(servers):
        listed = [part.strip() for part in text.split(",") if part.strip()]
        draft.set("kafka.bootstrap_servers", listed, servers)
    else:
        draft.set("kafka.bootstrap_servers", ["localhost:9092"])
        draft.todo("set kafka.bootstrap_servers, as bootstrap.servers of the Connect worker says")
    _topics(draft)
    for name in [item for item in draft.properties if prefix and item.startswith(prefix)]:
        if name != servers and name not in _OVERRIDES:
            _setting(draft, name, name.removeprefix(prefix))
    protocol = f"{prefix}security.protocol"
    if draft.value(protocol).startswith("SASL_") and not draft.value(f"{prefix}sasl.mechanism"):
        # Java's client has a default where ours wants the mechanism to be said.
        draft.set("kafka.sasl_mechanism", "GSSAPI", note="Kafka's default")
    draft.copy("kafka.reset", f"{CONSUMER}auto.offset.reset")
    draft.copy("kafka.client_rack", f"{CONSUMER}client.rack")
    instance = f"{CONSUMER}group.instance.id"
    draft.copy("kafka.group_instance_id", instance)
    if draft.value(instance):
        draft.todo("give each process a kafka.group_instance_id of its own")
    why = "the client fetches and commits in its own way, within [limits]"
    draft.unneeded(why, *(f"{CONSUMER}{name}" for name in FETCHING))


_OVERRIDES = frozenset(
    f"{CONSUMER}{name}" for name in ("auto.offset.reset", "client.rack", "group.instance.id")
)


def _topics(draft: Draft) -> None:
    topics = [topic.strip() for topic in draft.value("topics").split(",") if topic.strip()]
    if topics:
        draft.set("kafka.topics", topics, "topics")
        draft.unneeded("topics names them", "topics.regex")
    elif draft.value("topics.regex"):
        # Java takes a flag anywhere, Python at the beginning only; named groups differ, too.
        pattern = re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", draft.value("topics.regex"))
        if re.search(r"(?<!\\)&&", pattern):
            why = "Java's && between classes has no counterpart: -D topics.regex=… without it"
            draft.fault("topics.regex", why)
        if "(?i)" in pattern:
            pattern = "(?i)" + pattern.replace("(?i)", "")
        draft.copy("kafka.topics_pattern", "topics.regex", pattern)
    else:
        draft.fault("topics", "neither topics nor topics.regex says which topics: -D topics=…")


def _setting(draft: Draft, name: str, own: str) -> None:
    if own in _OF_KAFKA:
        draft.copy(_OF_KAFKA[own], name)
    elif own == "sasl.jaas.config":
        copy_jaas(draft, name)
    elif own == "ssl.endpoint.identification.algorithm":
        # Kafka switches the check off by an empty text.
        draft.set("kafka.ssl_check_hostname", bool(draft.value(name)), name)
    elif own in ("ssl.truststore.location", "ssl.keystore.location"):
        store = own.split(".")[1]
        key = f"kafka.ssl_{_STORES[store]}"
        if draft.value(name.replace("location", "type")).upper() == "PEM":
            draft.copy(key, name)
        else:
            draft.unsupported(f"write a file in PEM and set {key} to it", name)
    elif own in ("ssl.key.password", "ssl.keystore.password", "ssl.truststore.password"):
        draft.unneeded("PEM files need none; that of a key is kafka.ssl_password", name)
    elif own in ("ssl.truststore.type", "ssl.keystore.type"):
        draft.unneeded("files are in PEM format", name)
    elif own not in FETCHING:
        draft.unsupported("write it by hand: [kafka], see docs/security.md", name)
