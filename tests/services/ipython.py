"""A stand-in for IPython's display, so that what notebooks show can be tested without one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest


class Notebook:
    """Stands in for IPython's display."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[str] = []
        module = ModuleType("IPython.display")
        vars(module).update(HTML=str, display=lambda *_, **__: SimpleNamespace(update=self.shown.append))
        monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
        monkeypatch.setitem(sys.modules, "IPython.display", module)
