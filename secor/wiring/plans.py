"""From the settings of a topic to its plan."""

from __future__ import annotations

from secor.config.model import Config, Output, Policy
from secor.formats import make_format
from secor.naming import topic_root
from secor.parsing.backup import OffsetBuckets
from secor.plan import TopicPlan
from secor.policy import Age
from secor.policy import Policy as SealingPolicy
from secor.ports import LogFormat


def plan_for(config: Config, topic: str) -> TopicPlan:
    """Return how the messages of ``topic`` are stored."""
    settings = config.for_topic(topic)
    output = settings.output
    return TopicPlan(
        group=config.group.name,
        root=topic_root(output.prefix, topic, hashed=output.hash_prefix),
        generation=output.generation,
        parser=OffsetBuckets(output.offsets_per_partition),
        log_format=_log_format(output),
        policy=_policy(settings.policy),
        upload_on_shutdown=settings.policy.upload_on_shutdown,
        upload_on_revoke=settings.policy.upload_on_revoke,
    )


def _policy(policy: Policy) -> SealingPolicy:
    return SealingPolicy(
        max_bytes=policy.max_bytes,
        max_messages=policy.max_messages,
        max_age=policy.max_age,
        age=Age(policy.age),
        minute_mark=policy.minute_mark,
    )


def _log_format(output: Output) -> LogFormat:
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
            return make_format("parquet", codec=output.codec, row_group_rows=output.row_group_rows)
