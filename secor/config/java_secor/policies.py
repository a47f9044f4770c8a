"""When files are uploaded, what finishes directories, and the metrics' port."""

from __future__ import annotations

from secor.config.java_secor.draft import Draft
from secor.config.java_secor.parsers import is_backup

_MARK, _MARKED = "secor.upload.minute_mark", "secor.kafka.upload_at_minute_mark.topic_filter"
_SIZE, _AGE = "secor.max.file.size.bytes", "secor.max.file.age.seconds"
_PAYLOAD, _RANGE = "secor.max.input.payload.size.bytes", "secor.max.file.timestamp.range.millis"
_DETERMINISTIC = "secor.upload.deterministic"
_QUBOLE = "qubole.api.token"

_READ_AGAIN = "Each process that stops leaves its open batch to be read again; true uploads it."


def convert(draft: Draft) -> None:
    """Convert the policy, the finalizer, and what is left."""
    if draft.flag(_DETERMINISTIC):
        _deterministic(draft)
    else:
        _limits(draft)
    _minute_mark(draft)
    if draft.value("secor.upload.on.shutdown"):
        wanted = draft.flag("secor.upload.on.shutdown")
        note = "" if wanted else _READ_AGAIN
        draft.set("policy.upload_on_shutdown", wanted, "secor.upload.on.shutdown", note=note)
    _finalize(draft)
    _processes(draft)
    _classes(draft)
    if (port := draft.number("ostrich.port")) is not None:
        note = "Prometheus, health and a status page now, not Ostrich."
        draft.set("metrics.port", port, "ostrich.port", note=note)


def _limits(draft: Draft) -> None:
    if size := draft.number(_SIZE):
        draft.set("policy.max_bytes", size, _SIZE)
    if age := draft.number(_AGE):
        draft.set("policy.max_age", f"{age}s", _AGE)
    youngest, older = "secor.file.age.youngest", "secor.max.file.age.policy"
    if draft.value(youngest):
        draft.set("policy.age", "youngest" if draft.flag(youngest) else "oldest", youngest)
    elif draft.value(older):
        draft.set("policy.age", "oldest" if draft.value(older) == "oldest" else "youngest", older)
    else:
        draft.set("policy.age", "youngest", note="Java Secor's default.")
    draft.unneeded(f"{youngest} says it", older)
    draft.unneeded("uploads are not made deterministic", _PAYLOAD, _RANGE, _DETERMINISTIC)


def _deterministic(draft: Draft) -> None:
    """Every upload is repeatable here; what is left of that mode are its two limits."""
    if size := draft.number(_PAYLOAD):
        note = "Java Secor counted payloads, here it is what they take on disk."
        draft.set("policy.max_bytes", size, _PAYLOAD, note=note)
    if milliseconds := draft.number(_RANGE):
        note = "By the clock: there is no limit by the messages' times."
        draft.set("policy.max_age", f"{milliseconds}ms", _RANGE, note=note)
        draft.todo(f"look at policy.max_age: {_RANGE} was about the messages' times, not the clock")
    draft.unneeded("every upload is repeatable here", _DETERMINISTIC)
    others = (_SIZE, _AGE, "secor.file.age.youngest", "secor.max.file.age.policy")
    draft.unneeded(f"{_DETERMINISTIC} ignores it", *others)


def _minute_mark(draft: Draft) -> None:
    marked = draft.value(_MARKED)
    if not marked:
        draft.unneeded(f"{_MARKED} is empty, so no topic has a mark", _MARK)
        return
    minute = draft.number(_MARK) or 0
    pattern = [line.value for line in draft.lines if line.key == "kafka.topics_pattern"]
    if marked == ".*" or marked in pattern:
        draft.set("policy.minute_mark", minute, _MARK, _MARKED)
    else:
        draft.rule(marked, "policy.minute_mark", minute, _MARK, _MARKED)


def _finalize(draft: Draft) -> None:
    delay = "partitioner.finalizer.delay.seconds"
    if not is_backup(draft) and (seconds := draft.number(delay)) is not None:
        draft.set("finalize.delay", f"{seconds}s", delay)
    draft.unneeded("nothing is finalized in the backup group", delay)
    tables = ["hive.table.prefix", "secor.hive.prefix"]
    for family in ("hive.table.name", "secor.hive.table.name"):
        tables += [name for name, _, _ in draft.family(family)]
    if (
        draft.value(_QUBOLE)
        and draft.flag("secor.enable.qubole", default=True)
        and not is_backup(draft)
    ):
        why = "Qubole is not offered: finalize.command with hive or curl, or finalize.glue"
        for name in (_QUBOLE, *tables):
            draft.unsupported(name, why)
        draft.todo("say how tables get their partitions: finalize.command or finalize.glue")
    why = "Qubole is not asked; tables get partitions by finalize.command or finalize.glue"
    draft.unneeded(why, _QUBOLE, "secor.enable.qubole", "secor.qubole.timeout.ms", *tables)


def _processes(draft: Draft) -> None:
    threads = draft.number("secor.consumer.threads")
    if threads and threads > 1:
        draft.todo(
            "start as many processes as you need, each with its own metrics.port"
            f" (Java Secor had {threads} threads in each; one process here has one consumer, and"
            " does some ten times as much)"
        )
    draft.unneeded("more throughput is one more process", "secor.consumer.threads")


def _classes(draft: Draft) -> None:
    transformer, uploader = "secor.message.transformer.class", "secor.upload.class"
    if not draft.value(transformer).endswith(".IdentityMessageTransformer"):
        draft.unsupported(
            transformer, "write it as parser.transforms, or as a plug-in over columns"
        )
    draft.unneeded("nothing is transformed unless parser.transforms says so", transformer)
    if not draft.value(uploader).endswith(".uploader.Uploader"):
        draft.unsupported(uploader, "uploads follow one protocol, which cannot be exchanged")
    draft.unneeded("there is one uploader", uploader)
    for name in ("tsdb.hostport", "statsd.hostport"):
        draft.unsupported(
            name, "metrics are scraped by Prometheus; secor progress --json for others"
        )
