"""The modules that scripts run are there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = [path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_module_that_a_script_runs_is_there(script: Path) -> None:
    modules = re.findall(r"-m ((?:secor|tools|tests)[\w.]*)", script.read_text())
    missing = [module for module in modules if find_spec(module) is None]
    assert missing == []
