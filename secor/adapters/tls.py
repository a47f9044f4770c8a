"""The client's side of TLS: whether its files are right, and what a failed handshake means."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from secor.core.errors import ConfigurationError
from secor.core.text import error_text

_OTHER_NAME = (62, 64)
_OUT_OF_DATE = (9, 10)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH; _CERT_NOT_YET_VALID,
_CERT_HAS_EXPIRED."""

_OF_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "DECRYPT_ERROR")
_IN_COMMON = ("HANDSHAKE_FAILURE", "PROTOCOL_VERSION", "INSUFFICIENT_SECURITY")
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


@dataclass(frozen=True, slots=True)
class Names:
    """The settings that an advice names: as a person would write them."""

    authority: str
    certificate: str
    unchecked: str
    plain: str


def client_context(
    server: str,
    *,
    authorities: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    password: str | None = None,
    revoked: str | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    """Return what connections to ``server`` need; also to see that the files can be read.

    Libraries take a file that they cannot read for a server that does not answer.  Absent
    ones are None: without ``authorities`` the machine's are trusted, without a ``key`` it is
    in the certificate's file.  Raises ``ConfigurationError``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verify:
        # Before ``verify_mode``: Python refuses the other order.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if not authorities:
        context.load_default_certs()
    files = [file for file in (authorities, certificate, key, revoked) if file]
    try:
        for trusted in (authorities, revoked):
            if trusted and Path(trusted).is_dir():
                context.load_verify_locations(capath=trusted)
            elif trusted:
                context.load_verify_locations(cafile=trusted)
        if certificate:
            # An empty password fails where one is needed, instead of asking on a terminal.
            context.load_cert_chain(certificate, key, password or "")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"TLS to {server}: {error_text(error)}; give files in PEM format that this user may"
            f" read, and the key's password if it has one: {', '.join(files)}"
        ) from error
    return context


def advice(error: BaseException, names: Names) -> str | None:
    """Return what is wrong and what to do; None where trying again may help."""
    for tls_error in _of_tls(error):
        if isinstance(tls_error, ssl.SSLCertVerificationError):
            return _untrusted(tls_error, names)
        # Those that Python itself raises may have no reason.
        reason = getattr(tls_error, "reason", None) or ""
        text = reason.replace("_", " ").lower()
        if "ALERT" in reason and any(word in reason for word in _OF_CERTIFICATES):
            return (
                f"the server refuses our certificate, or wants one ({text}): set"
                f" {names.certificate} to one of an authority that it knows, and not expired"
            )
        if "ALERT" in reason and any(word in reason for word in _IN_COMMON):
            return f"the server has no TLS version or cipher in common with us ({text})"
        if reason in _NO_TLS:
            return f"the server does not speak TLS at this port ({text}): {names.plain}"
    return None


def _untrusted(error: ssl.SSLCertVerificationError, names: Names) -> str:
    text = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_NAME:
        do = f"use the name that it is made out for, or set {names.unchecked}"
    elif error.verify_code in _OUT_OF_DATE:
        do = "renew it there, and look at this machine's clock"
    else:
        do = f"set {names.authority} to the file of the authority that signed it"
    return f"the server's certificate cannot be trusted ({text}): {do}"


def _of_tls(error: BaseException) -> Iterator[ssl.SSLError]:
    """Find them among the causes: each library wraps them in its own way."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        current = waiting.pop()
        # Exceptions may name each other in a circle.
        if current in seen:
            continue
        seen.append(current)
        if isinstance(current, ssl.SSLError):
            yield current
        inner = [
            current.__cause__,
            current.__context__,
            *current.args,
            getattr(current, "reason", None),
        ]
        waiting += [each for each in inner if isinstance(each, BaseException)]
