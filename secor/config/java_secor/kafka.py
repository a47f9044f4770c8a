"""Brokers, topics, security and offsets."""

from __future__ import annotations

import re

from secor.config.java_secor.draft import Draft

_NEW = "kafka.new.consumer."
_ITERATOR = "kafka.message.iterator.className"
_RESETS = {"smallest": "earliest", "largest": "latest"}
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_MECHANISMS = ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512")
_JAAS = re.compile(r"""(?P<key>\w+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s;"]+))""")
_CONVERSIONS = {
    "truststore": "convert the authorities (keytool -list -rfc -keystore {path} > ca.pem)",
    "keystore": (
        "convert the key (keytool -importkeystore -srckeystore {path} -destkeystore secor.p12"
        " -deststoretype pkcs12; openssl pkcs12 -in secor.p12 -out secor.pem)"
    ),
}


def convert(draft: Draft) -> None:
    """Convert what is about Kafka and ZooKeeper."""
    draft.set("group.name", draft.value("secor.kafka.group"), "secor.kafka.group")
    _brokers(draft)
    _topics(draft)
    _reset(draft)
    _reading(draft)
    _security(draft)
    _tls(draft)
    _sasl(draft)
    _ledger(draft)


def _legacy(draft: Draft) -> bool:
    """Tell whether Java Secor used the consumer of Kafka 0.8, which keeps to ZooKeeper."""
    given = draft.value(_ITERATOR)
    return "Legacy" in given if given else not any(name.startswith(_NEW) for name in draft.given)


def _brokers(draft: Draft) -> None:
    host, port = "kafka.seed.broker.host", "kafka.seed.broker.port"
    named = draft.given.texts(host)
    if not named:
        draft.fault(host, f"is empty: name a broker, such as -D {host}=kafka-1")
    servers = [one if ":" in one else f"{one}:{draft.value(port) or 9092}" for one in named]
    note = "Java Secor asked the first of them only." if len(named) > 1 else ""
    draft.set("kafka.bootstrap_servers", servers, host, port, note=note)


def _topics(draft: Draft) -> None:
    listed, only, without = (
        f"{_NEW}topic.list",
        "secor.kafka.topic_filter",
        "secor.kafka.topic_blacklist",
    )
    names = draft.given.texts(listed)
    if names and not _legacy(draft):
        draft.set("kafka.topics", list(names), listed)
        draft.unneeded(f"{listed} names the topics", only, without)
        return
    draft.unneeded("the old consumer does not look at it", listed)
    wanted, unwanted = draft.value(only), draft.value(without)
    if not wanted and not unwanted:
        draft.fault(only, f"is empty: say which topics, such as -D '{only}=clicks|orders-.*'")
    note = ""
    if len(draft.given.texts(only)) > 1:
        note = "Java Secor split the expression at its comma and used the first part, as here."
    pattern = _expression(wanted, legacy=_legacy(draft)) or ".*"
    draft.set("kafka.topics_pattern", pattern, only, note=note)
    if unwanted:
        pattern = _expression(unwanted, legacy=_legacy(draft))
        draft.set("kafka.topics_exclude", pattern, without)
        if wanted:
            draft.todo(
                f"look at kafka.topics_exclude: {without} beside {only} is refused by Java"
                " Secor's old consumer and not looked at by its new one"
            )


def _expression(text: str, *, legacy: bool) -> str:
    """Take blanks and quotes away, as the old consumer does, for which a comma is an "or"."""
    return (text.replace(",", "|") if legacy else text).replace(" ", "").strip("\"'")


def _reset(draft: Draft) -> None:
    old, new = "kafka.consumer.auto.offset.reset", f"{_NEW}auto.offset.reset"
    counts, other = (old, new) if _legacy(draft) else (new, old)
    text = draft.value(counts).lower()
    if text:
        draft.set("kafka.reset", _RESETS.get(text, text), counts)
    draft.unneeded(f"{counts} counts for the consumer that was used", other)


def _reading(draft: Draft) -> None:
    interval = draft.number(f"{_NEW}max.poll.interval.ms")
    if interval is not None:
        draft.set("kafka.max_poll_interval", f"{interval}ms", f"{_NEW}max.poll.interval.ms")
    name = f"{_NEW}partition.assignment.strategy.class"
    assignor = draft.value(name).rpartition(".")[2]
    if assignor in _ASSIGNORS:
        draft.set("kafka.assignment", _ASSIGNORS[assignor], name)
    else:
        draft.unsupported(name, "cooperative-sticky is used instead")
    name = f"{_NEW}isolation.level"
    draft.unneeded("read_committed is always used", name)
    if draft.value(name) == "read_uncommitted":
        draft.fates.pop(name)
        draft.unsupported(
            name, "aborted transactions are never stored: read_committed is always used"
        )


