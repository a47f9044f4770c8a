"""Settings of some topics: ``[[topics]]``, put over the general ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from secor.config.decoders import OF_DECODERS
from secor.config.output import Output, Policy, without_settings_of
from secor.config.parser import Parser
from secor.config.values import Expression, Section


def _format(output: Mapping[str, Any], default: object = "sequencefile") -> object:
    return output.get("format", default)


def complete_rule(rule: object, data: Mapping[str, Any]) -> object:
    """Put a topic rule's tables over the general ones.

    A rule that changes the format, or the decoder, leaves the general one's own settings
    behind; what the other format has as well stays.
    """
    if not isinstance(rule, dict):
        return rule
    merged = dict(rule)
    for name in ("output", "policy", "parser"):
        general, own = data.get(name, {}), rule.get(name, {})
        if not isinstance(general, dict) or not isinstance(own, dict):
            continue
        if name == "output" and _format(own, _format(general)) != _format(general):
            general = without_settings_of(general, _format(own))
        if name == "parser" and own.get("decoder", general.get("decoder")) != general.get(
            "decoder"
        ):
            own_keys = (*OF_DECODERS, "decoder_settings")
            general = {key: general[key] for key in general if key not in own_keys}
        merged[name] = {**general, **own}
    return merged


class TopicRule(Section):
    """One of ``[[topics]]``: complete settings, the general ones with its own over them."""

    match: Expression = Field(
        description="Regular expression for the whole name of a topic. The first rule that"
        " matches counts.",
        examples=["clicks|views"],
    )
    output: Output = Field(
        description="Keys of [output] for these topics. Keys that are absent are as in [output],"
        " but a rule that changes the format does not inherit the codec and the other settings of"
        " the general format."
    )
    policy: Policy = Field(
        description="Keys of [policy] for these topics. Keys that are absent are as in [policy]."
    )
    parser: Parser = Field(
        description="Keys of [parser] for these topics. Keys that are absent are as in [parser],"
        " but a rule that changes the decoder does not inherit the settings of the general one."
    )


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of one topic."""

    output: Output
    policy: Policy
    parser: Parser
