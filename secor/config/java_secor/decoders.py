"""Import of what Java Secor's decoders need besides their name: schemas, classes, expressions."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from secor.config.java_secor.formats import writer_of
from secor.config.output import TYPED_FORMATS
from secor.config.translation.draft import Draft

_PATTERN = "message.timestamp.input.pattern"
_REGISTRY = "schema.registry.url"
_NAMED_GROUP = re.compile(r"\(\?P?<([A-Za-z]\w*)>")


def decoder_settings(draft: Draft, decoder: str) -> None:
    """Set what ``decoder`` needs."""
    settings = {"avro": _avro, "protobuf": _protobuf, "thrift": _thrift, "regex": _regex}
    if decoder in settings:
        settings[decoder](draft)


def _avro(draft: Draft) -> None:
    url, key = draft.value(_REGISTRY), "parser.schema_file"
    if url:
        _registry(draft, url)
    for name, topic, path in draft.of_topics("secor.avro.message.schema"):
        draft.set_for(topic, key, path, name)
    if not url and all(line.key != key for line in draft.lines):
        draft.set(key, "schema.avsc", note="Java Secor found it on its classpath.")
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
    note = "From protoc --include_imports -o messages.desc."
    draft.set("parser.descriptor_set", "messages.desc", note=note)
    draft.todo("make parser.descriptor_set: protoc --include_imports -o messages.desc FILE.proto")
    classes = sorted(
        draft.of_topics("secor.protobuf.message.class"),
        key=lambda topic_class: topic_class[1] != "*",
    )
    if not classes:
        note = "Java Secor took the first field for the time."
        draft.set("parser.message", "package.Message", note=note)
        draft.todo(
            "set parser.message and parser.time_field: the full name of the message, and its field"
        )
    for index, (name, topic, java) in enumerate(classes):
        # A nested class of Java has its outer one in front, which the message's name has not.
        message = re.sub(r"[^.$]+\$", "", java)
        if index == 0:
            note = f"Java's class is {java}: compare with package and message in the .proto file."
            draft.set("parser.message", message, name, note=note)
        if topic != "*":
            draft.set_for(topic, "parser.message", message, name)
    for name, topic, text in draft.of_topics("secor.topic.message.format"):
        encoding = "json" if text.lower() == "json" else "binary"
        draft.set_for(topic, "parser.encoding", encoding, name)


def _thrift(draft: Draft) -> None:
    name = "secor.thrift.protocol.class"
    protocol = "compact" if "Compact" in draft.value(name) else "binary"
    draft.set("parser.protocol", protocol, name)
    why = "no generated class is needed: fields are found by their ids"
    if writer_of(draft).format in TYPED_FORMATS:
        draft.todo(
            "name the fields of Thrift: columns are called 1, 2 otherwise, which tables of Hive do"
            ' not take; write parser.names = {"1" = "user"} for the ids, or parser.message_class'
            " for a class that Thrift generated for Python"
        )
        why = "it is a class of Java: name the columns by parser.names or parser.message_class"
    draft.unneeded(why, *(name for name, _, _ in draft.of_topics("secor.thrift.message.class")))


def _regex(draft: Draft) -> None:
    pattern = draft.value(_PATTERN)
    if not pattern:
        draft.fault(_PATTERN, "is empty, and RegexMessageParser finds the time by it")
    draft.set("parser.pattern", named_group(pattern)[0], _PATTERN)


def named_group(pattern: str) -> tuple[str, str]:
    """Return the expression with its first group named, the others without a name, as RE2
    and the decoder have it; and the name.
    """
    result, position, name, in_class = "", 0, "", False
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            result += pattern[position : position + 2]
            position += 2
            continue
        in_class = char == "[" or (in_class and char != "]")
        named = _NAMED_GROUP.match(pattern, position)
        if char == "(" and not in_class and (named or pattern[position + 1 : position + 2] != "?"):
            first = not name
            name = name or (named[1] if named else "time")
            result += f"(?P<{name}>" if first else "(?:"
            position += len(named[0]) if named else 1
            continue
        result += char
        position += 1
    return result, name or "time"
