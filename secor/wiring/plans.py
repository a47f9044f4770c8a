"""From the settings of a topic to its plan."""

from __future__ import annotations

from secor.config.model import TYPED_FORMATS, Config, Output, Policy, TopicSettings
from secor.formats import make_format
from secor.model import QUARANTINE
from secor.naming import quarantine_root, topic_root
from secor.parsing.backup import OffsetBuckets
from secor.parsing.pipeline import Count
from secor.plan import Lane, TopicPlan
from secor.policy import Age
from secor.policy import Policy as SealingPolicy
from secor.ports import LogFormat, Parser
from secor.wiring.parsers import pipeline_for, routed_lanes


def plan_for(
    config: Config, topic: str, count: Count | None = None, *, limited: bool = True
) -> TopicPlan:
    """Return how the messages of ``topic`` are stored.

    ``count`` is told what parsing leaves out and puts into quarantine; unless ``limited``,
    any number of messages may go there.
    """
    settings = config.for_topic(topic)
    output = settings.output
    root = topic_root(output.prefix, topic, hashed=output.hash_prefix)
    partition = config.group.kind == "partition"
    return TopicPlan(
        group=config.group.name,
        root=root,
        generation=output.generation,
        parser=_parser(settings, count, limited=limited)
        if partition
        else OffsetBuckets(output.offsets_per_partition),
        log_format=_log_format(output, typed=partition),
        lanes=_lanes(settings, topic, root) if partition else {},
        policy=_policy(settings.policy),
        upload_on_shutdown=settings.policy.upload_on_shutdown,
        upload_on_revoke=settings.policy.upload_on_revoke,
    )


def _parser(settings: TopicSettings, count: Count | None, *, limited: bool) -> Parser:
    typed = settings.output.format in TYPED_FORMATS
    parser = settings.parser
    if not limited:
        parser = parser.model_copy(update={"max_bad_ratio": None, "max_bad_messages": None})
    return pipeline_for(parser, typed=typed, count=count)


def _lanes(settings: TopicSettings, topic: str, root: str) -> dict[str, Lane]:
    """Return where else the parser sends messages; quarantine is lossless in any format."""
    output = settings.output
    log_format = _log_format(output, typed=True)
    lanes = {QUARANTINE: Lane(quarantine_root(root), make_format("sequencefile"))}
    for name, target in routed_lanes(settings.parser, topic).items():
        directory = topic_root(output.prefix, target, hashed=output.hash_prefix)
        # Names tell partition and offset, not the topic: two that go to one place must differ.
        lanes[name] = Lane(f"{directory}/from={topic}", log_format)
    return lanes


def _policy(policy: Policy) -> SealingPolicy:
    return SealingPolicy(
        max_bytes=policy.max_bytes,
        max_messages=policy.max_messages,
        max_age=policy.max_age,
        age=Age(policy.age),
        minute_mark=policy.minute_mark,
    )


def _log_format(output: Output, *, typed: bool = False) -> LogFormat:
    match output.format:
        case "sequencefile":
            return make_format("sequencefile", keys=output.keys, codec=output.codec)
        case "text":
            return make_format(
                "text",
                codec=output.codec,
                delimiter=output.delimiter.encode(),
                on_delimiter=output.on_delimiter,
                null_values=output.null_values,
            )
        case "parquet":
            name = "typed-parquet" if typed else "parquet"
            return make_format(name, codec=output.codec, row_group_rows=output.row_group_rows)
