"""ACLs and quotas of a lost cluster: under the target's names, compared, and made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from secor.adapters.kafka.cluster_admin import (
    AccessRule,
    Quota,
    create_access_rules,
    read_access_rules,
    read_quotas,
    set_quotas,
)
from secor.core.errors import SecorError
from secor.core.text import how_many
from secor.restore.recovery import KindState

_EVERY = "*"
CAN_BE_LEFT_OUT = ("groups", "acls", "quotas")
"""Kinds that a recovery may be complete without."""


@dataclass(frozen=True, slots=True)
class RenamedRules:
    """Rules under the target's names, and those that have no place there.

    ``undecided`` cannot be renamed without allowing or denying something else;
    ``elsewhere`` are about topics that are not restored.
    """

    rules: tuple[AccessRule, ...]
    undecided: tuple[AccessRule, ...]
    elsewhere: tuple[AccessRule, ...]


def renamed_rules(
    rules: Iterable[AccessRule], topics: Collection[str], template: str, *, is_whole: bool
) -> RenamedRules:
    """Return the rules for topics that ``template`` names, such as ``restored-{topic}``.

    ``topics`` are the archived topics that are restored; ``is_whole`` says that none is left
    out by choice: under their old names even rules about topics that come later are meant then.
    A rule about a prefix is renamed where the template only puts something in front, for then
    it is about the same topics as before.
    """
    # Then also rules about topics that do not exist yet keep their meaning.
    if is_whole and template == "{topic}":
        return RenamedRules(tuple(rules), (), ())
    before, placeholder, behind = template.partition("{topic}")
    kept: list[AccessRule] = []
    undecided: list[AccessRule] = []
    elsewhere: list[AccessRule] = []
    for rule in rules:
        if rule.resource != "TOPIC" or (rule.pattern == "LITERAL" and rule.name == _EVERY):
            kept.append(rule)
        # Before names are changed: a rule about a topic that was left out must not be made under a
        # name that the restore gives to no topic, where it might come to mean another one.
        elif not _is_about(rule, topics):
            elsewhere.append(rule)
        elif template == "{topic}":
            kept.append(rule)
        elif rule.pattern == "LITERAL" and placeholder:
            kept.append(replace(rule, name=template.replace("{topic}", rule.name)))
        # With text behind the name no prefix covers the same topics: "logs-*" would have to become
        # "logs-*-restored".
        elif rule.pattern == "PREFIXED" and placeholder and not behind:
            kept.append(replace(rule, name=before + rule.name))
        else:
            undecided.append(rule)
    return RenamedRules(tuple(kept), tuple(undecided), tuple(elsewhere))


def _is_about(rule: AccessRule, topics: Collection[str]) -> bool:
    if rule.pattern == "PREFIXED":
        return any(topic.startswith(rule.name) for topic in topics)
    return rule.name in topics


def rule_text(rule: AccessRule) -> str:
    """Return a rule for people."""
    return (
        f"{rule.permission} {rule.principal} {rule.operation} on {rule.resource}"
        f" {rule.name} ({rule.pattern}) from {rule.host}"
    )


def state_of_rules(
    renamed: RenamedRules, present: Collection[AccessRule], refused: Sequence[str] = ()
) -> KindState:
    """Compare the rules with those of the target.  Every rule that is left out is named."""
    there = set(present)
    more = there.difference(renamed.rules)
    obstacles = [
        f"{rule_text(rule)}: under target.topic it would be about other topics than before; make it"
        ' by hand, or put "acls" into recover.leave_out'
        for rule in renamed.undecided
    ]
    notes = [
        f"left out, for no such topic is restored: {rule_text(rule)}" for rule in renamed.elsewhere
    ]
    if more:
        denies = sum(rule.permission == "DENY" for rule in more)
        notes.append(
            f"the target has {how_many(len(more), 'further rule')}"
            f" ({how_many(denies, 'is a DENY', 'are DENY')}), which stay"
        )
    done = sum(rule in there for rule in renamed.rules)
    return KindState("acls", len(renamed.rules), done, (*obstacles, *refused), tuple(notes))


def make_rules(options: Mapping[str, Any], renamed: RenamedRules) -> KindState:
    """Make the rules that are missing; those that deny come first, so that none is open."""
    missing = set(renamed.rules).difference(read_access_rules(options))
    ordered = sorted(missing, key=lambda rule: (rule.permission != "DENY", rule))
    refused = create_access_rules(options, ordered) if ordered else []
    # What the brokers have now counts, not what they answered: a request may time out and take
    # effect, and a controller that lags may show less than it took.
    return state_of_rules(renamed, read_access_rules(options), _why(refused))


def _why(refused: Sequence[str]) -> list[str]:
    if "SecurityDisabledError" in refused:
        what = (
            "the target has no authorizer, and takes no rules: set authorizer.class.name at its"
            ' brokers, or put "acls" into recover.leave_out'
        )
        return [what]
    kinds = sorted(set(refused))
    return [f"the target refused {how_many(refused.count(kind), 'rule')}: {kind}" for kind in kinds]


def look_at_rules(options: Mapping[str, Any], renamed: RenamedRules) -> KindState:
    """Compare the rules; writes nothing."""
    return state_of_rules(renamed, read_access_rules(options))


def state_of_quotas(
    wanted: Sequence[Quota], present: Collection[Quota], refused: Sequence[str] = ()
) -> KindState:
    """Compare quotas with those of the target, whose other values are not written over."""
    there = {group.entity: group.values for group in present}
    others = [quota for quota in wanted if _differs(quota, there.get(quota.entity, {}))]
    obstacles = [
        f"quota of {quota.name}: the target has {_values(there[quota.entity])}, the archive"
        f" {_values(quota.values)}; run again with --force to set it"
        for quota in others
    ]
    done = sum(_has_all(quota, there.get(quota.entity, {})) for quota in wanted)
    return KindState("quotas", len(wanted), done, (*obstacles, *refused))


def _differs(wanted: Quota, present: Mapping[str, float]) -> bool:
    return any(present.get(key, value) != value for key, value in wanted.values.items())


def _has_all(wanted: Quota, present: Mapping[str, float]) -> bool:
    return all(present.get(key) == value for key, value in wanted.values.items())


def _values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{key}={value:g}" for key, value in sorted(values.items()))


def make_quotas(options: Mapping[str, Any], wanted: Sequence[Quota], *, force: bool) -> KindState:
    """Set the quotas that are missing; with ``force`` also those that have other values."""
    there = {quota.entity: quota.values for quota in read_quotas(options)}
    # Values that somebody set since are a choice: only a person with --force writes over it.
    missing = [
        quota
        for quota in wanted
        if not _has_all(quota, there.get(quota.entity, {}))
        and (force or not _differs(quota, there.get(quota.entity, {})))
    ]
    refused = set_quotas(options, missing)
    return state_of_quotas(wanted, read_quotas(options), refused)


def look_at_quotas(options: Mapping[str, Any], wanted: Sequence[Quota]) -> KindState:
    """Compare the quotas; writes nothing."""
    return state_of_quotas(wanted, read_quotas(options))


def fault_as_obstacle(kind: str, total: int, make: Callable[[], KindState]) -> KindState:
    """Return what ``make`` returns; what fails, as a missing right, is an obstacle of this kind.

    So the kinds after it are brought back all the same.
    """
    try:
        return make()
    except SecorError as error:
        advice = "" if kind not in CAN_BE_LEFT_OUT else f'; or put "{kind}" into recover.leave_out'
        return KindState(kind, total, 0, (f"{error}{advice}",))
