"""Import of what Java Secor's properties say about Kafka, its security, and ZooKeeper."""

from __future__ import annotations

from secor.config.translation.draft import Draft, copy_jaas

_NEW = "kafka.new.consumer."
_ITERATOR = "kafka.message.iterator.className"
_KERBEROS_SERVICE = f"{_NEW}sasl.kerberos.service.name"
_RESETS = {"smallest": "earliest", "largest": "latest"}
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_MECHANISMS = ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512")
_STORES = {
    "truststore": (
        ("kafka.ssl_cafile",),
        "convert the authorities (keytool -list -rfc -keystore {path} > ca.pem)",
    ),
    "keystore": (
        ("kafka.ssl_certfile", "kafka.ssl_keyfile"),
        (
            "convert the key (keytool -importkeystore -srckeystore {path} -destkeystore secor.p12"
            " -deststoretype pkcs12; openssl pkcs12 -in secor.p12 -out secor.pem)"
        ),
    ),
}
"""Files of keys: the keys of ours that take the place of each, and how to convert it."""


def convert(draft: Draft) -> None:
    """Convert what is about Kafka and ZooKeeper."""
    draft.set("group.name", draft.value("secor.kafka.group"), "secor.kafka.group")
    _brokers(draft)
    _topics(draft)
    _reading(draft)
    protocol = draft.value(f"{_NEW}security.protocol").upper()
    draft.copy("kafka.security_protocol", f"{_NEW}security.protocol", protocol)
    has_sasl = protocol.startswith("SASL")
    if has_sasl:
        _mechanism(draft)
    _tls(draft, secured=protocol in ("SSL", "SASL_SSL"))
    if has_sasl:
        _credentials(draft)
    else:
        draft.unneeded("the security protocol has no SASL", _KERBEROS_SERVICE)
    _ledger(draft)


def _uses_old_consumer(draft: Draft) -> bool:
    """Return whether Java Secor used the consumer of Kafka 0.8, which keeps to ZooKeeper."""
    iterator = draft.value(_ITERATOR)
    if iterator:
        return "Legacy" in iterator
    return not any(name.startswith(_NEW) for name in draft.properties)


def _brokers(draft: Draft) -> None:
    host, port = "kafka.seed.broker.host", "kafka.seed.broker.port"
    hosts = draft.properties.texts(host)
    if not hosts:
        draft.fault(host, f"is empty: name a broker, such as -D {host}=kafka-1")
    servers = [
        address if ":" in address else f"{address}:{draft.value(port) or 9092}" for address in hosts
    ]
    note = "Java Secor asked the first of them only." if len(hosts) > 1 else ""
    draft.set("kafka.bootstrap_servers", servers, host, port, note=note)


def _topics(draft: Draft) -> None:
    listed, only = f"{_NEW}topic.list", "secor.kafka.topic_filter"
    without = "secor.kafka.topic_blacklist"
    names, old = draft.properties.texts(listed), _uses_old_consumer(draft)
    if names and not old:
        draft.set("kafka.topics", list(names), listed)
        draft.unneeded(f"{listed} names the topics", only, without)
        return
    included, excluded = draft.value(only), draft.value(without)
    if not included and not excluded:
        draft.fault(only, f"is empty: say which topics, such as -D '{only}=clicks|orders-.*'")
    note = ""
    if len(draft.properties.texts(only)) > 1:
        note = "Java Secor split the expression at its comma and used the first part, as here."
    draft.set("kafka.topics_pattern", _expression(included, old=old) or ".*", only, note=note)
    if excluded:
        draft.set("kafka.topics_exclude", _expression(excluded, old=old), without)
    if excluded and included:
        draft.todo(
            f"look at kafka.topics_exclude: {without} together with {only} is refused by Java"
            " Secor's old consumer and not looked at by its new one"
        )


def _expression(text: str, *, old: bool) -> str:
    """Take blanks and quotes away, as the old consumer does, for which a comma is an "or"."""
    return (text.replace(",", "|") if old else text).replace(" ", "").strip("\"'")


