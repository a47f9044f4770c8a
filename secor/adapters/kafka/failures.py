"""Translation of the client's errors, and which of them waiting cannot cure."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections import defaultdict

from kafka import errors as kafka_errors
from kafka.errors import BrokerResponseError

from secor.adapters import tls
from secor.adapters.kafka.tokens import TokenFailed
from secor.core.errors import AccessDenied, ConfigurationError, SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.core.text import error_text

_log = logging.getLogger("secor.adapters.kafka.fetching")
_MOST_SHOWN = 5


class FetchErrors:
    """Brokers' errors since the last warning."""

    def __init__(self) -> None:
        self._partitions: dict[str, list[TopicPartition]] = defaultdict(list)

    def add(self, error: type[BrokerResponseError], topic_partition: TopicPartition) -> None:
        """Note that a fetch of a topic partition was answered with ``error``."""
        self._partitions[f"{error.__name__}: {error.description}"].append(topic_partition)

    def warn(self) -> None:
        """Log a line for each error, and forget them."""
        for error, partitions in self._partitions.items():
            shown = ", ".join(map(str, partitions[:_MOST_SHOWN]))
            others = len(partitions) - _MOST_SHOWN
            _log.warning(
                "fetching %s: %s; fetching again when the metadata shows the topic",
                f"{shown} and {others} others" if others > 0 else shown,
                error,
            )
        self._partitions.clear()


_DENIED = (
    kafka_errors.AuthorizationError,
    kafka_errors.SaslAuthenticationFailedError,
)
_MISCONFIGURED = (
    kafka_errors.KafkaConfigurationError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.InvalidGroupIdError,
    kafka_errors.FencedInstanceIdError,
    kafka_errors.UnsupportedVersionError,
)
_TLS = tls.Names(
    authority="kafka.ssl_cafile",
    certificate="kafka.ssl_certfile and kafka.ssl_keyfile",
    unchecked="kafka.ssl_check_hostname = false",
    plain='set kafka.security_protocol to "PLAINTEXT" or "SASL_PLAINTEXT", or correct the port',
)
_FRAME = re.compile(r"Invalid frame length: (\d+)")
_SYSTEM_ERROR = re.compile(r"\b\d+ (E[A-Z]+)$")
_TLS_ALERT = 0x1503
"""The first two bytes of every alert, which look like a length where one is expected."""


def translated(error: BaseException, what: str) -> SecorError:
    """Return the error of our tree that says what to do about one of the client's."""
    if isinstance(error, SecorError):
        return error
    text = f"{what}: {_describe(error)}"
    # Before the classes that it belongs to: the advice is another.
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return AccessDenied(
            f"{text}; check kafka.sasl_plain_username and kafka.sasl_plain_password, or the"
            " token, and kafka.sasl_mechanism"
        )
    if isinstance(error, kafka_errors.GroupAuthorizationFailedError):
        return AccessDenied(
            f"{what}: the group is refused ({_describe(error)}); allow this user Read on the group"
        )
    if isinstance(error, kafka_errors.TopicAuthorizationFailedError):
        return AccessDenied(
            f"{what}: topics are refused ({_describe(error)}); allow this user Read on them"
        )
    if isinstance(error, _DENIED):
        return AccessDenied(f"{text}; check the ACLs of topics and group")
    if isinstance(error, kafka_errors.InconsistentGroupProtocolError):
        return ConfigurationError(
            f"{text}; the group's members share partitions out by another kafka.assignment:"
            " use theirs, or stop all of them before it is changed"
        )
    if isinstance(error, kafka_errors.FencedInstanceIdError):
        return ConfigurationError(
            f"{text}; another process has joined the group with the same"
            " kafka.group_instance_id, and this one must not go on: give each process its own"
        )
    if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
        return ConfigurationError(
            f"{text}; the broker does not offer this kafka.sasl_mechanism at this port: use"
            " one of its listener's"
        )
    if isinstance(error, kafka_errors.IncompatibleBrokerVersion):
        return Unavailable(
            f"{what}: these brokers are too old to be asked ({_describe(error)}): upgrade them, or"
            " go on without it"
        )
    if isinstance(error, _MISCONFIGURED):
        return ConfigurationError(f"{text}; check the [kafka] section")
    if _spoke_tls(error):
        return ConfigurationError(
            f"{what}: the broker speaks TLS at this port: set kafka.security_protocol to"
            ' "SSL" or "SASL_SSL", or correct the port'
        )
    advice = tls.advice(error, _TLS)
    return Unavailable(text) if advice is None else AccessDenied(f"{what}: {advice}")


def is_fatal(error: BaseException) -> bool:
    """Return whether waiting cannot help."""
    return isinstance(error, _DENIED + _MISCONFIGURED)


def refusal(error: BaseException, what: str) -> SecorError | None:
    """Return the error to report for a refused connection; None if the broker is down."""
    translated_error = translated(error, what)
    out = isinstance(translated_error, Unavailable) and not isinstance(
        translated_error, TokenFailed
    )
    return None if out else translated_error


def contact_failure(error: BaseException) -> str:
    """Return why a broker was not reached, without the client's numbers where words say it."""
    if isinstance(error, kafka_errors.RequestTimedOutError):
        return "connected, but no answer"
    text = error_text(error)
    number = _SYSTEM_ERROR.search(text)
    code = getattr(errno, number[1], None) if number else None
    return text if code is None else os.strerror(code).lower()


def _describe(error: BaseException) -> str:
    if error.args and isinstance(error.args[0], set | frozenset | list | tuple):
        return ", ".join(sorted(map(str, error.args[0])))
    return error_text(error)


def _spoke_tls(error: BaseException) -> bool:
    frame = _FRAME.search(str(error))
    # The client reads the first four bytes as a length: an alert's are 0x15, the version, and half
    # of its own length.
    return frame is not None and int(frame[1]) >> 16 == _TLS_ALERT
