"""Sections of the configuration about one process: its limits, local files, metrics and logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from secor.config.values import MIB, Maybe, Secret, Section, Size, fault

SMALLEST_RECORD_BATCH, LARGEST_RECORD_BATCH = 16 * MIB, 1024 * MIB
LEAST_MEMORY = 16 * MIB


def _enough_memory(value: int) -> int:
    if value < LEAST_MEMORY:
        raise fault('less than "16MiB": one answer of a broker would fill it, and nothing is read')
    return value


class Limits(Section):
    """``[limits]``: what one process may use."""

    memory: Annotated[Size, AfterValidator(_enough_memory)] = 128 * MIB
    record_batch: Maybe[Size] = None
    open_files: int = Field(default=512, ge=1)
    local_bytes: Size = 10 * 1024 * MIB
    upload_threads: int = Field(default=4, ge=1, le=256)

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

    directory: Path = Path("/var/lib/secor")


class Metrics(Section):
    """``[metrics]``: the HTTP server; port 0 takes any free one, None switches it off."""

    address: str = "127.0.0.1"
    port: Maybe[int] = Field(default=9878, ge=0, le=65535)
    username: Maybe[str] = None
    password: Maybe[Secret] = None
    tls_certfile: Maybe[str] = None
    tls_keyfile: Maybe[str] = None

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

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console", "auto"] = "auto"
