"""Where jars are kept, and what Ivy is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.java.bundles import Bundle
from secor.java.cache import cache_folder


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == Path("/elsewhere/secor")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/secor")


def test_a_bundle_asks_ivy_for_each_of_its_coordinates() -> None:
    module = Bundle("both", ("one.org:one:1", "two.org:two:2"), "").ivy_module()
    assert 'org="one.org" name="one" rev="1" conf="default->default,runtime,master"' in module
    assert 'org="two.org" name="two" rev="2"' in module


def test_jars_with_a_classifier_come_alone_or_beside_the_module_s_own() -> None:
    bundle = Bundle("b", ("o:alone:1:extra", "o:both:1", "o:both:1:tests"), "")
    alone, both = [line for line in bundle.ivy_module().splitlines() if "<dependency " in line]
    assert 'name="alone"' in alone
    assert 'transitive="false"' in alone
    assert 'm:classifier="extra"' in alone
    assert alone.count("<artifact") == 1
    assert 'transitive="true"' in both
    assert both.count("<artifact") == 2
    assert both.count("m:classifier") == 1
