"""Import of Java Secor's upload policy, finalizer, threads and metrics' port."""

from __future__ import annotations

from secor.config.java_secor.parsers import is_backup
from secor.config.translation.draft import Draft

_MARK, _MARKED = "secor.upload.minute_mark", "secor.kafka.upload_at_minute_mark.topic_filter"
_SIZE, _AGE = "secor.max.file.size.bytes", "secor.max.file.age.seconds"
_YOUNGEST, _AGE_OF = "secor.file.age.youngest", "secor.max.file.age.policy"
_PAYLOAD, _RANGE = "secor.max.input.payload.size.bytes", "secor.max.file.timestamp.range.millis"
_DETERMINISTIC, _AT_END = "secor.upload.deterministic", "secor.upload.on.shutdown"
_TABLES = ("hive.table.prefix", "secor.hive.prefix")
_TABLES_OF_TOPICS = ("hive.table.name", "secor.hive.table.name")


def convert(draft: Draft) -> None:
    """Convert the policy, the finalizer, and what is left."""
    if draft.flag(_DETERMINISTIC):
        _deterministic(draft)
    else:
        _limits(draft)
    _minute_mark(draft)
    if draft.value(_AT_END):
        uploads = draft.flag(_AT_END)
        note = "Each process that stops leaves its open batch to be read again; true uploads it."
        draft.set("policy.upload_on_shutdown", uploads, _AT_END, note="" if uploads else note)
    if not is_backup(draft):
        draft.copy_number("finalize.delay", "partitioner.finalizer.delay.seconds", "s")
        _qubole(draft)
    _processes(draft)
    _classes(draft)
    note = "Prometheus, health and a status page now, not Ostrich."
    draft.copy_number("metrics.port", "ostrich.port", note=note)


def _limits(draft: Draft) -> None:
    draft.copy_number("policy.max_bytes", _SIZE, zero=False)
    draft.copy_number("policy.max_age", _AGE, "s", zero=False)
    if draft.value(_YOUNGEST):
        draft.set("policy.age", "youngest" if draft.flag(_YOUNGEST) else "oldest", _YOUNGEST)
    elif policy := draft.value(_AGE_OF):
        draft.set("policy.age", "oldest" if policy == "oldest" else "youngest", _AGE_OF)
    else:
        draft.set("policy.age", "youngest", note="Java Secor's default.")
    draft.unneeded(f"{_YOUNGEST} says it", _AGE_OF)
    draft.unneeded("uploads are not made deterministic", _PAYLOAD, _RANGE, _DETERMINISTIC)


def _deterministic(draft: Draft) -> None:
    """Every upload is repeatable here; what is left of that mode are its two limits."""
    note = "Java Secor counted payloads, here it is what they take on disk."
    draft.copy_number("policy.max_bytes", _PAYLOAD, note=note, zero=False)
    if milliseconds := draft.number(_RANGE):
        note = "By the clock: there is no limit by the messages' times."
        draft.set("policy.max_age", f"{milliseconds}ms", _RANGE, note=note)
        draft.todo(f"look at policy.max_age: {_RANGE} was about the messages' times, not the clock")
    draft.unneeded("every upload is repeatable here", _DETERMINISTIC)
    draft.unneeded(f"{_DETERMINISTIC} ignores it", _SIZE, _AGE, _YOUNGEST, _AGE_OF)


def _minute_mark(draft: Draft) -> None:
    marked = draft.value(_MARKED)
    if not marked:
        return
    minute = draft.number(_MARK) or 0
    consumed = [line.value for line in draft.lines if line.key == "kafka.topics_pattern"]
    if marked in (".*", *consumed):
        draft.set("policy.minute_mark", minute, _MARK, _MARKED)
    else:
        draft.rule(marked, "policy.minute_mark", minute, _MARK, _MARKED)


def _qubole(draft: Draft) -> None:
    token = "qubole.api.token"  # noqa: S105 - a property's name
    if draft.value(token) and draft.flag("secor.enable.qubole", default=True):
        why = "Qubole is not offered: finalize.command with hive or curl, or finalize.glue"
        of_topics = (name for family in _TABLES_OF_TOPICS for name, _, _ in draft.of_topics(family))
        draft.unsupported(why, token, *_TABLES, *of_topics)
        draft.todo("say how tables get their partitions: finalize.command or finalize.glue")


def _processes(draft: Draft) -> None:
    threads = draft.number("secor.consumer.threads")
    if threads and threads > 1:
        draft.todo(
            "start as many processes as you need, each with its own metrics.port"
            f" (Java Secor had {threads} threads in each; one process here has one consumer, and"
            " does some ten times as much)"
        )


def _classes(draft: Draft) -> None:
    transformer, uploader = "secor.message.transformer.class", "secor.upload.class"
    if not draft.value(transformer).endswith(".IdentityMessageTransformer"):
        why = "write it as parser.transforms, or as a plug-in over columns"
        draft.unsupported(why, transformer)
    if not draft.value(uploader).endswith(".uploader.Uploader"):
        draft.unsupported("uploads follow one protocol, which cannot be exchanged", uploader)
