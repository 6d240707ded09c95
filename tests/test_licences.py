"""The page of dependencies is that of what is installed, and all of them may be used with Apache-2.0."""

from __future__ import annotations

import re

import licences

MAY_NOT = re.compile(r"(?i)\b(a?gpl|affero|gnu general|sspl|commons clause|proprietary)")


def test_the_page_is_up_to_date() -> None:
    assert licences.PAGE.read_text() == licences.page(), "run: .venv/bin/python scripts/licences.py"


def test_no_licence_asks_for_ours_to_change() -> None:
    lines = [line for line in licences.page().splitlines() if line.startswith("|")]
    assert len(lines) > 20
    assert not [line for line in lines if MAY_NOT.search(line)]
    assert MAY_NOT.search("| x | GPL-3.0-or-later |")