def _reading(draft: Draft) -> None:
    effective, other = f"{_NEW}auto.offset.reset", "kafka.consumer.auto.offset.reset"
    if _uses_old_consumer(draft):
        effective, other = other, effective
    reset = draft.value(effective).lower()
    draft.copy("kafka.reset", effective, _RESETS.get(reset, reset))
    draft.unneeded(f"{effective} counts for the consumer that was used", other)
    draft.copy_number("kafka.max_messages_per_second", "secor.messages.per.second")
    draft.copy_number("kafka.max_poll_interval", f"{_NEW}max.poll.interval.ms", "ms")
    name = f"{_NEW}partition.assignment.strategy.class"
    assignor = draft.value(name).rpartition(".")[2]
    if assignor in _ASSIGNORS:
        draft.set("kafka.assignment", _ASSIGNORS[assignor], name)
    else:
        draft.unsupported("cooperative-sticky is used instead", name)
    name = f"{_NEW}isolation.level"
    if draft.value(name) == "read_uncommitted":
        why = "aborted transactions are never stored: read_committed is always used"
        draft.unsupported(why, name)


def _tls(draft: Draft, *, secured: bool) -> None:
    for store, (keys, conversion) in _STORES.items():
        kind, place = f"{_NEW}ssl.{store}.type", f"{_NEW}ssl.{store}.location"
        password, path = f"{_NEW}ssl.{store}.password", draft.value(place)
        if not secured:
            draft.unneeded("the security protocol has no TLS", kind, password)
        elif path and draft.value(kind).upper() == "PEM":
            for key in keys:
                draft.set(key, path, place, kind)
        elif path:
            own_keys = " and ".join(keys)
            draft.unsupported(f"files are in PEM format here: {own_keys}", place)
            draft.todo(f"{conversion.format(path=path)}, and set {own_keys}")
        draft.unneeded("PEM files are read instead", kind)
        draft.unneeded("PEM files need none; that of a key is kafka.ssl_password", password)
    if secured:
        draft.secret("kafka.ssl_password", f"{_NEW}ssl.key.password")


def _mechanism(draft: Draft) -> None:
    name = f"{_NEW}sasl.mechanism"
    mechanism = draft.value(name) or "GSSAPI"
    if mechanism in _MECHANISMS:
        draft.set("kafka.sasl_mechanism", mechanism, name)
    else:
        known = ", ".join(_MECHANISMS)
        draft.fault(name, f"{mechanism} is not translated, only {known}: choose one by -D")


def _credentials(draft: Draft) -> None:
    copy_jaas(draft, f"{_NEW}sasl.jaas.config")
    draft.copy("kafka.sasl_kerberos_service_name", _KERBEROS_SERVICE)


def _ledger(draft: Draft) -> None:
    quorum, storage = "zookeeper.quorum", "kafka.offsets.storage"
    hosts = ",".join(draft.properties.texts(quorum))
    if not hosts:
        draft.fault(quorum, f"is empty: the committed offsets are there; -D {quorum}=zk-1:2181")
    servers, _, chroot = hosts.partition("/")
    note = ""
    if draft.value(storage) == "kafka":
        note = (
            'Java Secor commits there in any case; "kafka" is possible, too, but not the way back.'
        )
    draft.set("ledger.kind", "zookeeper", storage, note=note)
    draft.set("ledger.zookeeper.hosts", [host for host in servers.split(",") if host], quorum)
    if chroot:
        draft.set("ledger.zookeeper.chroot", f"/{chroot.strip('/')}", quorum)
    if path := draft.value("kafka.zookeeper.path").strip("/"):
        draft.set("ledger.zookeeper.root", f"/{path}", "kafka.zookeeper.path")
    timeout = "zookeeper.session.timeout.ms"
    if (draft.number(timeout) or 0) > 10_000:
        draft.copy_number("ledger.zookeeper.session_timeout", timeout, "ms")