def _security(draft: Draft) -> None:
    name = f"{_NEW}security.protocol"
    protocol = draft.value(name).upper()
    if protocol:
        draft.set("kafka.security_protocol", protocol, name)
    mechanism = draft.value(f"{_NEW}sasl.mechanism") or "GSSAPI"
    if not protocol.startswith("SASL"):
        why = "the security protocol has no SASL"
        draft.unneeded(why, f"{_NEW}sasl.mechanism", f"{_NEW}sasl.jaas.config")
        draft.unneeded(why, f"{_NEW}sasl.kerberos.service.name")
    elif mechanism in _MECHANISMS:
        draft.set("kafka.sasl_mechanism", mechanism, f"{_NEW}sasl.mechanism")
    else:
        draft.fault(
            f"{_NEW}sasl.mechanism",
            f"{mechanism} is not translated, only {', '.join(_MECHANISMS)}: choose one by -D",
        )


def _tls(draft: Draft) -> None:
    secured = draft.value(f"{_NEW}security.protocol").upper() in ("SSL", "SASL_SSL")
    stores = (
        ("truststore", ("kafka.ssl_cafile",)),
        ("keystore", ("kafka.ssl_certfile", "kafka.ssl_keyfile")),
    )
    for store, keys in stores:
        kind, place = f"{_NEW}ssl.{store}.type", f"{_NEW}ssl.{store}.location"
        password = f"{_NEW}ssl.{store}.password"
        if not secured:
            draft.unneeded("the security protocol has no TLS", kind, place, password)
        elif draft.value(kind).upper() == "PEM":
            for key in keys if draft.value(place) else ():
                draft.set(key, draft.value(place), place, kind)
        elif draft.value(place):
            told = " and ".join(keys)
            draft.unsupported(place, f"files are in PEM format here: {told}")
            draft.todo(f"{_CONVERSIONS[store].format(path=draft.value(place))}, and set {told}")
        draft.unneeded("PEM files are read instead", kind)
        draft.unneeded("PEM files need none; that of a key is kafka.ssl_password", password)
    name = f"{_NEW}ssl.key.password"
    if secured and draft.value(name):
        draft.secret("kafka.ssl_password", name)
    draft.unneeded("the security protocol has no TLS", name)


def _sasl(draft: Draft) -> None:
    name = f"{_NEW}sasl.jaas.config"
    text = draft.value(name)
    for handler in (
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
    ):
        draft.unsupported(f"{_NEW}{handler}", "Java classes cannot be used: give the credentials")
    if not text or name in draft.fates:
        return
    found = {one["key"]: one["quoted"] or one["plain"] or "" for one in _JAAS.finditer(text)}
    if "username" in found:
        draft.set("kafka.sasl_plain_username", found["username"], name)
        draft.secret("kafka.sasl_plain_password", name, "the password in")
    elif "Krb5LoginModule" in text:
        draft.unsupported(name, "the ticket comes from the machine: KRB5_CLIENT_KTNAME, or kinit")
        draft.todo("give the daemon a Kerberos ticket (KRB5_CLIENT_KTNAME names its keytab)")
    else:
        draft.unsupported(
            name, "it names no username: set kafka.sasl_plain_username and its password"
        )
    service = f"{_NEW}sasl.kerberos.service.name"
    if draft.value(service):
        draft.set("kafka.sasl_kerberos_service_name", draft.value(service), service)


def _ledger(draft: Draft) -> None:
    quorum, root = "zookeeper.quorum", "kafka.zookeeper.path"
    hosts = ",".join(draft.given.texts(quorum))
    if not hosts:
        draft.fault(quorum, f"is empty: the committed offsets are there; -D {quorum}=zk-1:2181")
    servers, _, chroot = hosts.partition("/")
    storage, dual = "kafka.offsets.storage", "kafka.dual.commit.enabled"
    note = ""
    if draft.value(storage) == "kafka":
        note = (
            'Java Secor commits there in any case; "kafka" is possible, too, but not the way back.'
        )
    draft.set("ledger.kind", "zookeeper", storage, note=note)
    draft.unneeded("Java Secor's offsets in ZooKeeper are continued", dual)
    draft.set("ledger.zookeeper.hosts", [one for one in servers.split(",") if one], quorum)
    if chroot:
        draft.set("ledger.zookeeper.chroot", f"/{chroot.strip('/')}", quorum)
    if path := draft.value(root).strip("/"):
        draft.set("ledger.zookeeper.root", f"/{path}", root)
    draft.unneeded("offsets are where they are here by default", root)
    timeout = "zookeeper.session.timeout.ms"
    milliseconds = draft.number(timeout)
    if milliseconds is not None and milliseconds > 10_000:
        draft.set("ledger.zookeeper.session_timeout", f"{milliseconds}ms", timeout)
    draft.unneeded("10 s is the default here; a shorter session expires in a pause", timeout)
