"""Ed25519 signatures of files, next to them as ``FILE.sig``: 64 bytes, as ``openssl pkeyutl`` has.

Keys are PEM files: PKCS#8 without a password, and SubjectPublicKeyInfo.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from secor.core.errors import ConfigurationError
from secor.core.installing import require_package

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_MAKE = "make one with 'secor evidence keygen', or with 'openssl genpkey -algorithm ed25519'"


def signature_path(path: Path) -> Path:
    """Return where the signature of a file is."""
    return path.with_name(path.name + ".sig")


def require_library() -> None:
    """Raise ``ConfigurationError`` where the library for signatures is not installed."""
    require_package("cryptography", "evidence", "a signature")


def make_keys(private: Path, public: Path) -> None:
    """Write a new pair of keys; the private one is readable by its owner alone.

    Raises ``ConfigurationError`` where a file exists or cannot be written.
    """
    require_library()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    shown = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    # Looked at before the private key is written, so that a second try does not meet half a pair.
    if public.exists():
        raise ConfigurationError(f"{public}: exists already: choose another name")
    for path, data, mode in ((private, secret, 0o600), (public, shown, 0o644)):
        try:
            # The mode from the first moment on: with a later chmod, others could open the key in
            # between. O_EXCL never writes through a link or over a key that is in use.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError as error:
            raise ConfigurationError(f"{path}: exists already: choose another name") from error
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be written ({error.strerror})") from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key.  Raises ``ConfigurationError``."""
    require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(_read(path), None)
    except TypeError as error:
        raise ConfigurationError(
            f"{path}: the key has a password; write it without one, readable by its owner alone:"
            f" openssl pkey -in {path} -out KEYFILE"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{path}: is no private key in PEM format: {_MAKE}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(f"{path}: is no Ed25519 key: {_MAKE}")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key.  Raises ``ConfigurationError``."""
    require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_read(path))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(
            f"{path}: is no public key in PEM format; that of a private key:"
            " openssl pkey -in KEYFILE -pubout"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError(f"{path}: is no Ed25519 key")
    return key


def is_signature(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    """Return whether it is the key's signature of ``data``."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from error
