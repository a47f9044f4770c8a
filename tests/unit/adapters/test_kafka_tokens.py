"""Tokens for OAUTHBEARER: what the user's class does is told as its own doing."""

from __future__ import annotations

from typing import Any

import pytest

from secor.adapters.kafka import token_provider
from secor.adapters.kafka.failures import refusal
from secor.core.errors import ConfigurationError, Unavailable


class Source:
    """Gives what it is told to give."""

    def __init__(self, token: Any) -> None:
        self._token = token

    def token(self) -> Any:
        if isinstance(self._token, BaseException):
            raise self._token
        return self._token


def test_a_token_is_given_as_it_is() -> None:
    assert token_provider(Source("a.b.c=")).token() == "a.b.c="


class Unheard(Exception):
    """An error of a library that nobody here has heard of."""


@pytest.mark.parametrize("raised", [ConnectionError("login is out"), Unheard("login is out")])
def test_what_a_provider_raises_is_told_with_its_name_and_tried_again(raised: Exception) -> None:
    with pytest.raises(Unavailable, match=r"test_kafka_tokens:Source: \w+: login is out") as told:
        token_provider(Source(raised)).token()
    assert told.value.__cause__ is raised
    assert refusal(told.value, "Kafka") is told.value, "another broker would have no other token"


@pytest.mark.parametrize("token", [None, b"a.b.c", "", "a.b.c\n", "a b", "a\x01b"])
def test_what_is_no_token_is_told_without_showing_it(token: object) -> None:
    with pytest.raises(ConfigurationError, match="test_kafka_tokens:Source") as told:
        token_provider(Source(token)).token()
    assert "a.b" not in str(told.value)


def test_an_interruption_is_no_failure_of_the_provider() -> None:
    with pytest.raises(KeyboardInterrupt):
        token_provider(Source(KeyboardInterrupt())).token()
