"""Sections about one process: limits, local files, metrics, logs, the secret of erasures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from secor.config.values import MIB, Maybe, Secret, Section, Size, fault

SMALLEST_RECORD_BATCH, LARGEST_RECORD_BATCH = 16 * MIB, 1024 * MIB
LEAST_MEMORY = 16 * MIB
LEAST_SECRET = 16
"""Characters: what anybody can guess, anybody can look keys up with."""


def _enough_memory(value: int) -> int:
    if value < LEAST_MEMORY:
        raise fault('less than "16MiB": one answer of a broker would fill it, and nothing is read')
    return value


class Limits(Section):
    """``[limits]``: what one process may use."""

    memory: Annotated[Size, AfterValidator(_enough_memory)] = Field(
        default=128 * MIB, description="Bytes of messages and buffers in memory."
    )
    record_batch: Maybe[Size] = Field(
        default=None,
        description="Uncompressed bytes of one record batch; a larger one stops its topic"
        ' partition. "none": as much as limits.memory, but at least 16 MiB. Reading a batch takes'
        " up to four times its bytes.",
        examples=["64MiB"],
    )
    open_files: int = Field(default=512, ge=1, description="Most local files open at once.")
    local_bytes: Size = Field(
        default=10 * 1024 * MIB,
        description="Bytes of local files. Beyond it, the largest batches are uploaded early and"
        " reading waits.",
    )
    upload_threads: int = Field(
        default=4, ge=1, le=256, description="Batches and objects to upload at once."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.record_batch is not None and self.record_batch > self.memory:
            raise fault(
                "a record batch is held in memory: raise limits.memory, too", "record_batch"
            )
        return self

    @property
    def largest_record_batch(self) -> int:
        """Uncompressed bytes of the largest record batch that is read."""
        if self.record_batch is not None:
            return self.record_batch
        return min(max(self.memory, SMALLEST_RECORD_BATCH), LARGEST_RECORD_BATCH)


class Local(Section):
    """``[local]``: where open batches lie, each process in a folder of its own; a cache."""

    directory: Path = Field(
        default=Path("/var/lib/secor"),
        description="The directory of open batches. It is a cache, and several processes may"
        " share it: each creates its own folder there, and a starting process deletes the folders"
        " of killed ones.",
    )


class Metrics(Section):
    """``[metrics]``: the HTTP server; port 0 takes any free one, None switches it off."""

    address: str = Field(
        default="127.0.0.1",
        description="Address that the server listens on. The default is for this machine only;"
        ' "0.0.0.0" is for all.',
        examples=["10.0.0.5"],
    )
    port: Maybe[int] = Field(
        default=9878,
        ge=0,
        le=65535,
        description='Port of the server. 0: any free port; "none": no server. Each process on a'
        " machine needs its own port.",
    )
    username: Maybe[str] = Field(
        default=None,
        description="User of basic authentication for all paths except /healthz and /readyz."
        " Needs metrics.password.",
        examples=["prometheus"],
    )
    password: Maybe[Secret] = Field(
        default=None,
        description="Password of basic authentication. Needs metrics.username.",
        examples=["${METRICS_PASSWORD}"],
    )
    tls_certfile: Maybe[str] = Field(
        default=None,
        description="TLS: the server's certificate in PEM format, read at the start. It may"
        " contain the key, too.",
        examples=["/etc/secor/metrics.pem"],
    )
    tls_keyfile: Maybe[str] = Field(
        default=None,
        description="TLS: the key of the certificate in PEM format, read at the start. Without"
        " it the key is in metrics.tls_certfile.",
        examples=["/etc/secor/metrics.key"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.username is None) != (self.password is None):
            missing = "password" if self.password is None else "username"
            raise fault("username and password go together", missing)
        if self.username is not None and (not self.username or ":" in self.username):
            raise fault("a name without a colon", "username")
        if self.tls_keyfile is not None and self.tls_certfile is None:
            raise fault("the key needs its certificate", "tls_certfile")
        return self

    @property
    def losses(self) -> list[str]:
        """Sentences about a password that others may read."""
        exposed = self.address not in ("127.0.0.1", "::1", "localhost")
        if self.port is None or self.password is None or self.tls_certfile or not exposed:
            return []
        return ["metrics: the password is sent unencrypted without tls_certfile"]


class Logs(Section):
    """``[logs]``: ``auto`` is console on a terminal, the journal under systemd, else JSON."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity of what is logged."
    )
    format: Literal["json", "console", "auto"] = Field(
        default="auto",
        description='"json", "console", or "auto": console on a terminal, journal entries with'
        " fields if standard error is systemd's journal, else JSON.",
    )


class Erase(Section):
    """``[erase]``: settings of ``secor archive erase``, and of readers of what it has left."""

    secret: Maybe[Secret] = Field(
        default=None,
        description="Secret with which the keys of erased messages are hashed, at least 16"
        " characters, the same wherever this archive is read. Without it and with another one"
        " nothing is erased, and an archive from which something was erased is not read.",
        examples=["${ERASE_SECRET}"],
    )
    apply: bool = Field(
        default=False,
        description="Daemons of a backup or partition group leave messages of erased keys out of"
        " what they store from now on, too; with tombstones, their value. New lists are looked for"
        " once a minute.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.apply and self.secret is None:
            raise fault("needs erase.secret", "apply")
        if self.secret is not None and len(self.secret.get_secret_value()) < LEAST_SECRET:
            raise fault(f"needs at least {LEAST_SECRET} characters: openssl rand -hex 32", "secret")
        return self
