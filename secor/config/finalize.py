"""``[finalize]``: the settings of what is done with complete hours and days."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from secor.archive.finalize.templates import split
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

    database: Maybe[str] = None
    table: str = Field(default="{topic}", min_length=1)
    region: Maybe[str] = None
    endpoint_url: Maybe[Url] = None


class Finalize(Section):
    """``[finalize]``: for ``secor finalize``; times in seconds."""

    delay: Annotated[float, Field(ge=0), BeforeValidator(parse_duration)] = 3600.0
    command: Maybe[str] = None
    timeout: Duration = 600.0
    scheme: Annotated[str, AfterValidator(_check_scheme)] = "s3"
    glue: Glue = Field(default_factory=Glue)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.command is not None:
            try:
                split(self.command)
            except ConfigurationError as error:
                raise fault(str(error), "command") from error
        return self
