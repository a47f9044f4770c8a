"""Puts the settings of a topic's rule over the general ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secor.config.output import without_settings_of
from secor.config.parser import OF_DECODERS


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
