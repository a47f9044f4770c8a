"""Why the Iceberg sink and Secor differ in a case of the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.conformance.message_cases import Case


def reason_for(case: Case) -> str:
    """Return the reason; empty if there is none."""
    return REASONS.get(case.table, "")


_CUT = "the sink cuts fractions off without a word; here the column takes all that was fetched"
_OVERFLOW = "the sink keeps the last 64 bits, which are another number; here the digits stay"
_FIRST = (
    "the sink takes the type of the first value, and fails at one that it cannot convert; here a"
    " column that was inferred takes what was fetched together"
)
_BEFORE = "the sink's row was made before the column; here a table has what was fetched together"
_READERS = "names that readers add, or that catalogs take for others, are no columns here"
_DEBEZIUM = "the sink does not know Debezium's names of types; here the column has the type"
_DEFAULT = (
    "Connect's converter puts a schema's default in the place of null; Secor stores the null that"
    " the message has"
)
_OPTIONAL = "columns of new tables are optional here, so that a message without one is a row"

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "j_integer_beyond_64_bits": _OVERFLOW,
        "j_integer_then_one_beyond_64_bits": _OVERFLOW,
        "j_fraction_beyond_a_double": (
            "the sink stores infinity, which nobody wrote; here the message waits in quarantine"
        ),
        "j_integer_then_fraction": _CUT,
        "j_list_of_integers_then_fractions": _CUT,
        "j_object_whose_member_becomes_a_fraction": _CUT,
        "j_minus_zero": "the sign of zero is lost in the sink",
        "j_list_of_several_kinds": _FIRST,
        "j_integer_then_text": _FIRST,
        "j_integer_then_boolean": _FIRST,
        "j_boolean_then_integer": _FIRST,
        "j_object_then_integer": _FIRST,
        "j_list_then_integer": _FIRST,
        "j_integer_then_list": _FIRST,
        "j_empty_list_then_integers": _BEFORE,
        "j_list_with_null": "the sink looks at the first entry only, and null shows no type",
        "j_empty_object_then_one_with_a_member": _BEFORE,
        "j_name_with_a_dot_beside_an_object": (
            "both would be the column v.w: the sink fails; here the second counts as undeclared"
        ),
        "j_names_that_differ_in_capitals": _READERS,
        "j_name_that_is_empty": _READERS,
        "j_name_of_a_column_that_readers_add": _READERS,
        "j_name_twice": "which of two values is meant? The sink takes the last",
        "s_default_that_is_left_out": _DEFAULT,
        "s_optional_default_that_is_null": _DEFAULT,
        "s_required_int32": _OPTIONAL,
        "s_required_field_that_goes": _OPTIONAL,
        "s_map_of_integers": (
            "a map with other keys than text is its JSON, a list of pairs; declare a column of"
            " text for it"
        ),
        "s_decimal_with_a_precision": "the precision that the schema tells is the column's here",
        "s_debezium_date": _DEBEZIUM,
        "s_debezium_time": _DEBEZIUM,
        "s_debezium_microtime": _DEBEZIUM,
        "s_debezium_timestamp": _DEBEZIUM,
        "s_debezium_microtimestamp": _DEBEZIUM,
        "s_debezium_nanotimestamp": (
            f"{_DEBEZIUM}, of microseconds: what has nanoseconds beyond them goes into quarantine"
        ),
        "s_debezium_zonedtimestamp": _DEBEZIUM,
        "s_debezium_uuid": _DEBEZIUM,
        "s_debezium_variablescaledecimal": "here a number's digits as text, and no struct",
        "s_int32_that_becomes_string": (
            "the column has the type of the first schema in both: the sink fails, here the message"
            " is in quarantine"
        ),
    }
)
