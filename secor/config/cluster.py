"""Settings of the cluster's kept state: keys of ``[kafka]``, and ``[registry]``."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from secor.config.values import Expression, Maybe, Secret, Section, fault


class KeptCluster(Section):
    """The keys of ``[kafka]`` that say what a backup keeps of the cluster itself."""

    keep_groups: Maybe[Expression] = Field(
        default=".*",
        description="A backup group also keeps the committed offsets of consumer groups whose"
        " whole name matches this regular expression, so that they can continue on another"
        ' cluster (docs/recovery.md). Groups of Secor are left out. "none" keeps none.',
        examples=["shop-.*"],
    )
    keep_groups_exclude: Maybe[Expression] = Field(
        default=None,
        description="Consumer groups that kafka.keep_groups leaves out: those whose whole"
        " name matches this regular expression.",
        examples=["console-consumer-.*"],
    )
    keep_access: bool = Field(
        default=True,
        description="Whether a backup group also keeps the cluster's ACLs and client quotas.",
    )


class Registry(Section):
    """``[registry]``: a schema registry: a backup keeps its content, a recovery fills it."""

    url: Maybe[str] = Field(
        default=None,
        description="A backup group also keeps the subjects, versions, ids, references and"
        " compatibility of this schema registry (Confluent's interface); 'secor recover' registers"
        " them there.",
        examples=["https://registry:8081"],
    )
    username: Maybe[str] = Field(
        default=None, description="User of basic authentication.", examples=["secor"]
    )
    password: Maybe[Secret] = Field(
        default=None, description="Password of this user.", examples=["${REGISTRY_PASSWORD}"]
    )
    token: Maybe[Secret] = Field(
        default=None,
        description="A bearer token, instead of a user.",
        examples=["${REGISTRY_TOKEN}"],
    )
    cafile: Maybe[str] = Field(
        default=None,
        description='TLS: authorities to trust, in PEM format. "none": the machine\'s.',
        examples=["/etc/secor/ca.pem"],
    )
    certfile: Maybe[str] = Field(
        default=None,
        description="TLS: a client certificate in PEM format.",
        examples=["/etc/secor/client.pem"],
    )
    keyfile: Maybe[str] = Field(
        default=None,
        description="TLS: the key of the client certificate, in PEM format.",
        examples=["/etc/secor/client.key"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if self.url is None:
            if given:
                raise fault("is for a registry: give registry.url, too", given[0])
            return self
        if not self.url.startswith(("http://", "https://")) or "@" in self.url:
            raise fault(
                'must be an address such as "http://registry:8081", without user and password',
                "url",
            )
        if (self.username is None) != (self.password is None):
            missing = "password" if self.password is None else "username"
            raise fault("username and password go together", missing)
        if self.username is not None and self.token is not None:
            raise fault("there is registry.username, too: keep one of them", "token")
        if self.keyfile is not None and self.certfile is None:
            raise fault("the key needs its certificate", "certfile")
        return self


def refuse_kept_cluster(kafka: KeptCluster, registry: Registry) -> None:
    """Raise a fault for settings that do nothing outside of backup groups."""
    for key in KeptCluster.model_fields:
        if key in kafka.model_fields_set:
            raise fault('only group.kind "backup" keeps the cluster', f"kafka.{key}")
    if registry != Registry():
        why = 'is for group.kind "backup"; messages are decoded with parser.registry_url'
        raise fault(why, "registry")
