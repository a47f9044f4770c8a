"""``[finalize]``: the settings of what is done with complete hours and days."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from secor.archive.finalize.commands import split
from secor.config.values import Duration, Maybe, Section, Url, fault, parse_duration
from secor.core.errors import ConfigurationError


def _check_scheme(value: str) -> str:
    if not re.fullmatch("[a-z][a-z0-9]*", value):
        raise fault(f'may have small letters and digits only, such as "s3"; it is "{value}"')
    return value


class Glue(Section):
    """``[finalize.glue]``: a table of AWS Glue that gets the partitions; ``{topic}`` in its
    name is the topic.
    """

    database: Maybe[str] = Field(
        default=None,
        description='Database of AWS Glue; its table gets the partitions. "none": no table does.',
        examples=["logs"],
    )
    table: str = Field(
        default="{topic}",
        min_length=1,
        description="The table; {topic} in its name is the topic.",
        examples=["raw_{topic}"],
    )
    region: Maybe[str] = Field(
        default=None,
        description='Region of AWS Glue. "none": the environment\'s.',
        examples=["eu-west-1"],
    )
    endpoint_url: Maybe[Url] = Field(
        default=None,
        description="The server, if it is not Amazon's.",
        examples=["http://glue:4566"],
    )


class Finalize(Section):
    """``[finalize]``: for ``secor finalize``; times in seconds."""

    delay: Annotated[float, Field(ge=0), BeforeValidator(parse_duration)] = Field(
        default=3600.0,
        description="How long to wait for late messages after the end of an hour or day.",
    )
    command: Maybe[str] = Field(
        default=None,
        description="Command to run for each complete directory before the mark, without a"
        " shell; {topic}, {path}, {url}, and as SQL {partition} (`dt`='2026-11-21', `hr`='04')"
        " and {location}.",
        examples=["register {topic} {path}"],
    )
    timeout: Duration = Field(default=600.0, description="Time limit of one command.")
    scheme: Annotated[str, AfterValidator(_check_scheme)] = Field(
        default="s3",
        description="How {url} and {location} begin in S3: s3://bucket/key.",
        examples=["s3a"],
    )
    glue: Glue = Field(
        default_factory=Glue,
        description="A table of AWS Glue that gets each complete hour or day as a partition.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.command is not None:
            try:
                split(self.command)
            except ConfigurationError as error:
                raise fault(str(error), "command") from error
        return self
