"""What decoders need beside their name: schemas, classes, expressions."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from secor.config.java_secor.draft import Draft
from secor.config.java_secor.formats import writer_of
from secor.config.output import TYPED_FORMATS

_PATTERN = "message.timestamp.input.pattern"
_REGISTRY = "schema.registry.url"


def decoder_settings(draft: Draft, decoder: str) -> None:
    """Set what ``decoder`` needs."""
    settings = {"avro": _avro, "protobuf": _protobuf, "thrift": _thrift, "regex": _regex}
    if decoder in settings:
        settings[decoder](draft)


def _avro(draft: Draft) -> None:
    url = draft.value(_REGISTRY)
    if url:
        _registry(draft, url)
    files = list(draft.family("secor.avro.message.schema"))
    for name, topic, path in files:
        if topic == "*":
            draft.set("parser.schema_file", path, name)
        else:
            draft.rule(re.escape(topic), "parser.schema_file", path, name)
    if not url and not draft.has("parser.schema_file"):
        draft.set("parser.schema_file", "schema.avsc", note="Java Secor found it on its classpath.")
        draft.todo("put the Avro schema of the topics where parser.schema_file says")


def _registry(draft: Draft, url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        draft.fault(_REGISTRY, f"is no address: {error}")
        return
    if parts.username is not None:
        draft.secret("parser.registry_password", _REGISTRY, "the password in")
        draft.set("parser.registry_username", unquote(parts.username))
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    draft.set("parser.registry_url", url, _REGISTRY)


def _protobuf(draft: Draft) -> None:
    classes = list(draft.family("secor.protobuf.message.class"))
    formats = {
        topic: (name, text) for name, topic, text in draft.family("secor.topic.message.format")
    }
    draft.set(
        "parser.descriptor_set",
        "messages.desc",
        note="From protoc --include_imports -o messages.desc.",
    )
    draft.todo("make parser.descriptor_set: protoc --include_imports -o messages.desc FILE.proto")
    classes.sort(key=lambda one: one[1] != "*")
    if not classes:
        draft.set(
            "parser.message",
            "package.Message",
            note="Java Secor took the first field for the time.",
        )
        draft.todo(
            "set parser.message and parser.time_field: the full name of the message, and its field"
        )
    for at, (name, topic, java) in enumerate(classes):
        # A nested class of Java has its outer one in front, which the message's name has not.
        message = re.sub(r"[^.$]+\$", "", java)
        note = f"Java's class is {java}: compare with package and message in the .proto file."
        if at == 0:
            draft.set("parser.message", message, name, note=note)
        if topic != "*":
            draft.rule(re.escape(topic), "parser.message", message, name)
    for topic, (name, text) in formats.items():
        encoding = "json" if text.lower() == "json" else "binary"
        if topic == "*":
            draft.set("parser.encoding", encoding, name)
        else:
            draft.rule(re.escape(topic), "parser.encoding", encoding, name)


def _thrift(draft: Draft) -> None:
    name = "secor.thrift.protocol.class"
    protocol = "compact" if "Compact" in draft.value(name) else "binary"
    draft.set("parser.protocol", protocol, name)
    classes = [name for name, _, _ in draft.family("secor.thrift.message.class")]
    if writer_of(draft).format in TYPED_FORMATS:
        draft.todo(
            "name the fields of Thrift: columns are called 1, 2 otherwise, which tables of Hive do"
            ' not take; write parser.names = {"1" = "user"} for the ids, or parser.message_class'
            " for a class that Thrift generated for Python"
        )
        why = "it is a class of Java: name the columns by parser.names or parser.message_class"
        draft.unneeded(why, *classes)
        return
    draft.unneeded("no generated class is needed: fields are found by their ids", *classes)


def _regex(draft: Draft) -> None:
    pattern = draft.value(_PATTERN)
    if not pattern:
        draft.fault(_PATTERN, "is empty, and RegexMessageParser finds the time by it")
    draft.set("parser.pattern", named_group(pattern)[0], _PATTERN)


def named_group(pattern: str) -> tuple[str, str]:
    """Return the expression with its first group named, the others without a name, as RE2
    and the decoder have it; and the name.
    """
    result, at, name, in_class = "", 0, "", False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            result += pattern[at : at + 2]
            at += 2
            continue
        in_class = char == "[" or (in_class and char != "]")
        own = re.compile(r"\(\?P?<([A-Za-z]\w*)>").match(pattern, at)
        if char == "(" and not in_class and (own or pattern[at + 1 : at + 2] != "?"):
            first = not name
            name = name or (own[1] if own else "time")
            result += f"(?P<{name}>" if first else "(?:"
            at += len(own[0]) if own else 1
            continue
        result += char
        at += 1
    return result, name or "time"
